"""The one table of metrics of predictions. Config checks, output rows, help and tests follow from it."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Final

from spark_eval.pointwise.rows import CORRECTED
from spark_eval.pointwise.task import Plan, Scores, Task, text
from spark_eval.stats.intervals import Summary

BOTH: Final = (Task.BINARY, Task.MULTICLASS)


@dataclass(frozen=True)
class Value:
    """One number of a metric, None where it is undefined.

    ``options`` tell it from others of the metric: ``{"threshold": "0.5"}``. ``n_undefined`` counts what is
    left out of it. ``summary`` is that of a mean over users.
    """

    value: float | None
    options: Mapping[str, str] = field(default_factory=dict)
    n_undefined: int = 0
    summary: Summary | None = None

    def name(self, metric: str) -> str:
        """As in the table ``metrics``: ``precision(threshold=0.5)``."""
        options = ",".join(f"{key}={value}" for key, value in self.options.items())
        return f"{metric}({options})" if options else metric


@dataclass(frozen=True)
class Matrix:
    """Weights of true and false positives and negatives at one threshold, with the options that name it."""

    options: Mapping[str, str]
    tp: Fraction
    fp: Fraction
    fn: Fraction
    tn: Fraction


@dataclass(frozen=True)
class Sums:
    """The exact sums of one cell, and the plan that they were made by."""

    sums: Mapping[str, Sequence[Fraction]]
    plan: Plan

    def of(self, name: str) -> Sequence[Fraction]:
        """All sums of a name."""
        return self.sums[name]

    def one(self, name: str) -> Fraction:
        """The only sum of a name."""
        [total] = self.sums[name]
        return total

    @property
    def n_rows(self) -> int:
        """How many rows there are."""
        return int(self.one("rows"))

    @property
    def weight(self) -> Fraction:
        """The weight of all rows."""
        return (
            self.one("weight") if self.plan.task is Task.REGRESSION else sum(self.of("labels"), Fraction(0))
        )

    def variants(self) -> Iterator[tuple[str, dict[str, str]]]:
        """What the names of sums end in, and the options that say so: as they come, and corrected."""
        for rate in self.plan.variants:
            yield ("", {}) if rate is None else (CORRECTED, {"sampling_rate": text(rate)})

    def matrices(self) -> Iterator[Matrix]:
        """At every threshold, of scores as they come and corrected; of classes, the one."""
        size = len(self.plan.thresholds) + 1
        for mark, options in self.variants():
            flags = self.of(f"flags{mark}")
            for place, threshold in enumerate(self.plan.thresholds, start=1):
                tn, fp = total(flags[:place]), total(flags[place:size])
                fn, tp = total(flags[size : size + place]), total(flags[size + place :])
                at = {} if self.plan.scores is Scores.CLASS else {"threshold": text(threshold)}
                yield Matrix({**at, **options}, tp, fp, fn, tn)


Kernel = Callable[[Sums], Iterable[Value]]


@dataclass(frozen=True)
class PointwiseMetric:
    """What is known of a metric besides its numbers; ``needs`` are sums that not every plan has."""

    name: str
    tasks: Sequence[Task]
    formula: str
    needs: Sequence[str]
    kernel: Kernel

    @property
    def summary(self) -> str:
        """First line of the kernel's docstring."""
        return (self.kernel.__doc__ or "").strip().splitlines()[0]

    def fits(self, task: Task, scores: Scores) -> bool:
        """Whether it is defined for such labels and scores."""
        if task not in self.tasks:
            return False
        of_probabilities = {"loss", "bins"} | ({"errors"} if task is Task.BINARY else set())
        if of_probabilities & set(self.needs):
            return scores is Scores.PROBABILITY
        return scores is not Scores.CLASS or not {"order", "users"} & set(self.needs)


POINTWISE: Final[dict[str, PointwiseMetric]] = {}


def pointwise_metric(
    name: str, *, formula: str, tasks: Sequence[Task], needs: Sequence[str] = ()
) -> Callable[[Kernel], Kernel]:
    """Register a kernel: exact sums of a cell -> its values."""

    def register(kernel: Kernel) -> Kernel:
        POINTWISE[name] = PointwiseMetric(name, tasks, formula, needs, kernel)
        return kernel

    return register


def total(numbers: Iterable[Fraction]) -> Fraction:
    """Their sum."""
    return sum(numbers, Fraction(0))


def ratio(one: Fraction, other: Fraction) -> float | None:
    """The quotient, rounded once; None where it is undefined."""
    return float(one / other) if other else None
