"""Counts of a written split: the leakage report, and the rows, users and items of its subsets."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from spark_eval.arrow.files import Batches
from spark_eval.errors import DataError
from spark_eval.names import summarize_names
from spark_eval.results.subsets import SubsetRow
from spark_eval.runners.combinations import combinations
from spark_eval.runners.rows import Rows
from spark_eval.runners.spread import Object, collect_objects, group_by_key, map_batches
from spark_eval.schema import FOLD, ITEM, SUBSET, TIMESTAMP, USER, Subset, ddl_of
from spark_eval.splits.facts import FoldCounts, SplitCounts
from spark_eval.splits.rules.fold_rule import NEVER, FoldRule
from spark_eval.splits.subsets import subset_rows
from spark_eval.splits.worker.bloom import BloomFilter, slice_bits_for, slice_of
from spark_eval.splits.worker.leaks import LeakCounter
from spark_eval.statistics.exact import Ints
from spark_eval.tables.file_parts import PlainFiles, takes_files

PART_ROWS_PER_BUCKET: Final = 500_000
PartSender = Callable[[Batches], Iterator[tuple[int, Object]]]


class LeakageRow(NamedTuple):
    """Row of LEAKAGE: one check of one fold."""

    fold: int
    check: str
    rows: int
    users: int
    leaked: bool


LEAKAGE: Final = ddl_of(LeakageRow)


def compare_times(rows: Rows, facts: SplitCounts, n_folds: int, folder: str | None = None) -> FoldCounts:
    """Count the rows and users of each subset and each leakage check of a split, fold by fold.

    ``rows`` has user, item, timestamp, fold and subset; only timestamps may be null. With ``folder``, the
    rows are read from there: Parquet partitioned by subset. See ``Check`` for the rows that a check counts.

    Rows are grouped by bucket of users, in one shuffle. If the rule does not report counts per fold, train
    rows are filtered before the shuffle, by a Bloom filter of the pairs in the other subsets.

    Return a list per subset and check, by name, with (number of rows, number of users) for each fold.
    """
    if folder is not None:
        rows = rows.reread(folder, SUBSET)
    files = folder if folder is not None and takes_files(folder) else None
    rule = facts.rule
    parts = rule.subsets if rule.reports_folds else rule.subsets[1:]
    n_rows = sum(facts.assigned[part] for part in parts)
    n_buckets = max(1, n_rows // PART_ROWS_PER_BUCKET)
    comparing = LeakCounter(rule, n_folds, n_buckets, ends_of(rows, facts, n_folds))
    of_parts = partial(messages_of_subsets, rows, files, comparing.columns)
    sent = of_parts(parts, comparing.messages)
    if not rule.reports_folds:
        slice_bits = slice_bits_for(n_rows, n_buckets)
        slices = group_by_key(of_parts(parts, comparing.pairs), n_buckets, partial(slice_for, slice_bits))
        pairs = BloomFilter.of(dict(collect_objects(slices)), n_buckets, slice_bits)
        train = of_parts(rule.subsets[:1], lambda batches: comparing.messages(batches, pairs))
        sent = sent.concat([train])
    buckets = collect_objects(group_by_key(sent, n_buckets, lambda _, messages: comparing.counts(messages)))
    totals = sum(buckets, start=np.zeros((len(comparing.names), 2, n_folds), dtype=np.int64))
    return {
        name: list(zip(*total.tolist(), strict=True))
        for name, total in zip(comparing.names, totals, strict=True)
    }


def ends_of(rows: Rows, facts: SplitCounts, n_folds: int) -> dict[str, list[int]]:
    """Return the last timestamp of each subset per fold, for checks that compare with a whole subset.

    Timestamps are in microseconds since the epoch; NEVER if the subset is empty in the fold.
    """
    whole = [check for check in facts.rule.checks.values() if check.early and not check.keys]
    others = {other.value for check in whole for several in check.others.values() for other in several}
    end_of = facts.ends
    if others and not end_of and facts.n_written:
        from pyspark.sql import functions as F

        # Rows of Spark: workers count others while they write them.
        parts = rows.result().where(F.col(SUBSET).isin(sorted(others))).groupBy(SUBSET, FOLD)
        ends = parts.agg(F.unix_micros(F.max(TIMESTAMP)).alias("end")).collect()
        end_of = {(part[SUBSET], part[FOLD]): part["end"] for part in ends}
    return {other: [end_of.get((other, fold), NEVER) for fold in range(n_folds)] for other in sorted(others)}


def slice_for(slice_bits: int, bucket: int, hashes: Sequence[Ints]) -> tuple[int, bytes]:
    """Return a bucket with its slice of a Bloom filter that contains these pairs."""
    return bucket, slice_of(np.concatenate(hashes), slice_bits)


def messages_of_subsets(
    rows: Rows, folder: str | None, columns: Sequence[str], parts: Sequence[Subset], sender: PartSender
) -> Rows:
    """Return the messages that ``sender`` makes of these subsets' batches of ``columns`` and subset."""
    sent = []
    for part in [] if folder is None else parts:
        paths = sorted(map(str, Path(str(folder), f"{SUBSET}={part.value}").glob("*.parquet")))
        if paths:
            files = PlainFiles.of(paths, {name: name for name in columns})
            sent.append(map_batches(rows.of_files(files), partial(messages_of_subset, sender, part.value)))
    if sent:
        return sent[0].concat(sent[1:])
    of_parts = rows.where_in(SUBSET, [part.value for part in parts])
    return map_batches(of_parts.where_not_null(SUBSET, [*columns, SUBSET]), sender)


def messages_of_subset(
    sender: PartSender, part: str, batches: Iterable[pa.RecordBatch]
) -> Iterator[tuple[int, Object]]:
    """Return the messages of the batches of one subset, with the missing column ``subset`` added."""
    return sender(batch.append_column(SUBSET, pa.repeat(part, batch.num_rows)) for batch in batches)


def leakage_rows(counts: FoldCounts, rule: FoldRule) -> list[LeakageRow]:
    """Return the leakage report: one row per fold and check of the rule."""
    return [
        LeakageRow(fold, name, n_rows, n_users, check.is_leak and n_rows > 0)
        for fold in range(len(counts[rule.subsets[0]]))
        for name, check in rule.checks.items()
        for n_rows, n_users in [counts[name][fold]]
    ]


def check_parts(counts: FoldCounts, rule: FoldRule) -> None:
    """Raise DataError SPLIT_OUT_OF_RANGE if a subset is empty in a fold; the input of targets may be."""
    folds = range(len(counts[rule.subsets[0]]))
    parts = rule.learnt_or_tested
    empty = [f"{part} of fold {fold}" for fold in folds for part in parts if not counts[part][fold][0]]
    if empty:
        message = f"no row is left for {summarize_names(empty)}"
        hint = "take fewer folds, larger parts, exact, or a longer log"
        raise DataError("SPLIT_OUT_OF_RANGE", f"{message}; {hint}")


def count_subsets(rows: Rows, rule: FoldRule, n_folds: int, folder: str | None = None) -> list[SubsetRow]:
    """Count the rows, users and items of each subset, and its cold users and items.

    Args:
        rows: The labelled rows, with user, item, fold and subset.
        rule: The rule of the split.
        n_folds: The number of folds.
        folder: Folder of the same rows as Parquet partitioned by subset; if given, they are read from there.

    Returns:
        The rows of the table ``subsets``.
    """
    if folder is not None:
        rows = rows.reread(folder, SUBSET)
    labels = [part.value for part in rule.subsets]
    counts: dict[str | None, dict[int, list[tuple[frozenset[Subset], int]]]] = {None: {}, USER: {}, ITEM: {}}
    for key, fold, bits, n in combinations(rows, [USER, ITEM], FOLD, SUBSET, labels):
        subsets = frozenset(part for index, part in enumerate(rule.subsets) if bits >> index & 1)
        counts[key].setdefault(fold, []).append((subsets, n))
    return subset_rows(rule, n_folds, *counts.values())
