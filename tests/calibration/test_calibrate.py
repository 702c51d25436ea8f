"""Calibration: worked numbers, an independent optimiser, and inputs that are refused."""

import math
from typing import Any, Final

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy.optimize import minimize

import spark_eval
from spark_eval import Calibration, SparkEvalError, calibrate
from spark_eval.calibration.fit import Points, fit, solve

X: Final = [1.2, 0.4, -0.3, 2.0, 0.7, 1.5, -0.6, 0.1, 0.9, 1.8, 0.3, 1.1, -0.9, 0.6, 1.4, -0.2]
X_ERROR: Final = [0.2, 0.2, 0.3, 0.3, 0.2, 0.3, 0.2, 0.2, 0.3, 0.3, 0.2, 0.3, 0.2, 0.3, 0.2, 0.2]
Y: Final = [0.9, -0.6, 0.4, 1.9, -0.4, 1.5, -0.8, 0.8, -0.2, 1.0, 0.9, 0.1, -1.3, 1.2, 0.3, -0.7]
Y_ERROR: Final = [0.3, 0.2, 0.3, 0.4, 0.3, 0.2, 0.3, 0.2, 0.3, 0.4, 0.2, 0.3, 0.3, 0.4, 0.3, 0.2]
NAMES: Final = [f"e{number}" for number in range(len(X))]
OFFLINE: Final = pd.DataFrame(
    {"experiment": NAMES, "metric": "ndcg@10", "difference": X, "std_error": X_ERROR}
)
ONLINE: Final = pd.DataFrame({"experiment": NAMES, "goal": "ctr", "difference": Y, "std_error": Y_ERROR})


def points(covariance: float = 0.0) -> Points:
    columns = (X, X_ERROR, Y, Y_ERROR, [covariance] * len(X))
    return Points(*(np.array(column) for column in columns))


def row_of(calibration: Calibration) -> dict[str, Any]:
    [row] = calibration.rows
    return row._asdict()


def test_worked_numbers() -> None:
    found = calibrate(OFFLINE, ONLINE)
    row = row_of(found)
    fitted = {
        "offline_mean": 0.617747,
        "online_mean": 0.310752,
        "offline_spread": 0.820506,
        "online_spread": 0.876139,
        "rho": 0.769123,
        "slope": 0.821272,
        "naive_rho": 0.708077,
        "agree_low": 0.529112,
        "agree_high": 0.977583,
        "online_std_error": 1.004988,
    }
    assert {name: round(row[name], 6) for name in fitted} == fitted
    assert (round(row["rho_low"], 4), round(row["rho_high"], 4)) == (0.3769, 0.9325)
    assert (row["n"], row["n_decided"], row["agree"], row["shipped"]) == (16, 8, 7, 10)
    sums = [row[name] for name in ("online_sum", "online_all", "online_best")]
    assert sums == pytest.approx([5.7, 5.0, 9.0], abs=1e-12)
    forecast = found.predict(0.8, 0.25)
    assert [round(one, 6) for one in forecast] == [0.447716, 0.593387, 0.774728]


def slow_likelihood(at: Any, rho: float | None = None) -> float:
    """Minus the restricted log likelihood, experiment by experiment, by general matrix algebra."""
    x_spread, y_spread = math.exp(at[0]), math.exp(at[1])
    rho = math.tanh(at[2]) if rho is None else rho
    shared = rho * x_spread * y_spread
    between = np.array([[x_spread**2, shared], [shared, y_spread**2]])
    inverses, total = [], 0.0
    for s, t in zip(X_ERROR, Y_ERROR, strict=True):
        whole = between + np.diag([s * s, t * t])
        inverses.append(np.linalg.inv(whole))
        total += float(np.linalg.slogdet(whole)[1])
    weight = sum(inverses, np.zeros((2, 2)))
    weighted = [one @ np.array(pair) for one, pair in zip(inverses, zip(X, Y, strict=True), strict=True)]
    means = np.linalg.solve(weight, sum(weighted, np.zeros(2)))
    total += float(np.linalg.slogdet(weight)[1])
    for one, pair in zip(inverses, zip(X, Y, strict=True), strict=True):
        rest = np.array(pair) - means
        total += float(rest @ one @ rest)
    return total / 2


def test_another_optimiser_finds_the_same_maximum_and_profile() -> None:
    options = {"xatol": 1e-9, "fatol": 1e-12, "maxiter": 5_000}
    best = minimize(slow_likelihood, [0.0, 0.0, 0.0], method="Nelder-Mead", options=options)
    found = fit(points())
    assert found is not None
    assert [math.log(found.x_spread), math.log(found.y_spread), math.atanh(found.rho)] == pytest.approx(
        best.x, abs=1e-5
    )
    for end in (found.rho_low, found.rho_high):
        at_end = minimize(slow_likelihood, best.x[:2], args=(end,), method="Nelder-Mead", options=options)
        assert 2 * (at_end.fun - best.fun) == pytest.approx(3.841459, abs=1e-4)


def test_the_gradient_is_that_of_the_likelihood() -> None:
    at, step = np.array([-0.2, 0.1, 0.7]), 1e-6
    shared = points(covariance=0.01)

    def likelihood(where: Any) -> float:
        return solve(shared, math.exp(where[0]), math.exp(where[1]), math.tanh(where[2])).likelihood

    slopes = [(likelihood(at + one) - likelihood(at - one)) / (2 * step) for one in np.eye(3) * step]
    gradient = solve(shared, math.exp(at[0]), math.exp(at[1]), math.tanh(at[2])).gradient
    assert gradient == pytest.approx(slopes, rel=1e-5)


def test_an_estimate_at_the_border_has_an_interval_that_ends_there() -> None:
    near = ONLINE.assign(difference=OFFLINE["difference"])
    row = row_of(calibrate(OFFLINE, near))
    assert (row["rho"], row["rho_high"]) == (1.0, 1.0)
    assert 0.5 < row["rho_low"] < 1
    row = row_of(calibrate(OFFLINE, near.assign(difference=-OFFLINE["difference"])))
    assert (row["rho"], row["rho_low"]) == (-1.0, -1.0)


@pytest.mark.parametrize("frame", [pl.from_pandas, pa.Table.from_pandas, lambda frame: frame[::-1]])
def test_the_kind_of_frame_and_the_order_of_rows_do_not_matter(frame: Any) -> None:
    assert calibrate(frame(OFFLINE), frame(ONLINE)).rows == calibrate(OFFLINE, ONLINE).rows


def test_units_do_not_matter() -> None:
    factors = {"difference": OFFLINE["difference"] * 1e-3, "std_error": OFFLINE["std_error"] * 1e-3}
    small, row = row_of(calibrate(OFFLINE.assign(**factors), ONLINE)), row_of(calibrate(OFFLINE, ONLINE))
    assert small["rho"] == pytest.approx(row["rho"], abs=1e-7)
    assert small["slope"] == pytest.approx(1e3 * row["slope"], rel=1e-6)


def test_metrics_of_which_less_is_better_are_turned() -> None:
    turned = OFFLINE.assign(metric="log_loss", difference=-OFFLINE["difference"])
    hides = ONLINE.assign(goal="hides", difference=-ONLINE["difference"])
    [row] = calibrate(turned, hides, lower="hides").rows
    [other] = calibrate(OFFLINE, ONLINE).rows
    assert row._replace(metric="ndcg@10", goal="ctr") == other


def test_the_covariance_of_errors_takes_off_what_both_share() -> None:
    shared = pd.DataFrame({"experiment": NAMES, "metric": "ndcg@10", "goal": "ctr", "covariance": 0.03})
    row = row_of(calibrate(OFFLINE, ONLINE, covariance=shared))
    assert row["rho"] < row_of(calibrate(OFFLINE, ONLINE))["rho"]
    with pytest.raises(SparkEvalError, match="INVALID_COVARIANCE"):
        calibrate(OFFLINE, ONLINE, covariance=shared.assign(covariance=0.06))


def test_few_experiments_are_counted_only() -> None:
    for n in (2, 7):
        row = row_of(calibrate(OFFLINE[:n], ONLINE))
        assert (row["reason"], row["n"], row["left_out"]) == ("TOO_FEW_EXPERIMENTS", n, 16 - n)
        assert row["rho"] is row["slope"] is row["online_sum"] is None
    assert row_of(calibrate(OFFLINE[:8], ONLINE))["rho"] is not None
    assert "7 experiments are too few" in str(calibrate(OFFLINE[:7], ONLINE))
    with pytest.raises(SparkEvalError, match=r"NOT_CALIBRATED.*TOO_FEW_EXPERIMENTS"):
        calibrate(OFFLINE[:7], ONLINE).predict(1.0, 0.1)


@pytest.mark.parametrize("column", [0.5, [0.01 * (number % 2) for number in range(16)]])
def test_effects_that_noise_explains_have_no_correlation(column: Any) -> None:
    row = row_of(calibrate(OFFLINE.assign(difference=column), ONLINE))
    assert (row["reason"], row["rho"], row["n"]) == ("NO_SPREAD", None, 16)
    assert row["online_all"] == pytest.approx(5.0)


def test_experiments_without_one_side_are_left_out_and_named() -> None:
    online = ONLINE.assign(trusted=[False] + [True] * 15, difference=[*Y[:15], np.nan])
    found = calibrate(OFFLINE[:15], online)
    reasons = found.programme.set_index("experiment")["reason"].dropna().to_dict()
    assert reasons == {"e0": "NOT_TRUSTED", "e15": "NO_OFFLINE"}
    assert (found.rows[0].n, found.rows[0].left_out) == (14, 2)
    reasons = calibrate(OFFLINE, online).programme.set_index("experiment")["reason"].dropna().to_dict()
    assert reasons == {"e0": "NOT_TRUSTED", "e15": "NO_VALUE"}


def test_treatments_tell_the_rows_of_an_experiment_apart() -> None:
    both = [frame.assign(experiment=[f"e{n // 2}" for n in range(16)]) for frame in (OFFLINE, ONLINE)]
    with pytest.raises(SparkEvalError, match="DUPLICATE_EXPERIMENT"):
        calibrate(*both)
    treated = [frame.assign(treatment=[str(n % 2) for n in range(16)]) for frame in both]
    assert calibrate(*treated).rows == calibrate(OFFLINE, ONLINE).rows
    with pytest.raises(SparkEvalError, match=r"DUPLICATE_EXPERIMENT.*several treatments"):
        calibrate(treated[0], ONLINE)


BAD: Final[dict[str, list[dict[str, Any]]]] = {
    "INVALID_STD_ERROR": [{"std_error": 0.0}, {"std_error": math.inf}, {"std_error": -1.0}],
    "VALUE_NOT_FINITE": [{"difference": math.inf}],
    "UNSUPPORTED_TYPE": [{"difference": "much"}],
    "NULL_ID": [{"experiment": None}],
    "DUPLICATE_EXPERIMENT": [{"experiment": "e1"}],
    "NOTHING_IN_COMMON": [{"experiment": NAMES[::-1]}],
}


@pytest.mark.parametrize(
    ("code", "change"), [(code, one) for code, several in BAD.items() for one in several]
)
def test_bad_inputs_have_named_errors(code: str, change: dict[str, Any]) -> None:
    changed = OFFLINE.assign(**change)
    if code == "NOTHING_IN_COMMON":
        changed["experiment"] = "of_" + changed["experiment"]
    for given in ((changed, ONLINE), (OFFLINE, changed.rename(columns={"metric": "goal"}))):
        with pytest.raises(SparkEvalError, match=code):
            calibrate(*given)


def test_a_missing_column_or_goal_is_named() -> None:
    with pytest.raises(SparkEvalError, match=r"MISSING_COLUMN.*goal"):
        calibrate(OFFLINE, ONLINE.drop(columns="goal"))
    with pytest.raises(SparkEvalError, match=r"METRIC_NOT_MEASURED.*did you mean 'ctr'"):
        calibrate(OFFLINE, ONLINE, goals=["ctr", "ctrs"])
    with pytest.raises(SparkEvalError, match="METRIC_NOT_MEASURED"):
        calibrate(OFFLINE, ONLINE, metrics="map@10")
    with pytest.raises(SparkEvalError, match="METRIC_NOT_MEASURED"):
        calibrate(OFFLINE, ONLINE).predict(1.0, 0.1, goal="watch")
    with pytest.raises(SparkEvalError, match="OUT_OF_RANGE"):
        calibrate(OFFLINE, ONLINE).predict(1.0, -0.1)


def test_a_metric_at_several_cutoffs_has_a_row_for_each() -> None:
    past = pd.concat([OFFLINE.assign(metric="ndcg", k=k) for k in (5, 10)])
    found = calibrate(past, ONLINE, metrics="nDCG@10")
    assert [row.metric for row in found.rows] == ["ndcg@10"]
    assert [row.metric for row in calibrate(past, ONLINE).rows] == ["ndcg@10", "ndcg@5"]


def compared(candidate: str) -> spark_eval.Comparison:
    rng = np.random.default_rng(int(candidate))
    users = pd.DataFrame({"user": range(40), "mrr_at_5": rng.choice([0.0, 0.5, 1.0], 40)})
    better = users.assign(mrr_at_5=rng.choice([0.0, 0.5, 1.0], 40), model=candidate)
    return spark_eval.compare(pd.concat([users.assign(model="old"), better]), baseline_model="old")


def test_results_of_compare_are_experiments() -> None:
    results = {f"home-{number}": compared(str(number)) for number in range(9)}
    goals = ONLINE[:9].assign(experiment=list(results))
    found = calibrate(results, goals)
    assert found.rows[0].metric == "mrr@5"
    assert found.programme["offline_difference"].tolist() == [
        one.rows[0].difference for one in results.values()
    ]
    alone = calibrate(results["home-3"], goals[:1].assign(experiment="3"))
    assert alone.programme["reason"].isna().all()


def online_result() -> spark_eval.Experiments:
    noon = pd.Timestamp("2024-05-03T12:00:00Z")
    users = list(range(80))
    exposures = pd.DataFrame({"user": users, "variant": ["a", "b"] * 40, "timestamp": noon})
    clicks = pd.DataFrame({"user": [u for u in users if u % 3 == 0], "kind": "click", "timestamp": noon})
    metrics = [
        {"name": "ctr", "kind": "mean", "of": {"kind": "click", "value": "count"}, "direction": "lower"}
    ]
    home = {
        "name": "home",
        "control": "a",
        "variants": {"a": 1, "b": 1},
        "period": ["2024-05-01", "2024-05-08"],
    }
    return spark_eval.evaluate_experiments(exposures, clicks, metrics, home, engine="local")


def test_results_of_experiments_are_goals_in_their_direction() -> None:
    result = online_result()
    found = calibrate(OFFLINE.assign(experiment="home")[:1], result)
    raw = next(row for row in result.experiment_rows if row.method == "raw")
    assert raw.difference is not None
    assert raw.std_error is not None
    [row] = found.programme_rows
    assert (row.online_difference, row.online_std_error) == (-raw.difference, raw.std_error)
    assert calibrate(OFFLINE.assign(experiment="home")[:1], [result]).programme_rows == [row]


def test_an_adjusted_effect_is_taken_before_the_raw_one() -> None:
    both = pd.concat([ONLINE.assign(method="raw", difference=9.0), ONLINE.assign(method="cuped")])
    sequential = ONLINE.assign(method="sequential", difference=7.0)
    assert calibrate(OFFLINE, pd.concat([both, sequential])).rows == calibrate(OFFLINE, ONLINE).rows


def test_a_path_and_all_kinds_of_results(tmp_path: Any) -> None:
    OFFLINE.to_parquet(tmp_path / "offline.parquet")
    found = calibrate(str(tmp_path / "offline.parquet"), ONLINE)
    assert found.to_polars("programme").height == found.to_arrow("programme").num_rows == 16
    assert found._repr_html_().count("<table") == 2
    assert str(found).startswith("ndcg@10 and ctr: of 8 decided experiments 7 had the sign of ndcg@10")


def test_frames_of_spark(spark: Any) -> None:
    given = (spark.createDataFrame(OFFLINE), spark.createDataFrame(ONLINE))
    assert calibrate(*given).rows == calibrate(OFFLINE, ONLINE).rows
