"""Repeats of a model: each is measured as it would be alone, and the mean has the errors of both."""

import logging
from fractions import Fraction
from pathlib import Path
from statistics import stdev
from typing import Any, Final

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from repeated_lists import WORKED, drawn, lists_of, worked
from scipy import stats

from spark_eval import add_sums, evaluate
from spark_eval.arrow.xxhash64 import id_hashes
from spark_eval.errors import ConfigError, DataError
from spark_eval.evaluation.result import Evaluation
from spark_eval.results.leaderboard import marks_of
from spark_eval.statistics.draws import poisson_weights
from spark_eval.statistics.repeats import CrossedSums
from spark_eval.users.resampling import repeat_weights

PRECISION: Final[dict[str, Any]] = {"metrics": ["precision"], "k": 10, "engine": "local"}
METRICS: Final = ["ndcg", "map", "gauc", "fcp", "recall", "hit_rate"]


def of_everybody(result: Evaluation, metric: str = "precision") -> dict[str, pd.Series]:
    rows = result.metrics.query(f"segment == 'all' and metric == '{metric}'")
    return {row["model"]: row for _, row in rows.iterrows()}


def test_worked_errors_of_the_recipe() -> None:
    lists, truth = worked()
    found = of_everybody(evaluate(lists, truth, **PRECISION))
    a, b = found["A"], found["B"]
    assert (a["value"], b["value"]) == pytest.approx((0.4, 0.325))
    assert (a["n_repeats"], b["n_repeats"], a["n_users"]) == (3, 2, 6)
    users = np.var([0.7, 1.5, 0.1, 2.0, 2.3, 0.6], ddof=1) / 9 / 6
    variance = users + 0.00083333 - 0.00031481
    assert a["std_error"] == pytest.approx(variance**0.5, abs=1e-7)
    assert (a["std_repeat"], b["std_repeat"]) == pytest.approx((0.05, 0.035355339))
    assert a["repeat_share"] == pytest.approx(1 - users / variance, abs=1e-6)


def test_worked_parts() -> None:
    values = [[0.2, 0.4, 0, 0.6, 0.8, 0.1], [0.3, 0.5, 0.1, 0.6, 0.7, 0.2], [0.2, 0.6, 0, 0.8, 0.8, 0.3]]
    parts = CrossedSums.of(values).parts
    assert parts is not None
    assert [float(parts.of_repeats), float(parts.residual)] == pytest.approx(
        [0.00083333, 0.00031481], abs=1e-8
    )
    parts = CrossedSums.of([[0.1, 0.3, 0, 0.5, 0.9, 0], [0.2, 0.4, 0.1, 0.5, 0.8, 0.1]]).parts
    assert parts is not None
    assert [float(parts.of_repeats), float(parts.residual)] == pytest.approx([0.000625, 0.00029167], abs=1e-8)


def test_interval_is_that_of_few_repeats() -> None:
    lists, truth = worked()
    row = of_everybody(evaluate(lists, truth, **PRECISION))["A"]
    values = np.array(
        [[0.2, 0.4, 0, 0.6, 0.8, 0.1], [0.3, 0.5, 0.1, 0.6, 0.7, 0.2], [0.2, 0.6, 0, 0.8, 0.8, 0.3]]
    )
    users, repeats, variance = crossed(values)
    freedom = variance**2 / (users**2 / 5 + repeats**2 / 2)
    margin = stats.t.ppf(0.975, freedom) * variance**0.5
    assert (row["ci_low"], row["ci_high"]) == pytest.approx((0.4 - margin, 0.4 + margin))


def crossed(values: np.ndarray) -> tuple[float, float, float]:
    """Variances of a mean by users and by repeats, and by both: from values (repeats, users), all of them."""
    n_repeats, n_users = values.shape
    of_users, of_repeats = values.mean(axis=0), values.mean(axis=1)
    users, repeats = of_users.var(ddof=1) / n_users, of_repeats.var(ddof=1) / n_repeats
    rest = values - of_users - of_repeats[:, None] + values.mean()
    residual = (rest**2).sum() / ((n_users - 1) * (n_repeats - 1)) / (n_users * n_repeats)
    return users, repeats, max(users + repeats - residual, users, repeats)


@pytest.mark.parametrize("segments", [(), ("land",)])
def test_errors_are_those_of_a_slow_computation(segments: tuple[str, ...]) -> None:
    frames: dict[str, Any] = drawn()
    users = pd.DataFrame({"user": range(40), "land": ["de", "fr"] * 20})
    options: dict[str, Any] = {"users": users, "segments": segments} if segments else {}
    result = evaluate(**frames, **options, metrics=["ndcg", "recall"], k=[3, 8], engine="local")
    per_user = result.per_user
    for _, row in result.metrics.query("n_repeats > 1").iterrows():
        own = per_user[per_user["model"] == row["model"]]
        if row["segment"] != "all":
            own = own[own[row["segment"]] == row["segment_value"]]
        table = own.pivot(index="repeat", columns="user", values=f"{row['metric']}_at_{row['k']}").to_numpy()
        _, _, variance = crossed(table)
        found = (row["value"], row["std_error"], row["std_repeat"], row["n_users"])
        means = table.mean(axis=1)
        assert found == pytest.approx((table.mean(), variance**0.5, stdev(means), table.shape[1]))
    assert len(result.metrics.query("n_repeats > 1")) == 8 * (1 + 2 * len(segments))


def test_errors_of_requests_and_weighted_means_are_by_the_delta_method() -> None:
    frames: dict[str, Any] = drawn(by_request=True)
    result = evaluate(**frames, metrics=METRICS, k=8, engine="local")
    per_user = result.per_user
    for model, n_repeats in (("als", 4), ("bpr", 2)):
        own = per_user[per_user["model"] == model].assign(one=1.0)
        own = own[own["recall_at_8"].notna()]
        total = own.pivot_table(
            index="repeat", columns="user", values="recall_at_8", aggfunc="sum"
        ).to_numpy()
        number = own.pivot_table(index="repeat", columns="user", values="one", aggfunc="sum").to_numpy()
        mean = total.sum() / number.sum()
        _, _, variance = crossed((total - mean * number) / number.mean())
        row = of_everybody(result, "recall")[model]
        assert (row["value"], row["std_error"]) == pytest.approx((mean, variance**0.5))
        assert (row["n_repeats"], row["n_users"], row["n_requests"]) == (n_repeats, total.shape[1], len(own))


@pytest.mark.parametrize("by_request", [False, True])
def test_each_repeat_has_the_bits_it_has_alone(by_request: bool) -> None:
    frames: dict[str, Any] = drawn(by_request=by_request)
    result = evaluate(
        **frames,
        metrics=[*METRICS, "catalog_coverage"],
        k=[3, 8],
        items=ITEMS,
        by_repeat=True,
        engine="local",
    )
    lists = frames["recommendations"]
    for (model, repeat), own in lists.groupby(["model", "repeat"]):
        alone = evaluate(
            own.drop(columns="repeat"),
            frames["truth"],
            metrics=[*METRICS, "catalog_coverage"],
            k=[3, 8],
            items=ITEMS,
            engine="local",
        )
        columns = ["metric", "k", "value", "std_error", "ci_low", "n_users", "n_undefined", "n_requests"]
        expected = alone.metrics[columns].sort_values(["metric", "k"]).reset_index(drop=True)
        of_repeat = result.metrics.query(
            f"segment == 'repeat' and segment_value == '{repeat}' and model == '{model}'"
        )
        pd.testing.assert_frame_equal(
            of_repeat[columns].sort_values(["metric", "k"]).reset_index(drop=True), expected, check_exact=True
        )
        users = result.per_user.query(f"model == '{model}' and repeat == '{repeat}'").drop(columns="repeat")
        pd.testing.assert_frame_equal(
            users.reset_index(drop=True), alone.per_user.reset_index(drop=True), check_exact=True
        )


ITEMS: Final = pd.DataFrame({"item": range(30)})
GENRES: Final = {"item_segments": ["genre"]}


def test_one_repeat_has_the_errors_of_users() -> None:
    frames: dict[str, Any] = drawn()
    lists = frames["recommendations"].query("model == 'pop'")
    named, alone = (
        of_everybody(evaluate(frame, frames["truth"], metrics=["recall"], k=8, engine="local"), "recall")[
            "pop"
        ]
        for frame in (lists, lists.drop(columns="repeat"))
    )
    columns = ["value", "std_error", "ci_low", "ci_high", "n_users"]
    assert list(named[columns]) == list(alone[columns])
    assert named["n_repeats"] == 1
    assert np.isnan(named["std_repeat"])


def test_values_of_a_run_vary_by_repeat_alone() -> None:
    frames: dict[str, Any] = drawn()
    result = evaluate(
        **frames, metrics=["catalog_coverage"], k=3, items=ITEMS, by_repeat=True, engine="local"
    )
    rows = result.metrics.query("model == 'als'")
    values = rows.query("segment == 'repeat'")["value"].tolist()
    [row] = rows.query("segment == 'all'").to_dict("records")
    error = stdev(values) / 2
    margin = stats.t.ppf(0.975, 3) * error
    found = (row["value"], row["std_error"], row["ci_low"], row["std_repeat"], row["repeat_share"])
    assert found == pytest.approx((np.mean(values), error, np.mean(values) - margin, stdev(values), 1.0))


def test_sums_of_repeats_are_those_of_the_mean() -> None:
    lists, truth = worked()
    rows = evaluate(lists, truth, **PRECISION).sum_rows
    whole, *repeats = [row for row in rows if row.model == "A"]
    assert [row.repeat for row in (whole, *repeats)] == [None, "1", "2", "3"]
    totals = [row.sums[0] or Fraction() for row in (whole, *repeats)]
    assert totals[0] == sum(totals[1:])


def test_order_of_rows_and_number_of_buckets_change_no_bit() -> None:
    frames: dict[str, Any] = drawn()
    lists = frames["recommendations"]
    options: dict[str, Any] = {"metrics": METRICS, "k": [3, 8], "engine": "local"}
    first = evaluate(lists, frames["truth"], **options)
    second = evaluate(
        lists.sample(frac=1, random_state=1), frames["truth"].sample(frac=1, random_state=2), **options
    )
    pd.testing.assert_frame_equal(first.metrics, second.metrics, check_exact=True)
    assert first.sum_rows == second.sum_rows


def test_users_without_a_list_of_a_repeat_count_0() -> None:
    lists, truth = worked()
    lists = lists[(lists["user"] != 0) | (lists["repeat"] != "1")]
    result = evaluate(lists, truth, **PRECISION)
    assert of_everybody(result)["A"]["value"] == pytest.approx((7.2 - 0.2) / 18)
    assert len(result.per_user.query("model == 'A'")) == 18


def test_numbered_repeats_are_texts() -> None:
    lists, truth = worked()
    numbered = lists.assign(repeat=lists["repeat"].astype(int))
    result = evaluate(numbered, truth, **PRECISION)
    assert result.metrics.equals(evaluate(lists, truth, **PRECISION).metrics)
    assert set(result.per_user["repeat"]) == {"1", "2", "3"}


def test_name_of_the_only_model_with_repeats() -> None:
    lists, truth = worked()
    own = lists.query("model == 'A'").drop(columns="model")
    found = of_everybody(evaluate(own, truth, model="A", **PRECISION))
    expected = of_everybody(evaluate(lists, truth, **PRECISION))["A"]
    pd.testing.assert_series_equal(found["A"], expected, check_names=False)


def test_files_of_repeats_are_in_the_folder_of_their_model(tmp_path: Path) -> None:
    lists, truth = worked()
    folder = str(tmp_path / "users")
    result = evaluate(lists, truth, folder=folder, **PRECISION)
    assert {path.name for path in Path(folder).iterdir() if path.is_dir()} == {"model=A", "model=B"}
    assert len(result.to_arrow("per_user")) == 30


def test_copied_repeats_are_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    lists, truth = worked()
    copy = lists.query("model == 'A' and repeat == '2'").assign(repeat="4").sample(frac=1, random_state=3)
    with caplog.at_level(logging.WARNING, logger="spark_eval"):
        evaluate(lists, truth, **PRECISION)
        assert "COPIED_REPEATS" not in caplog.text
        evaluate(pd.concat([lists, copy]), truth, **PRECISION)
    assert "COPIED_REPEATS: repeats with equal lists: '4' of 'A' is '2' again" in caplog.text


def passed() -> tuple[pd.DataFrame, pd.DataFrame]:
    """Lists of one item, relevant if the worked precision is at least 0.5, and their truth."""
    lists, truth = lists_of(WORKED), pd.DataFrame({"user": range(6), "item": 1})
    values = {(model, repeat): own for model, repeats in WORKED.items() for repeat, own in repeats.items()}
    lists = lists[lists["rank"] == 1]
    hits = [values[model, repeat][user] >= 0.5 for model, repeat, user, *_ in lists.itertuples(index=False)]
    return lists.assign(item=np.where(hits, 1, 2)), truth


def test_worked_shares_with_a_hit_in_all_and_in_any_repeat() -> None:
    result = evaluate(*passed(), metrics=["hit_rate"], k=1, engine="local")
    of_all, of_any = of_everybody(result, "pass_all"), of_everybody(result, "pass_any")
    assert [of_all[model]["value"] for model in "AB"] == [2 / 6, 2 / 6]
    assert [of_any[model]["value"] for model in "AB"] == [3 / 6, 2 / 6]
    assert of_any["A"]["std_error"] == pytest.approx((0.25 / 5) ** 0.5)
    assert [of_any[model]["n_repeats"] for model in "AB"] == [3, 2]
    assert "pass_any" in str(result.leaderboard("pass_any@1"))


@pytest.mark.parametrize("by_request", [False, True])
@pytest.mark.parametrize("without_list", ["zero", "drop"])
def test_hits_in_all_and_in_any_repeat_are_those_of_a_slow_computation(
    by_request: bool, without_list: str
) -> None:
    frames: dict[str, Any] = drawn(by_request=by_request)
    lands = pd.DataFrame({"user": range(40), "land": ["de", "fr"] * 20})
    options: dict[str, Any] = {"users": lands, "segments": ["land"], "no_recommendations": without_list}
    result = evaluate(**frames, **options, metrics=["hit_rate"], k=[3, 8], engine="local")
    per_user = result.per_user
    keys = ["user", "request"] if by_request else ["user"]
    for _, row in result.metrics.query("metric in ('pass_all', 'pass_any')").iterrows():
        own = per_user[per_user["model"] == row["model"]]
        own = own if row["segment"] == "all" else own[own["land"] == row["segment_value"]]
        table = own.pivot_table(index=keys, columns="repeat", values=f"hit_rate_at_{row['k']}", dropna=False)
        values = table.dropna().min(axis=1) if row["metric"] == "pass_all" else table.dropna().max(axis=1)
        n_left_out = len(table.dropna(how="all")) - len(values)
        assert (row["value"], row["n_undefined"]) == (pytest.approx(values.mean()), n_left_out)
        clusters = (values - values.mean()).groupby("user").sum()
        n = len(clusters)
        error = (np.square(clusters).sum() * n / (n - 1)) ** 0.5 / len(values)
        assert row["std_error"] == pytest.approx(error)
        assert row["n_repeats"] == own["repeat"].nunique()
    assert len(result.metrics.query("metric == 'pass_all'")) == 3 * 2 * 3


@pytest.mark.parametrize("name", ["pass_all", "pass_any@3"])
def test_means_over_repeats_are_not_asked_for(name: str) -> None:
    lists, truth = worked()
    with pytest.raises(ConfigError, match=r"UNKNOWN_METRIC.*hit_rate of lists with a column repeat"):
        evaluate(lists, truth, metrics=[name], engine="local")
    alone = evaluate(lists.query("repeat == '1'").drop(columns="repeat"), truth, metrics=["hit_rate"])
    assert set(alone.metrics["metric"]) == {"hit_rate"}


def test_users_and_repeats_are_drawn_for_a_bootstrap() -> None:
    lists, truth = worked()
    options: dict[str, Any] = {"interval": "bootstrap", "resamples": 300, "seed": 5}
    result = evaluate(lists, truth, by_repeat=True, **PRECISION, **options)
    users = poisson_weights(id_hashes(pa.array(range(6)), np.int64(5)), 300)
    found = of_everybody(result)
    for model, repeats in WORKED.items():
        values = np.array(list(repeats.values()))
        weights = repeat_weights(5, model, len(values), 300)[1:]
        assert (weights.sum(axis=1) == len(values) - 1).all()
        totals = (weights * (values @ users).T).sum(axis=1) / (len(values) - 1) / users.sum(axis=0)
        low, high = np.quantile(totals[np.isfinite(totals)], [0.025, 0.975])
        assert (found[model]["ci_low"], found[model]["ci_high"]) == pytest.approx((low, high), abs=1e-8)
    alone = lists.query("model == 'A' and repeat == '2'").drop(columns="repeat")
    expected = of_everybody(evaluate(alone, truth, **PRECISION, **options))["A"]
    rows = result.metrics.query("model == 'A' and segment_value == '2'")
    assert rows["ci_low"].tolist() == [expected["ci_low"]]


def test_a_bootstrap_of_weighted_means_draws_numerators_and_weights() -> None:
    frames: dict[str, Any] = drawn(by_request=True)
    options: dict[str, Any] = {"metrics": ["fcp", "hit_rate", "dcg"], "k": 8, "engine": "local"}
    result = evaluate(**frames, **options, interval="bootstrap", resamples=300)
    normal = evaluate(**frames, **options)
    rows, others = (one.metrics.query("n_repeats > 1 or metric == 'pass_all'") for one in (result, normal))
    assert (rows["ci_low"] < rows["value"]).all()
    assert (rows["ci_high"] > rows["value"]).all()
    assert rows["value"].tolist() == others["value"].tolist()
    of_all = rows["metric"].str.startswith("pass")
    assert rows[of_all]["ci_low"].tolist() == others[of_all]["ci_low"].tolist()


@pytest.mark.parametrize("n_repeats", [2, 3, 6])
def test_drawn_repeats_vary_as_their_mean_does(n_repeats: int) -> None:
    values = np.random.default_rng(2).normal(0, 1, n_repeats)
    weights = repeat_weights(1, "als", n_repeats, 40_000)
    means = weights[1:] @ values / (n_repeats - 1)
    assert weights[0].tolist() == [1] * n_repeats
    assert means.var() == pytest.approx(values.var(ddof=1) / n_repeats, rel=0.03)


LISTS, TRUTH = worked()
STAGES: Final = [{"name": "a", "model": "A", "k": 9}, {"name": "b", "model": "B", "k": 5}]
REFUSED: Final[dict[str, tuple[pd.DataFrame, pd.DataFrame, dict[str, Any], str]]] = {
    "folds": (LISTS.assign(fold=0), TRUTH.assign(fold=0), {}, "REPEATS_AND_FOLDS"),
    "null": (LISTS.assign(repeat=LISTS["repeat"].where(LISTS["user"] > 0)), TRUTH, {}, "NULL_REPEAT"),
    "control character": (LISTS.assign(repeat="a\x1fb"), TRUTH, {}, "INVALID_REPEAT"),
    "empty": (LISTS.assign(repeat=""), TRUTH, {}, "INVALID_REPEAT"),
    "stages": (LISTS, TRUTH, {"stages": STAGES}, "NOT_BY_REPEAT.*stages"),
    "base": (LISTS, TRUTH, {"base": "A"}, "NOT_BY_REPEAT.*base"),
    "items": (LISTS, TRUTH, {"items": ITEMS.assign(genre="jazz"), **GENRES}, "NOT_BY_REPEAT.*item_segments"),
    "users": (LISTS.assign(request=1), TRUTH, {"weight": "users"}, "NOT_BY_REPEAT.*weight"),
    "fractions": (LISTS.assign(repeat=0.5), TRUTH, {}, "ID_IS_FLOAT.*repeat"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_repeats_that_do_not_fit_are_an_error(name: str) -> None:
    lists, truth, options, message = REFUSED[name]
    with pytest.raises((ConfigError, DataError), match=message):
        evaluate(lists, truth, **PRECISION, **options)


def test_a_model_with_a_null_repeat_is_named() -> None:
    lists, truth, _, _ = REFUSED["null"]
    with pytest.raises(DataError, match=r"recommendations of model 'A': 30 rows without a repeat"):
        evaluate(lists, truth, **PRECISION)


def test_sums_of_repeats_are_not_added() -> None:
    with pytest.raises(DataError, match="NOT_BY_REPEAT"):
        add_sums(evaluate(LISTS, TRUTH, **PRECISION).sums)


def spark_frames(spark: Any, frames: dict[str, pd.DataFrame]) -> dict[str, Any]:
    return {name: spark.createDataFrame(frame).repartition(3) for name, frame in frames.items()}


@pytest.mark.parametrize("layout", ["long", "array"])
def test_both_engines_give_the_same_bits(spark: Any, layout: str) -> None:
    frames: dict[str, Any] = drawn(by_request=layout == "array")
    options: dict[str, Any] = {
        "metrics": [*METRICS, "catalog_coverage"],
        "k": [3, 8],
        "items": ITEMS,
        "by_repeat": True,
    }
    local = evaluate(**frames, **options, engine="local")
    given = dict(frames)
    if layout == "array":
        keys = ["model", "repeat", "user", "request"]
        lists = frames["recommendations"].sort_values("rank")
        given["recommendations"] = lists.groupby(keys, sort=False)["item"].agg(list).reset_index()
    on_spark = evaluate(
        **spark_frames(spark, given), **{**options, "items": spark.createDataFrame(ITEMS)}, layout=layout
    )
    assert on_spark.metric_rows == local.metric_rows
    assert on_spark.sum_rows == local.sum_rows
    assert on_spark.entries == local.entries
    drawn_options: dict[str, Any] = {
        "metrics": ["recall", "dcg"],
        "k": 3,
        "interval": "bootstrap",
        "resamples": 30,
    }
    if layout == "long":
        here_again = evaluate(**frames, **drawn_options, engine="local")
        assert evaluate(**spark_frames(spark, given), **drawn_options).metric_rows == here_again.metric_rows
    keys = ["model", "repeat", "user", *(["request"] if layout == "array" else [])]
    here, there = (
        table.to_pandas("per_user").sort_values(keys).reset_index(drop=True) for table in (local, on_spark)
    )
    pd.testing.assert_frame_equal(here, there, check_exact=True)


def test_leaderboard_shows_half_the_interval_over_users_and_repeats() -> None:
    lists, truth = worked()
    result = evaluate(lists.query("model == 'A' or repeat == '1'"), truth, **PRECISION)
    rows = of_everybody(result)
    text = str(result.leaderboard("precision@10"))
    margin = rows["A"]["value"] - rows["A"]["ci_low"]
    assert f"0.4000 ± {margin:.4f}" in text
    # A model with one repeat has an interval over users alone.
    assert text.count(" ± ") == 1


def test_few_repeats_leave_few_degrees_of_freedom_to_the_marks() -> None:
    """Three repeats that differ much do not win for certain."""
    row = {"segment": "all", "metric": "ndcg", "k": 10, "n_users": 2000, "n_repeats": 3}
    best = {**row, "model": "b", "value": 0.4602, "std_error": 0.0177, "repeat_share": 0.97}
    worse = {**row, "model": "a", "value": 0.4155, "std_error": 0.0052, "repeat_share": 0.5}
    assert marks_of([best, worse])["ndcg", ("a", 10)] == "~"
    one = {"n_repeats": None, "repeat_share": None}
    assert ("ndcg", ("a", 10)) not in marks_of([{**best, **one}, {**worse, **one}])


def test_repeats_that_lack_users_weigh_by_those_that_they_have() -> None:
    columns = ["model", "repeat", "user", "item", "rank"]
    lists = pd.DataFrame([("m", "1", 1, 1, 1), ("m", "2", 1, 1, 1), ("m", "2", 2, 9, 1)], columns=columns)
    truth = pd.DataFrame({"user": [1, 2], "item": [1, 2]})
    result = evaluate(lists, truth, metrics="hit_rate", k=1, conventions={"no_recommendations": "drop"})
    assert of_everybody(result, "hit_rate")["m"]["value"] == pytest.approx(2 / 3)
