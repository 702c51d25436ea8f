"""``calibration`` of ``compare``: its forms, what is refused, and what a result shows."""

from functools import cache
from pathlib import Path
from typing import Any, Final

import numpy as np
import pandas as pd
import pytest
from tests.calibration.test_calibrate import OFFLINE, ONLINE

from spark_eval import Calibration, Comparison, SparkEvalError, calibrate, compare

RNG: Final = np.random.default_rng(51)
USERS: Final = pd.DataFrame(
    {
        "user": [*range(80)] * 2,
        "ndcg_at_10": [*RNG.random(80), *RNG.random(80)],
        "model": ["top"] * 80 + ["als"] * 80,
    }
)


@cache
def calibration() -> Calibration:
    return calibrate(OFFLINE, ONLINE)


def compared(given: Any) -> Comparison:
    return compare(USERS, baseline_model="top", calibration=given)


def test_a_calibration_may_be_a_result_a_frame_or_a_path(tmp_path: Path) -> None:
    found = compared(calibration())
    [row], [forecast] = found.rows, found.forecast_rows
    expected = calibration().predict(row.difference or 0.0, row.std_error or 0.0)
    assert forecast[-3:] == tuple(expected)
    path = tmp_path / "calibration.parquet"
    calibration().to_pandas().to_parquet(path)
    forms = [calibration().to_pandas(), calibration().to_polars(), calibration().to_arrow(), path, str(path)]
    for form in forms:
        assert compared(form).forecast_rows == [forecast]
    assert compared(None).forecast_rows == ()


def test_results_show_what_the_past_says() -> None:
    found = compared(calibration())
    said = "of 8 decided experiments 7 had the sign of ndcg@10; a gain like this has won in about"
    said = said if (found.rows[0].difference or 0) > 0 else said.replace("a gain", "a loss")
    assert said in str(found)
    assert said in found._repr_html_()
    assert [table.title for table in found.shown()] == ["Comparison", "Forecasts"]
    assert found.to_pandas("forecasts")["goal"].tolist() == ["ctr"]
    assert said not in str(compared(None))


BAD: Final[dict[str, tuple[Any, str]]] = {
    "another result": (lambda: compare(USERS), "UNKNOWN_TABLE"),
    "a lacking column": (lambda: calibration().to_pandas().drop(columns="agree"), "MISSING_COLUMN"),
    "another type": (lambda: calibration().to_pandas().assign(n="many"), "UNSUPPORTED_TYPE"),
    "no rows": (lambda: calibration().to_pandas()[:0], "EMPTY_INPUT"),
    "two runs": (lambda: pd.concat([calibration().to_pandas()] * 2), "SEVERAL_CALIBRATIONS"),
    "a store": (lambda: "s3a://bucket/out/calibration/run_id=spring", "UNSUPPORTED_INPUT"),
    "no file": (lambda: "out/calibration/run_id=spring", "MISSING_INPUT"),
    "no frame": (lambda: 7, "NOT_A_FRAME"),
    "other metrics": (lambda: calibration().to_pandas().assign(metric="map@10"), "METRIC_NOT_MEASURED"),
}


@pytest.mark.parametrize(("given", "code"), BAD.values(), ids=BAD)
def test_bad_calibrations_are_refused_by_name(given: Any, code: str) -> None:
    with pytest.raises(SparkEvalError, match=code):
        compared(given())


def test_a_frame_of_spark(spark: Any) -> None:
    frame = spark.createDataFrame(calibration().to_pandas())
    assert compared(frame).forecast_rows == compared(calibration()).forecast_rows
