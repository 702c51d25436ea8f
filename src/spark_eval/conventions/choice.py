"""Base class of conventions: an enumeration of choices, with the meaning and the needs of each."""

from enum import Enum, StrEnum, auto
from typing import Self


class Need(Enum):
    """Input of a metric: the one vocabulary of metrics, their choices, plans and the engine.

    A metric declares its needs, and its choices may add some. Those of a plan are all of its metrics', and
    executors get these alone.
    """

    HITS = auto()  # ranks of the relevant items up to k: Lists.hits
    WHOLE_LIST = auto()  # hits beyond k
    TIES = auto()  # items with equal scores
    LENGTHS = auto()  # the number of items in a list; repeated items are then searched among all items
    LENGTHS_BY_RANK = auto()  # the number of items up to each hit and each cutoff: Lists.filled_ranks
    ITEMS = auto()  # all items of a list: ItemContext.listed
    HISTORY = auto()  # the user's training items: ItemContext.profile
    RELEVANT = auto()  # the items of the truth: ItemContext.relevant
    BASE = auto()  # the baseline model's lists: ItemContext.base, has_base
    CATALOG = auto()  # Catalog.is_listed
    POPULARITY = auto()  # Catalog.n_takers, n_rows, n_users
    TAKERS = auto()  # the training users of each item: Catalog.takers
    GROUPS = auto()  # Catalog.groups
    FEATURES = auto()  # Catalog.features
    VECTORS = auto()  # Catalog.vectors
    PROPENSITIES = auto()  # Catalog.propensities
    FLAGS = auto()  # Catalog.flags
    TEXT_ORDER = auto()  # Catalog.text_order
    ITEM_COUNTS = auto()  # the number of lists with each item, ItemCounts, instead of lists
    SLOTS = auto()  # for each item, the sum of 1 / length over the lists with it: ItemCounts.slots
    GROUP_WEIGHTS = auto()  # the weight of each item group in all lists, GroupWeights, instead of lists


class ColumnName(str):
    """Name of a column of ``items``, given to one metric as an option."""

    __slots__ = ()


class Choice(StrEnum):
    """A choice of a convention; ``spark-eval metrics`` prints its ``meaning``."""

    meaning: str
    needs: frozenset[Need]

    def __new__(cls, value: str, meaning: str, *needs: Need) -> Self:
        """Create the member, a string with its meaning."""
        member = str.__new__(cls, value)
        member._value_ = value
        member.meaning = meaning
        member.needs = frozenset(needs)
        return member
