"""Published runs of compare and online with effects that a test chooses, and their programme."""

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from spark_eval.comparison.rows import COMPARISONS, ComparisonRow
from spark_eval.experiments.tables import EXPERIMENTS, ExperimentRow
from spark_eval.publishing.attempt import Attempt
from spark_eval.publishing.local import LocalStore
from spark_eval.results.driver_tables import write_small
from spark_eval.schema import Table

COLUMNS: Final = ("experiment", "treatment", "online_run", "offline_run", "candidate", "baseline")


def publish(root: Path, verb: str, run_id: str, table: Table, rows: Sequence[Any], schema: str) -> None:
    """Publish a table as a run of a verb."""
    with Attempt(LocalStore(root), run_id, verb) as attempt:
        write_small(rows, schema, Path(attempt.staged(table)), by_model=False)
        attempt.publish({table: len(rows)}, {"fingerprint": f"{verb} {run_id} {rows}"})


def comparison(difference: float, std_error: float | None, **others: Any) -> ComparisonRow:
    """A comparison of two models over all users."""
    row = ComparisonRow("old", "new", "ndcg", 10, "all", "all", 99, test="paired_t", conventions="default")
    return row._replace(difference=difference, std_error=std_error, **others)


def effect(experiment: str, difference: float, std_error: float | None, **others: Any) -> ExperimentRow:
    """The effect of an experiment over all units."""
    values: dict[str, Any] = dict.fromkeys(ExperimentRow._fields)
    values |= dict.fromkeys(("n_control", "n_treatment", "undefined_control", "undefined_treatment"), 9)
    values |= {"experiment": experiment, "metric": "ctr", "treatment": "b", "control": "a", "method": "raw"}
    values |= {"segment": "all", "segment_value": "all", "role": "metric", "trusted": True}
    values |= {"conventions": "default", "direction": "higher"}
    return ExperimentRow(**values | {"difference": difference, "std_error": std_error} | others)


def publish_comparison(root: Path, run_id: str, rows: Sequence[ComparisonRow]) -> None:
    """Publish a run of compare."""
    publish(root, "compare", run_id, Table.COMPARISONS, rows, COMPARISONS)


def publish_effects(root: Path, run_id: str, rows: Sequence[ExperimentRow]) -> None:
    """Publish a run of online."""
    publish(root, "online", run_id, Table.EXPERIMENTS, rows, EXPERIMENTS)


def write_programme(
    file: Path, trials: Sequence[Mapping[str, str]], columns: Sequence[str] = COLUMNS
) -> None:
    """Write a programme as CSV."""
    with file.open("w", newline="", encoding="utf-8") as out:
        writer = csv.DictWriter(out, columns, extrasaction="ignore")
        writer.writeheader()
        writer.writerows(trials)


def trial(number: int) -> dict[str, str]:
    """The experiment of a number: the runs have its number, too."""
    return {
        "experiment": f"e{number}",
        "online_run": f"live-{number}",
        "offline_run": f"off-{number}",
        "treatment": "",
        "candidate": "new",
        "baseline": "old",
    }
