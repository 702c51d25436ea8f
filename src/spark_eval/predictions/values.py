"""Values of predictions that are compared: metric and name, and the slopes by the sums of each user."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from spark_eval.predictions import PREDICTION_METRICS
from spark_eval.predictions.registry import PredictionMetric
from spark_eval.schema import ALL, Value
from spark_eval.statistics.slopes import Slopes
from spark_eval.users.cells import EVERYBODY, SegmentValue

# Key of the commit record of predictions: values with slopes, and the digest of rows, by model.
SCORED: Final = "scored"


# What a commit record holds of a value.
Record = dict[str, Any]


@dataclass(frozen=True)
class PredictionValue:
    """Value of a metric of predictions; ``name`` is that in the table ``metrics``. It has no cutoff."""

    metric: PredictionMetric
    name: str
    k: int | None = None

    @classmethod
    def of(cls, name: str) -> "PredictionValue | None":
        """Return the value of a name like ``precision(threshold=0.5)``; None for other names.

        >>> str(PredictionValue.of("log_loss")), PredictionValue.of("ndcg@10")
        ('log_loss', None)
        """
        metric = PREDICTION_METRICS.get(name.partition("(")[0])
        return None if metric is None else cls(metric, name)

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class SlopedValue:
    """Value of one model, and its slopes by the sums of each user; see ``registry.Value``."""

    value: float
    slopes: Sequence[Slopes]

    def to_record(self) -> list[Value]:
        """Return the value as it is in the commit record: ``[value, [[[sum, index, slope], ...], ...]]``."""
        parts = [[[*key, slope] for key, slope in sorted(part.items())] for part in self.slopes]
        return [self.value, parts]

    @classmethod
    def of_record(cls, record: Sequence[Value]) -> "SlopedValue":
        """Return the value of a commit record.

        >>> SlopedValue.of_record([0.5, [[["loss", 0, 0.25]]]])
        SlopedValue(value=0.5, slopes=[{('loss', 0): 0.25}])
        """
        value, parts = record
        return cls(value, [{(name, index): slope for name, index, slope in part} for part in parts])


@dataclass(frozen=True)
class CellValues:
    """Values of a model over all rows, or over those of a segment value, by name; and the rows' digest.

    Values that are undefined, or have no standard error, are left out.
    """

    values: Mapping[str, SlopedValue]
    rows_digest: str

    def to_record(self) -> Record:
        """Return the values as they are in the commit record."""
        values = {name: value.to_record() for name, value in self.values.items()}
        return {"rows_digest": self.rows_digest, "values": values}

    @classmethod
    def of_record(cls, record: Record) -> "CellValues":
        """Return the values of a commit record."""
        values = {name: SlopedValue.of_record(one) for name, one in record["values"].items()}
        return cls(values, record["rows_digest"])


@dataclass(frozen=True)
class ModelValues:
    """Model of predictions on one side of a comparison: its values over all rows, and by segment value."""

    cells: Mapping[SegmentValue, CellValues]

    @property
    def whole(self) -> CellValues:
        """Values over all rows."""
        return self.cells[EVERYBODY]

    @property
    def segments(self) -> list[str]:
        """Names of the segments."""
        return list(dict.fromkeys(segment for segment, _ in self.cells if segment != ALL))

    def digests(self, segments: Collection[str]) -> dict[SegmentValue, str]:
        """Return the digests of all rows, and of the rows of each value of some segments."""
        chosen = {ALL, *segments}
        return {cell: values.rows_digest for cell, values in self.cells.items() if cell[0] in chosen}

    def to_record(self) -> Record:
        """Return the model as it is in the commit record; ``segments`` are left out if there are none."""
        segments = [[*cell, values.to_record()] for cell, values in self.cells.items() if cell != EVERYBODY]
        return self.whole.to_record() | ({"segments": segments} if segments else {})

    @classmethod
    def of_record(cls, record: Record) -> "ModelValues":
        """Return the model of a commit record."""
        segments = record.get("segments", ())
        by_value = {(segment, value): CellValues.of_record(one) for segment, value, one in segments}
        return cls({EVERYBODY: CellValues.of_record(record)} | by_value)


def compared_values(models: Iterable[ModelValues]) -> list[PredictionValue]:
    """Return the values that all models have, in the order of the first one."""
    first, *others = [model.whole.values for model in models]
    names = [name for name in first if all(name in other for other in others)]
    return [value for name in names if (value := PredictionValue.of(name)) is not None]
