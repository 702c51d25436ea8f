"""Send the rows of a table as messages to buckets of users; invalid rows are sent separately."""

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from spark_eval.arrow.files import Batches
from spark_eval.arrow.messages import (
    Content,
    batch_of,
    coalesce_tables,
    dictionary_encode,
    messages,
    unify_dictionary,
)
from spark_eval.arrow.row_faults import FaultRule
from spark_eval.names import REPEAT_MARK
from spark_eval.schema import FAULT, FOLD, MODEL, REPEAT, REQUEST, USER

# Content of a table's invalid rows.
BAD = {
    Content.LISTS: Content.BAD_LISTS,
    Content.TRUTH: Content.BAD_TRUTH,
    Content.TRAIN: Content.BAD_TRAIN,
}


@dataclass(frozen=True)
class Sender:
    """Sends the rows of a table; rows that ``rule`` finds valid (None: all) are sent as ``content``.

    Each repeat of a model is sent as a model of its own; ``model`` is the only model of rows that name none.
    """

    n_buckets: int
    content: Content
    rule: FaultRule | None = None
    model: str | None = None

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        """Yield the messages of all rows of a task, and the names in its column ``model``."""
        bad: list[pa.Table] = []
        models: dict[str | None, None] = {}
        yield from messages(self.valid(batches, bad, models), self.content, self.n_buckets)
        if bad:
            yield from messages(coalesce_tables(bad), BAD[self.content], self.n_buckets)
        if models:
            names = pa.record_batch({MODEL: pa.array(list(models), pa.string())})
            yield batch_of(Content.MODELS, [(bucket, names) for bucket in range(self.n_buckets)])

    def valid(
        self, batches: Batches, bad: list[pa.Table], models: dict[str | None, None]
    ) -> Iterator[pa.Table]:
        """Yield the valid rows; add model, user and error code of the others to ``bad``."""
        for rows in map(unify_dictionary, coalesce_tables(map(pa.table, batches))):
            faults = None
            if REPEAT in rows.column_names:
                rows = repeats_as_models(rows, self.model)
            if MODEL in rows.column_names:
                # A dictionary may have values that no row uses.
                models |= dict.fromkeys(rows[MODEL].unique().cast(pa.string()).to_pylist())
            if self.rule is not None:
                rows, faults = self.rule(rows)
            if faults is not None:
                names = [name for name in (MODEL, USER, REQUEST, FOLD) if name in rows.column_names]
                unusable = rows.select(names).append_column(FAULT, faults)
                bad.append(unusable.filter(faults.is_valid()))
                rows = rows.filter(faults.is_null())
            if len(rows):
                yield rows.drop_columns(REPEAT) if REPEAT in rows.column_names else rows


def repeats_as_models(rows: pa.Table, model: str | None) -> pa.Table:
    """Return rows with names of model and repeat in the column ``model``; null without a model."""
    if MODEL not in rows.column_names:
        rows = rows.append_column(MODEL, pa.repeat(pa.scalar(model, pa.string()), len(rows)))
    repeats = pc.fill_null(rows[REPEAT].cast(pa.string()), "")
    names = pc.binary_join_element_wise(rows[MODEL].cast(pa.string()), repeats, REPEAT_MARK)
    return dictionary_encode(rows.set_column(rows.column_names.index(MODEL), MODEL, names))
