"""What the counts of the inputs must show before any number is given out: zeros would be silently wrong."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from spark_eval.conventions import Gain
from spark_eval.errors import DataError
from spark_eval.names import check_models

# 2^512 squared still is a double.
MAX_EXP2_RELEVANCE: Final = 511


def check_truth(counts: Sequence[Mapping[str, Any]], gain: Gain) -> Mapping[str, Any]:
    """The counts of the relevant rows; DataError where there are none, or their gains outgrow a double."""
    used = [count for count in counts if count["fault"] is None and not count["everything"]]
    if not used:
        raise DataError("EMPTY_TRUTH", "truth: no relevant row is left; see relevance.threshold and subset")
    if gain is Gain.EXP2 and used[0]["max_relevance"] > MAX_EXP2_RELEVANCE:
        largest = used[0]["max_relevance"]
        message = f"truth: relevance {largest} is too large for gain=exp2; at most {MAX_EXP2_RELEVANCE}"
        raise DataError("RELEVANCE_TOO_LARGE", message)
    return used[0]


def check_lists(counts: Sequence[Mapping[str, Any]]) -> None:
    """Raise DataError for a model without a proper name, and where there is nothing to compare."""
    check_models([count["model"] for count in counts])
    if not counts:
        raise DataError("EMPTY_RECOMMENDATIONS", "recommendations: not a single row")
    for count in counts:
        if not count["with_truth"]:
            message = (
                f"no user of model {count['model']!r} is among the users of the truth; are the ids the same?"
            )
            raise DataError("NO_ID_OVERLAP", message)
