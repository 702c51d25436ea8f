"""Number the rows of a log by its other rows, in this process: put them in order, deal them out, drop some.

The numbers are those of ``splits.label`` on Spark.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_eval.arrow.codes import Booleans, run_starts, to_numpy
from spark_eval.arrow.xxhash64 import chained_hashes, id_hashes
from spark_eval.runners.local_rows import LocalTable
from spark_eval.schema import ITEM, RELEVANCE, TIMESTAMP, USER, Reason
from spark_eval.splits.rules.fold_rule import (
    BUCKETS,
    LAST_STAGE,
    POLICIES,
    STAGES,
    Dealt,
    FoldRule,
    HeldOut,
    Indexed,
    Layout,
    Numbered,
    Numbering,
    TargetNumbering,
)
from spark_eval.splits.worker.labels import ROW_NUMBER, RowLabeller
from spark_eval.splits.worker.leaks import codes_of, pair_codes
from spark_eval.splits.worker.targets import TargetChooser
from spark_eval.statistics.exact import Ints

# Columns that tell rows apart by their draws; others decide between rows that agree in these.
KEYS: Final = (USER, ITEM, TIMESTAMP)
# Codes of control characters in JSON.
ESCAPED: Final = re.compile(r"\\u[0-9a-f]{4}")


def with_numbers(
    log: LocalTable, rule: FoldRule, layout: Layout, unit: str | None
) -> tuple[LocalTable, Layout]:
    """Return the log with ROW_NUMBER, and the layout of these numbers; the whole log is in memory.

    ``unit`` is that of timestamps that are integers.
    """
    rows, labeller = log.table(), RowLabeller(rule, layout, unit)
    faults = np.concatenate(
        [np.empty(0, np.int64), *(labeller.faults(one, labeller.times(one)) for one in rows.to_batches())]
    )
    valid = ValidRows(rows.filter(pa.array(faults < 0)), labeller)
    numbers, outcomes = valid.numbers(layout.numbering), list(map(list, layout.outcomes))
    if rule.drops and len(numbers):
        numbers, outcomes = after_drops(numbers, outcomes, rule, valid)
    of_rows = faults + len(outcomes)
    of_rows[faults < 0] = numbers
    numbered = rows.append_column(ROW_NUMBER, pa.array(of_rows))
    return LocalTable(numbered.schema, numbered), Layout(outcomes, Numbered())


@dataclass(frozen=True, eq=False)
class ValidRows:
    """The n valid rows of a log; arrays have shape (n,)."""

    rows: pa.Table
    labeller: RowLabeller

    @cached_property
    def times(self) -> Ints:
        """Timestamps in microseconds since the epoch; 0 for none."""
        parts = [to_numpy(self.labeller.times(batch).fill_null(0)) for batch in self.rows.to_batches()]
        return np.concatenate(parts) if parts else np.empty(0, dtype=np.int64)

    @cached_property
    def users(self) -> Ints:
        """Codes of the users."""
        return codes_of(self.rows[USER])

    @cached_property
    def items(self) -> Ints:
        """Codes of the items."""
        return codes_of(self.rows[ITEM])

    def numbers(self, how: Numbering | Dealt | Indexed | HeldOut | TargetNumbering | Numbered) -> Ints:
        """Return the number of each row; see the classes of ``rules.fold_rule``."""
        match how:
            case Numbering():
                return self.by_row(how)
            case Dealt(by_user=True):
                return self.dealt_users(how)
            case Dealt():
                return self.dealt_rows(how)
            case Indexed():
                return places(self.in_order([self.draws(how.seed)]))
            case HeldOut():
                return self.held_out(how)
            case TargetNumbering():
                return self.by_target(how)
        raise AssertionError(how)

    def by_row(self, how: Numbering) -> Ints:
        """Return numbers by time, by draw, or by both."""
        labeller = replace(self.labeller, layout=replace(self.labeller.layout, numbering=how))
        parts = [labeller.numbers(batch, labeller.times(batch)) for batch in self.rows.to_batches()]
        return np.concatenate(parts) if parts else np.empty(0, dtype=np.int64)

    def draws(self, seed: int, *, by_row: bool = True) -> Ints:
        """Return the seeded draw of each row, or of its user."""
        draws = [np.empty(0, dtype=np.int64)]
        for batch in self.rows.to_batches():
            hashes = id_hashes(batch[USER], np.int64(seed))
            if by_row:
                hashes = chained_hashes(batch[ITEM], self.labeller.times(batch), hashes)
            draws.append(hashes.view(np.int64))
        return np.concatenate(draws)

    def in_order(self, keys: Sequence[Ints]) -> Ints:
        """Return the order of the rows by keys, the first one first; equal ones by their other columns."""
        order = np.lexsort(keys[::-1])
        is_first = np.logical_or.reduce([run_starts(key[order]) for key in keys])
        tied = order[~is_first | np.append(~is_first[1:], False)]
        if not len(tied):
            return order
        return np.lexsort([*self.tie_keys(tied), *keys[::-1]])

    def tie_keys(self, tied: Ints) -> list[Ints]:
        """Return sort keys of the rows with these indices by their other columns, the last column first."""
        names = [RELEVANCE, *(name for name in self.rows.column_names if name not in (*KEYS, RELEVANCE))]
        some = self.rows.take(pa.array(np.unique(tied)))
        keys = []
        for name in names:
            if name in some.column_names:
                for ranks in value_ranks(some[name].combine_chunks()):
                    key = np.zeros(len(self.rows), dtype=np.int64)
                    key[np.unique(tied)] = ranks
                    keys.append(key)
        return keys[::-1]

    def dealt_users(self, how: Dealt) -> Ints:
        """Return the numbers that users are dealt."""
        draws, first = self.draws(how.seed, by_row=False), np.unique(self.users, return_index=True)[1]
        of_users = draws[first]
        place = places(np.lexsort([of_users, of_users % BUCKETS]))
        dealt: Ints = (place + start_of("", how))[self.users] % how.n
        return dealt

    def dealt_rows(self, how: Dealt) -> Ints:
        """Return the numbers that rows are dealt, each stratum on its own."""
        stratum, texts = strata_of(self.rows, how.strata)
        draws = self.draws(how.seed)
        order = self.in_order([stratum, draws % BUCKETS, draws])
        starts = np.flatnonzero(run_starts(stratum[order]))
        sizes = np.diff(np.append(starts, len(order)))
        place = np.empty(len(order), dtype=np.int64)
        place[order] = np.arange(len(order)) - np.repeat(starts, sizes)
        begins = np.array([start_of(text, how) for text in texts], dtype=np.int64)
        return (place + begins[stratum]) % how.n if len(order) else place

    def held_out(self, how: HeldOut) -> Ints:
        """Return 1 for held-out rows, 0 for others."""
        latest = [~self.times] if how.by_time else []
        order = self.in_order([self.users, *latest, self.draws(how.seed)])
        starts = np.flatnonzero(run_starts(self.users[order]))
        sizes = np.diff(np.append(starts, len(order)))
        n_held = np.repeat(n_held_out(how.held, sizes), sizes)
        place = np.arange(len(order)) - np.repeat(starts, sizes)
        is_test = place < n_held
        if how.together:
            times = self.times[order]
            # Rows of a user are in order, the latest first.
            cut = times[np.repeat(starts, sizes) + np.maximum(n_held - 1, 0)]
            earliest = times[np.repeat(starts + sizes - 1, sizes)]
            is_test = (n_held > 0) & (times >= cut) & (earliest < cut)
        numbers = np.empty(len(order), dtype=np.int64)
        numbers[order] = is_test
        return numbers

    def by_target(self, how: TargetNumbering) -> Ints:
        """Return numbers by time, raised by the role that a row has for the target of its user."""
        numbers, n_numbers = self.by_row(how.by_time), len(how.tests)
        folds = np.array([-1 if fold is None else fold for fold in how.tests], dtype=np.int64)[numbers]
        tested = np.flatnonzero(folds >= 0)
        if not len(tested):
            return numbers
        times = self.times[tested]
        order_of = TargetChooser(how.targets, how.seed).order_of(
            self.rows[USER].take(pa.array(tested)), times
        )
        owners = pair_codes(folds[tested], self.users[tested])
        order = np.lexsort((times, order_of, owners))
        first = order[run_starts(owners[order])]
        target = np.empty(len(first), dtype=np.int64)
        target[owners[first]] = times[first]
        at = target[owners]
        numbers[tested] += np.where(times < at, 1, np.where(times > at, 2, 0)) * n_numbers
        return numbers


def places(order: Ints) -> Ints:
    """Return the place of each row in an order (n,).

    >>> places(np.array([2, 0, 1])).tolist()
    [1, 2, 0]
    """
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.arange(len(order))
    return place


def n_held_out(held: int | Fraction, sizes: Ints) -> Ints:
    """Return the number of held-out rows of users with these numbers of rows.

    >>> n_held_out(2, np.array([2, 3])).tolist(), n_held_out(Fraction(1, 5), np.array([4, 10])).tolist()
    ([0, 2], [0, 2])
    """
    if isinstance(held, int):
        return np.where(sizes > held, held, 0)
    return np.floor(sizes * held.numerator / held.denominator).astype(np.int64)


def start_of(text: str, how: Dealt) -> int:
    """Return the number that a stratum begins with; ``text`` are its values."""
    [drawn] = id_hashes(pa.array([f"={text}"]), np.int64(how.seed)).view(np.int64).tolist()
    return int(drawn) % how.n


def strata_of(rows: pa.Table, names: Sequence[str]) -> tuple[Ints, list[str]]:
    """Return the stratum of each row (n,), and the text of each stratum: its values as JSON, as of Spark."""
    if not names:
        return np.zeros(len(rows), dtype=np.int64), [""]
    codes = np.zeros(len(rows), dtype=np.int64)
    for name in names:
        values = rows[name].combine_chunks().dictionary_encode(null_encoding="encode")
        codes = pair_codes(codes, to_numpy(values.indices).astype(np.int64))
    first = np.unique(codes, return_index=True)[1]
    values_of = rows.select(list(names)).take(pa.array(first)).to_pylist()
    return codes, [json_text(values) for values in values_of]


def json_text(values: Mapping[str, Any]) -> str:
    r"""Return a row as Spark's ``to_json`` writes text, booleans and integers; nulls are left out.

    >>> json_text({"country": "nl", "n": 3, "none": None, "is_new": True})
    '{"country":"nl","n":3,"is_new":true}'
    """
    there = {name: value for name, value in values.items() if value is not None}
    text = json.dumps(there, ensure_ascii=False, separators=(",", ":"))
    return ESCAPED.sub(lambda code: "\\u" + code[0][2:].upper(), text)


def value_ranks(column: pa.Array) -> Iterator[Ints]:
    """Yield sort keys of values, as Spark puts them in order: nulls first, NaN last, -0.0 before 0.0."""
    if pa.types.is_floating(column.type):
        values = column.cast(pa.float64())
        numbers = to_numpy(values.fill_null(0.0))
        ranks = np.unique(numbers, return_inverse=True)[1] + 1
        ranks[~to_numpy(column.is_valid()).astype(bool)] = 0
        yield ranks
        yield np.where(numbers == 0, ~np.signbit(numbers), True).astype(np.int64)
    else:
        values = column.drop_null().unique()
        in_order = values.take(pc.array_sort_indices(values))
        yield to_numpy(pc.index_in(column, in_order).fill_null(-1)).astype(np.int64)


def after_drops(
    numbers: Ints, outcomes: list[list[str]], rule: FoldRule, rows: ValidRows
) -> tuple[Ints, list[list[str]]]:
    """Return numbers and outcomes with the reason of a policy for what it drops.

    Cold users and items and seen pairs of a fold do not depend on the rows that other policies drop.
    """
    keys = {reason: key_codes(rows, POLICIES[reason]) for reason in rule.drops}
    tested = {part.value for part in rule.learnt_or_tested}
    for fold in range(len(outcomes[0])):
        of_fold = [outcome[fold] for outcome in outcomes]
        stages = np.array([STAGES.get(outcome, LAST_STAGE) for outcome in of_fold])[numbers]
        is_tested = np.array([outcome in tested for outcome in of_fold])[numbers] & (stages > 0)
        reason_of = np.zeros(len(numbers), dtype=np.int64)
        for index, reason in reversed([*enumerate(rule.drops, 1)]):
            reason_of[is_dropped(reason, keys[reason], stages) & is_tested] = index
        changed, numbers = np.unique(numbers * (len(rule.drops) + 1) + reason_of, return_inverse=True)
        reasons = ("", *(reason.value for reason in rule.drops))
        before, index = (part.tolist() for part in np.divmod(changed, len(reasons)))
        outcomes = [
            with_reason(outcomes[number], fold, reasons[one])
            for number, one in zip(before, index, strict=True)
        ]
    return numbers, outcomes


def key_codes(rows: ValidRows, columns: Sequence[str]) -> Ints:
    """Return the code of each row's key (n,)."""
    codes = {USER: rows.users, ITEM: rows.items}
    return codes[columns[0]] if len(columns) == 1 else pair_codes(rows.users, rows.items)


def is_dropped(reason: Reason, keys: Ints, stages: Ints) -> Booleans:
    """Return True for rows that a policy drops, if they are tested; ``stages`` are those of their subsets."""
    early, learnt = (np.zeros(keys.max(initial=0) + 1, dtype=bool) for _ in range(2))
    learnt[keys[stages == 0]] = True
    early[keys[stages == 1]] = True
    is_seen: Booleans = learnt[keys] | ((stages == LAST_STAGE) & early[keys])
    return is_seen if reason is Reason.SEEN else ~learnt[keys]


def with_reason(outcome: list[str], fold: int, reason: str) -> list[str]:
    """Return outcomes with a reason in place of that of a fold; unchanged without a reason."""
    return [*outcome[:fold], reason, *outcome[fold + 1 :]] if reason else outcome
