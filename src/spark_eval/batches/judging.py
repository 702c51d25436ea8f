"""The truth on its way to the buckets: rows judged one by one where that is enough, else each pair once."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from spark_eval.batches.ids import Ids, in_one_piece
from spark_eval.batches.lookup import Lookup
from spark_eval.batches.parcels import Kind, Parcel, gathered, of_kind
from spark_eval.batches.rows import irrelevance, judged
from spark_eval.batches.truth import (
    Truth,
    count_everything,
    count_rejected,
    count_relevant,
    distinct_truth,
    rejected,
)
from spark_eval.conventions import Conventions, TruthDuplicates
from spark_eval.schema import FAULT, ITEM, N_ROWS, RELEVANCE, TIMESTAMP, USER


@dataclass(frozen=True)
class Distinct:
    """Rows of a bucket, such as its relevant items; counts of what came for it; its slice of the sieve."""

    kind: Kind
    rows: pa.Table
    counts: Sequence[dict[str, Any]]
    slice: bytes


@dataclass(frozen=True)
class Judging:
    """How rows of the truth are judged.

    ``user`` and ``item`` are the types of the ids, int64 or text. A slice of the sieve has 2^``slice_bits``
    bits. Items that are not in ``trained`` are cold.
    """

    user: pa.DataType
    item: pa.DataType
    n_buckets: int
    slice_bits: int
    conventions: Conventions
    trained: Lookup | None

    def parcels(self, batches: Iterable[pa.RecordBatch]) -> Iterator[Parcel]:
        """The parcels of rows, conformed or as plain files hold them."""
        others: list[pa.Table] = []
        yield from gathered(self.usable(batches, others), Kind.RELEVANT, self.n_buckets)
        yield from gathered(others, Kind.REJECTED, self.n_buckets)

    def usable(self, batches: Iterable[pa.RecordBatch], others: list[pa.Table]) -> Iterator[pa.Table]:
        """The rows of which items may be relevant; what is left of the others is added to ``others``."""
        for batch in batches:
            rows = judged(pa.table(batch), self.conventions)
            if rows[FAULT].null_count < rows.num_rows:
                is_usable = pc.is_null(rows[FAULT])
                others.append(rejected(rows.filter(pc.invert(is_usable))))
                rows = rows.filter(is_usable)
            yield rows.drop_columns(FAULT)

    def distinct(self, parcels: Sequence[Parcel]) -> Distinct:
        """What came for a bucket: repeats combined, then judged."""
        ids = {USER: self.user, ITEM: self.item, RELEVANCE: pa.float64()}
        time = {TIMESTAMP: pa.int64()} if self.conventions.truth_duplicates is TruthDuplicates.LAST else {}
        usable = of_kind(parcels, Kind.RELEVANT, pa.schema(ids | time))
        faulty = pa.schema({USER: self.user, FAULT: pa.string(), N_ROWS: pa.int64()})
        others = of_kind(parcels, Kind.REJECTED, faulty)
        rows = distinct_truth(usable, self.conventions.truth_duplicates)
        if not self.conventions.judges_rows:
            reason = irrelevance(rows[RELEVANCE], self.conventions.threshold)
            is_relevant = pc.is_null(reason)
            irrelevant = rows.append_column(FAULT, reason).filter(pc.invert(is_relevant))
            others = in_one_piece([others, irrelevant.select(faulty.names)])
            rows = rows.filter(is_relevant)
        n_rows = pc.sum(rows[N_ROWS], min_count=0).as_py()
        truth, is_cold = Truth.of(rows), None
        if self.trained is not None:
            is_cold = self.trained.codes(Ids.of(truth.items)) < 0
        counts = [
            count_everything(truth, n_rows, others),
            count_relevant(truth, n_rows, is_cold),
            *count_rejected(others),
        ]
        return Distinct(Kind.RELEVANT, rows.drop_columns(N_ROWS), counts, truth.slice(self.slice_bits))
