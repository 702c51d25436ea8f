"""Published runs of compare and online of the worked example, and the programme that names them."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pandas as pd
from tests.calibration.test_calibrate import NAMES, X_ERROR, Y_ERROR, X, Y

from spark_eval.comparison.rows import COMPARISONS, ComparisonRow
from spark_eval.experiments.tables import EXPERIMENTS, ExperimentRow
from spark_eval.publishing.attempt import Attempt
from spark_eval.publishing.local import LocalStore
from spark_eval.results.driver_tables import write_small
from spark_eval.schema import ALL, VERSION, Table

STAMP: Final = "gain=linear"


def compared(candidate: str, difference: float | None, error: float | None, **given: Any) -> ComparisonRow:
    """A row of comparisons of a candidate with ``base``."""
    row = ComparisonRow("base", candidate, "ndcg", 10, ALL, ALL, test="t", conventions=STAMP)
    return row._replace(difference=difference, std_error=error, **given)


def measured(experiment: str, difference: float | None, error: float | None, **given: Any) -> ExperimentRow:
    """A row of experiments of ``b`` against ``a``."""
    row = ExperimentRow(**dict.fromkeys(ExperimentRow._fields))  # type: ignore[arg-type]
    names = {"metric": "ctr", "treatment": "b", "control": "a", "method": "raw", "role": "goal"}
    counts = dict.fromkeys(("n_control", "n_treatment", "undefined_control", "undefined_treatment"), 0)
    cell = {"segment": ALL, "segment_value": ALL, "trusted": True, "conventions": "", "direction": "higher"}
    values = {"experiment": experiment, "difference": difference, "std_error": error}
    return row._replace(**{**names, **counts, **cell, **values, **given})


def publish(root: Path, verb: str, run_id: str, rows: Sequence[Any], fingerprint: str = "1") -> None:
    """Publish the rows of a run."""
    table, schema = (
        (Table.COMPARISONS, COMPARISONS) if verb == "compare" else (Table.EXPERIMENTS, EXPERIMENTS)
    )
    with Attempt(LocalStore(root), run_id, verb) as attempt:
        write_small(rows, schema, Path(attempt.staged(table)), by_model=False)
        versions = {"spark_eval": VERSION}
        record = {"config": {}, "fingerprint": fingerprint, "versions": versions, "summary": {}}
        attempt.publish({table: len(rows)}, record)


def write_programme(home: Path) -> Mapping[str, Any]:
    """Publish the worked example; return the sections of a config that reads it."""
    home.mkdir(exist_ok=True)
    offline = [compared(name, *one) for name, *one in zip(NAMES, X, X_ERROR, strict=True)]
    online = [measured(name, *one) for name, *one in zip(NAMES, Y, Y_ERROR, strict=True)]
    publish(home / "out", "compare", "past", offline)
    publish(home / "out", "online", "live", online)
    columns = {"experiment": NAMES, "online_run": "live", "offline_run": "past", "candidate": NAMES}
    pd.DataFrame({**columns, "baseline": "base"}).to_csv(home / "programme.csv", index=False)
    forecast = {"difference": 0.8, "std_error": 0.25}
    return {"calibrate": {"programme": str(home / "programme.csv"), "predict": [forecast]}}
