"""Folders as other tools write them, odd ones and broken ones, each with what must come of it."""

import base64
import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import pandas as pd
import pyarrow as pa
import pyarrow.orc
import pyarrow.parquet as pq
import pyarrow.parquet.encryption as pe
from pyspark.sql import DataFrame, SparkSession

LOG: Final = "interactions"
LISTS: Final = "recommendations"
PREDICTIONS: Final = "predictions"
MOMENT: Final = pa.timestamp("us", "UTC")
# The second moment lies before 1582: who counts days as people did then shifts it.
MOMENTS: Final = [datetime(2024, 1, 2, 3, 4, 5, tzinfo=UTC), datetime(1500, 6, 7, 8, 9, tzinfo=UTC)] * 3
BASE: Final = pa.table(
    {
        "user": pa.array([1, 2, 3, 4, 5, 6], pa.int64()),
        "item": ["a", "ü", "c", "d", "7", "007"],
        "timestamp": pa.array(MOMENTS, MOMENT),
        "relevance": [1.0, 2.0, 0.5, 1.0, 3.0, 1.0],
        "note": ["x", None, "z", "x", "y", "z"],
    }
)
RANKED: Final = pa.table(
    {"model": ["a", "a", "b"], "user": [1, 1, 2], "item": ["x", "y", "x"], "score": [0.5, 0.25, 1.0]}
)
LABELLED: Final = pa.table({"label": [1, 0], "score": [0.5, 0.25], "weight": [1.0, 2.0]})
Maker = Callable[[SparkSession, Path], str | None]
Session = Mapping[str, str]


@dataclass(frozen=True)
class Folder:
    """One folder: who makes it, how it is read, and what must come of it.

    ``rows``: the rows that it holds. ``code``: the refusal. Neither: only that both readers agree.
    """

    name: str
    make: Maker
    rows: pa.Table | None = field(default_factory=lambda: BASE)
    code: str | None = None
    table: str = LOG
    source: Mapping[str, Any] = field(default_factory=dict)
    settings: Session = field(default_factory=dict)
    is_quick: bool = False


def put(path: Path, rows: pa.Table = BASE, **options: Any) -> Path:
    """Write rows as a Parquet file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(rows, path, **options)
    return path


def arrow(rows: pa.Table = BASE, **options: Any) -> Maker:
    """Two files of one kind, as Arrow writes them with these options."""

    def make(_: SparkSession, folder: Path) -> None:
        put(folder / "0.parquet", rows.slice(0, len(rows) // 2), **options)
        put(folder / "1.parquet", rows.slice(len(rows) // 2), **options)

    return make


def pair(first: pa.Table, second: pa.Table) -> Maker:
    """Two files of different kinds."""

    def make(_: SparkSession, folder: Path) -> None:
        put(folder / "0.parquet", first)
        put(folder / "1.parquet", second)

    return make


def int96_second(_: SparkSession, folder: Path) -> None:
    """Moments of two physical types, which mean the same."""
    put(folder / "0.parquet", HEAD)
    put(folder / "1.parquet", TAIL, **INT96)


def cast(rows: pa.Table = BASE, **kinds: pa.DataType) -> pa.Table:
    """The rows with columns of other types."""
    for name, kind in kinds.items():
        rows = rows.set_column(rows.column_names.index(name), name, rows[name].cast(kind))
    return rows


def replaced(name: str, values: pa.Array, rows: pa.Table = BASE) -> pa.Table:
    """The rows with other values in a column."""
    return rows.set_column(rows.column_names.index(name), name, values)


HEAD, TAIL = BASE.slice(0, 3), BASE.slice(3)
FINE: Final = pa.array([1_700_000_000_000_000_001] * 6, pa.timestamp("ns", "UTC"))


def footers(keys: Mapping[str, str], rows: pa.Table = BASE, **options: Any) -> Maker:
    """Files of which the footers say what another writer, or another Spark, says."""
    return arrow(rows.replace_schema_metadata(dict(keys)), **options)


@contextmanager
def under(spark: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    """The session with other settings, for a while."""
    for name, value in settings.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name in settings:
            spark.conf.unset(name)


def by_spark(rows: pa.Table = BASE, settings: Mapping[str, str] | None = None) -> Maker:
    """As Spark writes it under these settings of Parquet."""

    def make(spark: SparkSession, folder: Path) -> None:
        frame: DataFrame = spark.createDataFrame(rows)
        with under(spark, {f"spark.sql.parquet.{name}": value for name, value in (settings or {}).items()}):
            frame.coalesce(1).write.parquet(str(folder))

    return make


def pandas(**kinds: Any) -> Maker:
    """As pandas writes it, with columns of these types."""

    def make(_: SparkSession, folder: Path) -> None:
        folder.mkdir()
        BASE.to_pandas().astype(kinds).to_parquet(folder / "0.parquet")

    return make


def beside(*makers: Callable[[Path], object], rows: pa.Table = BASE, **options: Any) -> Maker:
    """A plain folder in which more is done."""

    def make(spark: SparkSession, folder: Path) -> None:
        arrow(rows, **options)(spark, folder)
        for maker in makers:
            maker(folder)

    return make


def raw(name: str, content: bytes = b"") -> Callable[[Path], object]:
    """A file of this content."""

    def write(folder: Path) -> None:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)

    return write


def called(name: str, path: str | None = None, *others: str) -> Maker:
    """A folder of an odd name beside others, of which the rows must not be read."""

    def make(_: SparkSession, folder: Path) -> str:
        put(folder / name / "0.parquet")
        for other in others:
            put(folder / other / "0.parquet", replaced("relevance", pa.array([9.0] * 6)))
        return f"{folder}/{name}" if path is None else path.replace("HOME", str(folder))

    return make


def parts(column: str, *values: str, rows: pa.Table = BASE) -> Maker:
    """Folders of a partition, a row in each."""

    def make(_: SparkSession, folder: Path) -> None:
        for place, value in enumerate(values):
            mine = rows.slice(place, 1).drop_columns(column)
            put(folder / f"{column}={value}" / "0.parquet", mine)

    return make


def by_pattern(_: SparkSession, folder: Path) -> str:
    """Partitions that a pattern names, of which the files hold the column themselves, as numbers."""
    put(folder / "user=9" / "0.parquet", HEAD)
    put(folder / "user=8" / "0.parquet", TAIL)
    return f"{folder}/user=*"


def linked_partition(_: SparkSession, folder: Path) -> None:
    """One partition lies here, one elsewhere."""
    put(folder / "day=1" / "0.parquet", HEAD)
    put(folder.parent / "elsewhere" / "0.parquet", TAIL)
    (folder / "day=2").symlink_to(folder.parent / "elsewhere")


def linked_file(_: SparkSession, folder: Path) -> None:
    """A file lies elsewhere."""
    put(folder / "0.parquet", HEAD)
    put(folder.parent / "elsewhere" / "0.parquet", TAIL)
    (folder / "1.parquet").symlink_to(folder.parent / "elsewhere" / "0.parquet")


def linked_root(_: SparkSession, folder: Path) -> None:
    """The folder is a link."""
    put(folder.parent / "elsewhere" / "0.parquet")
    folder.symlink_to(folder.parent / "elsewhere")


def dangling(folder: Path) -> None:
    """A link that leads nowhere."""
    (folder / "2.parquet").symlink_to(folder / "nowhere")


def nested(folder: Path) -> None:
    """A folder that is no partition."""
    put(folder / "old" / "0.parquet")


def in_delta(_: SparkSession, folder: Path) -> str:
    """A partition of a Delta table."""
    put(folder / "day=1" / "0.parquet")
    raw("_delta_log/00000000000000000000.json", b"{}")(folder)
    return f"{folder}/day=1"


def iceberg_data(_: SparkSession, folder: Path) -> str:
    """The data of an Iceberg table, without its metadata."""
    put(folder / "data" / "0.parquet")
    raw("metadata/v1.metadata.json", b"{}")(folder)
    return f"{folder}/data"


def appended(spark: SparkSession, folder: Path) -> None:
    """Spark's own schema in the footer lacks a column that Arrow added."""
    by_spark(BASE.drop_columns("relevance"), MICROSECONDS)(spark, folder)
    for file in folder.glob("*.parquet"):
        rows = pq.read_table(file)
        (folder / f".{file.name}.crc").unlink()
        put(file, rows.append_column("relevance", BASE["relevance"]))


def stale_checksum(spark: SparkSession, folder: Path) -> None:
    """A file of Spark's that another writer has replaced, beside the checksums of the old one."""
    by_spark()(spark, folder)
    for file in folder.glob("*.parquet"):
        put(file, BASE)
        (folder / f".{file.name}.crc").touch()
        os.utime(folder / f".{file.name}.crc", (0, 0))


def no_text() -> pa.Array:
    """Bytes that are no UTF-8, as text: two of them differ."""
    places = pa.py_buffer(b"".join(place.to_bytes(4, "little") for place in range(7)))
    return pa.Array.from_buffers(pa.string(), 6, [None, places, pa.py_buffer(b"\xff\xfeabcd")])


def encrypted(plain_footer: bool) -> Maker:
    """A folder with a column that takes a key to read."""

    class Keys(pe.KmsClient):  # type: ignore[misc]
        """Keys that are not secret."""

        def wrap_key(self, key: bytes, _: str) -> bytes:
            return base64.b64encode(key)

        def unwrap_key(self, key: bytes, _: str) -> bytes:
            return base64.b64decode(key)

    def make(_: SparkSession, folder: Path) -> None:
        folder.mkdir()
        settings = pe.EncryptionConfiguration(
            footer_key="f", column_keys={"c": ["relevance"]}, plaintext_footer=plain_footer
        )
        factory = pe.CryptoFactory(lambda _: Keys())
        properties = factory.file_encryption_properties(pe.KmsConnectionConfig(), settings)
        with pq.ParquetWriter(folder / "0.parquet", BASE.schema, encryption_properties=properties) as writer:
            writer.write_table(BASE)

    return make


def summary(rows: pa.Table, name: str = "_common_metadata") -> Callable[[Path], object]:
    """A summary of schemas, as older Hadoop and Dask leave it."""
    return lambda folder: pq.write_metadata(rows.schema, folder / name)


def whole_summary(folder: Path) -> None:
    """A summary of row groups, as Dask leaves it."""
    found: list[pq.FileMetaData] = []
    for file in sorted(folder.glob("*.parquet")):
        footer = pq.read_metadata(file)
        footer.set_file_path(file.name)
        found.append(footer)
    pq.write_metadata(BASE.schema, folder / "_metadata", metadata_collector=found)


def empty_first(rows: pa.Table) -> Maker:
    """A file without rows, then one with rows."""
    return pair(rows.slice(0, 0), BASE)


def nothing_at_all(_: SparkSession, folder: Path) -> None:
    """pandas' empty frame, which has no columns, and a file with rows."""
    folder.mkdir()
    pd.DataFrame().to_parquet(folder / "0.parquet")
    put(folder / "1.parquet")


def csv(content: bytes) -> Maker:
    """One file of text."""

    def make(_: SparkSession, folder: Path) -> None:
        folder.mkdir()
        raw("0.csv", content)(folder)

    return make


def orc(_: SparkSession, folder: Path) -> None:
    """As Arrow writes ORC."""
    folder.mkdir()
    pyarrow.orc.write_table(MODERN, folder / "0.orc")


def lines(_: SparkSession, folder: Path) -> None:
    """An object a line."""
    folder.mkdir()
    text = [json.dumps({**row, "timestamp": row["timestamp"].isoformat()}) for row in BASE.to_pylist()]
    (folder / "0.json").write_text("\n".join(text), encoding="utf-8")


def lists_of(*models: str) -> pa.Table:
    """A row of each model."""
    n = len(models)
    return pa.table({"model": models, "user": [1] * n, "item": ["x"] * n, "score": [0.5] * n})


LEGACY = "org.apache.spark.legacyDateTime"
VERSION = "org.apache.spark.version"
MICROSECONDS: Final = {"outputTimestampType": "TIMESTAMP_MICROS"}
INT96: Final[Mapping[str, Any]] = {"use_deprecated_int96_timestamps": True}
NANOS, LOCAL = pa.timestamp("ns", "UTC"), pa.timestamp("us")
MODERN: Final = replaced("timestamp", pa.array(MOMENTS[:1] * 6, MOMENT))
HEADER: Final = {"format": "csv", "options": {"header": True}}


def quick(*given: Any, **more: Any) -> Folder:
    """One that is looked at by every run of the tests."""
    return replace(Folder(*given, **more), is_quick=True)


def refused(name: str, make: Maker, code: str, **more: Any) -> Folder:
    """One that is refused."""
    return Folder(name, make, None, code, **more)


def writers() -> Iterator[Folder]:
    """Every option of Arrow's writer, pandas, this Spark."""
    yield quick("plain", arrow())
    for version in ("1.0", "2.4"):
        yield Folder(f"version {version}", arrow(version=version))
    yield Folder("data pages 2.0", arrow(data_page_version="2.0"))
    for codec in ("none", "gzip", "zstd", "lz4"):
        yield Folder(f"packed by {codec}", arrow(compression=codec))
    yield quick("packed by brotli", arrow(compression="brotli"), None, "UNSUPPORTED_CODEC")
    yield Folder("no dictionary", arrow(use_dictionary=False))
    codes = {"user": "DELTA_BINARY_PACKED", "item": "DELTA_BYTE_ARRAY", "relevance": "BYTE_STREAM_SPLIT"}
    yield Folder("other encodings", arrow(use_dictionary=False, column_encoding=codes))
    lengths = {"item": "DELTA_LENGTH_BYTE_ARRAY"}
    yield Folder("lengths apart", arrow(use_dictionary=False, column_encoding=lengths))
    yield Folder("no schema of Arrow", arrow(store_schema=False))
    yield Folder("no statistics", arrow(write_statistics=False))
    yield Folder("checksums, an index", arrow(write_page_checksum=True, write_page_index=True))
    yield Folder("small row groups", arrow(row_group_size=1))
    yield Folder("moments as INT96", arrow(**INT96))
    yield Folder("moments in milliseconds", arrow(coerce_timestamps="ms"))
    yield quick("moments in nanoseconds", arrow(cast(MODERN, timestamp=NANOS)), MODERN)
    no_zone = cast(MODERN, timestamp=pa.timestamp("ns"))
    yield Folder("moments in nanoseconds of no zone", arrow(no_zone), MODERN)
    yield quick("parts of a microsecond", arrow(replaced("timestamp", FINE)), None, "TIMESTAMP_TOO_FINE")
    yield Folder("moments of no zone", arrow(cast(timestamp=LOCAL)))
    yield Folder("days", arrow(cast(timestamp=pa.date32(), rows=cast(timestamp=LOCAL))), None)
    for kind in (pa.int8(), pa.int16(), pa.int32(), pa.uint8(), pa.uint32(), pa.uint64()):
        yield Folder(f"users as {kind}", arrow(cast(user=kind)))
    wide = pa.array([2**63] * 6, pa.uint64())
    yield quick("users of 2^63", arrow(replaced("user", wide)), None, "UNSUPPORTED_TYPE")
    for kind in (pa.large_string(), pa.dictionary(pa.int8(), pa.string()), pa.string_view()):
        yield Folder(f"items as {kind}", arrow(cast(item=kind)))
    yield refused("items as bytes", arrow(cast(item=pa.binary())), "ID_TYPE_UNSUPPORTED")
    for kind in (pa.float32(), pa.decimal128(5, 2)):
        yield Folder(f"relevance as {kind}", arrow(cast(relevance=kind)))
    required = pa.schema([column.with_nullable(column.name == "note") for column in BASE.schema])
    yield Folder("columns that are required", arrow(BASE.cast(required)))
    yield Folder("a list beside", arrow(BASE.append_column("more", pa.array([[1]] * 6))))
    yield Folder("a duration beside", arrow(BASE.append_column("more", pa.array([1] * 6, pa.duration("us")))))
    yield Folder("nulls beside", arrow(BASE.append_column("more", pa.nulls(6))))
    yield Folder("as pandas writes", pandas())
    yield Folder("as pandas writes categories", pandas(item="category"))
    yield Folder("as pandas writes nullable integers", pandas(user="Int64"))
    yield quick("as Spark writes", by_spark())
    yield Folder("as Spark writes, in microseconds", by_spark(BASE, MICROSECONDS))
    yield Folder("as Spark wrote before", by_spark(settings={"writeLegacyFormat": "true"}))
    legacy = {"datetimeRebaseModeInWrite": "LEGACY", "int96RebaseModeInWrite": "LEGACY"}
    yield Folder("in the calendar of before 1582", by_spark(settings=legacy))
    yield Folder("as ORC", orc, MODERN, source={"format": "orc"})
    yield Folder("as JSON", lines, source={"format": "json"})


def footers_of_others() -> Iterator[Folder]:
    """What releases of Spark wrote that are not at hand, and readers told to read it so."""
    for version in ("2.4.8", "3.0.1", "3.1.2", "3.5.8"):
        is_quick = version == "2.4.8"
        yield Folder(
            f"INT96 of Spark {version}", footers({VERSION: version}, **INT96), None, is_quick=is_quick
        )
        yield Folder(f"microseconds of Spark {version}", footers({VERSION: version}), None)
    yield Folder("microseconds, marked as legacy", footers({VERSION: "3.5.8", LEGACY: ""}), None)
    for kind, options in (("datetime", {}), ("int96", INT96)):
        setting = {f"spark.sql.parquet.{kind}RebaseModeInRead": "LEGACY"}
        yield Folder(f"{kind}, read as legacy", arrow(**options), None, settings=setting)


def names() -> Iterator[Folder]:
    """Paths and folders of odd names."""
    yield quick("a literal bracket", called("data[1]", None, "data1"))
    yield Folder("a literal brace", called("data{a,b}", None, "dataa", "datab"))
    yield Folder("a literal star", called("da*", None, "data"))
    yield quick("a fragment", called("day#2", "file://HOME/day#2", "day"))
    for name in ("a b", "é", "100%", "a%20b", "a;b", "a?b", "back\\slash", "x=1"):
        yield Folder(f"a folder {name}", called(name, None, "a"))
    yield Folder("file:/", called("data", "file:HOME/data"))
    yield Folder("a localhost", called("data", "file://localhostHOME/data"))
    yield Folder("slashes, dots", called("data", "HOME//data/../data/./", "other"))
    yield Folder("one file", called("data", "HOME/data/0.parquet", "other"))
    yield quick("a pattern that leaves out", called("b", "HOME/[^a]", "a"))
    yield Folder("a pattern of alternatives", called("b", "HOME/{b,c}", "a"))
    yield Folder("a pattern of one letter", called("da", "HOME/d?", "other"))
    yield Folder("a pattern escaped", called("data[1]", "HOME/data\\[1\\]", "data1"))
    yield Folder("hidden files", beside(raw("_SUCCESS"), raw(".x", b"x"), raw("c._COPYING_", b"x")))
    yield refused("a file without a byte", beside(raw("2.parquet")), "EMPTY_FILE")
    yield refused("a file of another kind", beside(raw("notes.txt", b"hello, world")), "CORRUPT_FILE")
    yield quick("a partition elsewhere", linked_partition)
    yield Folder("a file elsewhere", linked_file)
    yield Folder("a folder elsewhere", linked_root)
    yield refused("a link to nowhere", beside(dangling), "MISSING_INPUT")
    yield refused("a folder below", beside(nested), "UNREAD_FILES")
    yield Folder("the summary of Dask", beside(whole_summary))


def partitions() -> Iterator[Folder]:
    """Columns that are names of folders."""
    yield Folder("partitions by user", parts("user", *"123456"))
    yield Folder("partitions by item", parts("item", "a", "ü", "c", "d", "7", "007"))
    users = parts("user", "1", "007")
    yield quick("a user that is not canonical", users, None, "ID_NOT_CANONICAL")
    models = lists_of("1", "01")
    yield quick("models 1 and 01 as folders", parts("model", "1", "01", rows=models), models, table=LISTS)
    odd = lists_of("a/b", "1.10", "1.1")
    folders = parts("model", "a%2Fb", "1.10", "1.1", rows=odd)
    yield Folder("models of odd names as folders", folders, odd, table=LISTS)
    yield Folder("a pattern of partitions", by_pattern)


def of_tables() -> Iterator[Folder]:
    """Tables of which the log says what counts."""
    log = "_delta_log/00000000000000000000.json"
    yield quick("a Delta table", beside(raw(log, b"{}")), None, "TABLE_FORMAT")
    yield refused("a partition of a Delta table", in_delta, "TABLE_FORMAT")
    yield refused("a Hudi table", beside(raw(".hoodie/hoodie.properties", b"x")), "TABLE_FORMAT")
    yield refused("an Iceberg table", beside(raw("metadata/00-1.metadata.json", b"{}")), "TABLE_FORMAT")
    yield refused("data of an Iceberg table", iceberg_data, "TABLE_FORMAT")


def schemas() -> Iterator[Folder]:
    """Files that differ, and footers that say something else than the file holds."""
    bare = HEAD.drop_columns("relevance")
    yield refused("a column missing first", pair(bare, TAIL), "SCHEMA_DRIFT")
    yield refused("a column missing second", pair(TAIL, bare), "SCHEMA_DRIFT")
    yield refused("another column missing first", pair(HEAD.drop_columns("note"), TAIL), "SCHEMA_DRIFT")
    weightless = pair(LABELLED.drop_columns("weight"), LABELLED)
    predictions = {"table": PREDICTIONS, "source": {"task": "binary", "model": "m"}}
    yield quick("a weight missing first", weightless, None, "SCHEMA_DRIFT", **predictions)
    yield quick("a column that Spark has not seen", appended, None, "SCHEMA_DRIFT")
    stale = BASE.drop_columns("relevance")
    yield Folder("a stale summary", beside(summary(stale)), None, "SCHEMA_DRIFT")
    yield Folder("a stale summary of row groups", beside(summary(stale, "_metadata")), None, "SCHEMA_DRIFT")
    yield Folder("a summary that fits", beside(summary(BASE)))
    berlin = cast(TAIL, timestamp=pa.timestamp("us", "Europe/Berlin"))
    yield quick("another zone second", pair(HEAD, berlin))
    yield quick("INT96 second", int96_second)
    no_zone = cast(TAIL, timestamp=LOCAL)
    yield quick("no zone second", pair(HEAD, no_zone), None, "SCHEMA_DRIFT")
    yield refused("no zone first", pair(no_zone, HEAD), "SCHEMA_DRIFT")
    yield refused("nanoseconds second", pair(HEAD, cast(MODERN, timestamp=NANOS)), "SCHEMA_DRIFT")
    yield Folder("milliseconds second", pair(HEAD, cast(TAIL, timestamp=pa.timestamp("ms", "UTC"))))
    yield refused("unsigned users second", pair(HEAD, cast(TAIL, user=pa.uint64())), "SCHEMA_DRIFT")
    yield refused("wider users second", pair(cast(HEAD, user=pa.int32()), TAIL), "SCHEMA_DRIFT")
    yield Folder("narrower users second", pair(HEAD, cast(TAIL, user=pa.int32())), None)
    twice = pair(HEAD, TAIL.append_column("User", TAIL["user"]))
    yield quick("User beside user second", twice, None, "AMBIGUOUS_COLUMN")
    other_case = TAIL.rename_columns(["User", *TAIL.column_names[1:]])
    yield Folder("User for user second", pair(HEAD, other_case))
    yield Folder("columns in another order", pair(HEAD, TAIL.select(TAIL.column_names[::-1])))
    yield quick("no rows first", empty_first(BASE))
    yield refused("nothing first", nothing_at_all, "SCHEMA_DRIFT")
    nulls = pa.table({name: pa.nulls(0) for name in BASE.column_names})
    yield Folder("columns of no type first", empty_first(nulls), None)
    yield quick("an empty frame of Spark", by_spark(BASE.slice(0, 0)), BASE.slice(0, 0))


def broken() -> Iterator[Folder]:
    """What cannot be read, or not as it is."""
    yield quick("text that is no UTF-8", arrow(replaced("item", no_text())), None, "INVALID_TEXT")
    yield quick("an encrypted column", encrypted(plain_footer=True), None, "ENCRYPTED_FILE")
    yield refused("an encrypted footer", encrypted(plain_footer=False), "ENCRYPTED_FILE")
    yield quick("a stale checksum", stale_checksum, None, "CORRUPT_FILE")
    yield refused("a file cut off", beside(raw("2.parquet", b"PAR1 and no more")), "CORRUPT_FILE")
    models = csv(b"model,user,item,score\n1,1,x,0.5\n01,1,x,0.5\n")
    yield quick("models 1 and 01 as text", models, lists_of("1", "01"), table=LISTS, source=HEADER)
    latin = csv("model,user,item,score\na,1,Ren\xe9,1\na,1,Ren\xe8,1\n".encode("latin-1"))
    yield refused("text in Latin-1", latin, "INVALID_TEXT", table=LISTS, source=HEADER)


ZOO: Final = [
    folder
    for kind in (writers, footers_of_others, names, partitions, of_tables, schemas, broken)
    for folder in kind()
]
# Of these the workers must read the files themselves: they are what most people write.
PLAIN: Final = {
    *("plain", "as Spark writes", "as Spark writes, in microseconds", "as pandas writes", "packed by zstd"),
    *("moments as INT96", "moments of no zone", "small row groups", "columns that are required"),
    *("another zone second", "INT96 second", "hidden files", "a folder elsewhere", "a fragment"),
}
