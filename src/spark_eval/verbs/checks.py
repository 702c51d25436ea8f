"""What the counts of the inputs must show before any number is given out: zeros would be silently wrong."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from spark_eval.conventions import Gain, RecommendationDuplicates
from spark_eval.errors import DataError
from spark_eval.names import check_models
from spark_eval.plan import Plan
from spark_eval.schema import Outcome, Reason

# 2^512 squared still is a double.
MAX_EXP2_RELEVANCE: Final = 511
# Of one segment: more are ids or measurements, and would be as many rows of every metric.
MAX_SEGMENT_VALUES: Final = 1_000


def check_truth(counts: Sequence[Mapping[str, Any]], plan: Plan) -> Mapping[str, Any]:
    """The counts of the relevant rows; DataError where there are none, or their gains outgrow a double."""
    used = [count for count in counts if count["fault"] is None and not count["everything"]]
    if not used:
        raise empty_truth()
    grows = any(value.conventions(plan.conventions).gain is Gain.EXP2 for value in plan.metrics)
    if grows and used[0]["max_relevance"] > MAX_EXP2_RELEVANCE:
        largest = used[0]["max_relevance"]
        message = f"truth: relevance {largest} is too large for gain=exp2; at most {MAX_EXP2_RELEVANCE}"
        raise DataError("RELEVANCE_TOO_LARGE", message)
    return used[0]


def empty_truth() -> DataError:
    """Nothing is relevant to anybody."""
    return DataError("EMPTY_TRUTH", "truth: no relevant row is left; see relevance.threshold and subset")


def check_lists(counts: Sequence[Mapping[str, Any]], duplicates: RecommendationDuplicates) -> None:
    """Raise DataError for a model without a proper name, for nothing to compare, for refused repeats."""
    check_models([count["model"] for count in counts])
    if not counts:
        raise DataError("EMPTY_RECOMMENDATIONS", "recommendations: not a single row")
    for count in counts:
        if not count["with_truth"]:
            message = (
                f"no user of model {count['model']!r} is among the users of the truth; are the ids the same?"
            )
            raise DataError("NO_ID_OVERLAP", message)
        repeats = count[f"{Outcome.DEDUPLICATED}.{Reason.REPEATED_ITEM}.rows"]
        if repeats and duplicates is RecommendationDuplicates.REFUSE:
            message = (
                f"recommendations of model {count['model']!r}: {repeats} rows repeat an item of their list"
            )
            raise DataError(
                "REPEATED_ITEM", f"{message}; remove them, or use recommendation_duplicates=best_rank"
            )


def check_train(counts: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """The counts of the sound rows; DataError where there are none, and every user and item were new."""
    for count in counts:
        if count["fault"] is None and not count["everything"]:
            return count
    raise DataError("EMPTY_TRAIN", "train: not a single sound row; see its path, where and subset")


def check_users(count: Mapping[str, Any], segments: Sequence[str]) -> None:
    """Raise DataError for users without an id or with several rows, and for segments of too many values.

    Rows of one user would stand for several users; values without number are no groups to compare.
    """
    faults = []
    repeats, without = count["with_id"] - count["users"], count["rows"] - count["with_id"]
    if repeats:
        message = f"users: {repeats} rows are not the first of their user; keep one row per user"
        faults.append(DataError("DUPLICATE_USER", message))
    if without:
        faults.append(DataError("NULL_USER", f"users: {without} rows without a user; remove them"))
    for place, name in enumerate(segments):
        values = count[f"values_{place}"]
        if values > MAX_SEGMENT_VALUES:
            message = f"users: segment {name!r} has {values} values, at most {MAX_SEGMENT_VALUES}; group them"
            faults.append(DataError("TOO_MANY_SEGMENTS", message))
    if faults:
        raise DataError.of_faults(faults)
