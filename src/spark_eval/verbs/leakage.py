"""What of the later parts of a split is already in the earlier ones, counted."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial, reduce
from pathlib import Path
from typing import Final, TypeVar

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_eval.arrow.bloom import Sieve, slice_bits_for
from spark_eval.arrow.parcels import Parcel
from spark_eval.names import literal
from spark_eval.schema import ITEM, SUBSET, SUBSETS, TIMESTAMP, USER, Subset
from spark_eval.splits.leaks import (
    BOTH_RANKER_PARTS,
    GLOBAL_TEST_EARLY,
    PARTS,
    RANKER_EARLY,
    RETURNED_TO_GLOBAL_TEST,
    RETURNED_TO_LOCAL_TEST,
    Comparing,
)
from spark_eval.transforms.inputs import id_type
from spark_eval.transforms.objects import made, reading, together
from spark_eval.transforms.plain_files import PlainFiles, takes_files
from spark_eval.verbs.small import collected
from spark_eval.verbs.split_counts import Facts

# Each check, and whether its rows are leaks.
CHECKS: Final = {
    RANKER_EARLY: True,
    GLOBAL_TEST_EARLY: True,
    BOTH_RANKER_PARTS: True,
    RETURNED_TO_LOCAL_TEST: False,
    RETURNED_TO_GLOBAL_TEST: False,
}
LEAKAGE: Final = "fold int, check string, rows long, users long, leaked boolean"
ROWS_PER_BUCKET: Final = 500_000
Made = TypeVar("Made")
LeakageRow = tuple[int, str, int, int, bool]


def leakage_rows(rows: DataFrame, facts: Facts, folder: str | None = None) -> list[LeakageRow]:
    """One row per check of ``global_local_ranker``: fold (0), check, rows, users, leaked.

    ``rows`` has user, item, timestamp and subset, in none of them null; where they are in ``folder``, as
    Parquet by subset, they are read there.

    - ``ranker_at_or_before_local_train``: rows of local_test not after the last row of local_train.
    - ``global_test_at_or_before_global_train``: rows of global_test not after the last of global_train.
    - ``users_in_both_ranker_parts``: users of ranker_train and ranker_test, and their rows in both.
    - ``pairs_in_train_and_local_test``: rows of local_test whose user and item met in local_train.
    - ``pairs_in_train_and_global_test``: rows of global_test whose user and item met in global_train.

    The first three are ``leaked`` if they count any row. The last two never are, being legitimate
    wherever people come back to an item; ``seen: drop`` makes them 0. Of the train rows only those
    that may be pairs of tested rows are shuffled.
    """
    if folder is not None and not takes_files(folder):
        rows, folder = rows.sparkSession.read.schema(rows.schema).parquet(literal(folder)), None
    found: dict[str, Counter[str]] = {check: Counter() for check in CHECKS}
    for leaks in collected(compared(rows, facts, folder)):
        for check, (n_rows, n_users) in leaks.items():
            found[check].update(rows=n_rows, users=n_users)
    return [
        (0, check, found[check]["rows"], found[check]["users"], is_leak and found[check]["rows"] > 0)
        for check, is_leak in CHECKS.items()
    ]


def compared(rows: DataFrame, facts: Facts, folder: str | None) -> DataFrame:
    """Return the leaks of each bucket of users, as objects."""
    n_tested = sum(facts.counts[part] for part in PARTS)
    n_buckets = max(1, n_tested // ROWS_PER_BUCKET)
    comparing = Comparing(
        id_type(rows, USER),
        id_type(rows, ITEM),
        n_buckets,
        slice_bits_for(n_tested, n_buckets),
        (facts.end(*SUBSETS["local_train"]), facts.end(*SUBSETS["global_train"])),
    )
    send_tested = partial(send_parts, rows, PARTS, folder)
    pairs = send_tested((USER, ITEM), comparing.pairs)
    slices = together(pairs, n_buckets, lambda bucket, found: (bucket, comparing.slice(found)))
    sieve = Sieve.of(dict(collected(slices)), n_buckets, comparing.slice_bits)
    tested = send_tested((USER, ITEM, TIMESTAMP, SUBSET), comparing.tested)
    learnt = send_parts(
        rows,
        [Subset.LOCAL_TRAIN.value],
        folder,
        (USER, ITEM),
        lambda batches: comparing.learnt(batches, sieve),
    )
    return together(tested.unionAll(learnt), n_buckets, lambda _, found: comparing.leaks(found))


def send_parts(
    rows: DataFrame,
    parts: Sequence[str],
    folder: str | None,
    columns: Sequence[str],
    make: Callable[[Iterable[pa.RecordBatch]], Iterator[Parcel]],
) -> DataFrame:
    """Return the parcels that are made of batches of these parts, with these columns."""

    def addressed(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, Parcel]]:
        return ((parcel.bucket, parcel) for parcel in make(batches))

    if folder is None:
        return made(rows.where(F.col(SUBSET).isin(list(parts))).select(*columns), addressed)
    sent = [made(rows.select(*columns).limit(0), addressed)]
    for part in parts:
        paths = sorted(map(str, Path(folder, f"{SUBSET}={part}").glob("*.parquet")))
        if paths:
            files = PlainFiles(paths, {name: name for name in columns if name != SUBSET})
            sent.append(made(*reading(rows.sparkSession, files, made_of_part(addressed, part))))
    return reduce(DataFrame.unionAll, sent[1:] or sent)


def made_of_part(
    make: Callable[[Iterable[pa.RecordBatch]], Iterator[Made]], part: str
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[Made]]:
    """Return the same of batches that do not name their part."""
    return lambda batches: make(
        batch.append_column(SUBSET, pa.repeat(part, batch.num_rows)) for batch in batches
    )
