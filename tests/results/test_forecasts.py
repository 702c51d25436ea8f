"""Forecasts of online effects by a calibration: worked numbers, directions, and what has none."""

from typing import Any

import pytest
from tests.calibration.test_calibrate import OFFLINE, ONLINE

from spark_eval import SparkEvalError, calibrate
from spark_eval.comparison.rows import ComparisonRow, compared_direction
from spark_eval.results.forecasts import (
    CalibrationRow,
    ForecastRow,
    forecast_lines,
    forecast_rows,
    forecast_sentence,
)
from spark_eval.schema import ALL


@pytest.fixture(scope="module")
def calibrated() -> list[CalibrationRow]:
    return list(calibrate(OFFLINE, ONLINE).rows)


def row(**given: Any) -> dict[str, Any]:
    compared = ComparisonRow("top", "als", "ndcg", 10, ALL, ALL, difference=0.8, std_error=0.25, test="t")
    return compared._replace(**given)._asdict()


def forecasts(rows: list[dict[str, Any]], calibrated: list[CalibrationRow]) -> list[ForecastRow]:
    return forecast_rows(rows, calibrated, compared_direction)


def test_worked_numbers(calibrated: list[CalibrationRow]) -> None:
    [found] = forecasts([row()], calibrated)
    assert [round(one or 0, 6) for one in found[-3:]] == [0.447716, 0.593387, 0.774728]
    assert found[:5] == ("als", "top", None, "ndcg@10", "ctr")
    assert found[7:11] == (None, 16, 8, 7)
    assert forecast_sentence(found._asdict()) == (
        "ndcg@10 of als against top, 0.8 ± 0.25: ctr is expected to rise by 0.448 ± 0.593; "
        "of 8 decided experiments 7 had the sign of ndcg@10; a gain like this has won in about 77 %"
    )
    [line] = forecast_lines([found._asdict()])
    assert line == ("als", "top", "ndcg@10", "ctr", "0.8", "0.447716", "0.593387", ".77")


def test_metrics_of_which_less_is_better_are_turned(calibrated: list[CalibrationRow]) -> None:
    [of_loss] = forecasts(
        [row(metric="log_loss", k=None, difference=-0.8)], [calibrated[0]._replace(metric="log_loss")]
    )
    [of_gain] = forecasts([row()], calibrated)
    assert of_loss == of_gain._replace(metric="log_loss")
    assert "a loss like this" in forecast_sentence(of_gain._replace(difference=-0.8)._asdict())
    fall = forecast_sentence(of_gain._replace(expected=-0.2)._asdict())
    assert "ctr is expected to fall by 0.2" in fall


def test_of_several_tests_the_first_with_an_error_counts_over_all_users(
    calibrated: list[CalibrationRow],
) -> None:
    rows = [
        row(segment="country", segment_value="DE", difference=9.0),
        row(test="sign", std_error=None),
        row(),
        row(test="bca", std_error=0.3),
        row(metric="recall"),
        row(baseline_run="b"),
    ]
    found = forecasts(rows, calibrated)
    assert [(one.baseline_run, one.std_error) for one in found] == [(None, 0.25), ("b", 0.25)]


def test_what_has_no_forecast_says_why(calibrated: list[CalibrationRow]) -> None:
    [alone] = forecasts([row(std_error=None)], calibrated)
    assert (alone.reason, alone.expected) == ("NO_VALUE", None)
    assert forecast_sentence(alone._asdict()).endswith("has no standard error, so ctr cannot be predicted")
    [few] = forecasts([row()], list(calibrate(OFFLINE[:7], ONLINE).rows))
    assert (few.reason, few.expected, few.n_experiments) == ("TOO_FEW_EXPERIMENTS", None, 7)
    assert forecast_sentence(few._asdict()).endswith("ctr cannot be predicted: TOO_FEW_EXPERIMENTS")
    assert forecasts([], calibrated) == []


def test_other_metrics_and_conventions_are_refused(calibrated: list[CalibrationRow]) -> None:
    with pytest.raises(SparkEvalError, match=r"METRIC_NOT_MEASURED.*ndcg@10.*recall@5"):
        forecasts([row(metric="recall", k=5)], calibrated)
    stamped = [calibrated[0]._replace(conventions="gain=exp2")]
    with pytest.raises(SparkEvalError, match=r"MIXED_CONVENTIONS.*gain=exp2.*gain=linear"):
        forecasts([row(conventions="gain=linear")], stamped)
    assert len(forecasts([row(conventions="gain=exp2")], stamped)) == 1
    assert len(forecasts([row(conventions="")], stamped)) == 1
