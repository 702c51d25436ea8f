"""Comparison of models with repeats: the recipes, whose seeds vary, or these artefacts."""

import sys
from pathlib import Path
from typing import Any, Final

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from scipy import stats

from spark_eval import compare, evaluate
from spark_eval.arrow.xxhash64 import id_hashes
from spark_eval.comparison.rows import ComparisonRow
from spark_eval.errors import ConfigError, DataError
from spark_eval.results.sentences import SEEDS_ALONE, SEEDS_FIXED
from spark_eval.statistics.draws import poisson_weights
from spark_eval.users.resampling import repeat_weights

sys.path.append(str(Path(__file__).parents[1] / "evaluation"))
from repeated_lists import WORKED, drawn, lists_of, truth_of, worked

PRECISION: Final[dict[str, Any]] = {"metrics": ["precision"], "k": 10, "engine": "local"}
Tables = dict[str, np.ndarray]


def users_of(tables: dict[str, Any], column: str = "precision_at_10") -> pd.DataFrame:
    """A per-user table of values (repeats, users) by model."""
    rows = [
        (model, f"r{repeat}", user, value)
        for model, values in tables.items()
        for repeat, of_users in enumerate(values)
        for user, value in enumerate(of_users)
    ]
    return pd.DataFrame(rows, columns=["model", "repeat", "user", column])


def only_row(table: Any, **options: Any) -> ComparisonRow:
    [row] = compare(table, engine="local", **options).rows
    return row


def crossed(values: np.ndarray) -> tuple[float, float]:
    """Variance of the mean of values (repeats, users) by repeats, and the residual."""
    n_repeats, n_users = values.shape
    of_users, of_repeats = values.mean(axis=0), values.mean(axis=1)
    rest = values - of_users - of_repeats[:, None] + values.mean()
    residual = (rest**2).sum() / ((n_users - 1) * (n_repeats - 1)) / (n_users * n_repeats)
    return of_repeats.var(ddof=1) / n_repeats, residual


def slow(a: np.ndarray, b: np.ndarray, *, is_paired: bool = False) -> tuple[float, float, float, float]:
    """Difference B - A of the recipes, standard error, degrees of freedom and p."""
    means = b.mean(axis=0) - a.mean(axis=0)
    users = means.var(ddof=1) / len(means)
    parts = [(b - a,)] if is_paired else [(a,), (b,)]
    found = [(*crossed(values), len(values)) for (values,) in parts]
    repeats, residual = sum(part[0] for part in found), sum(part[1] for part in found)
    variance = max(users + repeats - residual, users, repeats)
    spread = sum(part[0] ** 2 / (part[2] - 1) for part in found) + users**2 / (len(means) - 1)
    freedom = variance**2 / spread
    p = 2 * stats.t.sf(abs(means.mean()) / variance**0.5, freedom)
    return means.mean(), variance**0.5, freedom, p


def test_worked_difference_of_recipes() -> None:
    lists, truth = worked()
    row = only_row(evaluate(lists, truth, **PRECISION))
    assert (row.difference, row.std_error) == pytest.approx((-0.075, 0.05123475), abs=1e-8)
    assert row.p_value == pytest.approx(0.20263866, abs=1e-8)
    margin = stats.t.ppf(0.975, 5.04195236) * 0.05123475
    assert row.ci_high == pytest.approx(-0.075 + margin, abs=1e-7)
    assert (row.question, row.baseline_repeats, row.candidate_repeats, row.n_users) == ("recipe", 3, 2, 6)


def test_worked_difference_of_paired_repeats() -> None:
    lists, truth = worked()
    result = evaluate(lists.query("repeat != '3'"), truth, **PRECISION)
    row = only_row(result, paired_repeats=True)
    assert (row.difference, row.p_value) == pytest.approx((-0.05, 0.203111), abs=1e-6)
    assert row.std_error == pytest.approx(0.00116667**0.5, abs=1e-6)
    assert row.ci_high == pytest.approx(-0.05 + stats.t.ppf(0.975, 5) * 0.00116667**0.5, abs=1e-6)


@pytest.mark.parametrize("is_paired", [False, True])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_recipes_are_those_of_a_slow_computation(seed: int, is_paired: bool) -> None:
    draw = np.random.default_rng(seed)
    users, shape = draw.normal(0, 1, 50), (4, 4 if is_paired else 3)
    tables = {
        model: users + draw.normal(0, 0.3, (n, 1)) + draw.normal(0, 0.5, (n, 50))
        for model, n in zip("ab", shape, strict=True)
    }
    row = only_row(users_of(tables), paired_repeats=is_paired)
    mean, error, freedom, p = slow(tables["a"], tables["b"], is_paired=is_paired)
    margin = stats.t.ppf(0.975, freedom) * error
    found = (row.difference, row.std_error, row.p_value, row.ci_low)
    assert found == pytest.approx((mean, error, p, mean - margin))


def test_segments_and_users_of_one_side_are_compared_alike() -> None:
    frames: dict[str, Any] = drawn()
    lists = frames["recommendations"].query("model != 'pop'")
    lands = pd.DataFrame({"user": range(40), "land": ["de", "fr"] * 20})
    result = evaluate(
        lists, frames["truth"], users=lands, segments=["land"], metrics=["recall"], k=8, engine="local"
    )
    per_user = result.per_user
    for row in compare(result, segments=["land"], engine="local").rows:
        own = per_user if row.segment == "all" else per_user[per_user["land"] == row.segment_value]
        a, b = (
            own[own["model"] == model].pivot(index="repeat", columns="user", values="recall_at_8").to_numpy()
            for model in ("als", "bpr")
        )
        mean, error, _, p = slow(a, b)
        assert (row.difference, row.std_error, row.p_value) == pytest.approx((mean, error, p))
        assert (row.baseline_repeats, row.candidate_repeats) == (4, 2)


def test_artefacts_are_compared_by_the_means_of_repeats() -> None:
    lists, truth = worked()
    result = evaluate(lists, truth, **PRECISION)
    means = pd.DataFrame(
        [
            (model, user, value)
            for model, values in WORKED.items()
            for user, value in enumerate(np.mean(list(values.values()), axis=0))
        ],
        columns=["model", "user", "precision_at_10"],
    )
    tests = ["t", "sign", "wilcoxon", "randomization", "bootstrap", "bca"]
    found = compare(result, question="artefact", tests=tests, engine="local").rows
    for row, expected in zip(found, compare(means, tests=tests, engine="local").rows, strict=True):
        values = [
            getattr(row, name) for name in ("difference", "std_error", "p_value", "wins", "ties", "ci_low")
        ]
        others = [
            getattr(expected, name)
            for name in ("difference", "std_error", "p_value", "wins", "ties", "ci_low")
        ]
        assert values == pytest.approx(others)
        assert row.question == "artefact"


def test_one_repeat_has_the_bits_of_lists_without_a_column() -> None:
    lists, truth = worked()
    first = lists.query("repeat == '1'")
    tests = ["t", "sign", "bootstrap"]
    found, expected = (
        compare(evaluate(frame, truth, **PRECISION), tests=tests, engine="local").rows
        for frame in (first, first.drop(columns="repeat"))
    )
    assert [row._replace(baseline_repeats=None, candidate_repeats=None) for row in found] == expected


def test_a_sentence_says_that_seeds_were_not_varied() -> None:
    lists, truth = worked()
    every = evaluate(lists, truth, **PRECISION)
    alone = evaluate(lists.query("repeat == '1'").drop(columns="repeat"), truth, **PRECISION)
    named = evaluate(lists.query("model == 'A' or repeat == '1'"), truth, **PRECISION)
    notes = [compare(one, engine="local").shown()[0].notes for one in (every, alone, named)]
    assert [SEEDS_ALONE in of_one for of_one in notes] == [False, True, True]
    assert SEEDS_FIXED in compare(every, question="artefact", engine="local").shown()[0].notes


def test_two_results_with_repeats_are_compared() -> None:
    lists, truth = worked()
    before, after = (
        evaluate(lists[lists["model"] == name].assign(model="m"), truth, **PRECISION) for name in "AB"
    )
    row = only_row(after, baseline=before)
    assert row.std_error == pytest.approx(0.05123475, abs=1e-8)


def test_requests_of_a_user_are_a_cluster() -> None:
    frames: dict[str, Any] = drawn(by_request=True)
    frames["recommendations"] = frames["recommendations"].query("model != 'pop'")
    result = evaluate(**frames, metrics=["recall"], k=8, engine="local")
    row = only_row(result)
    per_user = result.per_user
    totals = {}
    for model in ("als", "bpr"):
        own = per_user[per_user["model"] == model].assign(one=1.0)
        values = own.pivot_table(
            index="repeat", columns="user", values="recall_at_8", aggfunc="sum"
        ).to_numpy()
        number = own.pivot_table(index="repeat", columns="user", values="one", aggfunc="sum").to_numpy()
        totals[model] = (values - values.sum() / number.sum() * number) / number.mean()
    _, error, _, _ = slow(totals["als"], totals["bpr"])
    assert row.std_error == pytest.approx(error)
    assert row.n_users == totals["als"].shape[1]
    assert row.n_requests == len(per_user.query("model == 'bpr' and repeat == 'x'"))


def test_a_user_without_a_value_under_every_repeat_is_left_out() -> None:
    table = users_of({"a": [[0.1, 0.2, 0.4], [0.2, 0.1, 0.3]], "b": [[0.1, 0.3, 0.5], [0.2, 0.2, 0.9]]})
    table.loc[
        (table["model"] == "a") & (table["repeat"] == "r1") & (table["user"] == 2), "precision_at_10"
    ] = None
    row = only_row(table)
    assert (row.n_users, row.n_undefined) == (2, 1)
    expected = only_row(table[table["user"] < 2])
    assert (row.difference, row.std_error) == (expected.difference, expected.std_error)


LISTS, TRUTH = worked()
ONE = LISTS.query("model == 'A' or repeat == '1'")


@pytest.mark.parametrize(
    ("lists", "options", "message"),
    [
        (ONE, {"question": "recipe"}, "TOO_FEW_REPEATS.*'B'.*question: artefact"),
        (
            ONE.drop(columns="repeat").drop_duplicates(["model", "user", "item"]),
            {"question": "recipe"},
            "TOO_FEW_REPEATS|DUPLICATE",
        ),
        (LISTS, {"paired_repeats": True}, "REPEATS_DIFFER"),
        # As many repeats of each model, of other names.
        (LISTS.query("model == 'B' or repeat != '1'"), {"paired_repeats": True}, "REPEATS_DIFFER"),
        (LISTS, {"tests": ["sign"]}, "NOT_BY_REPEAT.*sign.*artefact"),
        (LISTS, {"interval": "bca"}, "NOT_BY_REPEAT.*bca.*t or bootstrap"),
        (LISTS, {"question": "recipes"}, "recipe"),
    ],
)
def test_questions_without_an_answer_are_refused(lists: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises((ConfigError, DataError), match=message):
        compare(evaluate(lists, TRUTH, **PRECISION), engine="local", **options)


@pytest.mark.parametrize("is_paired", [False, True])
def test_weighted_means_are_compared_by_the_delta_method(is_paired: bool) -> None:
    draw = np.random.default_rng(6)
    values, weights = (
        {
            model: draw.random((n, 30)) + of_seeds
            for model, n, of_seeds in (("a", 2, 0), ("b", 2 + extra, 0.1))
        }
        for extra in [0 if is_paired else 1]
        for _ in range(2)
    )
    table = users_of(values, "fcp_at_8").assign(fcp_pairs_at_8=users_of(weights)["precision_at_10"])
    missing = (table["model"] == "b") & (table["repeat"] == "r1") & (table["user"] == 29)
    table.loc[missing, "fcp_at_8"] = None
    parts = {}
    for model, own in values.items():
        value, weight = own[:, :29], weights[model][:, :29]
        mean = (value * weight).sum() / weight.sum()
        parts[model] = mean + weight / weight.mean() * (value - mean)
    rows = compare(table, paired_repeats=is_paired, engine="local").rows
    [row] = [row for row in rows if row.metric == "fcp_micro"]
    mean, error, _, p = slow(parts["a"], parts["b"], is_paired=is_paired)
    assert (row.difference, row.std_error, row.p_value) == pytest.approx((mean, error, p))
    rows = compare(table, question="artefact", engine="local").rows
    [fixed] = [row for row in rows if row.metric == "fcp_micro"]
    of_users = (parts["b"].mean(axis=0) - parts["a"].mean(axis=0)).std(ddof=1)
    assert fixed.std_error == pytest.approx(of_users / 29**0.5)


def test_a_bootstrap_of_weighted_means_is_refused() -> None:
    frames: dict[str, Any] = drawn()
    result = evaluate(**frames, metrics=["fcp"], k=8, engine="local")
    with pytest.raises(ConfigError, match=r"NOT_BY_REPEAT.*fcp_micro"):
        compare(result, question="artefact", tests=["bootstrap"], engine="local")


def drawn_means(values: np.ndarray, seed: int, model: str, n: int) -> np.ndarray:
    """Means of values (repeats, users) over drawn users, of whom some are drawn often, and drawn repeats."""
    users = poisson_weights(id_hashes(pa.array(range(values.shape[1])), np.int64(SEED)), n)
    means = values @ users / users.sum(axis=0)
    repeats = repeat_weights(seed, model, len(values), n)[1:]
    return np.asarray((repeats / (len(values) - 1) * means.T).sum(axis=1))


SEED: Final = 3


@pytest.mark.parametrize("is_paired", [False, True])
def test_users_and_repeats_are_drawn_for_a_bootstrap(is_paired: bool) -> None:
    draw = np.random.default_rng(4)
    tables = {
        model: draw.random((n, 30)) + draw.normal(0, 0.1, (n, 1)) + (model == "b") * 0.2
        for model, n in (("a", 3), ("b", 3 if is_paired else 4))
    }
    options: dict[str, Any] = {"tests": ["bootstrap"], "resamples": 400, "seed": SEED}
    row = only_row(users_of(tables), paired_repeats=is_paired, **options)
    if is_paired:
        means = drawn_means(tables["b"] - tables["a"], SEED, "a", 400)
    else:
        means = drawn_means(tables["b"], SEED + 1, "b", 400) - drawn_means(tables["a"], SEED, "a", 400)
    assert (row.ci_low, row.ci_high) == pytest.approx(tuple(np.quantile(means, [0.025, 0.975])), abs=1e-8)
    assert row.question == "recipe"


def test_slices_of_artefacts_are_those_of_the_means_of_repeats() -> None:
    lists, truth = worked()
    lands = pd.DataFrame({"user": range(6), "land": ["de", "fr"] * 3})
    result = evaluate(lists, truth, users=lands, segments=["land"], **PRECISION)
    slices = {"of": ["land"], "min_users": 2}
    found = compare(result, slices=slices, question="artefact", engine="local")
    keys = ["model", "user", "land"]
    means = result.per_user.groupby(keys, as_index=False)["precision_at_10"].mean()
    expected = compare(means, slices=slices, engine="local")
    for row, other in zip(found.slice_rows, expected.slice_rows, strict=True):
        assert row[:7] == other[:7]
        assert row[7:13] == pytest.approx(other[7:13])
    with pytest.raises(ConfigError, match=r"NOT_BY_REPEAT.*slices of recipes"):
        compare(result, slices=slices, engine="local")


def test_gates_are_about_recipes() -> None:
    lists, truth = worked()
    result = evaluate(lists, truth, **PRECISION)
    gate = {
        "metric": "precision",
        "k": 10,
        "model": "B",
        "against": {"model": "A"},
        "max_drop": 0.2,
        "min_users": 2,
    }
    [row] = compare(result, gates=[gate], engine="local").gate_rows
    low = -0.075 + 0.2 - stats.t.ppf(0.95, 5.04195236) * 0.05123475
    assert row.bound_low == pytest.approx(low, abs=1e-7)
    assert row.decision == "not_worse"


def test_more_users_do_not_help_where_repeats_differ() -> None:
    draw = np.random.default_rng(1)
    users = draw.normal(0, 1, 4000)
    noisy = {m: users + draw.normal(0, 0.2, (3, 1)) + draw.normal(0, 0.1, (3, 4000)) for m in "ab"}
    row = only_row(users_of(noisy))
    assert row.users_needed is None
    assert row.repeats_needed is not None
    assert row.repeats_needed > 3


def planned(a: np.ndarray, b: np.ndarray, n_users: int, n_repeats: tuple[int, int]) -> tuple[float, float]:
    """Expected standard error and degrees of freedom with other numbers, by components of the variance."""
    n, means = a.shape[1], b.mean(axis=0) - a.mean(axis=0)
    found = [(*crossed(values), len(values)) for values in (a, b)]
    rest = sum(residual for _, residual, _ in found)
    cells = [
        residual * n * many / (n_users * new)
        for (_, residual, many), new in zip(found, n_repeats, strict=False)
    ]
    users = (means.var(ddof=1) / n - rest) * n / n_users + sum(cells)
    repeats = [
        (variance - residual) * many / new + cell
        for (variance, residual, many), new, cell in zip(found, n_repeats, cells, strict=False)
    ]
    variance = users + sum(repeats) - sum(cells)
    spread = users**2 / (n_users - 1) + sum(
        part**2 / (new - 1) for part, new in zip(repeats, n_repeats, strict=False)
    )
    return variance**0.5, variance**2 / spread


def detected(error: float, freedom: float) -> float:
    return float(stats.t.ppf(0.975, freedom) + stats.t.ppf(0.8, freedom)) * error


def repeated(difference: float) -> Tables:
    draw = np.random.default_rng(7)
    users = draw.normal(0, 1, 60)
    return {
        model: users * (1 + 0.2 * (model == "b"))
        + draw.normal(0, 0.04, (n, 1))
        + draw.normal(0, 0.2, (n, 60))
        + difference * (model == "b")
        for model, n in (("a", 4), ("b", 3))
    }


def test_detectable_effect_is_that_of_few_repeats() -> None:
    tables = repeated(0.1)
    row = only_row(users_of(tables))
    assert row.mde == pytest.approx(detected(*planned(tables["a"], tables["b"], 60, (4, 3))))
    _, error, freedom, _ = slow(tables["a"], tables["b"])
    assert row.mde == pytest.approx(detected(error, freedom))


def test_numbers_needed_are_the_first_that_detect_the_difference() -> None:
    tables = repeated(0.15)
    row = only_row(users_of(tables))
    a, b = tables["a"], tables["b"]
    assert row.difference is not None
    assert row.users_needed is not None
    assert row.repeats_needed is not None
    users, repeats, size = row.users_needed, row.repeats_needed, abs(row.difference)
    assert detected(*planned(a, b, users, (4, 3))) <= size < detected(*planned(a, b, users - 1, (4, 3)))
    assert detected(*planned(a, b, 60, (repeats, repeats))) <= size
    assert size < detected(*planned(a, b, 60, (repeats - 1, repeats - 1)))


def test_a_gate_tells_how_many_users_it_needs() -> None:
    tables = repeated(0.0)
    gate = {"metric": "precision@10", "model": "b", "against": {"model": "a"}, "min_users": 2}
    [close, far] = compare(
        users_of(tables), gates=[{**gate, "max_drop": 1e-4}, {**gate, "max_drop": 0.2}], engine="local"
    ).gate_rows
    assert close.users_needed is None
    error, freedom = planned(tables["a"], tables["b"], far.users_needed or 0, (4, 3))
    assert (stats.t.ppf(0.95, freedom) + stats.t.ppf(0.8, freedom)) * error <= 0.2


def test_order_of_rows_changes_no_bit() -> None:
    lists, truth = worked()
    result = evaluate(lists, truth, **PRECISION)
    table = result.per_user
    assert (
        compare(table, engine="local").rows
        == compare(table.sample(frac=1, random_state=4), engine="local").rows
    )


def test_both_engines_give_the_same_bits(spark: Any) -> None:
    frames: dict[str, Any] = drawn(by_request=True)
    frames["recommendations"] = frames["recommendations"].query("model != 'pop'")
    metrics = ["recall", "ndcg", "fcp"]
    result = evaluate(**frames, metrics=metrics, k=[3, 8], engine="local")
    there = spark.createDataFrame(result.per_user).repartition(3)
    assert compare(there, engine="spark").rows == compare(result.per_user, engine="local").rows
    options: dict[str, Any] = {"metrics": ["recall@8"], "tests": ["bootstrap"], "resamples": 50}
    assert compare(there, engine="spark", **options).rows == (
        compare(result.per_user, engine="local", **options).rows
    )
    on_spark = evaluate(
        **{name: spark.createDataFrame(frame) for name, frame in frames.items()},
        metrics=metrics,
        k=[3, 8],
    )
    assert compare(on_spark).rows == compare(result, engine="local").rows


def test_lists_of_equal_worth_are_made_by_the_helper() -> None:
    assert len(lists_of(WORKED)) == 10 * 6 * 5
    assert len(truth_of(6)) == 60
