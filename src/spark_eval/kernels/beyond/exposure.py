"""Exposure of item groups: their share of the recommended ranks, for the whole run."""

import math

import numpy as np

from spark_eval.conventions import Conventions
from spark_eval.conventions.choice import Need
from spark_eval.kernels.beyond.catalog import GroupWeights
from spark_eval.kernels.registry import ranking_metric
from spark_eval.schema import Direction
from spark_eval.statistics.exact import Floats, integers_of_sums


@ranking_metric(
    "exposure",
    formula="share of the ranks with items of the group; an item of s groups gives 1/s to each",
    conventions=("exposure_weights",),
    direction=Direction.NONE,
    needs={Need.GROUP_WEIGHTS, Need.CATALOG, Need.GROUPS},
    catalog_name="exposure_catalog",
)
def exposure(weights: GroupWeights, k: int | None, conventions: Conventions) -> Floats:
    """Share of the recommended ranks that each group of items gets, reported with its share of the catalogue.

    A value of the run for each group; items without a group form the group ``(missing)``. Item 2 is in a and
    b, so each gets one half. With ``weights=disc`` ranks are weighted by 1 / log2(rank + 1).

    >>> from spark_eval.kernels import ExposureWeights, example_context
    >>> context = example_context([[1, 2], [2]], [[], []], groups=["", "a", "ab", "b"], listed=[1, 2, 3])
    >>> for choice in ExposureWeights:
    ...     run = Conventions(exposure_weights=choice)
    ...     [weights] = GroupWeights.of_lists(context, 2, run, context.fold, 1)
    ...     print(weights.names, exposure(weights, 2, run).round(6))
    ('a', 'b', '(missing)') [0.666667 0.333333 0.      ]
    ('a', 'b', '(missing)') [0.690047 0.309953 0.      ]
    >>> exposure(GroupWeights.of_catalog(context.catalog), 2, Conventions())
    array([0.5, 0.5, 0. ])

    Undefined if nothing is recommended. A group above its share of the catalogue is not necessarily
    favoured: users may like it.

    Source: Singh, Joachims, Fairness of exposure in rankings, 2018; Steck, Calibrated recommendations, 2018
    (how items of several groups count).
    """
    shares = integers_of_sums(weights.sums)
    total = sum(shares)
    return np.array([float(share / total) if total else math.nan for share in shares])
