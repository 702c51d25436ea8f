"""The one table of metrics. Config checks, output columns, help and tests follow from it."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from spark_eval.conventions import Conventions
from spark_eval.metrics.lists import Lists
from spark_eval.schema import Direction
from spark_eval.stats.exact import Floats

Kernel = Callable[[Lists, int | None, Conventions], Floats]


class Kind(StrEnum):
    """What a metric sees of a list, and so what must be carried to it.

    ``hits`` are where the relevant items are. ``pairs`` is, beside, how many items the list holds up to each
    hit and each cutoff (``Lists.held``). ``items`` are all items of the list (``About.listed``), ``profile``
    also those that the user had in training (``About.profile``). ``catalog`` sees no list, but how often each
    item was recommended by a model (``ItemCounts``): its values are those of a run, without an interval.
    """

    HITS = "hits"
    PAIRS = "pairs"
    ITEMS = "items"
    PROFILE = "profile"
    CATALOG = "catalog"


# Kinds for which all items of lists are carried.
ALL_ITEMS: Final = frozenset({Kind.ITEMS, Kind.PROFILE, Kind.CATALOG})


class Fact(StrEnum):
    """What a metric needs to know of items, and so what is read of them (``metrics.catalog``)."""

    CATALOG = "catalog"  # Catalog.is_listed
    POPULARITY = "popularity"  # Catalog.n_takers, n_rows, n_users
    GROUPS = "groups"
    FEATURES = "features"
    VECTORS = "vectors"
    TAKERS = "takers"
    RELEVANT = "relevant"  # About.relevant
    BASE = "base"  # About.base, has_base


@dataclass(frozen=True)
class RankingMetric:
    """What is known of a metric besides its numbers.

    ``name`` is the per-user name (``ap``), ``run_name`` that of its mean over users (``map``).
    ``formula`` is plain text. ``conventions`` are the conventions that can change its value.
    ``direction`` says which values are better. ``lower`` and ``upper`` are its smallest and its largest
    possible value, None if there is none under some choice. ``perfect`` says that a perfect list scores
    ``upper``. ``whole_list`` says that it sees hits beyond k, ``kind`` what else it sees of a list, ``ties``
    that it sees equal scores. ``facts`` are what it needs to know of items whatever the choices; these can
    need more (``MetricValue.facts``). ``weights`` give it further means over users, weighted ones: run name
    -> what weighs.
    """

    name: str
    run_name: str
    formula: str
    conventions: tuple[str, ...]
    direction: Direction
    lower: float | None
    upper: float | None
    perfect: bool
    whole_list: bool
    kind: Kind
    ties: bool
    kernel: Kernel
    facts: frozenset[Fact] = frozenset()
    weights: Mapping[str, "Weight"] = field(default_factory=dict)

    @property
    def is_per_user(self) -> bool:
        """Whether users have values of it: those of the kind ``catalog`` are values of a run."""
        return self.kind.value != "catalog"

    @property
    def summary(self) -> str:
        """First line of the kernel's docstring."""
        return (self.kernel.__doc__ or "").strip().splitlines()[0]

    @property
    def notes(self) -> str:
        """The kernel's docstring: meaning, undefined case, an example, the source."""
        return self.kernel.__doc__ or ""


@dataclass(frozen=True)
class Weight:
    """What a user weighs in a weighted mean; ``name`` is that of its column in ``per_user``."""

    name: str
    kernel: Kernel


RANKING: Final[dict[str, RankingMetric]] = {}


def ranking_metric(
    name: str,
    *,
    formula: str,
    run_name: str | None = None,
    conventions: tuple[str, ...] = (),
    direction: Direction = Direction.HIGHER,
    lower: float | None = 0.0,
    upper: float | None = 1.0,
    perfect: bool = True,
    whole_list: bool = False,
    kind: Kind = Kind.HITS,
    ties: bool = False,
    facts: Collection[Fact] = (),
    weights: Mapping[str, Weight] | None = None,
) -> Callable[[Kernel], Kernel]:
    """Register a kernel: (lists, k, conventions) -> one value per list, NaN where undefined.

    Metrics of where the hits are can be asked for with the best and the worst order of equal scores. Those
    that see ties themselves, or more than the hits, take lists as they are ranked.
    """
    moves_hits = kind is Kind.HITS and not ties and not facts

    def register(kernel: Kernel) -> Kernel:
        RANKING[name] = RankingMetric(
            name=name,
            run_name=run_name or name,
            formula=formula,
            conventions=(*conventions, "tie_order") if moves_hits else conventions,
            direction=direction,
            lower=lower,
            upper=upper,
            perfect=perfect,
            whole_list=whole_list,
            kind=kind,
            ties=ties,
            kernel=kernel,
            facts=frozenset(facts),
            weights=weights or {},
        )
        return kernel

    return register
