"""Means and standard deviations over folds, of the rows of any table of metrics."""

from collections.abc import Callable, Iterable, Sequence
from statistics import mean, stdev
from typing import Any, Final, Protocol, TypeVar

from spark_eval.schema import FOLD, FOLDS


class FoldValue(Protocol):
    """Row with the value of a metric, in a fold or another segment; each table has its own row type."""

    @property
    def model(self) -> str | None:
        """Name of the model."""

    @property
    def metric(self) -> str:
        """Name of the metric."""

    @property
    def k(self) -> int | None:
        """Cutoff; None without one."""

    @property
    def segment(self) -> str:
        """Name of the segment."""

    @property
    def value(self) -> float | None:
        """Value; None if undefined."""

    def _asdict(self) -> dict[str, Any]: ...


AnyRow = TypeVar("AnyRow", bound=FoldValue)
# Columns that identify a value besides its segment.
IDENTITY: Final = frozenset({"stage", "model", "metric", "k", "conventions"})


def fold_rows(rows: Iterable[AnyRow], counts: Sequence[str] = ("n_users", "n_undefined")) -> list[AnyRow]:
    """Return the mean and the standard deviation over folds: two rows per model, metric and k.

    Every fold has the same weight; the standard deviation has the divisor n - 1. Folds without a value are
    left out: the mean over none is null, and so is the standard deviation over fewer than two. The columns
    ``counts`` are summed over the folds; other columns that do not identify the value are null.
    """
    groups: dict[tuple[Any, ...], list[AnyRow]] = {}
    for row in rows:
        if row.segment == FOLD:
            groups.setdefault((row.model, row.metric, row.k), []).append(row)
    over_folds: list[AnyRow] = []
    for folds in groups.values():
        row_type: Callable[..., AnyRow] = type(folds[0])
        values = [row.value for row in folds if row.value is not None]
        whole = {name: own if name in IDENTITY else None for name, own in folds[0]._asdict().items()}
        whole |= {name: sum_or_none([getattr(row, name) for row in folds]) for name in counts}
        for name, value in (
            ("mean", mean(values) if values else None),
            ("sd", stdev(values) if values[1:] else None),
        ):
            over_folds.append(row_type(**whole | {"segment": FOLDS, "segment_value": name, "value": value}))
    return over_folds


def sum_or_none(counts: Sequence[int | None]) -> int | None:
    """Sum counts; None if any is None."""
    numbers = [count for count in counts if count is not None]
    return sum(numbers) if len(numbers) == len(counts) else None
