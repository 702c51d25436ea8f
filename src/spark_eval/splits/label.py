"""Assign every row of the log to its subsets in the folds of a rule, or give the reason why it has none."""

from collections.abc import Sequence
from typing import Final

import pyarrow as pa
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql import types as T

from spark_eval.names import quote_column
from spark_eval.runners.rows import SparkRows
from spark_eval.schema import (
    EPOCH_1900,
    FAULT,
    FOLD,
    ITEM,
    RELEVANCE,
    REQUEST,
    SUBSET,
    TIMESTAMP,
    USER,
    Fault,
    Outcome,
    Reason,
)
from spark_eval.splits.facts import UNUSED
from spark_eval.splits.rules.fold_rule import (
    BUCKETS,
    LAST_STAGE,
    POLICIES,
    STAGES,
    Dealt,
    FoldRule,
    HeldOut,
    Indexed,
    Layout,
    Numbered,
    Numbering,
    TargetNumbering,
)
from spark_eval.splits.rules.moments import Boundary
from spark_eval.splits.specs import OURS
from spark_eval.splits.worker.labels import ROW_NUMBER
from spark_eval.splits.worker.targets import MOMENT, TargetChooser
from spark_eval.tables.inputs import first_fault_column, is_any_null

# Assignments of a row, one per fold: a Subset, a Reason, or "" if the row is in other folds only.
ASSIGNMENTS: Final = "spark_eval_assignments"
# The assignment to one fold, if there is one row per fold.
ASSIGNMENT: Final = "spark_eval_assignment"
# Temporary columns.
N_HELD_OUT: Final = "spark_eval_n_held_out"
STRATUM: Final = "spark_eval_stratum"
BUCKET: Final = "spark_eval_bucket"
BEFORE: Final = "spark_eval_before"
FILLED: Final = "spark_eval_filled_"
MOMENT_OF_ROW: Final = "spark_eval_moment"


def with_faults(log: DataFrame, *, timed: bool) -> DataFrame:
    """Return a conformed log with the columns that it may lack, and the code of each invalid row."""
    defaults = {TIMESTAMP: F.lit(None).cast("timestamp"), RELEVANCE: F.lit(1.0)}
    ours = {name: F.col(name) if name in log.columns else defaults[name] for name in OURS}
    faults = {Fault.NULL_ID: is_any_null(ours[USER], ours[ITEM])}
    if timed:
        faults[Fault.NULL_TIMESTAMP] = ours[TIMESTAMP].isNull()
    others = [F.col(quote_column(name)) for name in log.columns if name not in OURS]
    named = [column.alias(name) for name, column in ours.items()]
    return log.select(*named, *others, first_fault_column(faults).alias(FAULT))


def used_rows(labelled: DataFrame) -> DataFrame:
    """Return the labelled rows that have a subset, with the columns of ``splits`` in order."""
    first, last = (USER, ITEM, TIMESTAMP, RELEVANCE, FOLD), (SUBSET,)
    others = [name for name in labelled.columns if name not in (*first, FAULT, *last)]
    rows = labelled.where(F.col(SUBSET).isNotNull())
    return rows.select(*(F.col(quote_column(name)) for name in (*first, *others, *last)))


def label(interactions: DataFrame, rule: FoldRule, layout: Layout) -> DataFrame:
    """Return the log with PLACES after its own columns, one row each.

    ``interactions`` has user, item, timestamp (TIMESTAMP), any other columns, and ``fault``. PLACES is null
    for an invalid row. If no fold uses a row, its ``fault`` becomes the first reason in PLACES.

    Numbers by time or by draws are a projection of one scan; a number by the order of rows costs a shuffle.
    Each ``drop`` policy adds a scan, an aggregation and a join.
    """
    rows = number_rows(interactions, layout.numbering)
    outcomes = F.split(F.lit(";".join(map(",".join, layout.outcomes))), ";")
    assignments = F.split(F.get(outcomes, F.col(ROW_NUMBER).cast("int")), ",")
    rows = rows.withColumn(ASSIGNMENTS, F.when(F.col(FAULT).isNull(), assignments))
    if rule.drops:
        rows = after_drops(rows, rule)
    is_used = F.arrays_overlap(ASSIGNMENTS, F.array(*(F.lit(subset.value) for subset in rule.subsets)))
    reason = F.when(~is_used, F.get(F.array_remove(ASSIGNMENTS, ""), F.lit(0)))
    own = [F.col(quote_column(name)) for name in interactions.columns if name != FAULT]
    own.insert(interactions.columns.index(FAULT), F.coalesce(FAULT, reason).alias(FAULT))
    return rows.select(*own, ASSIGNMENTS)


def explode_folds(labelled: DataFrame, rule: FoldRule) -> DataFrame:
    """Return labelled rows once per fold, with fold, subset and PLACE; rows without a fold once."""
    others = [F.col(quote_column(name)) for name in labelled.columns if name != ASSIGNMENTS]
    rows = labelled.select(*others, F.posexplode_outer(ASSIGNMENTS).alias(FOLD, ASSIGNMENT))
    if not rule.reports_folds:
        rows = rows.withColumn(FOLD, F.coalesce(FOLD, F.lit(0)))
    is_used = F.col(ASSIGNMENT).isin([subset.value for subset in rule.subsets])
    rows = rows.withColumn(SUBSET, F.when(is_used, F.col(ASSIGNMENT)))
    if not rule.has_requests:
        return rows
    return rows.withColumn(REQUEST, F.when(F.col(SUBSET) == rule.final_test, F.unix_micros(TIMESTAMP)))


def row_counts(rule: FoldRule) -> list[Column]:
    """Return aggregations over the result of ``explode_folds``, which can also be observed during a write."""
    is_first = F.coalesce(F.col(FOLD) == 0, F.lit(True))
    fault = F.col(FAULT)
    counted = {"n_rows": is_first, "n_used": is_first & fault.isNull()}
    counted |= {f"row_{code}": is_first & (fault == code) for code in UNUSED}
    counted[f"row_{Outcome.BEFORE_1900}"] = is_first & (F.unix_micros(TIMESTAMP) < EPOCH_1900)
    counted |= {f"assigned_{name}": F.col(ASSIGNMENT) == name for name in (*rule.subsets, *rule.drops)}
    return [F.count_if(condition).alias(name) for name, condition in counted.items()]


def number_by(how: Numbering) -> Column:
    """Return the number of a row by its time, its draw, or both."""
    stretch = first_of([before(edge, how.boundary) for edge in how.edges], 0)
    if how.drawn is None:
        return stretch
    step = F.pmod(draw(how.seed, how.by_row), F.lit(how.n_draws))
    drawn = first_of([step < each for each in how.steps], how.first_drawn) if how.steps else step
    return F.when(stretch == how.drawn, drawn).otherwise(stretch)


def first_of(conditions: Sequence[Column], start: int) -> Column:
    """Return ``start`` plus the index of the first true condition, or plus their number if none is true."""
    numbers = [F.when(holds, start + index) for index, holds in enumerate(conditions)]
    return F.coalesce(*numbers, F.lit(start + len(numbers)))


def before(cut: int, boundary: Boundary) -> Column:
    """Return True if a row is on the train side of a cut."""
    at, instant = F.col(TIMESTAMP), F.timestamp_micros(F.lit(cut))
    return at < instant if boundary is Boundary.EXCLUSIVE else at <= instant


def draw(seed: int, by_row: bool = True) -> Column:
    """Return a seeded 64-bit number; it depends neither on the log nor on the type of the ids.

    By row it is a hash of user, item and timestamp, otherwise of the user.
    """
    row = (F.col(ITEM).cast("string"), F.unix_micros(TIMESTAMP)) if by_row else ()
    return F.xxhash64(F.lit(seed).cast("long"), F.col(USER).cast("string"), *row)


def number_rows(
    log: DataFrame, how: Numbering | Dealt | Indexed | HeldOut | TargetNumbering | Numbered
) -> DataFrame:
    """Return the log with the ROW_NUMBER of each row."""
    match how:
        case Numbering():
            return log.withColumn(ROW_NUMBER, number_by(how))
        case Dealt(by_user=True):
            users = log.where(F.col(FAULT).isNull()).select(USER, FAULT).distinct()
            dealt_users = deal_rows(users, how, draw(how.seed, by_row=False), F.lit(""))
            return log.join(dealt_users.select(USER, ROW_NUMBER), USER, "left")
        case Dealt():
            stratum = text_of(log.select(*map(quote_column, how.strata))) if how.strata else F.lit("")
            return deal_rows(log, how, draw(how.seed), stratum)
        case Indexed():
            all_rows = Window.partitionBy(F.when(F.col(FAULT).isNotNull(), draw(how.seed)))
            number = F.row_number().over(all_rows.orderBy(draw(how.seed), *tie_keys(log)))
            return log.withColumn(ROW_NUMBER, number - 1)
        case HeldOut():
            return label_held_out(log, how)
        case TargetNumbering():
            return number_by_target(log, how)
    raise AssertionError(how)


def deal_rows(rows: DataFrame, how: Dealt, by: Column, stratum: Column) -> DataFrame:
    """Return rows with their ROW_NUMBER; each stratum is dealt out in the order of its draws.

    Rows with equal draws are ordered by their other columns; rows with equal ones are identical.
    """
    ties = tie_keys(rows)
    rows = rows.withColumns({STRATUM: F.coalesce(FAULT, F.concat(F.lit("="), stratum)), BEFORE: by})
    rows = rows.withColumn(BUCKET, F.pmod(BEFORE, F.lit(BUCKETS)))
    keys = [STRATUM, BUCKET]
    within = F.row_number().over(Window.partitionBy(*keys).orderBy(BEFORE, *ties))
    sizes = rows.groupBy(*keys).agg(F.count(F.lit(1)).alias(BEFORE))
    earlier = Window.partitionBy(STRATUM).orderBy(BUCKET).rowsBetween(Window.unboundedPreceding, -1)
    n_before = sizes.select(*keys, F.coalesce(F.sum(BEFORE).over(earlier), F.lit(0)).alias(BEFORE))
    ranked = rows.withColumn(ROW_NUMBER, within).drop(BEFORE).join(n_before, keys)
    start = F.pmod(F.xxhash64(F.lit(how.seed).cast("long"), STRATUM), F.lit(how.n))
    return ranked.withColumn(ROW_NUMBER, F.pmod(F.col(ROW_NUMBER) - 1 + F.col(BEFORE) + start, F.lit(how.n)))


def text_of(rows: DataFrame) -> Column:
    """Return all columns of a row as text."""
    return F.to_json(F.struct(*(F.col(quote_column(name)) for name in rows.columns)))


def tie_keys(rows: DataFrame) -> list[Column]:
    """Return sort keys of rows with equal draws: all other columns; -0.0 comes before 0.0."""
    keys = []
    for field in rows.schema:
        column = F.col(quote_column(field.name))
        if isinstance(field.dataType, T.FractionalType):
            keys += [column, ~((column == 0) & column.cast("string").startswith("-"))]
        elif field.name not in (USER, ITEM, TIMESTAMP, FAULT):
            keys.append(column if isinstance(field.dataType, T.AtomicType) else F.to_json(F.struct(column)))
    return keys


def label_held_out(log: DataFrame, how: HeldOut) -> DataFrame:
    """Return the log with ROW_NUMBER 1 for held-out rows, by time or by draw, and 0 for others."""
    # Rows without a user are distributed over the tasks.
    of_user = Window.partitionBy(USER, F.when(F.col(FAULT).isNotNull(), draw(how.seed)))
    latest = [F.col(TIMESTAMP).desc()] if how.by_time else []
    number = F.row_number().over(of_user.orderBy(*latest, draw(how.seed), *tie_keys(log)))
    rows = log.withColumns({ROW_NUMBER: number, N_HELD_OUT: n_held_out(how, F.count(F.lit(1)).over(of_user))})
    is_test = F.col(ROW_NUMBER) <= F.col(N_HELD_OUT)
    if how.together:
        cut = F.max(F.when(F.col(ROW_NUMBER) == F.col(N_HELD_OUT), F.col(TIMESTAMP))).over(of_user)
        rows = rows.withColumns({BEFORE: cut, N_HELD_OUT: F.min(TIMESTAMP).over(of_user)})
        is_test = (F.col(TIMESTAMP) >= F.col(BEFORE)) & (F.col(N_HELD_OUT) < F.col(BEFORE))
    return rows.withColumn(ROW_NUMBER, F.when(is_test, 1).otherwise(0))


def number_by_target(log: DataFrame, how: TargetNumbering) -> DataFrame:
    """Return the log with ROW_NUMBER by time and by the target of each user; this costs a scan and a join."""
    numbered = log.withColumn(ROW_NUMBER, number_by(how.by_time))
    tests = F.array(*(F.lit(fold).cast("int") for fold in how.tests))
    fold = F.when(F.col(FAULT).isNull(), F.get(tests, F.col(ROW_NUMBER)))
    rows = numbered.withColumns({FOLD: fold, MOMENT_OF_ROW: F.unix_micros(TIMESTAMP)})
    tested = SparkRows(
        rows.where(F.col(FOLD).isNotNull()).select(USER, FOLD, F.col(MOMENT_OF_ROW).alias(MOMENT))
    )
    schema = pa.schema({name: tested.kind(name) for name in tested.columns})
    choose = TargetChooser(how.targets, how.seed).choose
    of_tasks = SparkRows(tested.map(choose, schema).frame.repartition(USER, FOLD))
    at_target = of_tasks.map(choose, schema).frame.withColumnRenamed(MOMENT, BEFORE)
    joined = rows.join(at_target, [USER, FOLD], "left")
    at = F.col(MOMENT_OF_ROW)
    role = F.when(at < F.col(BEFORE), 1).when(at > F.col(BEFORE), 2).otherwise(0)
    number = F.col(ROW_NUMBER) + role * len(how.tests)
    return joined.withColumn(ROW_NUMBER, number).drop(FOLD, BEFORE, MOMENT_OF_ROW)


def n_held_out(how: HeldOut, n_rows: Column) -> Column:
    """Return the number of held-out rows of a user with ``n_rows`` rows."""
    if isinstance(how.held, int):
        return F.when(n_rows > how.held, how.held).otherwise(0)
    return F.floor(n_rows * how.held.numerator / F.lit(how.held.denominator))


def after_drops(assigned: DataFrame, rule: FoldRule) -> DataFrame:
    """Return the rows with a policy's reason in place of the outcomes that it drops.

    Cold users and items and seen pairs of a fold do not depend on the rows that other policies drop.
    """
    joined = assigned
    for reason in rule.drops:
        keys = list(POLICIES[reason])
        joined = joined.join(filled(assigned, keys, FILLED + reason), keys, "left")

    def after(assignment: Column, fold: Column) -> Column:
        reasons = [F.when(is_dropped(assignment, fold, reason), reason.value) for reason in rule.drops]
        is_tested = assignment.isin([part.value for part in rule.learnt_or_tested]) & (
            stage_of(assignment) > 0
        )
        return F.coalesce(F.when(is_tested, F.coalesce(*reasons)), assignment)

    return joined.withColumn(ASSIGNMENTS, F.transform(ASSIGNMENTS, after))


def filled(assigned: DataFrame, keys: list[str], name: str) -> DataFrame:
    """Return for each key the list ``name`` of the subsets with its rows, each as 2 * fold + order."""
    assignments = assigned.select(*keys, F.posexplode(ASSIGNMENTS).alias(FOLD, ASSIGNMENT))
    early = assignments.where(F.col(ASSIGNMENT).isin(list(map(str, STAGES))))
    return early.groupBy(*keys).agg(F.collect_set(F.col(FOLD) * 2 + stage_of(F.col(ASSIGNMENT))).alias(name))


def is_dropped(assignment: Column, fold: Column, reason: Reason) -> Column:
    """Return True if a policy drops an outcome, given the subsets that have rows of its key."""
    parts = F.coalesce(FILLED + reason, F.array().cast("array<int>"))
    in_train = F.array_contains(parts, fold * 2)
    if reason is not Reason.SEEN:
        return ~in_train
    return in_train | ((stage_of(assignment) == LAST_STAGE) & F.array_contains(parts, fold * 2 + 1))


def stage_of(assignment: Column) -> Column:
    """Return the order of a subset within its fold: 0, 1 or 2."""
    stages = [F.when(assignment == str(subset), number) for subset, number in STAGES.items()]
    return F.coalesce(*stages, F.lit(LAST_STAGE))
