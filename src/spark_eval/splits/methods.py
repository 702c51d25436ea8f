"""The methods of a split by name."""

from collections.abc import Mapping
from typing import Final

from spark_eval.errors import ConfigError, nearest
from spark_eval.splits.fold_rule import FoldRule
from spark_eval.splits.folds import Holdout, KFold, StratifiedKFold
from spark_eval.splits.leave_out import LastFraction, LeaveOneOut, LeavePOut
from spark_eval.splits.options import from_options
from spark_eval.splits.rules import GlobalLocalRanker
from spark_eval.splits.windows import Expanding, Rolling

GLOBAL_LOCAL_RANKER: Final = "global_local_ranker"
METHODS: Final[Mapping[str, type[FoldRule]]] = {
    GLOBAL_LOCAL_RANKER: GlobalLocalRanker,
    "holdout": Holdout,
    "k_fold": KFold,
    "stratified_k_fold": StratifiedKFold,
    "leave_p_out": LeavePOut,
    "leave_one_out": LeaveOneOut,
    "last_fraction": LastFraction,
    "rolling": Rolling,
    "expanding": Expanding,
}


def known_method(method: str) -> str:
    """Return the name of a method, or raise ValueError with the nearest one."""
    if method not in METHODS:
        raise ValueError(f"unknown method {method!r}; {nearest(method, METHODS)}")
    return method


def rule_of(method: str, options: Mapping[str, object]) -> FoldRule:
    """Return the rule of a method with these options.

    Raises ConfigError UNKNOWN_CONFIG_KEY, INVALID_CUT, INVALID_SPLIT or INVALID_TIMEZONE.
    """
    if method not in METHODS:
        raise ConfigError.unknown("INVALID_SPLIT", "method", method, METHODS, "split")
    return from_options(METHODS[method], options)
