"""Standard errors of predictions: worked numbers, slow oracles, a bootstrap over users, exact bits."""

import math
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pytest
from local import crowd, measure
from scipy import special, stats
from slow import slow_auc_errors

from spark_eval.arrow.xxhash64 import id_hashes
from spark_eval.predictions.worker import replicates as of_replicates
from spark_eval.predictions.worker.rows import bins_of
from spark_eval.statistics.draws import poisson_weights

# User, label, score of model A and of model B.
WORKED: Final = [
    ("a", 1, 0.9, 0.7),
    ("a", 0, 0.4, 0.5),
    ("a", 1, 0.6, 0.8),
    ("b", 0, 0.3, 0.2),
    ("b", 0, 0.7, 0.6),
    ("c", 1, 0.5, 0.9),
    ("c", 0, 0.5, 0.1),
    ("c", 0, 0.2, 0.4),
    ("d", 1, 0.8, 0.6),
    ("d", 0, 0.6, 0.3),
    ("d", 1, 0.3, 0.5),
]


def worked(place: int) -> dict[str, Any]:
    users, labels, *scores = zip(*WORKED, strict=True)
    return {"user": list(users), "label": list(labels), "score": list(scores[place])}


def row_of(rows: dict[str, Any], metric: str, **options: Any) -> dict[str, Any]:
    name = metric.partition("(")[0]
    answer = measure(rows, metrics=[name], **{"intervals": "user"} | options)
    return next(row for row in answer.metrics if (row["metric"], row["segment"]) == (metric, "all"))


@pytest.mark.parametrize(
    ("place", "auc", "by_user", "by_row"),
    [(0, 0.7166666667, 0.1307827023, 0.1697219949), (1, 0.9333333333, 0.0695428932, 0.0693221145)],
)
def test_worked_errors_of_auc(place: int, auc: float, by_user: float, by_row: float) -> None:
    of_users = row_of(worked(place), "auc")
    assert (of_users["value"], of_users["std_error"]) == pytest.approx((auc, by_user), abs=5e-11)
    assert of_users["n_users"] == 4
    half = 1.959963984540054 * of_users["std_error"]
    assert (of_users["ci_low"], of_users["ci_high"]) == pytest.approx((auc - half, auc + half), abs=1e-9)
    of_rows = row_of(worked(place), "auc", intervals="row")
    assert (of_rows["value"], of_rows["std_error"]) == pytest.approx((auc, by_row), abs=5e-11)
    assert of_rows["n_users"] is None
    [plain] = measure(worked(place), metrics=["auc"]).metrics
    assert (plain["value"], plain["std_error"]) == (of_users["value"], None)


def test_an_interval_of_auc_by_its_logit_lies_within_0_and_1() -> None:
    usual, found = (row_of(worked(1), "auc", auc_interval=name) for name in ("normal", "logit"))
    assert usual["ci_high"] > 1
    # Around the logit of .9333 with the standard error .0695, from the definition with other functions.
    center, margin = special.logit(found["value"]), stats.norm.ppf(0.975) * found["std_error"]
    margin /= found["value"] * (1 - found["value"])
    ends = special.expit([center - margin, center + margin])
    assert [found["ci_low"], found["ci_high"]] == pytest.approx(ends, rel=1e-12)
    assert found["std_error"] == usual["std_error"]
    assert found["conventions"] == f"{usual['conventions']}; auc_interval=logit"
    of_loss = [row_of(worked(1), "log_loss", auc_interval=name)["ci_low"] for name in ("normal", "logit")]
    assert of_loss[0] == of_loss[1]


def test_an_auc_of_1_has_no_interval_by_its_logit() -> None:
    rows = {"user": [1, 1, 2, 2], "label": [0, 1, 0, 1], "score": [0.1, 0.8, 0.2, 0.9]}
    found = row_of(rows, "auc", auc_interval="logit")
    assert (found["value"], found["std_error"], found["ci_low"], found["ci_high"]) == (1.0, 0.0, None, None)


@pytest.mark.parametrize("by", ["user", "row"])
@pytest.mark.parametrize("seed", range(5))
def test_errors_of_auc_are_those_of_a_slow_second_computation(seed: int, by: str) -> None:
    rows = crowd(seed, n=200)
    users = rows["user"] if by == "user" else np.arange(200)
    expected = slow_auc_errors(rows["label"], rows["score"], users, rows["weight"])
    found = row_of(rows, "auc", intervals=by, scores_per_range=7, n_tasks=3)
    assert found["std_error"] == pytest.approx(expected, rel=1e-12)


def ratio_error(numerator: Any, denominator: Any, users: Any) -> float:
    """The standard error of a ratio of sums over users, as an ordinary regression on a constant has it."""
    of_users = np.unique(users, return_inverse=True)[1]
    above, below = np.bincount(of_users, numerator), np.bincount(of_users, denominator)
    rest = above - above.sum() / below.sum() * below
    n = len(below)
    return math.sqrt(n / (n - 1) * (rest**2).sum()) / float(below.sum())


@pytest.mark.parametrize("by", ["user", "row"])
@pytest.mark.parametrize("seed", range(3))
def test_errors_of_ratios_are_those_of_sums_by_user(seed: int, by: str) -> None:
    rows = crowd(seed)
    label, weight = rows["label"], rows["weight"]
    score = rows["score"] = rows["score"] * 0.9 + 0.05
    users = rows["user"] if by == "user" else np.arange(len(label))
    loss = -np.log(np.where(label == 1, score, 1 - score))
    flagged = score >= 0.5
    expected = {
        "log_loss": ratio_error(loss * weight, weight, users),
        "log_likelihood": ratio_error(loss * weight, weight, users),
        "mae": ratio_error(abs(label - score) * weight, weight, users),
        "mse": ratio_error((label - score) ** 2 * weight, weight, users),
        "accuracy(threshold=0.5)": ratio_error((flagged == label) * weight, weight, users),
        "precision(threshold=0.5)": ratio_error(flagged * label * weight, flagged * weight, users),
        "recall(threshold=0.5)": ratio_error(flagged * label * weight, label * weight, users),
        "f1(threshold=0.5)": ratio_error(
            2 * flagged * label * weight, (flagged + label) * 1.0 * weight, users
        ),
    }
    expected["rmse"] = expected["mse"] / (2 * math.sqrt(row_of(rows, "mse")["value"]))
    for metric, error in expected.items():
        assert row_of(rows, metric, intervals=by)["std_error"] == pytest.approx(error, rel=1e-11), metric


def test_errors_of_a_regression() -> None:
    random = np.random.default_rng(3)
    users = random.integers(0, 40, 500)
    label = random.standard_normal(40)[users] + random.standard_normal(500)
    rows = {"label": label, "score": label + random.standard_normal(500) / 2, "user": users}
    of_users = np.bincount(users, label)
    assert (of_users < 0).any()
    for sums in measure(rows, "regression", metrics=["r2"], intervals="user").users:
        assert sums.sums["label", 0] == pytest.approx(of_users[np.array(sums.users)], rel=1e-12)
    replicates = []
    of_user = [np.flatnonzero(users == user) for user in range(40)]
    for _ in range(2_000):
        drawn = np.concatenate([of_user[user] for user in random.integers(0, 40, 40)])
        y, error = label[drawn], rows["score"][drawn] - label[drawn]
        replicates.append(1 - (error**2).sum() / ((y - y.mean()) ** 2).sum())
    [found] = measure(rows, "regression", metrics=["r2"], intervals="user").metrics
    assert found["std_error"] == pytest.approx(np.std(replicates), rel=0.1)


def test_errors_have_the_same_bits_whatever_the_order_and_the_division_of_rows() -> None:
    rows = crowd(7)
    options: dict[str, Any] = {
        "metrics": ["auc", "log_loss", "f1", "rmse", "auprc", "ece", "gauc_by_positives"],
        "segments": ["country"],
        "resamples": 50,
        "sampling_rate": 0.3,
    }
    order = np.random.default_rng(1).permutation(400)
    for by in ("user", "row"):
        first = measure(rows, intervals=by, **options)
        assert all(row["std_error"] > 0 for row in first.metrics)
        divided: dict[str, Any] = {"rows_per_batch": 37, "n_tasks": 4, "scores_per_range": 5}
        other = measure(rows, order=order, intervals=by, **divided, **options)
        assert other.metrics == first.metrics


def test_ids_of_64_bits_are_as_good_as_small_ones() -> None:
    rows = crowd(4)
    options: dict[str, Any] = {"metrics": ["auc", "log_loss"], "intervals": "user"}
    large = rows | {"user": np.where(rows["user"] > 20, rows["user"] + 2**40, rows["user"])}
    expected = measure(rows, **options).metrics
    assert measure(large, rows_per_batch=5, **options).metrics == expected
    as_text = rows | {"user": [f"user {user}" for user in rows["user"]]}
    assert measure(as_text, rows_per_batch=50, **options).metrics == expected


def test_repeated_rows_of_a_user_do_not_narrow_the_interval() -> None:
    rows = crowd(2)
    twice = {name: np.concatenate([column, column]) for name, column in rows.items()}
    for metric in ("auc", "log_loss", "recall(threshold=0.5)"):
        by_user = [row_of(given, metric)["std_error"] for given in (rows, twice)]
        assert by_user[1] == pytest.approx(by_user[0], rel=1e-12)
        by_row = [row_of(given, metric, intervals="row")["std_error"] for given in (rows, twice)]
        assert by_row[1] == pytest.approx(by_row[0] / math.sqrt(2), rel=0.02)


def test_one_user_and_one_label_have_no_error() -> None:
    rows = {"label": [0, 1], "score": [0.1, 0.9], "user": [1, 1]}
    assert row_of(rows, "auc")["std_error"] is None
    assert row_of(rows, "log_loss")["std_error"] is None
    rows = {"label": [1, 1], "score": [0.1, 0.9], "user": [1, 2]}
    assert (row_of(rows, "auc")["value"], row_of(rows, "auc")["std_error"]) == (None, None)


def test_metrics_of_more_thresholds_than_are_kept_by_user_have_no_error() -> None:
    rows, thresholds = crowd(1), [n / 100 for n in range(1, 100)]
    metrics = ["recall", "accuracy", "log_loss"]
    found = measure(rows, metrics=metrics, thresholds=thresholds, intervals="user").metrics
    assert {row["metric"]: row["std_error"] is None for row in found} == {
        **{f"{name}(threshold={one!r})": True for name in metrics[:2] for one in thresholds},
        "log_loss": False,
    }


def test_the_error_of_auc_is_that_of_a_bootstrap_over_users() -> None:
    random = np.random.default_rng(5)
    n_users, users = 300, np.repeat(np.arange(300), 8)
    label = (random.random(2_400) < random.beta(0.3, 0.7, 300)[users]).astype(int)
    score = 1 / (1 + np.exp(-(label + random.standard_normal(300)[users] + random.standard_normal(2_400))))
    found = row_of({"label": label, "score": score, "user": users}, "auc")
    order = np.argsort(score)
    replicates = []
    for _ in range(4_000):
        weight = np.bincount(random.integers(0, n_users, n_users), minlength=n_users)[users][order]
        positive, negative = weight * label[order], weight * (1 - label[order])
        below = np.cumsum(negative) - negative
        replicates.append((positive * below).sum() / positive.sum() / negative.sum())
    assert found["std_error"] == pytest.approx(np.std(replicates), rel=0.02)
    by_row = row_of({"label": label, "score": score, "user": users}, "auc", intervals="row")
    assert by_row["std_error"] < 0.8 * found["std_error"]


def average_precision(label: Any, score: Any, weight: Any) -> float:
    """The area with a step at each distinct score, by a loop over them."""
    area, before = 0.0, 0.0
    for threshold in sorted(set(score), reverse=True):
        flagged = score >= threshold
        hits = float((weight * label)[flagged].sum())
        if hits > before:
            area += (hits - before) * hits / float(weight[flagged].sum())
        before = hits
    return area / before if before else math.nan


def calibration_error(label: Any, score: Any, weight: Any, n_bins: int = 10) -> float:
    bins = bins_of(score, n_bins)
    gaps = np.bincount(bins, (score - label) * weight, minlength=n_bins)
    return float(np.abs(gaps).sum() / weight.sum())


SLOW: Final = {"auprc": average_precision, "ece": calibration_error}


@pytest.mark.parametrize("is_weighted", [False, True])
@pytest.mark.parametrize("seed", [0, 1])
def test_bootstrap_intervals_are_those_of_loops_over_drawn_users(seed: int, is_weighted: bool) -> None:
    rows, resamples = crowd(seed), 300
    rows.pop("segment_0")
    own = rows["weight"] if is_weighted else np.ones(400)
    if not is_weighted:
        rows.pop("weight")
    drawn = poisson_weights(id_hashes(pa.array(np.arange(25)), np.int64(resamples + 5)), resamples)
    for metric, measured in SLOW.items():
        columns = (rows["label"], rows["score"])
        values = [measured(*columns, own * drawn[rows["user"], one]) for one in range(resamples)]
        found = row_of(rows, metric, resamples=resamples, seed=5)
        ends = np.clip(np.nanquantile(values, [0.025, 0.975]), 0, 1)
        # Scores of the crowd are few: each has a block of its own, but for rounding.
        exactness = 1e-7 if metric == "ece" else 2e-3
        assert found["value"] == pytest.approx(measured(*columns, own), rel=1e-12)
        assert (found["ci_low"], found["ci_high"]) == pytest.approx(tuple(ends), abs=exactness)
        assert found["std_error"] == pytest.approx(np.nanstd(values, ddof=1), abs=exactness)
        assert found["n_users"] == 25


@pytest.mark.parametrize("by", ["user", "row"])
def test_bootstrap_errors_are_those_of_another_generator(by: str) -> None:
    random = np.random.default_rng(8)
    users = np.repeat(np.arange(300), 10)
    taste = random.standard_normal(300)[users]
    score = 1 / (1 + np.exp(-(taste - 2 + random.standard_normal(3_000))))
    label = (random.random(3_000) < score**1.2).astype(int)
    n_units = 300 if by == "user" else 3_000
    units, order = users if by == "user" else np.arange(3_000), np.argsort(-score)
    drawn: dict[str, list[float]] = {"auprc": [], "ece": []}
    for _ in range(1_000):
        weight = np.bincount(random.integers(0, n_units, n_units), minlength=n_units)[units].astype(float)
        hits = np.cumsum((weight * label)[order])
        flagged = np.maximum(np.cumsum(weight[order]), 1)
        drawn["auprc"].append(float(((weight * label)[order] * hits / flagged).sum() / hits[-1]))
        drawn["ece"].append(calibration_error(label, score, weight))
    for metric, values in drawn.items():
        found = row_of({"label": label, "score": score, "user": users}, metric, intervals=by)
        assert found["std_error"] == pytest.approx(np.std(values), rel=0.1), metric
        ends = np.quantile(values, [0.025, 0.975])
        assert (found["ci_low"], found["ci_high"]) == pytest.approx(
            tuple(ends), abs=0.5 * float(np.std(values))
        )


def test_equal_rows_have_draws_of_their_own() -> None:
    rows = {"label": [1, 0] * 500, "score": [0.5] * 1_000}
    found = row_of(rows, "auprc", intervals="row")
    # The share of positives of 1,000 independent rows.
    assert found["std_error"] == pytest.approx(math.sqrt(0.25 / 1_000), rel=0.1)


def test_weights_beyond_32_bits_are_added_exactly() -> None:
    amounts = [np.floor(np.random.default_rng(0).random(5_000) * 2.0**30)]
    hashes = np.random.default_rng(1).integers(0, 2**63, 5_000).astype(np.uint64)
    group, user = np.arange(5_000) % 3, np.arange(5_000)
    found = of_replicates.resampled_groups(hashes, user, group, amounts, 3, 8)
    weights = poisson_weights(hashes, 8).astype(object)
    for one in range(3):
        chosen = group == one
        expected = (weights[chosen] * amounts[0][chosen].astype(int).astype(object)[:, None]).sum(axis=0)
        assert found[one, 1:, 0].tolist() == expected.tolist()


@pytest.mark.parametrize("name", ["impressions", "positives"])
def test_errors_of_weighted_means_of_users_are_those_of_ratios(name: str) -> None:
    rows = crowd(4)
    auc, weight = [], []
    for user in np.unique(rows["user"]):
        mine = rows["user"] == user
        columns = {key: column[mine] for key, column in rows.items() if key != "segment_0"}
        value = measure(columns, metrics=["auc"]).values["auc"]
        if value is not None:
            auc.append(value)
            weight.append((columns["weight"] * (1 if name == "impressions" else columns["label"])).sum())
    expected = ratio_error(np.array(auc) * weight, np.array(weight), np.arange(len(auc)))
    found = row_of(rows, f"gauc_by_{name}", intervals="none")
    assert found["std_error"] == pytest.approx(expected, rel=1e-9)
    assert found["n_users"] == len(auc)
