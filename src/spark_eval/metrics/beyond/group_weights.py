"""Weights of item groups in the recommended ranks, as exact sums that do not depend on order."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from spark_eval.conventions import Conventions, Discount, ExposureWeights
from spark_eval.metrics.beyond.catalog import Catalog, ItemContext, Sets, require_fact
from spark_eval.metrics.discounts import discounts
from spark_eval.schema import MISSING
from spark_eval.statistics.exact import ByPlace, Floats, Ints, add, exact_sums


@dataclass(frozen=True)
class GroupWeights:
    """Weights of item groups in the recommended ranks, as exact sums that do not depend on order.

    An item of s groups gives 1/s of its weight to each. ``names`` are the n groups, including MISSING for
    items without a group; ``sums`` are arrays (n,) by digit (``statistics.exact``).
    """

    names: Sequence[str]
    sums: ByPlace

    def __add__(self, other: "GroupWeights") -> "GroupWeights":
        """Add weights of the same groups."""
        sums = dict(self.sums)
        for place, amounts in other.sums.items():
            add(sums, place, amounts)
        return GroupWeights(self.names, sums)

    @classmethod
    def of_lists(
        cls, about: ItemContext, k: int | None, conventions: Conventions, part: Ints, n_parts: int
    ) -> list["GroupWeights"]:
        """Weigh ``about.listed`` up to rank k for each part, such as a model; ``part`` (n,) is by list.

        Parts without lists also get weights.
        """
        listed, groups = require_fact(about.listed), require_fact(about.catalog.groups)
        top = listed.top(k)
        is_equal = conventions.exposure_weights is ExposureWeights.EQUAL
        weights = np.ones(len(listed.rank)) if is_equal else discounts(listed.rank, Discount.LOG2)
        return cls.of_items(groups, listed.place[top], weights[top], part[listed.row[top]], n_parts)

    @classmethod
    def of_catalog(cls, catalog: Catalog) -> "GroupWeights":
        """Weight every item of the catalogue equally, over all folds together."""
        _, items = np.nonzero(require_fact(catalog.is_listed))
        [weights] = cls.of_items(
            require_fact(catalog.groups), items, np.ones(len(items)), np.zeros_like(items), 1
        )
        return weights

    @classmethod
    def of_items(
        cls, groups: Sets, places: Ints, weights: Floats, part: Ints, n_parts: int
    ) -> list["GroupWeights"]:
        """Divide the weights of items among their groups; arrays of shape (entries,)."""
        names = (*groups.names, *({MISSING} - set(groups.names)))
        sizes = groups.sizes[places]
        which, of_item = groups.places_of_members(places)
        group = groups.members[of_item]
        which = np.concatenate([which, np.flatnonzero(sizes == 0)])
        missing = np.full(len(which) - len(group), names.index(MISSING))
        cells = part[which] * len(names) + np.concatenate([group, missing])
        values = weights[which] / np.maximum(sizes, 1)[which]
        sums = exact_sums(values, cells, n_parts * len(names))
        return [
            cls(names, {place: amounts.reshape(n_parts, -1)[number] for place, amounts in sums.items()})
            for number in range(n_parts)
        ]
