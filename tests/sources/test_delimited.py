"""Text files and folders that name columns: this process reads what Spark reads, or leaves it to Spark."""

import gzip
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from spark_eval.config.inputs import Source
from spark_eval.errors import SparkEvalError
from spark_eval.runners.local_tables import conformed_here
from spark_eval.runtime.spark_errors import named_spark_error
from spark_eval.sources.plain import open_plain
from spark_eval.sources.read import read_source
from spark_eval.splits.specs import specs_of
from spark_eval.tables.inputs import conformed_on_spark
from spark_eval.tables.spec import NotPlain

LOG: Final = "interactions"
SPEC: Final = specs_of("s", "UTC", timed=False)
HEAD: Final = "user,item,timestamp,relevance\n"
Cases = dict[str, tuple[bytes | str, dict[str, Any]]]
# What this process takes, by name: the text, and what differs in the source.
TAKEN: Final[Cases] = {
    "numbers": (HEAD + "1,2,964982703,4.0\n1,-3,964982704,0.5\n", {}),
    "without a last line end": (HEAD + "1,2,964982703,4.0", {}),
    "lines of windows": ((HEAD + "1,2,964982703,4.0\n1,3,964982704,4.5\n").replace("\n", "\r\n"), {}),
    "no value": (HEAD + "1,2,964982703,\n1,,964982704,4.5\n,3,964982705,4.5\n", {}),
    "lines without anything": (HEAD + "1,2,964982703,4.0\n\n1,3,964982704,4.5\n\n", {}),
    "text ids": (HEAD + "ann,2,964982703,4.0\n007,3,964982704,4.5\n", {}),
    "ids beyond 32 bits": (HEAD + "3000000000,2,964982703,4.0\n7,3,964982704,4.5\n", {}),
    "other columns": (
        "user,item,timestamp,shop,price,day\n1,2,964982703,Bed & Breakfast,0.25,3\n1,3,964982704,x,1,4\n",
        {},
    ),
    "one other column of numbers": ("user,item,timestamp,price\n1,2,964982703,0.25\n1,3,964982704,1\n", {}),
    "semicolons": ("user;item;timestamp\n1;2;964982703\n", {"options": {"header": True, "sep": ";"}}),
    "tabs": ("user\titem\ttimestamp\n1\t2\t964982703\n", {"options": {"header": "true", "delimiter": "\t"}}),
    "tabs as in YAML": ("user\titem\n1\t2\n", {"options": {"header": True, "sep": "\\t"}}),
    "two colons and no names": (
        "1::2::5::964982703\n1::3::4::964982704\n",
        {
            "options": {"sep": "::"},
            "columns": {"user": "_c0", "item": "_c1", "relevance": "_c2", "timestamp": "_c3"},
        },
    ),
    "names of ratings": (
        "userId,movieId,rating,timestamp\n1,2,4.0,964982703\n",
        {"columns": {"user": "userId", "item": "movieId", "relevance": "rating"}},
    ),
    "times": (HEAD + "1,2,2015-03-09 18:52:09,4.0\n1,3,1969-12-31 23:59:59.5,4.5\n", {}),
    "times with T": (HEAD + "1,2,2015-03-09T18:52:09,4.0\n", {}),
    "accents": (HEAD + "zoë,naïve café,964982703,4.0\nbob,b,964982704,4\n", {}),
}
# What this process leaves to Spark.
LEFT: Final[Cases] = {
    "quotes": (HEAD + '1,"2",964982703,4.0\n', {}),
    "a quote that does not close": (HEAD + '1,"2,964982703,4.0\n', {}),
    "digits that are no number": (HEAD + "007,2,964982703,4.0\n", {}),
    "an exponent": (HEAD + "1,2,964982703,1e0\n", {}),
    "a decimal comma": (
        "user;item;timestamp;relevance\n1;2;3;4,5\n",
        {"options": {"header": True, "sep": ";"}},
    ),
    "blanks around": (HEAD + "1, 2,964982703,4.0\n", {}),
    "not a number": (HEAD + "1,2,964982703,NaN\n", {}),
    "infinite": (HEAD + "1,2,964982703,Inf\n", {}),
    "truth values": ("user,item,timestamp,is_new\n1,2,964982703,true\n", {}),
    "dates": (HEAD + "1,2,2015-03-09,4.0\n", {}),
    "a day that does not exist": (HEAD + "1,2,2015-02-30 18:52:09,4.0\n", {}),
    "times of a zone": (HEAD + "1,2,2015-03-09 18:52:09+01:00,4.0\n", {}),
    "ids of 19 digits": (HEAD + "9223372036854775807,2,964982703,4.0\n", {}),
    "plus signs": (HEAD + "+1,2,964982703,4.0\n", {}),
    "minus zero": (HEAD + "-0,2,964982703,4.0\n", {}),
    "a short line": (HEAD + "1,2,964982703,4.0\n1,3\n", {}),
    "a long line": (HEAD + "1,2,964982703,4.0\n1,3,964982704,4.0,9\n", {}),
    "a name twice": ("user,item,item,timestamp\n1,2,3,964982703\n", {}),
    "no name": ("user,item,,timestamp\n1,2,3,964982703\n", {}),
    "other case": ("User,item,timestamp\n1,2,964982703\n", {}),
    "no rows": (HEAD, {}),
    "a mark of the encoding": (b"\xef\xbb\xbf" + HEAD.encode() + b"1,2,964982703,4.0\n", {}),
    "another encoding": (HEAD.encode() + "zoë,2,964982703,4.0\n".encode("latin-1"), {}),
    "a replaced character": (HEAD + "zo\ufffd,2,964982703,4.0\n", {}),
    "a null byte": (HEAD.encode() + b"1,2\0,964982703,4.0\n", {}),
    "line ends of old": (HEAD.replace("\n", "\r") + "1,2,964982703,4.0\r", {}),
    "a line of delimiters": (
        "user\titem\ttimestamp\n1\t2\t9\n\t\t\n",
        {"options": {"header": True, "sep": "\t"}},
    ),
    "three colons": ("1:::2::5\n", {"options": {"sep": "::"}, "columns": {"user": "_c0", "item": "_c1"}}),
    "another option": (HEAD + "1,2,964982703,4.0\n", {"options": {"header": True, "nullValue": "-"}}),
}


def source_at(path: Path, changes: dict[str, Any]) -> Source:
    named = {"options": {"header": True}} | {name: one for name, one in changes.items() if name != "drop"}
    return Source(path=str(path), format="csv", timestamp_unit="s", **named)


def here(source: Source) -> pa.Table:
    """The conformed rows of this process."""
    opened = open_plain(source, LOG, "UTC", (), None, no_session)
    return conformed_here(SPEC, LOG, opened, source.columns).table()


def no_session() -> SparkSession:
    raise AssertionError("a session was opened")


def there(spark: SparkSession, source: Source) -> pa.Table:
    """The conformed rows of Spark."""
    frame = read_source(spark, source, LOG, "UTC")
    return conformed_on_spark(SPEC, LOG, frame, source.columns)[0].toArrow()


def in_microseconds(moment: pa.ChunkedArray) -> list[Any]:
    """Points in time, which are in seconds if they are integers."""
    if pa.types.is_integer(moment.type):
        return [one and one * 1_000_000 for one in moment.to_pylist()]
    return list(moment.cast(pa.timestamp("us", "UTC")).cast(pa.int64()).to_pylist())


def told(make: Callable[[], pa.Table]) -> Any:
    """The rows in an order of their own and the types, or the code of the refusal."""
    try:
        table = make()
    except NotPlain:
        return None
    except Exception as error:
        return error.code if isinstance(error, SparkEvalError) else named_spark_error(error).code
    columns = {name: table[name].to_pylist() for name in table.column_names if name != "timestamp"}
    if "relevance" in columns:
        columns["relevance"] = [None if one is None else float(one) for one in columns["relevance"]]
    kinds = {name: str(table[name].type).replace("large_", "") for name in columns if name != "relevance"}
    if "timestamp" in table.column_names:
        columns["timestamp"] = in_microseconds(table["timestamp"])
    rows = sorted(map(str, zip(*columns.values(), strict=True)))
    return list(columns), kinds, rows


@pytest.mark.parametrize("name", TAKEN)
def test_text_that_is_plain_has_the_rows_and_types_of_spark(
    spark: SparkSession, tmp_path: Path, name: str
) -> None:
    text, changes = TAKEN[name]
    content = text.encode() if isinstance(text, str) else text
    (tmp_path / "a.csv").write_bytes(content)
    (tmp_path / "b.csv.gz").write_bytes(gzip.compress(content))
    sources = [source_at(tmp_path / file, changes) for file in ("a.csv", "b.csv.gz")]
    found = [told(partial(here, source)) for source in sources]
    assert found[0] is not None
    assert found == [told(partial(there, spark, sources[0]))] * 2


@pytest.mark.parametrize("name", LEFT)
def test_text_that_readers_take_differently_is_left_to_spark(tmp_path: Path, name: str) -> None:
    text, changes = LEFT[name]
    (tmp_path / "a.csv").write_bytes(text.encode() if isinstance(text, str) else text)
    with pytest.raises(NotPlain):
        here(source_at(tmp_path / "a.csv", changes))


# Folders of two files, and whether this process takes them.
FOLDERS: Final = {
    "models": (["model=als", "model=b%2Fpr"], True),
    "numbers": (["day=1", "day=12"], True),
    "numbers beyond 32 bits": (["day=1", "day=3000000000"], True),
    "numbers and words": (["day=1", "day=x"], True),
    "two levels": (["day=1/model=als", "day=2/model=01"], True),
    "no value": (["day=1", "day=__HIVE_DEFAULT_PARTITION__"], True),
    "accents": (["shop=caf\u00e9", "shop=x"], True),
    "dates": (["day=2024-01-01", "day=2024-01-02"], False),
    "digits that are no number": (["day=01", "day=1"], False),
    "fractions": (["day=1.5", "day=2"], True),
    "other columns": (["day=1", "model=als"], False),
    "files beside folders": (["day=1", ""], False),
    "a column that is in the files": (["item=1", "item=2"], False),
}


@pytest.mark.parametrize("kind", ["parquet", "csv"])
@pytest.mark.parametrize("name", FOLDERS)
def test_columns_of_folders_have_the_values_and_types_of_spark(
    spark: SparkSession, tmp_path: Path, name: str, kind: str
) -> None:
    folders, is_taken = FOLDERS[name]
    for number, folder in enumerate(folders):
        (tmp_path / folder).mkdir(parents=True, exist_ok=True)
        if kind == "csv":
            (tmp_path / folder / "p.csv").write_text(f"user,item,timestamp\n1,{number},9\n", encoding="utf-8")
        else:
            rows = pa.table({"user": [1], "item": [number], "timestamp": [9]})
            pq.write_table(rows, tmp_path / folder / "p.parquet")
    options: dict[str, Any] = {"header": True} if kind == "csv" else {}
    source = Source(path=str(tmp_path), format=kind, timestamp_unit="s", options=options)
    found = told(partial(here, source))
    assert isinstance(found, tuple) == is_taken
    if found is not None:
        assert found == told(partial(there, spark, source))
