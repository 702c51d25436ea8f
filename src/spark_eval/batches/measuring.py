"""A bucket of users, from the parcels that came for it to their rows of ``per_user`` and its sums."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa
import pyarrow.compute as pc

from spark_eval.batches.found import Found
from spark_eval.batches.ids import Ids, in_one_piece
from spark_eval.batches.meet import Meeting
from spark_eval.batches.parcels import Kind, Parcel, of_kind
from spark_eval.batches.segments import Segment, Segmenting
from spark_eval.batches.sums import sums
from spark_eval.batches.truth import Truth
from spark_eval.conventions import Conventions
from spark_eval.metrics import parse_metric
from spark_eval.metrics.lists import Floats, Lists
from spark_eval.metrics.values import MetricValue, summed
from spark_eval.schema import ITEM, MODEL, N_RECOMMENDED, N_RELEVANT, RELEVANCE, USER


@dataclass(frozen=True)
class Measured:
    """One model's lists in a bucket.

    ``counts`` are for the ledger; ``per_user`` has a row per user of the population; ``sums`` are those of
    its columns. ``n_split`` lists should have been whole and were not: then nothing here may be used.
    """

    model: str | None
    counts: Mapping[str, int]
    n_split: int
    per_user: pa.Table
    sums: pa.Table


@dataclass(frozen=True)
class Measuring:
    """What is measured: metrics as text and k, under which rules.

    ``user`` and ``item`` are the types of the ids, int64 or text.
    """

    user: pa.DataType
    item: pa.DataType
    meeting: Meeting
    segmenting: Segmenting
    metrics: tuple[tuple[str, int | None], ...]
    conventions: Conventions
    truth_depth: int | None
    has_scores: bool

    @cached_property
    def values(self) -> list[MetricValue]:
        """The metrics."""
        return [value for text, k in self.metrics for value in parse_metric(text, [k])]

    def measured(self, parcels: Sequence[Parcel], models: Sequence[str | None]) -> Iterator[Measured]:
        """Each model's lists of a bucket; ``models`` are those that any bucket knows."""
        schema = pa.schema({USER: self.user, ITEM: self.item, RELEVANCE: pa.float64()})
        truth = Truth.of(of_kind(parcels, Kind.RELEVANT, schema))
        segments = self.segmenting.segments(parcels, self.user)
        fragments = self.fragments(parcels)
        for model in models:
            names = fragments[MODEL]
            mine = fragments.filter(names.is_null() if model is None else pc.equal(names, model))
            found = Found.of(mine, truth, self.meeting.trained, self.meeting.held_cuts)
            yield self.of_model(model, found, segments)

    def fragments(self, parcels: Sequence[Parcel]) -> pa.Table:
        """All fragments of the bucket; those of lists that came as rows are made here."""
        parts = [self.meeting.nothing(self.user, self.item)]
        parts += [parcel.table for parcel in parcels if parcel.kind is Kind.FRAGMENTS]
        if rows := [parcel.table for parcel in parcels if parcel.kind is Kind.ROWS]:
            table = pa.concat_tables(rows)
            by = [(name, "ascending") for name in (MODEL, USER) if name in table.column_names]
            [batch] = table.sort_by(by).combine_chunks().to_batches()
            parts += self.meeting.fragments(batch)
        return in_one_piece(parts)

    def of_model(self, model: str | None, found: Found, segments: Mapping[str, Segment]) -> Measured:
        """Population, kernels, sums."""
        n_split = int((found.n_fragments > 1).sum()) if self.meeting.needs_whole else 0
        # The ranks of lists that are not whole are wrong, and no kernel need bear them.
        chosen = found.population(self.conventions)[: 0 if n_split else None]
        lists = found.lists(chosen, self.truth_depth)
        columns = self.columns(lists)
        ids = found.ids(chosen)
        users = Ids.of(ids)
        codes = {name: segment.codes(users) for name, segment in segments.items()}
        per_user = pa.table(
            {
                USER: ids,
                N_RELEVANT: lists.n_relevant,
                N_RECOMMENDED: lists.n_recommended,
                **{name: segment.column(codes[name]) for name, segment in segments.items()},
                **{name: pa.array(values, from_pandas=True) for name, values in columns.items()},
            }
        )
        return Measured(
            model,
            found.counts(self.meeting.cuts, self.has_scores),
            n_split,
            per_user,
            sums(
                columns,
                summed(self.values),
                {name: (codes[name], segment.names) for name, segment in segments.items()},
            ),
        )

    def columns(self, lists: Lists) -> dict[str, Floats]:
        """The values of all metrics, NaN where undefined."""
        columns: dict[str, Floats] = {}
        for value in self.values:
            columns |= value.measure(lists, self.conventions)
        return columns
