"""Check the written ``per_user`` against the measurement: its keys, and the bounds of the metrics."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Self
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from spark_eval.arrow.checksums import KEYS, key_sum
from spark_eval.arrow.files import BATCH_ROWS, Batches, column_statistics, named_read_errors
from spark_eval.arrow.sound_footers import read_footer
from spark_eval.errors import SparkEvalError
from spark_eval.kernels.values import MetricValue
from spark_eval.names import quote_column
from spark_eval.runners.rows import SparkRows
from spark_eval.runners.spread import NumberedObject, collect_objects, map_batches
from spark_eval.schema import MODEL, N_RECOMMENDED, N_RELEVANT, USER

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


@dataclass(frozen=True)
class Expected:
    """Expected ``per_user``: columns within their ``bounds``, keys that add up to ``keys``."""

    bounds: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    keys: int | None = None

    @classmethod
    def of(cls, metrics: Iterable[MetricValue], keys: int) -> Self:
        """Return the bounds of these metrics, independent of the data."""
        bounds = {
            value.column: (
                -math.inf if value.metric.lower is None else value.metric.lower,
                value.metric.upper or math.inf,
            )
            for value in metrics
        }
        return cls(bounds, keys)

    def check_files(self, folder: Path) -> None:
        """Raise SparkEvalError STAGED_OTHERWISE unless the bounds in footers and the keys are as expected."""
        keys = 0
        for path in folder.rglob("*.parquet"):
            with named_read_errors(str(path)), pq.ParquetFile(path, page_checksum_verification=True) as file:
                footer = read_footer(str(path))
                for column in self.bounds:
                    for group in column_statistics(footer, column):
                        if group is not None and group.has_min_max:
                            self.check_bounds(column, group.min, group.max)
                if self.keys is not None:
                    for group in column_statistics(footer, USER):
                        if group is not None and group.has_null_count and group.null_count:
                            raise staged_otherwise(f"{group.null_count} rows have no user; report it")
                    model = unquote(path.parent.name.removeprefix(f"{MODEL}="))
                    batches = file.iter_batches(BATCH_ROWS, columns=list(KEYS), use_threads=False)
                    keys += sum(key_sum(model, pa.Table.from_batches([batch])) for batch in batches)
        if self.keys is not None:
            self.check_keys(keys)

    def check_rows(self, rows: "DataFrame") -> int:
        """Return the number of rows of a Spark frame; raise SparkEvalError STAGED_OTHERWISE as above.

        Workers read plain files whole, with the checksums of all pages. Spark reads all other rows, and only
        counts them if nothing more is expected.
        """
        if not self.bounds and self.keys is None:
            return self.check_in_spark(rows)
        from spark_eval.tables.plain_files import VALUE_TYPES, plain_files

        files = plain_files(rows, {name: name for name in rows.columns}, VALUE_TYPES, is_input=False)
        return self.check_in_spark(rows) if files is None else self.check_in_workers(SparkRows(rows, files))

    def check_in_workers(self, rows: SparkRows) -> int:
        """Return the number of rows of plain files, which workers read; see ``check_rows``."""
        look = partial(facts_of, bounds=list(self.bounds), has_keys=self.keys is not None)
        found: list[Facts] = collect_objects(map_batches(rows, look))
        for name in self.bounds:
            if ends := [facts.ends[name] for facts in found if name in facts.ends]:
                self.check_bounds(name, float(np.min(ends)), float(np.max(ends)))
        if n_users := sum(facts.n_without_user for facts in found):
            raise staged_otherwise(f"{n_users} rows have no user; report it")
        if self.keys is not None:
            self.check_keys(sum(facts.keys for facts in found))
        return sum(facts.n_rows for facts in found)

    def check_in_spark(self, rows: "DataFrame") -> int:
        """Return the number of rows of a Spark frame, which Spark reads; see ``check_rows``."""
        from pyspark.sql import functions as F

        facts = [F.count("*"), F.lit(None) if self.keys is None else sum_of_keys()]
        ends = [end(quote_column(name)) for name in self.bounds for end in (F.min, F.max)]
        n_rows, keys, *values = rows.agg(*facts, *ends).collect()[0]
        for name, low, high in zip(self.bounds, values[::2], values[1::2], strict=True):
            self.check_bounds(name, low, high)
        if self.keys is not None:
            self.check_keys(int(keys or 0))
        return int(n_rows)

    def check_bounds(self, column: str, low: float | None, high: float | None) -> None:
        """Raise SparkEvalError STAGED_OTHERWISE if values of a column exceed their bounds."""
        least, most = self.bounds[column]
        if low is not None and high is not None and not least <= low <= high <= most:
            message = f"{column} goes from {low} to {high}, it must lie in {least} to {most}; report it"
            raise staged_otherwise(message)

    def check_keys(self, keys: int) -> None:
        """Raise SparkEvalError STAGED_OTHERWISE if the sum of the keys differs."""
        if keys != self.keys:
            what = "models and users in the files are not those that were measured"
            raise staged_otherwise(f"{what}; try again")


class Facts(NamedTuple):
    """Rows of a task: their number, those without a user, the sum of their keys, the ends of columns."""

    n_rows: int
    n_without_user: int
    keys: int
    ends: Mapping[str, tuple[float, float]]


def facts_of(batches: Batches, *, bounds: Sequence[str], has_keys: bool) -> Iterator[NumberedObject]:
    """Yield the ``Facts`` of all rows of a task; NaN is an end of a column that has one."""
    n_rows, n_without_user, keys = 0, 0, 0
    values: dict[str, list[float]] = {name: [] for name in bounds}
    for batch in batches:
        n_rows += batch.num_rows
        for name in bounds:
            known = batch[name].drop_null().to_numpy(zero_copy_only=False)
            values[name] += [float(known.min()), float(known.max())] if len(known) else []
        if has_keys:
            rows = pa.table(batch)
            n_without_user += rows[USER].null_count
            rows = rows.filter(pc.is_valid(rows[USER]))
            for model in rows[MODEL].unique().to_pylist():
                keys += key_sum(model, rows.filter(pc.equal(rows[MODEL], model)))
    ends = {name: (float(np.min(some)), float(np.max(some))) for name, some in values.items() if some}
    yield None, Facts(n_rows, n_without_user, keys, ends)


def staged_otherwise(message: str) -> SparkEvalError:
    """Return the error of a ``per_user`` that differs from the measurement."""
    return SparkEvalError("STAGED_OTHERWISE", f"per_user: {message}")


def sum_of_keys() -> "Column":
    """Return ``arrow.checksums.key_sum`` over the rows of all models, computed by Spark."""
    from pyspark.sql import functions as F

    keys = F.xxhash64(F.col(MODEL).cast("string"), F.col(USER).cast("string"), N_RELEVANT, N_RECOMMENDED)
    return F.sum(keys.cast("decimal(20,0)"))
