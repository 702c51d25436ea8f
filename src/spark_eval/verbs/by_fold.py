"""Evaluation over folds: whether the tables are of the same folds, and their ids with these."""

from dataclasses import replace
from typing import Any, Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_eval.errors import DataError
from spark_eval.plan import Plan
from spark_eval.schema import FOLD, ITEM, MODEL, N_RECOMMENDED, USER
from spark_eval.transforms.folds import carry, folds_in, folds_of, in_every_fold
from spark_eval.verbs.evaluation import Tables

# Of one validation: each is a row of every metric.
MOST_FOLDS: Final = 1_000
# So many are named in a message.
MOST_NAMED: Final = 10


def over_folds(tables: Tables, plan: Plan) -> tuple[Tables, Plan]:
    """The tables with ids that carry their folds, and the plan by fold, if the recommendations have folds.

    Otherwise both as they are, less the column ``fold``. Raises DataError FOLDS_DIFFER where tables cannot be
    of the same folds: their rows would be taken for one another's.
    """
    check_folds(tables)
    given: dict[str, Any] = tables.given()
    users = given.pop("users", None)
    if FOLD not in tables.recommendations.columns:
        return replace(tables, **{name: frame.drop(FOLD) for name, frame in given.items()}), plan
    folds = sorted(row[FOLD] for row in folds_in(tables.truth).collect() if row[FOLD] is not None)
    if not 0 < len(folds) <= MOST_FOLDS:
        raise DataError("FOLDS_DIFFER", f"truth: {len(folds)} folds; there are 1 to {MOST_FOLDS}")
    if users is not None:
        given["users"] = in_every_fold(users, folds)
    for name in (USER, ITEM):
        holders = {table: frame for table, frame in given.items() if name in frame.columns}
        if len({frame.schema[name].dataType for frame in holders.values()}) > 1:  # integers, checked before
            given |= {
                table: frame.withColumn(name, F.col(name).cast("long")) for table, frame in holders.items()
            }
    carried: dict[str, Any] = {name: carry(frame) for name, frame in given.items()}
    return replace(tables, **carried), replace(plan, segments=(FOLD, *plan.segments))


def check_folds(tables: Tables) -> None:
    """Raise DataError FOLDS_DIFFER where some tables have folds, and others are of all or none."""
    has_folds = FOLD in tables.recommendations.columns
    faults = []
    for name, frame in tables.given().items():
        if name not in ("truth", "train"):
            continue
        if has_folds and FOLD not in frame.columns:
            message = f"recommendations have a column {FOLD}, {name} has none; give it one, or rename theirs"
            faults.append(DataError("FOLDS_DIFFER", message))
        elif not has_folds and FOLD in frame.columns and len(found := folds_in(frame).take(2)) > 1:
            shown = " and ".join(str(row[FOLD]) for row in found)
            message = f"{name} has several folds, such as {shown}, the recommendations tell none"
            message += f"; give them a column {FOLD}, or read one fold by {name}.{FOLD}"
            faults.append(DataError("FOLDS_DIFFER", message))
    DataError.raise_all(faults)


def check_models(lists: DataFrame, truth: DataFrame) -> None:
    """Raise DataError FOLDS_DIFFER for a model without any list in a fold of the truth: it would count 0.

    ``lists`` and ``truth`` hold a row per user, whose id carries the fold.
    """
    folds = sorted(row[FOLD] for row in folds_of(truth).collect())
    found: dict[str, set[int]] = {}
    for row in folds_of(lists.where(F.col(N_RECOMMENDED) > 0), MODEL).collect():
        found.setdefault(row[MODEL], set()).add(row[FOLD])
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
    DataError.raise_all(faults)
