"""Relations in this process: arrays of coded records."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_eval.accounting import Entry
from spark_eval.arrow.codes import Booleans, index_of, run_starts, to_numpy
from spark_eval.arrow.xxhash64 import SPARK_SEED, text_hashes, xxh64
from spark_eval.linkage.clusters import Contingency, n_pairs
from spark_eval.linkage.plan import Missing, SamplePlan, Sources
from spark_eval.linkage.record_codes import Codes32, IdColumn, blocks, code_together
from spark_eval.linkage.relations import (
    PAIR,
    Agreement,
    Clusters,
    Drawn,
    Pairs,
    Relation,
    Relations,
    Unused,
    check_columns,
    check_each_once,
    check_used,
    entries_of,
    form_of,
)
from spark_eval.runners.local_rows import LocalTable
from spark_eval.schema import CLUSTER, SCORE, Outcome, Reason
from spark_eval.statistics.exact import Floats, Ints

# A pair is one number: the code of its greatest record takes the lower bits.
CODE_BITS = 32
LOWER = (1 << CODE_BITS) - 1


@dataclass(frozen=True)
class CodedPairs(Pairs):
    """Distinct pairs as ascending ``keys`` (n,), their scores if they are kept, and the ids by code.

    Of two sources, ``least`` is the record of ``a``, and ``greatest`` that of ``b``.
    """

    keys: Ints
    scores: Floats | None
    ids: pa.Array
    has_scores: bool

    @property
    def least(self) -> Ints:
        """The lower code of each pair, in the upper bits."""
        return self.keys >> CODE_BITS

    @property
    def greatest(self) -> Ints:
        """The higher code of each pair, in the lower bits."""
        return self.keys & LOWER

    @property
    def n_pairs(self) -> int:
        """Number of pairs."""
        return len(self.keys)

    def agreement(self, other: Any) -> Agreement:
        """Return the numbers of these pairs that another relation knows, and that it holds."""
        n_known = n_held = 0
        for rows in blocks(self.n_pairs):
            of_block = other.agreement_on(self.keys[rows])
            n_known, n_held = n_known + of_block.n_known, n_held + of_block.n_held
        return Agreement(n_known, n_held)

    def agreement_on(self, keys: Ints) -> Agreement:
        """Return the agreement of ascending pairs with these."""
        return Agreement(len(keys), int(np.count_nonzero(self.holds(keys))))

    def holds(self, keys: Ints) -> Booleans:
        """Return for each of the pairs, in ascending order, whether it is one of these."""
        if not len(keys) or not self.n_pairs:
            return np.zeros(len(keys), dtype=np.bool_)
        start, end = np.searchsorted(self.keys, keys[0]), np.searchsorted(self.keys, keys[-1], side="right")
        own = self.keys[start:end]  # the few among which the keys are looked up stay in the cache
        index = np.searchsorted(own, keys)
        is_there: Booleans = index < len(own)
        is_there[is_there] = own[index[is_there]] == keys[is_there]
        return is_there

    def draw(self, predicted: Any, plan: SamplePlan) -> Drawn:
        """Draw pairs of each stratum: those with the lowest hashes."""
        band = np.zeros(self.n_pairs, dtype=np.int64)
        if self.scores is not None:
            band = np.searchsorted(np.array(plan.strata), self.scores, side="right")
        strata = 2 * band + predicted.holds(self.keys)
        order = np.lexsort((pair_hashes(self, plan.seed), strata))
        sizes = np.bincount(strata, minlength=plan.n_strata)
        ranks = np.arange(len(order)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        chosen = order[ranks < plan.per_stratum]
        least, greatest = (self.ids.take(pa.array(codes[chosen])) for codes in (self.least, self.greatest))
        return Drawn(least, greatest, strata[chosen], sizes[strata[chosen]])


@dataclass(frozen=True)
class CodedClusters(Clusters):
    """The cluster of each record (ids,), -1 for records without one."""

    of_record: Codes32

    @property
    def n_records(self) -> int:
        """Number of records."""
        return int(np.count_nonzero(self.of_record >= 0))

    @property
    def n_pairs(self) -> int:
        """Number of pairs within clusters."""
        return n_pairs(np.bincount(self.of_record[self.of_record >= 0]))

    def contingency(self, true: "CodedClusters", missing: Missing) -> Contingency:
        """Return the cells of these clusters and true ones; see ``Clusters``."""
        ours, theirs = self.of_record, true.of_record
        if missing is Missing.LEAVE_OUT:
            chosen = (ours >= 0) & (theirs >= 0)
            return Contingency.of(ours[chosen], theirs[chosen])
        chosen = (ours >= 0) | (theirs >= 0)
        return Contingency.of(with_singletons(ours[chosen]), with_singletons(theirs[chosen]))

    def holds(self, keys: Ints) -> Booleans:
        """Return for each of the pairs whether both records are in one cluster."""
        one, other = self.of_record[keys >> CODE_BITS], self.of_record[keys & LOWER]
        together: Booleans = (one == other) & (one >= 0)
        return together

    def agreement_on(self, keys: Ints) -> Agreement:
        """Return the agreement of pairs with these clusters."""
        one, other = self.of_record[keys >> CODE_BITS], self.of_record[keys & LOWER]
        is_known = (one >= 0) & (other >= 0)
        return Agreement(int(np.count_nonzero(is_known)), int(np.count_nonzero(is_known & (one == other))))


@dataclass(frozen=True)
class CodedRelations(Relations):
    """Relations of tables whose records are coded together; ``ids`` has the record of each code."""

    ids: pa.Array
    sources: Sources

    @classmethod
    def of(
        cls, tables: Mapping[str, LocalTable], scored: str | None = None, sources: Sources = Sources.ONE
    ) -> "CodedRelations":
        """Code the records of all tables together, in the order of their ids if there is a ``scored`` table.

        A self-pair is dropped. A pair counts once in either order, and so does a record. Pairs of two sources
        have an order, and none is a self-pair. Rows with a null, or a score that is not finite, are dropped.
        The highest score of each pair of the table ``scored`` is kept.

        Raises:
            DataError: MISSING_COLUMN, UNSUPPORTED_TYPE, ID_TYPE_MISMATCH, RECORD_IN_TWO_CLUSTERS or
                EMPTY_INPUT.
        """
        kinds = {name: table.schema for name, table in tables.items()}
        check_columns(kinds, sources)
        read = {name: ReadTable.of(name, table, name == scored) for name, table in tables.items()}
        columns = [column for one in read.values() for column in one.records]
        codes, ids = code_together(columns, in_order=scored is not None)
        relations: dict[str, Relation] = {}
        entries: list[Entry] = []
        for name, one in read.items():
            own = [codes.pop(0) for _ in one.records]
            one.records.clear()
            relations[name], counted = (
                pairs_of(own, one.scores, ids, sources, has_scores=SCORE in kinds[name].names)
                if one.labels is None
                else clusters_of(name, own[0], one.labels, len(ids))
            )
            entries += entries_of(name, tables[name].n_rows, one.n_rows, counted)
        check_used(entries)
        return cls(relations, kinds, entries, ids, sources)

    @property
    def sizes(self) -> Sequence[int]:
        """Number of records in all tables, of each source."""
        if self.sources is Sources.ONE:
            return [len(self.ids)]
        is_there = np.zeros((2, len(self.ids)), dtype=np.bool_)
        for pairs in self.tables.values():
            assert isinstance(pairs, CodedPairs)
            for rows in blocks(pairs.n_pairs):
                is_there[0, pairs.keys[rows] >> CODE_BITS] = True
                is_there[1, pairs.keys[rows] & LOWER] = True
        return [int(n) for n in np.count_nonzero(is_there, axis=1)]

    def listed(self, pairs: pa.Table) -> CodedPairs:
        """Return the distinct pairs of a small table; pairs of unknown records are left out."""
        codes = [
            index_of(pairs[name].combine_chunks().cast(self.ids.type), self.ids).astype(np.int32)
            for name in PAIR
        ]
        is_known = (codes[0] >= 0) & (codes[1] >= 0)
        return pairs_of([own[is_known] for own in codes], None, self.ids, self.sources, has_scores=False)[0]


@dataclass(frozen=True)
class ReadTable:
    """Valid rows of a table: columns with records, those with clusters if it has them, scores if kept."""

    records: list[IdColumn]
    labels: IdColumn | None
    scores: Floats | None
    n_rows: int

    @classmethod
    def of(cls, name: str, table: LocalTable, keeps_scores: bool) -> "ReadTable":
        """Read a table batch by batch; keep the rows without a null, and with finite scores."""
        form = form_of(name, table.columns)
        names = [*form, *([SCORE] if SCORE in table.columns else [])]
        kinds = {column: table.schema.field(column).type for column in form}
        columns = {
            column: IdColumn(table.n_rows, is_text=kind == pa.string()) for column, kind in kinds.items()
        }
        scores, n_rows = [], 0
        chosen = table.select(*names)
        for batch in chain.from_iterable(part() for part in chosen.parts(1, coded=False)):
            valid = pa.table(batch).drop_null()
            if SCORE in names:
                score = valid[SCORE].cast(pa.float64(), safe=False)  # as Spark compares them with edges
                valid = valid.filter(pc.is_finite(score))
                if keeps_scores:
                    scores.append(to_numpy(valid[SCORE].cast(pa.float64(), safe=False)))
            n_rows += len(valid)
            for column, own in columns.items():
                for chunk in valid[column].chunks:
                    own.add(chunk)
        kept = np.concatenate([np.empty(0), *scores]) if keeps_scores and SCORE in names else None
        labels = columns.pop(CLUSTER, None)
        return cls(list(columns.values()), labels, kept, n_rows)


def pairs_of(
    own: list[Codes32], scores: Floats | None, ids: pa.Array, sources: Sources, *, has_scores: bool
) -> tuple[CodedPairs, Unused]:
    """Return distinct pairs, and the numbers of rows that are not used; ``own`` is emptied."""
    n_rows, n_kept = len(own[0]), 0
    keys = np.empty(n_rows, dtype=np.int64)
    is_pair = np.empty(n_rows, dtype=np.bool_)
    for rows in blocks(n_rows):
        one, other = own[0][rows], own[1][rows]
        is_pair[rows] = (one != other) | (sources is Sources.BIPARTITE)
        if sources is Sources.ONE:
            one, other = np.minimum(one, other), np.maximum(one, other)
        packed = one.astype(np.int64) << CODE_BITS
        packed |= other
        packed = packed[is_pair[rows]]
        keys[n_kept : n_kept + len(packed)] = packed
        n_kept += len(packed)
    own.clear()
    keys, best = keys[:n_kept], None
    if scores is not None:
        scores = scores[is_pair]
        order = np.argsort(keys)
        keys, scores = keys[order], scores[order]
    else:
        keys.sort()
    is_first = run_starts(keys)
    if scores is not None:
        starts = np.flatnonzero(is_first)
        best = np.maximum.reduceat(scores, starts) if len(starts) else scores
    keys = kept_in_place(keys, is_first)
    counted: Unused = {
        (Outcome.DROPPED, Reason.SELF_PAIR): n_rows - n_kept,
        (Outcome.DEDUPLICATED, Reason.REPEATED_PAIR): n_kept - len(keys),
    }
    return CodedPairs(keys, best, ids, has_scores=has_scores), counted


def with_singletons(clusters: Codes32) -> Codes32:
    """Return clusters with a cluster of its own for each record without one.

    >>> with_singletons(np.array([0, -1, 1, -1], dtype=np.int32)).tolist()
    [0, 2, 1, 3]
    """
    lacks = clusters < 0
    filled = clusters.copy()
    n_clusters = int(clusters.max(initial=-1)) + 1
    filled[lacks] = np.arange(n_clusters, n_clusters + np.count_nonzero(lacks))
    return filled


def kept_in_place(values: Ints, is_kept: Booleans) -> Ints:
    """Return some of the values, moved to the front of the same array."""
    n_kept = 0
    for rows in blocks(len(values)):
        own = values[rows][is_kept[rows]]
        values[n_kept : n_kept + len(own)] = own
        n_kept += len(own)
    return values[:n_kept]


def clusters_of(name: str, records: Codes32, labels: IdColumn, n_ids: int) -> tuple[CodedClusters, Unused]:
    """Return the cluster of each record, and the numbers of rows that are not used."""
    [clusters], _ = code_together([labels])
    of_record = np.full(n_ids, -1, dtype=np.int32)
    of_record[records] = clusters
    differs = of_record[records] != clusters  # of several rows of a record the last one counts
    check_each_once(name, len(np.unique(records[differs])))
    of_table = CodedClusters(of_record)
    return of_table, {(Outcome.DEDUPLICATED, Reason.REPEATED_RECORD): len(records) - of_table.n_records}


def pair_hashes(pairs: CodedPairs, seed: int) -> Ints:
    """Return ``xxhash64(seed, string(least), string(greatest))`` of each pair, as Spark computes it."""
    texts = pairs.ids.cast(pa.string())
    of_seed = xxh64(np.frombuffer(np.int64(seed).tobytes(), dtype=np.uint8)[None, :], np.uint64(SPARK_SEED))
    of_least = text_hashes(texts, of_seed[0])[pairs.least] if len(texts) else np.empty(0, dtype=np.uint64)
    hashes = text_hashes(texts.take(pa.array(pairs.greatest)), of_least)
    return hashes.view(np.int64)
