"""Every metric under every convention that it declares, and how a test asks for its numbers."""

from collections.abc import Sequence
from functools import cache
from itertools import product
from typing import Final, NamedTuple

from spark_eval.conventions import CONVENTIONS, AverageVariant, Conventions, TieOrder
from spark_eval.conventions.presets import changed_choices
from spark_eval.kernels.lists import Lists
from spark_eval.kernels.registry import RANKING
from spark_eval.kernels.values import MetricValue
from spark_eval.statistics.exact import Floats
from users import User, batch, for_metric

# Metrics with a value per user, and those with values of a run.
OF_USERS: Final = [name for name, metric in RANKING.items() if metric.is_of_users]
OF_RUNS: Final = [name for name, metric in RANKING.items() if not metric.is_of_users]
# Metrics of which tied items can share their places.
SHARING: Final = ("dcg", "ndcg", "ap")
# Metrics of which a perfect list scores the upper bound.
PERFECT: Final = frozenset(
    {"precision", "recall_capped", "hit_rate", "ap", "rr", "rhr_norm", "r_precision", "ndcg", "auc", "fcp"}
)
# Metrics without a value for some users.
UNDEFINED: Final = ("auc", "fcp")
# Metrics that see more of lists than where the relevant items are; the last four see these, too.
OF_ITEMS: Final = (
    *(
        "user_coverage",
        "arp",
        "novelty",
        "outside_catalog",
        "violations",
        "long_tail",
        "ild",
        "unexpectedness",
        "pop_lift",
        "calibration_kl",
    ),
    *("snips_recall", "epc", "efd", "serendipity"),
)
OF_HITS: Final = [name for name in OF_USERS if name not in OF_ITEMS]
# Those of which nothing need be known of items.
ACCURACY: Final = [name for name in OF_HITS if not RANKING[name].knows_items]
# Those of OF_ITEMS that have a value for everybody.
DEFINED: Final = ("user_coverage", "epc", "efd")


class Case(NamedTuple):
    """A metric under these conventions."""

    name: str
    conventions: Conventions

    def __repr__(self) -> str:
        """The choices that differ from the default; all of them for all metrics are too long to print."""
        chosen = [
            f"{name}={choice}" for name, choice in changed_choices(self.conventions, Conventions()).items()
        ]
        return f"{self.name}({', '.join(chosen)})"


@cache
def every_convention(name: str) -> list[Conventions]:
    """All choices of the conventions that a metric declares."""
    conventions = RANKING[name].conventions
    choices = product(*(CONVENTIONS[convention] for convention in conventions))
    chosen = [Conventions().changed(dict(zip(conventions, choice, strict=True))) for choice in choices]
    return [conventions for conventions in chosen if is_defined(name, conventions)]


def is_defined(name: str, conventions: Conventions) -> bool:
    """Whether the metric has a meaning under these choices: few can share places."""
    if conventions.tie_order is not TieOrder.SHARED:
        return True
    is_window = name == "ap" and conventions.ap_variant is AverageVariant.WINDOW
    return name in SHARING and not is_window


def measured(name: str, users: Sequence[User] | Lists, k: int | None, conventions: Conventions) -> Floats:
    """The metric's column for these users."""
    value = MetricValue(RANKING[name], (), k)
    lists = users if isinstance(users, Lists) else batch(users)
    return value.measure(for_metric(lists, value.metric), conventions)[value.column]


def weighed(name: str, users: Sequence[User], k: int | None, conventions: Conventions) -> dict[str, Floats]:
    """What weighs in the metric's weighted means, by the name of the weight."""
    value = MetricValue(RANKING[name], (), k)
    columns = value.measure(for_metric(batch(users), value.metric), conventions)
    return {weight.name: columns[value.column_of(weight.name)] for weight in value.metric.weights.values()}


def one(name: str, user: User, k: int | None, conventions: Conventions | None = None) -> float:
    """The metric of one user."""
    return float(measured(name, [user], k, conventions or Conventions())[0])
