"""The one table of metrics. Config checks, output columns, help and tests follow from it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from spark_eval.conventions import Conventions
from spark_eval.errors import ConfigError
from spark_eval.metrics.lists import Floats, Lists

Kernel = Callable[[Lists, int, Conventions], Floats]


@dataclass(frozen=True)
class RankingMetric:
    """What is known of a metric besides its numbers.

    ``name`` is the per-user name (``ap``), ``run_name`` that of its mean over users (``map``).
    ``upper`` is its largest possible value, None if there is none. ``formula`` is plain text.
    ``perfect`` says that a perfect list scores ``upper``.
    """

    name: str
    run_name: str
    formula: str
    upper: float | None
    perfect: bool
    kernel: Kernel

    @property
    def summary(self) -> str:
        """First line of the kernel's docstring."""
        return (self.kernel.__doc__ or "").strip().splitlines()[0]


RANKING: Final[dict[str, RankingMetric]] = {}


def ranking_metric(
    name: str, *, formula: str, run_name: str | None = None, upper: float | None = 1.0, perfect: bool = True
) -> Callable[[Kernel], Kernel]:
    """Register a kernel: (lists, k, conventions) -> one value per list, NaN where undefined."""

    def register(kernel: Kernel) -> Kernel:
        RANKING[name] = RankingMetric(name, run_name or name, formula, upper, perfect, kernel)
        return kernel

    return register


def ranking_metrics(names: Sequence[str]) -> list[RankingMetric]:
    """The metrics of these names (per-user or run name), each once, in the order given.

    Raises ConfigError UNKNOWN_METRIC with the nearest known name.
    """
    by_name = {metric.name: metric for metric in RANKING.values()}
    by_name |= {metric.run_name: metric for metric in RANKING.values()}
    unknown = [name for name in names if name not in by_name]
    if unknown:
        raise ConfigError.unknown("UNKNOWN_METRIC", "metric", unknown[0], by_name, "evaluate.metrics")
    return list(dict.fromkeys(by_name[name] for name in names))
