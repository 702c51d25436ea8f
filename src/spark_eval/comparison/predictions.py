"""Compare models of predictions: the covariance of their values, from users' influences on both."""

from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import reduce
from itertools import chain, product
from operator import iadd
from typing import Final

from spark_eval.comparison.decisions import NO_SUMS, ModelPair, PairCell
from spark_eval.comparison.matching import Requested, check_counts, check_folds, check_known, check_rows
from spark_eval.comparison.plan import COMPARE, ComparePlan
from spark_eval.comparison.results import ComparedCell, ComparedCells, cell_order, cells_of_rows
from spark_eval.comparison.rows import ComparedValue
from spark_eval.comparison.sides import Side, user_tables
from spark_eval.comparison.worker.influences import InfluenceAdder, InfluenceTotals
from spark_eval.errors import ConfigError, DataError
from spark_eval.predictions.values import ModelValues, SlopedValue
from spark_eval.predictions.worker.clusters import column_of
from spark_eval.runners.conformed import check_id_types, has_text_ids
from spark_eval.runners.spread import collect_or_raise
from spark_eval.runners.user_buckets import buckets_of_users
from spark_eval.schema import FOLD
from spark_eval.statistics.differences import ComparedSums, PairEstimate, PairSums
from spark_eval.users.cells import EVERYBODY, SegmentValue
from spark_eval.users.population import BASELINE, CANDIDATE, ComparisonTask

NOTHING: Final = Fraction()


def compare_predictions(
    baseline: Side, candidate: Side, plan: ComparePlan, shown: Requested, requested: Requested
) -> ComparedCells:
    """Return the cells of predictions, from one pass over the sums of users of both models.

    Raises:
        ConfigError: UNKNOWN_SEGMENT; NOT_OF_PREDICTIONS for a side that is of lists, and for slices.
        DataError: ROWS_DIFFER if models scored other rows; FOLDS_DIFFER if only one side has folds.
    """
    if plan.slices is not None:
        message = "slices are of lists; rows of predictions are summed by the segments that were evaluated"
        raise ConfigError("NOT_OF_PREDICTIONS", f"{message}: take {COMPARE}.segments")
    by_role = {BASELINE: values_of_models(baseline), CANDIDATE: values_of_models(candidate)}
    pairs, segments = requested.pairs, compared_segments(by_role, requested)
    check_rows(pairs, by_role[BASELINE], by_role[CANDIDATE], segments)
    tables = user_tables(baseline, candidate)
    check_id_types({f"per_user of the {role}": users.frame for role, users in tables.items()})
    of_models = [by_role[role][model] for role, model in requested.models]
    models = {
        cell: [values_in_cell(model, cell, requested.metrics) for model in of_models]
        for cell in sorted({cell for model in of_models for cell in model.digests(segments)}, key=cell_order)
    }
    of_cells = chain.from_iterable(values.values() for cell in models.values() for values in cell)
    keys = {key for value in of_cells for part in value.slopes for key in part}
    task = ComparisonTask(
        models=requested.models,
        matches=requested.matches,
        columns=[*map(column_of, sorted(keys))],
        has_text_ids=has_text_ids(candidate.users.frame),
        row_segments=segments,
    )
    parts = collect_or_raise(buckets_of_users(tables, task).added(InfluenceAdder(models).sums))
    if not parts:
        raise DataError("NO_COMMON_USERS", "no side has any user")
    totals: InfluenceTotals = reduce(iadd, parts)
    check_counts(pairs, totals.users[EVERYBODY])
    cells: dict[PairCell, ComparedCell] = {}
    for (number, of_pair), value, cell in product(enumerate(pairs), requested.metrics, models):
        ends = task.pairs[number]
        if all(cell in of_models[model].cells for model in ends):
            both = [models[cell][model].get(value.name) for model in ends]
            compared = cell_of(totals, cell, number, of_pair, value, both)
            cells[compared.key] = compared
    return ComparedCells(cells, cells_of_rows(cells, shown), totals.users[EVERYBODY])


def compared_segments(by_role: Mapping[str, Mapping[str, ModelValues]], requested: Requested) -> list[str]:
    """Return the requested segments, and the folds, if there are any.

    Raises ConfigError UNKNOWN_SEGMENT, or DataError FOLDS_DIFFER if only one side has folds.
    """
    known = {
        role: list(dict.fromkeys(name for model in models.values() for name in model.segments))
        for role, models in by_role.items()
    }
    for name, role in product(requested.segments, (CANDIDATE, BASELINE)):
        check_known("segment", name, known[role], f"{COMPARE}.segments, {role}")
    check_folds(*(FOLD in names for names in known.values()))
    return list(dict.fromkeys([*requested.segments, *([FOLD] if FOLD in known[CANDIDATE] else [])]))


def values_of_models(side: Side) -> Mapping[str, ModelValues]:
    """Return the models of predictions of a side; raise ConfigError NOT_OF_PREDICTIONS for lists."""
    if side.values_by_model is None:
        raise ConfigError("NOT_OF_PREDICTIONS", "one side has predictions, the other lists")
    return side.values_by_model


def values_in_cell(
    model: ModelValues, cell: SegmentValue, metrics: Sequence[ComparedValue]
) -> Mapping[str, SlopedValue]:
    """Return the values of these metrics over the rows of a segment value, by name; empty without rows."""
    values = model.cells[cell].values if cell in model.cells else {}
    return {value.name: values[value.name] for value in metrics if value.name in values}


def cell_of(
    totals: InfluenceTotals,
    cell: SegmentValue,
    pair: int,
    models: ModelPair,
    value: ComparedValue,
    both: Sequence[SlopedValue | None],
) -> ComparedCell:
    """Return the cell of a (pair, value): values, covariance, and users with a better contribution.

    Where a value is undefined, or has no standard error, all users are.
    """
    n_common, key = int(totals.users[cell].rows[pair, 2]), (cell, pair, value.name)
    of_users: ComparedSums = NO_SUMS
    greater = less = 0
    baseline, candidate = both
    if baseline is not None and candidate is not None:
        greater, less = (totals.counts[*key, name] for name in ("greater", "less"))
        has_labels = len(baseline.slopes) > 1
        of_users = PairEstimate(
            n_common,
            (Fraction(baseline.value), Fraction(candidate.value)),
            covariances(totals, key, n_common, has_labels),
            is_normal=has_labels,
        )
    return ComparedCell(
        models=models,
        value=value,
        segment=cell[0],
        segment_value=cell[1],
        sums=PairSums(of_users.n, greater, less, *[NOTHING] * 5),
        n_common=n_common,
        index=(0, pair, 0),
        of_users=of_users,
        n_users_differing=greater + less,
    )


def covariances(
    totals: InfluenceTotals, key: tuple[SegmentValue, int, str], n_users: int, has_labels: bool
) -> tuple[Fraction, Fraction, Fraction] | None:
    """Return the variances of both values and their covariance; None with too few users.

    Influences by label, of AUC, vary over the users with rows of that label; see ``predictions.tables``.
    """
    labels = (0, 1) if has_labels else (0,)
    counts = [totals.counts[*key, f"of_label_{label}"] if has_labels else n_users for label in labels]
    if min(counts) < 2 or n_users < 2:
        return None

    def covariance(one: str, other: str) -> Fraction:
        total = Fraction()
        for label, other_label in product(labels, repeat=2):
            names = sorted((f"{one}{label}", f"{other}{other_label}"))
            product_sum = totals.number(*key, "".join(names))
            n = counts[label] if label == other_label else n_users
            if not has_labels:
                product_sum -= totals.number(*key, names[0]) * totals.number(*key, names[1]) / n
            total += product_sum * n / (n - 1)
        return total

    return covariance("a", "a"), covariance("b", "b"), covariance("a", "b")
