"""Compare models of predictions: the covariance of their values, from users' influences on both."""

from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import reduce
from itertools import product
from operator import iadd
from typing import Final

from spark_eval.comparison.decisions import ModelPair, PairCell
from spark_eval.comparison.matching import Requested, check_counts, check_known, check_rows
from spark_eval.comparison.plan import COMPARE
from spark_eval.comparison.results import ComparedCell, ComparedCells, cells_of_rows
from spark_eval.comparison.sides import Side, user_tables
from spark_eval.comparison.values import ComparedValue
from spark_eval.comparison.worker.influences import InfluenceAdder, InfluenceTotals
from spark_eval.errors import ConfigError, DataError
from spark_eval.per_user.population import BASELINE, CANDIDATE, ComparisonTask
from spark_eval.predictions.values import ModelValues, SlopedValue
from spark_eval.predictions.worker.clusters import column_of
from spark_eval.runners.spread import collect_or_raise
from spark_eval.runners.user_buckets import buckets_of_users
from spark_eval.schema import ALL
from spark_eval.statistics.differences import PairEstimate, PairSums
from spark_eval.tables.conformed import check_id_types, has_text_ids

NOTHING: Final = Fraction()


def compare_predictions(
    baseline: Side, candidate: Side, shown: Requested, requested: Requested
) -> ComparedCells:
    """Return the cells of predictions, from one pass over the sums of users of both models.

    Raises:
        ConfigError: UNKNOWN_SEGMENT: sums of users are of all their rows; NOT_OF_PREDICTIONS for a side that
            is of lists.
        DataError: ROWS_DIFFER if models scored other rows.
    """
    of_baseline, of_candidate = values_of_models(baseline), values_of_models(candidate)
    pairs = requested.pairs
    for name in requested.segments:
        check_known("segment", name, [ALL], f"{COMPARE}.segments")
    check_rows(pairs, of_baseline, of_candidate)
    tables = user_tables(baseline, candidate)
    check_id_types({f"per_user of the {role}": users.frame for role, users in tables.items()})
    by_role = {BASELINE: of_baseline, CANDIDATE: of_candidate}
    names = list(map(str, requested.metrics))
    models = [[by_role[role][model].values[name] for name in names] for role, model in requested.models]
    keys = {key for values in models for value in values for part in value.slopes for key in part}
    task = ComparisonTask(
        models=requested.models,
        matches=requested.matches,
        columns=[*map(column_of, sorted(keys))],
        has_text_ids=has_text_ids(candidate.users.frame),
    )
    parts = collect_or_raise(buckets_of_users(tables, task).added(InfluenceAdder(models).sums))
    if not parts:
        raise DataError("NO_COMMON_USERS", "no side has any user")
    totals: InfluenceTotals = reduce(iadd, parts)
    check_counts(pairs, totals.users)
    cells: dict[PairCell, ComparedCell] = {}
    for (pair, of_pair), (index, value) in product(enumerate(pairs), enumerate(requested.metrics)):
        both = [models[model][index] for model in task.pairs[pair]]
        cells[of_pair, str(value), ALL, ALL] = cell_of(totals, (pair, index), of_pair, value, both)
    return ComparedCells(cells, cells_of_rows(cells, shown), totals.users)


def values_of_models(side: Side) -> Mapping[str, ModelValues]:
    """Return the models of predictions of a side; raise ConfigError NOT_OF_PREDICTIONS for lists."""
    if side.values_by_model is None:
        raise ConfigError("NOT_OF_PREDICTIONS", "one side has predictions, the other lists")
    return side.values_by_model


def cell_of(
    totals: InfluenceTotals,
    index: tuple[int, int],
    models: ModelPair,
    value: ComparedValue,
    both: Sequence[SlopedValue],
) -> ComparedCell:
    """Return the cell of a (pair, value): values, covariance, and users with a better contribution."""
    n_users = int(totals.users.rows[index[0], 2])
    greater, less = (totals.counts[*index, name] for name in ("greater", "less"))
    values = (Fraction(both[0].value), Fraction(both[1].value))
    has_labels = len(both[0].slopes) > 1
    return ComparedCell(
        models=models,
        value=value,
        segment=ALL,
        segment_value=ALL,
        sums=PairSums(n_users, greater, less, *[NOTHING] * 5),
        n_common=n_users,
        index=(0, *index),
        of_users=PairEstimate(
            n_users, values, covariances(totals, index, n_users, has_labels), is_normal=has_labels
        ),
    )


def covariances(
    totals: InfluenceTotals, index: tuple[int, int], n_users: int, has_labels: bool
) -> tuple[Fraction, Fraction, Fraction] | None:
    """Return the variances of both values and their covariance; None with too few users.

    Influences by label, of AUC, vary over the users with rows of that label; see ``predictions.tables``.
    """
    labels = (0, 1) if has_labels else (0,)
    counts = [totals.counts[*index, f"of_label_{label}"] if has_labels else n_users for label in labels]
    if min(counts) < 2 or n_users < 2:
        return None

    def covariance(one: str, other: str) -> Fraction:
        total = Fraction()
        for label, other_label in product(labels, repeat=2):
            names = sorted((f"{one}{label}", f"{other}{other_label}"))
            product_sum = totals.number(*index, "".join(names))
            n = counts[label] if label == other_label else n_users
            if not has_labels:
                product_sum -= totals.number(*index, names[0]) * totals.number(*index, names[1]) / n
            total += product_sum * n / (n - 1)
        return total

    return covariance("a", "a"), covariance("b", "b"), covariance("a", "b")
