"""Registry of metrics; config checks, output columns, help and tests are derived from it."""

from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Final, TypeVar

from spark_eval.conventions import CONVENTIONS, Conventions
from spark_eval.conventions.choice import HISTORY
from spark_eval.metrics.beyond.catalog import ItemCounts
from spark_eval.metrics.beyond.group_weights import GroupWeights
from spark_eval.metrics.lists import Lists
from spark_eval.schema import Direction
from spark_eval.statistics.exact import Floats

Kernel = Callable[[Lists, int | None, Conventions], Floats]
# Returns one value of the run, NaN if undefined.
RunKernel = Callable[[ItemCounts, int | None, Conventions], float]
# Returns one value of the run per group of items; the last is for items without groups.
GroupKernel = Callable[[GroupWeights, int | None, Conventions], Floats]
AnyKernel = TypeVar("AnyKernel", Kernel, RunKernel, GroupKernel)


class Kind(StrEnum):
    """Input that a metric needs, which decides what is sent to executors.

    ``hits``: the ranks of the relevant items. ``pairs``: also the number of items up to each hit and each
    cutoff (``Lists.held``). ``items``: all items of the list (``ItemContext.listed``); ``profile``: also the
    user's training items (``ItemContext.profile``). ``catalog``: the number of lists with each item
    (``ItemCounts``) instead of lists; the metric has a value of the run, without an interval. ``groups``: the
    weights of item groups in the lists (``GroupWeights``); the metric has a value of the run for each group.
    """

    HITS = "hits"
    PAIRS = "pairs"
    ITEMS = "items"
    PROFILE = "profile"
    CATALOG = "catalog"
    GROUPS = "groups"


# Kinds that need all items of lists.
ALL_ITEMS: Final = frozenset({Kind.ITEMS, Kind.PROFILE, Kind.CATALOG, Kind.GROUPS})


class Fact(StrEnum):
    """Item attribute or item context that a metric needs (see ``metrics.beyond.catalog``)."""

    CATALOG = "catalog"  # Catalog.is_listed
    POPULARITY = "popularity"  # Catalog.n_takers, n_rows, n_users
    GROUPS = "groups"
    FEATURES = "features"
    VECTORS = "vectors"
    TAKERS = "takers"
    RELEVANT = "relevant"  # ItemContext.relevant
    BASE = "base"  # ItemContext.base, has_base
    TEXT_ORDER = "text_order"  # Catalog.text_order


@dataclass(frozen=True)
class RankingMetric:
    """A metric: its kernel and its properties.

    ``name`` is the per-user name (``ap``), ``run_name`` the name of its mean over users (``map``).
    ``formula`` is plain text. ``conventions`` are the conventions that can change its value. ``direction``
    is that of better values. ``lower`` and ``upper`` are the smallest and the largest possible value,
    None if unbounded under some choice. ``whole_list`` is True if the metric needs hits beyond k, ``ties`` if
    it needs equal scores; ``kind`` is its input. ``facts`` are the item attributes that it always needs;
    choices can need more (``MetricValue.facts``). ``weights`` define further, weighted means over users: run
    name -> weight. ``catalog_name`` is the name of the catalogue's share, reported with the value of each
    group.
    """

    name: str
    kernel: Callable[..., Any]
    formula: str
    run_name: str
    conventions: tuple[str, ...] = ()
    direction: Direction = Direction.HIGHER
    lower: float | None = 0.0
    upper: float | None = 1.0
    whole_list: bool = False
    kind: Kind = Kind.HITS
    ties: bool = False
    facts: Set[Fact] = frozenset()
    weights: Mapping[str, "Weight"] = field(default_factory=dict)
    catalog_name: str | None = None

    @property
    def is_of_users(self) -> bool:
        """True if it has a value per user; else it has one of the run, or one per group of items."""
        return self.kind not in (Kind.CATALOG, Kind.GROUPS)

    @property
    def moves_hits(self) -> bool:
        """True if its ties can be broken in the best and the worst order (``tie_order``)."""
        return self.kind is Kind.HITS and not self.ties and not self.facts

    @property
    def knows_items(self) -> bool:
        """True if it needs item attributes or item context, not only hits."""
        choices = (choice for name in self.conventions for choice in CONVENTIONS[name])
        of_choices = {*Fact, HISTORY}.intersection(seen for choice in choices for seen in choice.sees)
        return self.kind not in (Kind.HITS, Kind.PAIRS) or bool(self.facts or of_choices)

    @property
    def names(self) -> list[str]:
        """Names in the table ``metrics``: of the mean or the run, of weighted means, of the catalogue."""
        return [self.run_name, *self.weights, *([self.catalog_name] if self.catalog_name else [])]

    @property
    def extra_names(self) -> Set[str]:
        """Names of further means that are reported when the metric is requested by name."""
        asked = self.name if self.name in self.weights else self.run_name
        return {self.run_name, *self.weights} - {asked}

    @property
    def summary(self) -> str:
        """First line of the kernel's docstring."""
        return (self.kernel.__doc__ or "").strip().splitlines()[0]

    @property
    def notes(self) -> str:
        """Docstring of the kernel: meaning, undefined case, example, source."""
        return self.kernel.__doc__ or ""


@dataclass(frozen=True)
class Weight:
    """Weight of a user in a weighted mean; ``name`` is the name of its column in ``per_user``."""

    name: str
    kernel: Kernel


RANKING: Final[dict[str, RankingMetric]] = {}


def ranking_metric(name: str, **known: Any) -> Callable[[AnyKernel], AnyKernel]:
    """Register a kernel: (lists, k, conventions) -> one value per list, NaN where undefined.

    A kernel of the kind ``catalog`` takes ItemCounts and returns one value; of the kind ``groups`` it takes
    GroupWeights and returns one value per group. ``known`` are fields of RankingMetric; ``run_name`` defaults
    to the name. Metrics of hits get the convention ``tie_order``; others use lists as ranked.
    """

    def register(kernel: AnyKernel) -> AnyKernel:
        metric: RankingMetric = RankingMetric(name, kernel, **{"run_name": name, **known})
        if metric.moves_hits:
            metric = replace(metric, conventions=(*metric.conventions, "tie_order"))
        RANKING[name] = metric
        return kernel

    return register
