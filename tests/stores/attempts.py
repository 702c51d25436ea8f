"""Publication on a store that Spark reaches through Hadoop: attempts, their deaths, what is published."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spark_eval import read_published
from spark_eval.errors import BusyError
from spark_eval.publishing.attempt import Attempt
from spark_eval.publishing.published import published_tables
from spark_eval.publishing.remote import HadoopStore
from spark_eval.runtime.hadoop_files import HadoopFiles
from spark_eval.schema import Table

TABLES: Final = {Table.METRICS: 3, Table.ACCOUNTING: 2}
# What publication asks of a store.
CALLS: Final = ("rename", "write_new", "remove", "make_folder_of", "is_there", "names", "read", "files_below")


class Killed(BaseException):
    """What a process feels of kill -9: nothing of ours handles it."""


def write_rows(files: HadoopFiles, path: str, n_rows: int) -> None:
    """Write a Parquet file to a store."""
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"row": list(range(n_rows))}), sink)
    files.make_folder_of(path)
    stream = files.context.create(files.fs.Path(path), files.new_only, files.no_options)
    stream.write(bytearray(sink.getvalue().to_pybytes()))
    stream.close()


def begun(files: HadoopFiles, manifest: bool, run_id: str = "a", verb: str = "evaluate") -> Attempt:
    """An attempt that has written its tables."""
    attempt = Attempt(HadoopStore(files, manifest=manifest), run_id, verb)
    attempt.__enter__()
    for table, n_rows in TABLES.items():
        name = "model=01/0.parquet" if table is Table.METRICS else "0.parquet"
        write_rows(files, f"{attempt.staged(table)}/{name}", n_rows)
    return attempt


def unfinished(files: HadoopFiles) -> list[str]:
    """The folders of attempts that have not ended, or not well."""
    return [staging.folder for staging in HadoopStore(files, manifest=True).unfinished()]


def publish(files: HadoopFiles, manifest: bool, run_id: str = "a", fingerprint: str = "f") -> Attempt:
    """All of it."""
    attempt = begun(files, manifest, run_id)
    attempt.publish(TABLES, {"fingerprint": fingerprint})
    attempt.__exit__()
    return attempt


def found(files: HadoopFiles, *run_ids: str) -> Mapping[tuple[str, Table], int]:
    """The rows that are published, by run and table; of all runs, or of these."""
    counts = Counter[tuple[str, Table]]()
    tables = published_tables(files)
    for table in TABLES:
        if wanted := [run_id for run_id in run_ids or tables if table in tables.get(run_id, ())]:
            rows = read_published(files.spark, files.root, table, wanted)
            counts.update((row["run_id"], table) for row in rows.collect())
    return counts


def whole(*run_ids: str) -> Mapping[tuple[str, Table], int]:
    """The same of runs that are whole, once."""
    return {(run_id, table): n_rows for run_id in run_ids for table, n_rows in TABLES.items()}


def die_before_every_call(files: HadoopFiles, manifest: bool, is_killed: bool) -> tuple[int, int]:
    """Publish runs, each of which dies one call to the store later than the one before; check each.

    Return the number of calls, and of those after which a run was published already.
    """
    published = 0
    for point in range(100):
        run_id = f"r{point:02}"
        victim = begun(files, manifest, run_id)
        with pytest.MonkeyPatch.context() as patch:
            calls = counted_down(patch, point)
            try:
                victim.publish(TABLES, {"fingerprint": "f"})
            except Killed:
                assert calls == []
            else:
                victim.__exit__()
                break
        if not is_killed:
            victim.__exit__()
        [(is_published, _)] = finish(files, manifest, [run_id])
        published += is_published
    assert found(files) == whole(*(f"r{number:02}" for number in range(point + 1)))
    return point, published


def finish(files: HadoopFiles, manifest: bool, run_ids: Sequence[str]) -> Iterator[tuple[bool, bool]]:
    """Check what dead attempts left, and run them again; each run then is there once, whole.

    Yield for each whether it was published already, and whether its next attempt had nothing left to write.
    """
    before = found(files, *run_ids)
    assert before == whole(*(run_id for run_id, _ in before))
    for run_id in run_ids:
        with Attempt(HadoopStore(files, manifest=manifest), run_id, "evaluate") as retry:
            is_done = retry.is_published("f", TABLES, replace=False)
        if not is_done:
            publish(files, manifest, run_id)
        yield (run_id, Table.METRICS) in before, is_done
    assert found(files, *run_ids) == whole(*run_ids)


def counted_down(patch: pytest.MonkeyPatch, n_calls: int) -> list[str]:
    """Let so many calls to the store pass, then die before every one; empty once that has happened."""
    left = ["alive"] * (n_calls + 1)

    def dying(name: str) -> Any:
        original = getattr(HadoopFiles, name)

        def call(*arguments: Any) -> Any:
            if left:
                left.pop()
            if not left:
                raise Killed(name)
            return original(*arguments)

        return call

    for name in CALLS:
        patch.setattr(HadoopFiles, name, dying(name))
    return left


def race(files: HadoopFiles, manifest: bool, run_id: str) -> list[str]:
    """Let two attempts at a run publish at once; return how they end, sorted."""
    attempts = [begun(files, manifest, run_id) for _ in range(2)]
    start = Barrier(2)

    def end(attempt: Attempt) -> str:
        start.wait()
        try:
            attempt.publish(TABLES, {"fingerprint": "f"})
        except BusyError as error:
            return error.code
        finally:
            attempt.__exit__()
        return "published"

    with ThreadPoolExecutor(2) as pool:
        return sorted(pool.map(end, attempts))
