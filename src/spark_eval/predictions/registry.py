"""Registry of the metrics of predictions. Config checks, output rows, help and tests are derived from it."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial
from typing import Any, Final, Self

from spark_eval.predictions.task import (
    CORRECTED,
    MOST_SUMS_OF_USERS,
    PredictionPlan,
    Scores,
    Task,
    text,
)
from spark_eval.predictions.worker.batches import totals_in_memory
from spark_eval.schema import LABEL, SCORE, USER, WEIGHT, Direction
from spark_eval.statistics.intervals import Summary
from spark_eval.statistics.slopes import Number, Slopes


@dataclass(frozen=True)
class Value:
    """One value of a metric; None if undefined.

    ``options`` distinguish it from other values of the metric: ``{"threshold": "0.5"}``. ``n_undefined``
    counts the rows, classes or users that it leaves out. ``summary`` is set for a mean over users.

    ``slopes`` are the derivatives by the sums of each user: the standard error follows from them. Those of
    positives and of negatives are apart in AUC, all are in one otherwise; empty without a standard error.
    """

    value: float | None
    options: Mapping[str, str] = field(default_factory=dict)
    n_undefined: int = 0
    summary: Summary | None = None
    slopes: Sequence[Slopes] = ()

    @classmethod
    def of(
        cls, number: Number | None, options: Mapping[str, str] | None = None, n_undefined: int = 0
    ) -> Self:
        """Return the value of a number, which is None if undefined, with its slopes."""
        if number is None:
            return cls(None, options or {}, n_undefined)
        slopes = () if number.slopes is None else (number.slopes,)
        return cls(float(number), options or {}, n_undefined, slopes=slopes)

    @property
    def mark(self) -> str:
        """Mark of the sums that it was computed from: that of corrected scores, or none."""
        return CORRECTED if "sampling_rate" in self.options else ""

    def name(self, metric: str) -> str:
        """Return the name in the table ``metrics``: ``precision(threshold=0.5)``."""
        options = ",".join(f"{key}={value}" for key, value in self.options.items())
        return f"{metric}({options})" if options else metric


@dataclass(frozen=True)
class Matrix:
    """Weights of true and false positives and negatives at one threshold, with the options that name it."""

    options: Mapping[str, str]
    tp: Number
    fp: Number
    fn: Number
    tn: Number


@dataclass(frozen=True)
class Sums:
    """Exact sums of one cell, and the plan that they were computed by."""

    sums: Mapping[str, Sequence[Fraction]]
    plan: PredictionPlan

    @classmethod
    def of_rows(
        cls,
        labels: Sequence[Any],
        scores: Sequence[float],
        *,
        users: Sequence[int] = (),
        weights: Sequence[float] = (),
        task: Task = Task.BINARY,
        **choices: Any,
    ) -> "Sums":
        """Sum a few rows in memory; binary scores are probabilities of class 1, with the threshold 0.5."""
        options: dict[str, Any] = {
            "scores": Scores.RAW,
            "needs": frozenset({"errors", "shares", "label_squares"}),
        }
        if task is Task.BINARY:
            needs = frozenset({"flags", "loss", "errors", "bins", "order", *(["users"] if users else [])})
            options = {"scores": Scores.PROBABILITY, "classes": (0, 1), "thresholds": (0.5,), "needs": needs}
        plan = PredictionPlan(**(options | choices), task=task, metrics=())
        columns = {LABEL: labels, SCORE: scores, USER: users, WEIGHT: weights}
        totals = totals_in_memory({name: values for name, values in columns.items() if values}, plan)
        [cell] = totals.sums
        return cls(totals.of(cell), plan)

    def measure(self, kernel: "PredictionKernel") -> dict[str, float | None]:
        """Return the values of a metric, rounded to 6 decimals, by their names in the table ``metrics``."""
        name = kernel.__name__
        return {one.name(name): one.value and round(one.value, 6) for one in kernel(self)}

    def of(self, name: str) -> Sequence[Number]:
        """Return all sums of a name; each has the slope 1 by itself, unless they are too many for users."""
        sums = self.sums[name]
        if len(sums) > MOST_SUMS_OF_USERS:
            return [Number(one, None) for one in sums]
        return [Number(one, {(name, index): 1.0}) for index, one in enumerate(sums)]

    def one(self, name: str) -> Number:
        """Return the only sum of a name."""
        [only] = self.of(name)
        return only

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self.one("rows"))

    @property
    def weight(self) -> Number:
        """Total weight of all rows."""
        return total(self.of("weight" if self.plan.task is Task.REGRESSION else "labels"))

    def variants(self) -> Iterator[tuple[str, dict[str, str]]]:
        """Yield name suffix and options of each variant: original scores, then corrected ones if any."""
        for rate in self.plan.variants:
            yield ("", {}) if rate is None else (CORRECTED, {"sampling_rate": text(rate)})

    def means(self, name: str) -> Iterator[Value]:
        """Yield the mean over all rows of the summed value, for original and corrected scores."""
        for mark, options in self.variants():
            yield Value.of(ratio(self.one(f"{name}{mark}"), self.weight), options)

    def matrices(self) -> Iterator[Matrix]:
        """Yield a matrix per threshold, for original and corrected scores; just one for predicted classes."""
        size = len(self.plan.thresholds) + 1
        for mark, options in self.variants():
            flags = self.of(f"flags{mark}")
            for n_below, threshold in enumerate(self.plan.thresholds, start=1):
                tn, fp = total(flags[:n_below]), total(flags[n_below:size])
                fn, tp = total(flags[size : size + n_below]), total(flags[size + n_below :])
                at = {} if self.plan.scores is Scores.CLASS else {"threshold": text(threshold)}
                yield Matrix({**at, **options}, tp, fp, fn, tn)


PredictionKernel = Callable[[Sums], Iterable[Value]]


@dataclass(frozen=True)
class PredictionMetric:
    """Definition of a metric of predictions.

    ``needs`` are the optional sums that it uses. ``bounds`` are minimum and maximum, None if unbounded.
    ``best`` is the value of perfect predictions, one of the bounds; None if no value is better than another.
    ``is_of_users`` is true if standard errors and comparisons follow from the sums of users.
    """

    name: str
    kernel: PredictionKernel
    formula: str
    tasks: Sequence[Task]
    needs: Sequence[str] = ()
    bounds: tuple[float | None, float | None] = (0.0, 1.0)
    best: float | None = 1.0
    is_of_users: bool = True

    @property
    def direction(self) -> Direction:
        """Direction of better values."""
        if self.best is None:
            return Direction.NONE
        return Direction.HIGHER if self.best == self.bounds[1] else Direction.LOWER

    @property
    def summary(self) -> str:
        """First line of the kernel's docstring."""
        return self.notes.strip().splitlines()[0]

    @property
    def notes(self) -> str:
        """Docstring of the kernel: meaning, undefined case, example, source."""
        return self.kernel.__doc__ or ""

    def fits(self, task: Task, scores: Scores) -> bool:
        """Return True if the metric is defined for this task and these scores."""
        if task not in self.tasks:
            return False
        of_probabilities = {"loss", "bins"} | ({"errors"} if task is Task.BINARY else set())
        if of_probabilities & set(self.needs):
            return scores is Scores.PROBABILITY
        return scores is not Scores.CLASS or not {"order", "users"} & set(self.needs)


PREDICTION_METRICS: Final[dict[str, PredictionMetric]] = {}


def prediction_metric(**known: Any) -> Callable[[PredictionKernel], PredictionKernel]:
    """Register a kernel (exact sums of a cell -> values); ``known`` are fields of PredictionMetric."""

    def register(kernel: PredictionKernel) -> PredictionKernel:
        PREDICTION_METRICS[kernel.__name__] = PredictionMetric(kernel.__name__, kernel, **known)
        return kernel

    return register


# Registers a metric that is 0 for perfect predictions, otherwise larger.
loss: Final = partial(prediction_metric, bounds=(0.0, None), best=0.0)


def total(numbers: Iterable[Number]) -> Number:
    """Return the exact sum."""
    return sum(numbers, Number(Fraction(0)))


def ratio(one: Number, other: Number) -> Number | None:
    """Return ``one / other``; None if ``other`` is 0."""
    return one / other if other else None
