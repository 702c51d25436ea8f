"""Tables of pairs and of clusters as relations between records, whichever engine holds them; accounting."""

import logging
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import pyarrow as pa

from spark_eval.accounting import Entry
from spark_eval.errors import DataError
from spark_eval.linkage.clusters import Contingency
from spark_eval.linkage.plan import Missing, SamplePlan, Sources
from spark_eval.names import summarize_names
from spark_eval.runners.local_tables import is_id, is_number
from spark_eval.runtime import events
from spark_eval.schema import CLUSTER, RECORD, SCORE, A, B, Outcome, Reason
from spark_eval.statistics.exact import Ints

# A table with this share of self-pairs looks like one of two sources that number their records alike.
MANY_SELF_PAIRS: Final = 0.1
TWO_SOURCES: Final = "if a and b are ids of two sources, set sources: bipartite in linkage and sample"
# Numbers of rows that are not used, by outcome and reason.
Unused = dict[tuple[Outcome, Reason | None], int]
PAIR: Final = (A, B)
GROUPED: Final = (RECORD, CLUSTER)


class Drawn(NamedTuple):
    """Drawn pairs (n,), their strata by number, and the number of pairs of the stratum of each.

    The pairs are in order of their strata, and within a stratum of their hashes.
    """

    least: pa.Array
    greatest: pa.Array
    strata: Ints
    sizes: Ints


class Agreement(NamedTuple):
    """Numbers of pairs whose records another relation knows, and of those that belong together in it."""

    n_known: int
    n_held: int


class Relation(ABC):
    """Records that belong together."""

    @property
    @abstractmethod
    def n_pairs(self) -> int:
        """Number of pairs."""


class Pairs(Relation):
    """Distinct pairs of records."""

    has_scores: bool

    @abstractmethod
    def agreement(self, other: Any) -> Agreement:
        """Return the numbers of these pairs that another relation knows, and that it holds.

        Clusters know a pair if both of its records have one; pairs know every pair.
        """

    @abstractmethod
    def draw(self, predicted: Any, plan: SamplePlan) -> Drawn:
        """Draw pairs of each stratum: those with the lowest hashes."""


class Clusters(Relation):
    """Records with a cluster each."""

    @property
    @abstractmethod
    def n_records(self) -> int:
        """Number of records."""

    @abstractmethod
    def contingency(self, true: Any, missing: Missing) -> Contingency:
        """Return the cells of these clusters and true ones.

        They are of the records in both; or of those in either, if a missing record is a singleton.
        """


@dataclass(frozen=True)
class Relations(ABC):
    """Relations by the name of their table, the type of ids of each, and accounting."""

    tables: Mapping[str, Relation]
    kinds: Mapping[str, pa.Schema]
    entries: Sequence[Entry]

    @property
    @abstractmethod
    def sizes(self) -> Sequence[int]:
        """Number of records in all tables, of each source."""

    @abstractmethod
    def listed(self, pairs: pa.Table) -> Pairs:
        """Return the distinct pairs of a small table; pairs of unknown records are left out."""


def form_of(name: str, columns: Sequence[str]) -> Sequence[str]:
    """Return the columns of pairs, or those of clusters; raise DataError MISSING_COLUMN for neither."""
    for form in (PAIR, GROUPED):
        if set(form) <= set(columns):
            return form
    has = summarize_names(columns)
    raise DataError("MISSING_COLUMN", f"{name} has columns {has}; give a and b, or record and cluster")


def is_form_of_pairs(name: str, columns: Sequence[str]) -> bool:
    """Return True for the columns of pairs, False for those of clusters."""
    return form_of(name, columns) == PAIR


def check_columns(schemas: Mapping[str, pa.Schema], sources: Sources) -> None:
    """Raise one DataError for missing columns and wrong types of tables."""
    kinds: dict[str, str] = {}
    faults = []
    for name, schema in schemas.items():
        form = form_of(name, schema.names)
        if form == GROUPED and sources is Sources.BIPARTITE:
            message = f"{name}: clusters do not say which source a record is of; give pairs, a and b, or"
            message += " sources: one with ids that have a prefix of their source"
            faults.append(DataError("MISSING_COLUMN", message))
        for column in form:
            kind = schema.field(column).type
            if not is_id(kind):
                is_fraction = pa.types.is_floating(kind) or pa.types.is_decimal(kind)
                message = f"{name}: column {column!r} is {kind}; ids are text or integers"
                code = "ID_IS_FLOAT" if is_fraction else "ID_TYPE_UNSUPPORTED"
                faults.append(DataError(code, message))
            elif column != CLUSTER:
                kinds[f"{name}.{column}"] = "text" if kind == pa.string() else "integers"
        if SCORE in schema.names and not is_number(schema.field(SCORE).type):
            faults.append(DataError("UNSUPPORTED_TYPE", f"{name}: column 'score' is not a number"))
    DataError.raise_all(faults)
    if len(set(kinds.values())) > 1:
        named = summarize_names([f"{column} ({kind})" for column, kind in kinds.items()])
        raise DataError("ID_TYPE_MISMATCH", f"ids are of different types: {named}; write them with one type")


def check_each_once(name: str, n_repeated: int) -> None:
    """Raise DataError RECORD_IN_TWO_CLUSTERS if records of a table are in several clusters."""
    if n_repeated:
        message = f"{name}: {n_repeated} records are in several clusters"
        raise DataError("RECORD_IN_TWO_CLUSTERS", f"{message}; a clustering has each record once")


def empty_input(name: str, n_rows: int, why: str = "") -> DataError:
    """Return the error for a table without a row that counts."""
    return DataError("EMPTY_INPUT", f"{name}: none of {n_rows} rows is used{why}; run what writes it")


def check_used(entries: Sequence[Entry]) -> None:
    """Raise one DataError EMPTY_INPUT for all tables without a row that is used; warn of many self-pairs."""
    by_source: dict[str, list[Entry]] = {}
    for entry in entries:
        by_source.setdefault(entry.source, []).append(entry)
    faults, many = list[DataError](), list[str]()
    for name, lines in by_source.items():
        n_self = sum(one.rows for one in lines if one.reason == Reason.SELF_PAIR)
        n_in, n_used = (
            sum(one.rows for one in lines if one.outcome == end) for end in (Outcome.IN, Outcome.USED)
        )
        if n_self >= MANY_SELF_PAIRS * n_in > 0:
            many.append(f"{name}: {n_self:,} of {n_in:,}")
        if not n_used:
            left = ", ".join(f"{one.rows} {one.reason}" for one in lines if one.reason is not None)
            why = f" ({left}{'; ' + TWO_SOURCES if n_self else ''})" if left else ""
            faults.append(empty_input(name, n_in, why))
    DataError.raise_all(faults)
    if many:
        message = (
            f"SELF_PAIRS: many rows are pairs of a record with itself, which are dropped ({'; '.join(many)})"
        )
        events.say("self_pairs", f"{message}; {TWO_SOURCES}", logging.WARNING)


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
