"""Options of linkage and of review samples, validated as plans."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated, Any, Final, TypedDict, Unpack

from spark_eval.errors import ConfigError
from spark_eval.metrics.aliases import as_list
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
    """Return score edges in ascending order; raise ConfigError OUT_OF_RANGE for others."""
    edges = tuple(float(edge) for edge in as_list(given))
    if any(not low < high for low, high in pairwise(edges)):
        raise ConfigError("OUT_OF_RANGE", f"{where} is {given!r}; give scores in ascending order: [0.5, 0.9]")
    return edges


class LinkageOptions(TypedDict, total=False):
    """Options of ``linkage``; also keys of the config's section ``linkage``."""

    n_records: Annotated[
        Sequence[int] | None,
        "number of records, for blocking; two numbers if pairs link two sources; None: those in the tables.",
        None,
        parse_sizes,
    ]


@dataclass(frozen=True)
class LinkagePlan:
    """Validated options of linkage; see LinkageOptions."""

    n_records: tuple[int, ...] | None = None


def make_linkage_plan(**options: Unpack[LinkageOptions]) -> LinkagePlan:
    """Return the validated options; raise ConfigError for an invalid one."""
    return LinkagePlan(**checked(LinkageOptions, options, LINKAGE))


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


@dataclass(frozen=True)
class SamplePlan:
    """Validated options of a sample; see SampleOptions."""

    strata: tuple[float, ...]
    per_stratum: int
    seed: int

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
