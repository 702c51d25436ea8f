"""Options of linkage and of review samples, validated as plans."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from typing import Annotated, Any, Final, TypedDict, Unpack

from spark_eval.errors import ConfigError
from spark_eval.kernels.aliases import as_list
from spark_eval.options import AT_LEAST_1, SEED, checked

LINKAGE: Final = "linkage"
SAMPLE: Final = "sample"
# Pairs are counted in 64 bits.
MOST_PAIRS: Final = 2**63


def parse_sizes(given: Any, where: str) -> tuple[int, ...]:
    """Return one or two numbers of records; raise ConfigError OUT_OF_RANGE for others."""
    sizes = tuple(as_list(given))
    if not 1 <= len(sizes) <= 2 or not all(type(size) is int and size >= 1 for size in sizes):
        raise ConfigError("OUT_OF_RANGE", f"{where} is {given!r}; give the number of records, or two of them")
    if math.prod(sizes if len(sizes) == 2 else (sizes[0], sizes[0] - 1)) >= MOST_PAIRS:
        raise ConfigError("OUT_OF_RANGE", f"{where} is {given!r}; their pairs do not fit 64 bits")
    return sizes


def parse_edges(given: Any, where: str) -> tuple[float, ...]:
    """Return finite score edges in ascending order; raise ConfigError OUT_OF_RANGE for others."""
    edges = tuple(float(edge) for edge in as_list(given))
    if not all(map(math.isfinite, edges)) or any(not low < high for low, high in pairwise(edges)):
        raise ConfigError("OUT_OF_RANGE", f"{where} is {given!r}; give scores in ascending order: [0.5, 0.9]")
    return edges


class Missing(StrEnum):
    """Treatment of a record that has a cluster in one table and none in the other."""

    SINGLETON = "singleton"
    LEAVE_OUT = "leave_out"


class Preset(StrEnum):
    """Conventions: ours, or those of a library.

    ``er_evaluation`` leaves out records that one table lacks, and says 1 for pairwise metrics without a pair.
    """

    DEFAULT = "default"
    ER_EVALUATION = "er_evaluation"

    @property
    def missing(self) -> Missing:
        """Treatment of records that one table lacks."""
        return Missing.LEAVE_OUT if self is Preset.ER_EVALUATION else Missing.SINGLETON

    @property
    def of_no_pair(self) -> float | None:
        """Precision and recall without any pair."""
        return 1.0 if self is Preset.ER_EVALUATION else None


class Sources(StrEnum):
    """Sources of the records of a pair: one for both, or one for each side."""

    ONE = "one"
    BIPARTITE = "bipartite"


OF_SOURCES: Final = "one: a pair is the same in either order; bipartite: a and b are of two sources."


class LinkageOptions(TypedDict, total=False):
    """Options of ``linkage``; also keys of the config's section ``linkage``."""

    missing: Annotated[
        str | None,
        "a record with a cluster in one table alone is a singleton in the other, or leave_out; None: that of "
        "conventions.",
        None,
        Missing,
    ]
    conventions: Annotated[
        str, "default (missing: singleton), or as in er_evaluation (missing: leave_out).", "default", Preset
    ]
    sources: Annotated[str, OF_SOURCES, "one", Sources]
    n_records: Annotated[
        Sequence[int] | None,
        "number of records, for blocking; two numbers if pairs link two sources; None: those in the tables.",
        None,
        parse_sizes,
    ]


@dataclass(frozen=True)
class LinkagePlan:
    """Validated options of linkage; see LinkageOptions."""

    conventions: Preset
    missing: Missing
    sources: Sources
    n_records: tuple[int, ...] | None


def make_linkage_plan(**options: Unpack[LinkageOptions]) -> LinkagePlan:
    """Return the validated options; raise ConfigError for an invalid one.

    >>> make_linkage_plan(conventions="er_evaluation").missing
    <Missing.LEAVE_OUT: 'leave_out'>
    """
    given = checked(LinkageOptions, options, LINKAGE)
    return LinkagePlan(**given | {"missing": given["missing"] or given["conventions"].missing})


class SampleOptions(TypedDict, total=False):
    """Options of ``sample``; also keys of the config's section ``sample``."""

    strata: Annotated[
        Sequence[float],
        "score edges: the bands between them are strata, as are predicted pairs.",
        (),
        parse_edges,
    ]
    per_stratum: Annotated[int, "number of pairs to review of each stratum.", 100, AT_LEAST_1]
    seed: Annotated[int, "random seed; the draw of a pair depends on it and the pair only.", 0, SEED]
    sources: Annotated[str, OF_SOURCES, "one", Sources]


@dataclass(frozen=True)
class SamplePlan:
    """Validated options of a sample; see SampleOptions."""

    strata: tuple[float, ...]
    per_stratum: int
    seed: int
    sources: Sources

    @property
    def n_strata(self) -> int:
        """Number of strata: each band of predicted and of other pairs."""
        return 2 * (len(self.strata) + 1)


def make_sample_plan(**options: Unpack[SampleOptions]) -> SamplePlan:
    """Return the validated options; raise ConfigError for an invalid one.

    >>> make_sample_plan(strata=[0.5, 0.9]).per_stratum
    100
    """
    return SamplePlan(**checked(SampleOptions, options, SAMPLE))
