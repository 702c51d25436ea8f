"""The one table of metrics. Config checks, output columns, help and tests follow from it."""

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
from spark_eval.stats.exact import Floats

Kernel = Callable[[Lists, int | None, Conventions], Floats]
# One value of a run, NaN where undefined.
RunKernel = Callable[[ItemCounts, int | None, Conventions], float]
# One value of a run for each group of items, the last for items without groups.
GroupKernel = Callable[[GroupWeights, int | None, Conventions], Floats]
AnyKernel = TypeVar("AnyKernel", Kernel, RunKernel, GroupKernel)


class Kind(StrEnum):
    """What a metric sees of a list, and so what must be carried to it.

    ``hits`` are where the relevant items are. ``pairs`` is, beside, how many items the list holds up to each
    hit and each cutoff (``Lists.held``). ``items`` are all items of the list (``About.listed``), ``profile``
    also those that the user had in training (``About.profile``). ``catalog`` sees no list, but how often each
    item was recommended by a model (``ItemCounts``): its values are those of a run, without an interval.
    ``groups`` sees what recommended places of each group of items weigh (``GroupWeights``): it has a value of
    the run for each group.
    """

    HITS = "hits"
    PAIRS = "pairs"
    ITEMS = "items"
    PROFILE = "profile"
    CATALOG = "catalog"
    GROUPS = "groups"


# Kinds for which all items of lists are carried.
ALL_ITEMS: Final = frozenset({Kind.ITEMS, Kind.PROFILE, Kind.CATALOG, Kind.GROUPS})


class Fact(StrEnum):
    """What a metric needs to know of items, and so what is read of them (``metrics.beyond.catalog``)."""

    CATALOG = "catalog"  # Catalog.is_listed
    POPULARITY = "popularity"  # Catalog.n_takers, n_rows, n_users
    GROUPS = "groups"
    FEATURES = "features"
    VECTORS = "vectors"
    TAKERS = "takers"
    RELEVANT = "relevant"  # About.relevant
    BASE = "base"  # About.base, has_base
    TEXT_ORDER = "text_order"  # Catalog.text_order


@dataclass(frozen=True)
class RankingMetric:
    """What is known of a metric besides its numbers.

    ``name`` is the per-user name (``ap``), ``run_name`` that of its mean over users (``map``).
    ``formula`` is plain text. ``conventions`` are the conventions that can change its value.
    ``direction`` says which values are better. ``lower`` and ``upper`` are its smallest and its largest
    possible value, None if there is none under some choice. ``whole_list`` says that it sees hits beyond k,
    ``kind`` what else it sees of a list, ``ties`` that it sees equal scores. ``facts`` are what it needs to
    know of items whatever the choices; these can need more (``MetricValue.facts``). ``weights`` give it
    further means over users, weighted ones: run name -> what weighs. ``catalog_name`` names the same share of
    the catalogue, which stands beside a value for each group.
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
        """Whether it has a value per user; else it has one of the run, or one of the run per group."""
        return self.kind not in (Kind.CATALOG, Kind.GROUPS)

    @property
    def moves_hits(self) -> bool:
        """Whether it can be asked for with the best and the worst order of equal scores."""
        return self.kind is Kind.HITS and not self.ties and not self.facts

    @property
    def knows_items(self) -> bool:
        """Whether it sees more of items than whether they are relevant, and where."""
        choices = (choice for name in self.conventions for choice in CONVENTIONS[name])
        of_choices = {*Fact, HISTORY}.intersection(seen for choice in choices for seen in choice.sees)
        return self.kind not in (Kind.HITS, Kind.PAIRS) or bool(self.facts or of_choices)

    @property
    def names(self) -> list[str]:
        """Its names in the table ``metrics``: of the mean or the run, of weighted means, of the catalogue."""
        return [self.run_name, *self.weights, *([self.catalog_name] if self.catalog_name else [])]

    @property
    def extra_names(self) -> Set[str]:
        """Names of means that come beside the one that is asked for by its name."""
        asked = self.name if self.name in self.weights else self.run_name
        return {self.run_name, *self.weights} - {asked}

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


def ranking_metric(name: str, **known: Any) -> Callable[[AnyKernel], AnyKernel]:
    """Register a kernel: (lists, k, conventions) -> one value per list, NaN where undefined.

    Of the kind ``catalog`` it takes ItemCounts and returns one value, of the kind ``groups`` it takes
    GroupWeights and returns one value per group. ``known`` are fields of RankingMetric; ``run_name`` is the
    name, unless given. Metrics of where the hits are have the convention ``tie_order``; others take lists as
    they are ranked.
    """

    def register(kernel: AnyKernel) -> AnyKernel:
        metric: RankingMetric = RankingMetric(name, kernel, **{"run_name": name, **known})
        if metric.moves_hits:
            metric = replace(metric, conventions=(*metric.conventions, "tie_order"))
        RANKING[name] = metric
        return kernel

    return register
