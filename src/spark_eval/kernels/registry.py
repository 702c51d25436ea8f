"""Registry of metrics; config checks, output columns, help and tests are derived from it."""

from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeVar

from spark_eval.conventions import CONVENTIONS, Conventions
from spark_eval.conventions.choice import Need
from spark_eval.kernels.beyond.catalog import GroupWeights, ItemCounts
from spark_eval.kernels.lists import Lists
from spark_eval.schema import Direction
from spark_eval.statistics.exact import Floats

Kernel = Callable[[Lists, int | None, Conventions], Floats]
# Returns one value of the run, NaN if undefined.
RunKernel = Callable[[ItemCounts, int | None, Conventions], float]
# Returns one value of the run per group of items; the last is for items without groups.
GroupKernel = Callable[[GroupWeights, int | None, Conventions], Floats]
# Returns one value per user (n,) from the values under each repeat (repeats, n); NaN stays NaN.
OverRepeats = Callable[[Floats], Floats]
AnyKernel = TypeVar("AnyKernel", Kernel, RunKernel, GroupKernel)

# Needs that lists and relevances alone can meet; for all others the engine looks up items.
OF_LISTS: Final = frozenset({Need.HITS, Need.WHOLE_LIST, Need.TIES, Need.LENGTHS, Need.LENGTHS_BY_RANK})
WHOLE_ITEMS: Final = frozenset({Need.ITEMS, Need.LENGTHS})
# Needs that others bring with them.
IMPLIED: Final[Mapping[Need, Set[Need]]] = {
    Need.LENGTHS_BY_RANK: {Need.LENGTHS},
    Need.ITEMS: WHOLE_ITEMS,
    Need.HISTORY: WHOLE_ITEMS,
    Need.BASE: WHOLE_ITEMS,
    Need.ITEM_COUNTS: WHOLE_ITEMS,
    Need.GROUP_WEIGHTS: WHOLE_ITEMS,
}


@dataclass(frozen=True)
class RankingMetric:
    """A metric: its kernel and its properties.

    ``name`` is the per-user name (``ap``), ``run_name`` the name of its mean over users (``map``).
    ``formula`` is plain text. ``conventions`` are the conventions that can change its value. ``direction``
    is that of better values. ``lower`` and ``upper`` are the smallest and the largest possible value,
    None if unbounded under some choice. ``needs`` are the inputs that it always needs; choices can add some
    (``MetricValue.needs``). ``weights`` define further, weighted means over users: run name -> weight.
    ``catalog_name`` is the name of the catalogue's share, reported with the value of each group.
    ``column_option`` is the field of the conventions with the column of items that it takes as an option.
    ``over_repeats`` are means of one value per user of all repeats of a model: name -> reduction of the
    values under each repeat, of shape (repeats, users).
    """

    name: str
    kernel: Callable[..., Any]
    formula: str
    run_name: str
    needs: frozenset[Need]
    conventions: tuple[str, ...] = ()
    direction: Direction = Direction.HIGHER
    lower: float | None = 0.0
    upper: float | None = 1.0
    weights: Mapping[str, "Weight"] = field(default_factory=dict)
    catalog_name: str | None = None
    column_option: str | None = None
    over_repeats: Mapping[str, "OverRepeats"] = field(default_factory=dict)

    @property
    def options(self) -> tuple[str, ...]:
        """The conventions that can be its options, and its column."""
        return (*self.conventions, *([self.column_option] if self.column_option else []))

    @property
    def is_of_users(self) -> bool:
        """True if it has a value per user; else it has one of the run, or one per group of items."""
        return self.needs.isdisjoint({Need.ITEM_COUNTS, Need.GROUP_WEIGHTS})

    @property
    def moves_hits(self) -> bool:
        """True if its ties can be broken in the best and the worst order (``tie_order``)."""
        return self.needs <= {Need.HITS, Need.WHOLE_LIST}

    @property
    def knows_items(self) -> bool:
        """True if it, or one of its choices, needs more of items than who finds them relevant."""
        choices = (choice for name in self.conventions for choice in CONVENTIONS[name])
        return not OF_LISTS.issuperset(self.needs.union(*(choice.needs for choice in choices)))

    @property
    def is_of_hits(self) -> bool:
        """True if the hits of a list decide its value, and misses do not."""
        return Need.LENGTHS_BY_RANK not in self.needs and not self.knows_items

    @property
    def names(self) -> list[str]:
        """Names in the table ``metrics`` for the mean or the run, further means, and the catalogue."""
        of_catalog = [self.catalog_name] if self.catalog_name else []
        return [self.run_name, *self.weights, *self.over_repeats, *of_catalog]

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


def ranking_metric(
    name: str, *, needs: Set[Need] = frozenset({Need.HITS}), **declared: Any
) -> Callable[[AnyKernel], AnyKernel]:
    """Register a kernel: (lists, k, conventions) -> one value per list, NaN where undefined.

    A kernel that needs ITEM_COUNTS takes ItemCounts and returns one value; one that needs GROUP_WEIGHTS takes
    GroupWeights and returns one value per group. ``declared`` are further fields of RankingMetric;
    ``run_name`` defaults to the name. Metrics of hits get the convention ``tie_order``; others use lists as
    ranked.
    """

    def register(kernel: AnyKernel) -> AnyKernel:
        fields: dict[str, Any] = {"run_name": name, "needs": frozenset(needs), **declared}
        metric: RankingMetric = RankingMetric(name, kernel, **fields)
        if metric.moves_hits:
            metric = replace(metric, conventions=(*metric.conventions, "tie_order"))
        RANKING[name] = metric
        return kernel

    return register
