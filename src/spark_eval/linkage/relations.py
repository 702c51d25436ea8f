"""Tables of pairs and of clusters as relations between coded records; every row is accounted for."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_eval.accounting import Entry
from spark_eval.arrow.codes import Codes, to_numpy, unique_sorted
from spark_eval.errors import DataError
from spark_eval.linkage.clusters import distinct, n_pairs
from spark_eval.names import summarize_names
from spark_eval.schema import CLUSTER, RECORD, SCORE, A, B, Outcome, Reason
from spark_eval.statistics.exact import Floats, Ints
from spark_eval.tables.local_tables import is_id, is_number

# Numbers of rows that are not used, by outcome and reason.
Unused = dict[tuple[Outcome, Reason | None], int]
PAIR: Final = (A, B)
GROUPED: Final = (RECORD, CLUSTER)


class Relation(ABC):
    """Records that belong together."""

    @property
    @abstractmethod
    def n_pairs(self) -> int:
        """Number of pairs."""

    @abstractmethod
    def holds(self, pairs: "Pairs") -> Any:
        """Return for each of the pairs whether its records belong together."""

    @abstractmethod
    def knows(self, pairs: "Pairs") -> Any:
        """Return for each of the pairs whether the relation says anything about both records."""


@dataclass(frozen=True)
class Pairs(Relation):
    """Distinct pairs of records in ascending order: ``least`` and ``greatest`` (n,), and their scores."""

    least: Ints
    greatest: Ints
    n_ids: int
    scores: Floats | None = None

    @property
    def keys(self) -> Ints:
        """A number for each pair, ascending."""
        return self.least * self.n_ids + self.greatest

    @property
    def n_pairs(self) -> int:
        """Number of pairs."""
        return len(self.least)

    def holds(self, pairs: "Pairs") -> Any:
        """Return for each of the pairs whether it is one of these."""
        return np.isin(pairs.keys, self.keys, assume_unique=True)

    def knows(self, pairs: "Pairs") -> Any:
        """Return True for each of the pairs: a pair that is not listed is not one."""
        return np.ones(pairs.n_pairs, dtype=np.bool_)

    def only(self, is_kept: Any) -> "Pairs":
        """Return some of the pairs."""
        scores = None if self.scores is None else self.scores[is_kept]
        return Pairs(self.least[is_kept], self.greatest[is_kept], self.n_ids, scores)


@dataclass(frozen=True)
class Clusters(Relation):
    """The cluster of each record (ids,), -1 for records without one."""

    of_record: Ints

    @property
    def n_pairs(self) -> int:
        """Number of pairs within clusters."""
        return n_pairs(np.bincount(self.of_record[self.of_record >= 0]))

    def holds(self, pairs: Pairs) -> Any:
        """Return for each of the pairs whether both records are in one cluster."""
        one, other = self.of_record[pairs.least], self.of_record[pairs.greatest]
        return (one == other) & (one >= 0)

    def knows(self, pairs: Pairs) -> Any:
        """Return for each of the pairs whether both records have a cluster."""
        return (self.of_record[pairs.least] >= 0) & (self.of_record[pairs.greatest] >= 0)


@dataclass(frozen=True)
class Relations:
    """Relations by the name of their table, the ids of the records in ascending order, and accounting."""

    tables: Mapping[str, Relation]
    ids: pa.Array
    entries: Sequence[Entry]

    @classmethod
    def of(cls, tables: Mapping[str, pa.Table]) -> "Relations":
        """Code the records of all tables together.

        A self-pair is dropped. A pair counts once in either order, with its highest score, and so does a
        record. Rows with a null, or a score that is not finite, are dropped.

        Raises:
            DataError: MISSING_COLUMN, UNSUPPORTED_TYPE, ID_TYPE_MISMATCH or RECORD_IN_TWO_CLUSTERS.
        """
        check_columns(tables)
        valid = {name: valid_rows(name, table) for name, table in tables.items()}
        columns = [valid[name][column] for name in valid for column in id_columns(name, tables[name])]
        chunks = [chunk for column in columns for chunk in column.chunks]
        coded = Codes.of([pa.chunked_array(chunks, columns[0].type)])
        ranks, codes = unique_sorted(coded.in_order(coded.columns[0]))
        ids = coded.ids_in_order(ranks)
        del coded, chunks, columns  # the ids of every row: codes take their place
        relations: dict[str, Relation] = {}
        entries: list[Entry] = []
        start = 0
        for name, table in valid.items():
            own = []
            for _ in id_columns(name, table):
                own.append(codes[start : start + len(table)])
                start += len(table)
            made, counted = relation_of(name, table, own, len(ranks))
            relations[name] = made
            entries += entries_of(name, len(tables[name]), len(table), counted)
        return cls(relations, ids, entries)


def is_pairs(table: pa.Table) -> bool:
    """Return True for a table of pairs, False for one of clusters."""
    return A in table.column_names and B in table.column_names


def form_of(name: str, columns: Sequence[str]) -> Sequence[str]:
    """Return the columns of pairs, or those of clusters; raise DataError MISSING_COLUMN for neither."""
    for form in (PAIR, GROUPED):
        if set(form) <= set(columns):
            return form
    has = summarize_names(columns)
    raise DataError("MISSING_COLUMN", f"{name} has columns {has}; give a and b, or record and cluster")


def id_columns(name: str, table: pa.Table) -> Sequence[str]:
    """Return the columns with records; raise DataError MISSING_COLUMN unless it has those of one form."""
    return [column for column in form_of(name, table.column_names) if column != CLUSTER]


def check_columns(tables: Mapping[str, pa.Table]) -> None:
    """Raise one DataError for missing columns and wrong types."""
    kinds: dict[str, str] = {}
    faults = []
    for name, table in tables.items():
        for column in form_of(name, table.column_names):
            kind = table.schema.field(column).type
            if not is_id(kind):
                message = f"{name}: column {column!r} is {kind}; ids are text or integers"
                faults.append(DataError("UNSUPPORTED_TYPE", message))
            elif column != CLUSTER:
                kinds[f"{name}.{column}"] = "text" if kind == pa.string() else "integers"
        if SCORE in table.column_names and not is_number(table.schema.field(SCORE).type):
            faults.append(DataError("UNSUPPORTED_TYPE", f"{name}: column 'score' is not a number"))
    DataError.raise_all(faults)
    if len(set(kinds.values())) > 1:
        named = summarize_names([f"{column} ({kind})" for column, kind in kinds.items()])
        raise DataError("ID_TYPE_MISMATCH", f"ids are of different types: {named}; write them with one type")


def valid_rows(name: str, table: pa.Table) -> pa.Table:
    """Return the rows without a null in ids, clusters and scores, with integers of one type."""
    names = [*form_of(name, table.column_names), *([SCORE] if SCORE in table.column_names else [])]
    chosen = table.select(names)
    for at, column in enumerate(names):
        kind = chosen.schema.field(column).type
        if pa.types.is_integer(kind) and column != SCORE:
            chosen = chosen.set_column(at, column, chosen[column].cast(pa.int64()))
    chosen = chosen.drop_null()
    if SCORE in names:
        scores = chosen[SCORE].cast(pa.float64())
        chosen = chosen.filter(pc.is_finite(scores))
    return chosen


def relation_of(name: str, table: pa.Table, own: Sequence[Ints], n_ids: int) -> tuple[Relation, Unused]:
    """Return the relation of a table, and the numbers of rows that it does not use."""
    if is_pairs(table):
        scores = (
            to_numpy(table[SCORE].combine_chunks().cast(pa.float64()))
            if SCORE in table.column_names
            else None
        )
        least, greatest = np.minimum(*own), np.maximum(*own)
        is_pair = least != greatest
        n_self = int(len(is_pair) - np.count_nonzero(is_pair))
        least *= n_ids
        least += greatest
        keys = least[is_pair] if n_self else least
        unique, starts = distinct(keys)
        best = None
        if scores is not None:
            best = (
                np.maximum.reduceat(scores[is_pair][np.argsort(keys)], starts) if len(starts) else scores[:0]
            )
        pairs = Pairs(unique // max(n_ids, 1), unique % max(n_ids, 1), n_ids, best)
        counted: Unused = {
            (Outcome.DROPPED, Reason.SELF_PAIR): n_self,
            (Outcome.DEDUPLICATED, Reason.REPEATED_PAIR): len(keys) - len(unique),
        }
        return pairs, counted
    labels = table[CLUSTER].combine_chunks().dictionary_encode()
    clusters = to_numpy(labels.indices).astype(np.int64)
    n_labels = max(len(labels.dictionary), 1)
    cells, _ = distinct(own[0] * n_labels + clusters)
    records = cells // n_labels
    repeated = records[1:][records[1:] == records[:-1]]
    if len(repeated):
        message = f"{name}: {len(np.unique(repeated))} records are in several clusters"
        raise DataError("RECORD_IN_TWO_CLUSTERS", f"{message}; a clustering has each record once")
    of_record = np.full(n_ids, -1, dtype=np.int64)
    of_record[records] = cells % n_labels
    return Clusters(of_record), {(Outcome.DEDUPLICATED, Reason.REPEATED_RECORD): len(clusters) - len(cells)}


def entries_of(name: str, n_in: int, n_valid: int, counted: Unused) -> list[Entry]:
    """Return the accounting of a table; ``in`` is the sum of the other lines."""
    n_used = n_valid - sum(counted.values())
    lines: Unused = {
        (Outcome.IN, None): n_in,
        (Outcome.USED, None): n_used,
        (Outcome.DROPPED, Reason.NULL_VALUE): n_in - n_valid,
        **counted,
    }
    always = (Outcome.IN, Outcome.USED)
    return [
        Entry(name, None, outcome, reason, n, None)
        for (outcome, reason), n in lines.items()
        if n or outcome in always
    ]
