"""Ranking metrics as numpy functions of a few lists in memory, to check a number by hand.

``Lists`` are lists with their hits, ``ItemCounts`` the items that all lists of a run recommend, and
``Conventions`` the choices; ``parse_metric`` reads ``ndcg@10``. Every kernel has its name, and so has every
choice; docs/conventions.md has an example of each. No Spark here.

Examples:
    Hits at ranks 1 and 3 of one list:

    >>> from spark_eval.kernels import Conventions, Lists, precision
    >>> precision(Lists.of([[1, 0, 1]]), 3, Conventions()).round(3)
    array([0.667])
"""

from typing import Any, Final

from spark_eval.conventions import CONVENTIONS, Conventions
from spark_eval.conventions.presets import conventions_of
from spark_eval.kernels import binary, graded, pairwise
from spark_eval.kernels.beyond import (
    counts,
    discovery,
    diversity,
    exposure,
    history,
    intents,
    popularity,
    propensity,
)
from spark_eval.kernels.beyond.catalog import GroupWeights, ItemCounts
from spark_eval.kernels.beyond.examples import example_context
from spark_eval.kernels.lists import Lists
from spark_eval.kernels.registry import RANKING
from spark_eval.kernels.values import parse_metric

# Modules whose metrics are in the registry once they are imported.
MODULES: Final = (
    *(binary, graded, pairwise),
    *(counts, discovery, diversity, exposure, history, intents, popularity, propensity),
)
del exposure  # a kernel has the name of this module
OFFERED: Final[dict[str, Any]] = {
    **{metric.kernel.__name__: metric.kernel for metric in RANKING.values()},
    **{choice.__name__: choice for choice in CONVENTIONS.values()},
}

__all__ = [
    "Conventions",
    "GroupWeights",
    "ItemCounts",
    "Lists",
    "conventions_of",
    "example_context",
    "parse_metric",
    *sorted(OFFERED),
]


def __getattr__(name: str) -> Any:
    if name in OFFERED:
        return OFFERED[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
