"""From rows of a table to messages for buckets of users: rows that cannot be used are told apart."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_eval.arrow.codes import CODED_TEXT
from spark_eval.arrow.row_faults import SOUND, Codes, faults, judged
from spark_eval.conventions import Conventions
from spark_eval.engine.messages import Kind, batch_of, messages
from spark_eval.schema import (
    FAULT,
    FOLD,
    MODEL,
    ROW_FAULTS,
    USER,
)

Batches = Iterable[pa.RecordBatch]


@dataclass(frozen=True)
class ListSender:
    """Sends recommendations; ``has_models`` says whether a column holds their models."""

    n_buckets: int
    has_models: bool

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        """Return the messages of all rows of a task."""
        bad: list[pa.Table] = []
        models: dict[str | None, None] = {}
        yield from messages(self.sound(batches, bad, models), Kind.LISTS, self.n_buckets)
        yield from messages(bad, Kind.BAD_LISTS, self.n_buckets)
        if models:
            told = pa.record_batch({MODEL: pa.array(list(models), pa.string())})
            yield batch_of(Kind.MODELS, [(bucket, told) for bucket in range(self.n_buckets)])

    def sound(
        self, batches: Batches, bad: list[pa.Table], models: dict[str | None, None]
    ) -> Iterator[pa.Table]:
        """Return the rows without a fault; what is left of the others is added to ``bad``."""
        for batch in batches:
            if self.has_models:
                names = batch[MODEL].dictionary_encode()
                batch = batch.set_column(batch.schema.get_field_index(MODEL), MODEL, names)
                # A dictionary may hold what no row of a batch names.
                models |= dict.fromkeys(names.unique().cast(pa.string()).to_pylist())
            codes = faults(batch)
            if codes is not None:
                bad.append(self.bad(batch, codes))
                batch = batch.filter(pa.array(codes == SOUND))
            if batch.num_rows:
                yield coded(pa.table(batch))

    def bad(self, batch: pa.RecordBatch, codes: Codes) -> pa.Table:
        """Return model, user and fault of the rows that have one."""
        chosen = np.flatnonzero(codes != SOUND)
        names = np.array([fault.value for fault in ROW_FAULTS])[codes[chosen]]
        rows = pa.table(batch).take(pa.array(chosen))
        kept = [name for name in (MODEL, USER, FOLD) if name in batch.schema.names]
        return coded(rows.select(kept).append_column(FAULT, pa.array(names)))


@dataclass(frozen=True)
class TruthSender:
    """Sends the truth, under these conventions."""

    n_buckets: int
    conventions: Conventions

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        """Return the messages of all rows of a task."""
        bad: list[pa.Table] = []
        yield from messages(self.sound(batches, bad), Kind.TRUTH, self.n_buckets)
        yield from messages(bad, Kind.BAD_TRUTH, self.n_buckets)

    def sound(self, batches: Batches, bad: list[pa.Table]) -> Iterator[pa.Table]:
        """Return the rows without a fault; what is left of the others is added to ``bad``."""
        for batch in batches:
            rows = judged(pa.table(batch), self.conventions)
            if rows[FAULT].null_count < len(rows):
                is_bad = pc.is_valid(rows[FAULT])
                kept = [name for name in (USER, FOLD, FAULT) if name in rows.column_names]
                bad.append(coded(rows.select(kept).filter(is_bad)))
                rows = rows.filter(pc.invert(is_bad))
            if len(rows):
                yield coded(rows.drop_columns(FAULT))


@dataclass(frozen=True)
class UserSender:
    """Sends a table of users as it is."""

    n_buckets: int
    kind: Kind

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        """Return the messages of all rows of a task."""
        yield from messages((coded(pa.table(batch)) for batch in batches), self.kind, self.n_buckets)


def coded(table: pa.Table) -> pa.Table:
    """Return text columns dictionary-coded."""
    for place, field in enumerate(table.schema):
        if pa.types.is_string(field.type) or pa.types.is_large_string(field.type):
            column = table[field.name].cast(pa.string()).dictionary_encode()
            table = table.set_column(place, field.name, column)
        elif pa.types.is_dictionary(field.type) and field.type != CODED_TEXT:
            table = table.set_column(place, field.name, table[field.name].cast(CODED_TEXT))
    return table
