"""Evaluation over folds: check that all tables share the same folds."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from pyspark.sql import DataFrame

from spark_eval.errors import DataError
from spark_eval.metrics.options import Plan
from spark_eval.schema import FOLD
from spark_eval.transforms.exchange import Summary
from spark_eval.verbs.evaluation import Tables

# Of one validation: each is a row of every metric.
MOST_FOLDS: Final = 1_000
# So many are named in a message.
MOST_NAMED: Final = 10


def check_folds(tables: Tables, plan: Plan) -> tuple[Tables, Plan]:
    """Return the tables, and the plan by fold if the recommendations have folds; else without ``fold``.

    Raises DataError FOLDS_DIFFER where some tables have folds, and others are of all or none.
    """
    has_folds, faults = FOLD in tables.recommendations.columns, []
    timed = {name: frame for name, frame in tables.given().items() if name in ("truth", "train")}
    for name, frame in timed.items():
        if has_folds and FOLD not in frame.columns:
            message = f"recommendations have a column {FOLD}, {name} has none; give it one, or rename theirs"
            faults.append(DataError("FOLDS_DIFFER", message))
        elif FOLD in frame.columns and not has_folds and len(found := some_folds(frame)) > 1:
            shown = " and ".join(found)
            message = f"{name} has several folds, such as {shown}, the recommendations tell none"
            message += f"; give them a column {FOLD}, or read one fold by {name}.{FOLD}"
            faults.append(DataError("FOLDS_DIFFER", message))
    DataError.raise_all(faults)
    if has_folds:
        return tables, replace(plan, segments=(FOLD, *plan.segments))
    truth, train = tables.truth.drop(FOLD), tables.train and tables.train.drop(FOLD)
    files = tables.truth_files and tables.truth_files.without(FOLD)
    return replace(tables, truth=truth, train=train, truth_files=files), plan


def fold_faults(summaries: Sequence[Summary]) -> list[DataError]:
    """Return DataErrors FOLDS_DIFFER: too many folds, or one without a list of a model, which would be 0."""
    folds = sorted(frozenset[int]().union(*(summary.folds for summary in summaries)))
    if len(folds) > MOST_FOLDS:
        return [DataError("FOLDS_DIFFER", f"truth: {len(folds)} folds; there are 1 to {MOST_FOLDS}")]
    found: dict[str, set[int]] = {}
    for summary in summaries:
        for one in summary.models:
            if one.model is not None:
                found.setdefault(one.model, set()).update(one.folds)
    faults = []
    for model, mine in sorted(found.items()):
        missing = [fold for fold in folds if fold not in mine]
        if missing:
            shown = ", ".join(map(str, missing[:MOST_NAMED]))
            message = (
                f"recommendations of model {model!r}: no list in {len(missing)} of {len(folds)} folds of"
            )
            message += f" the truth, such as {shown}; add them, or leave these folds out of the truth"
            faults.append(DataError("FOLDS_DIFFER", message))
    return faults


def some_folds(frame: DataFrame) -> list[str]:
    """Return up to two of a table's folds, as text."""
    return [str(row[FOLD]) for row in frame.select(FOLD).distinct().take(2)]
