"""A sound file of another format than was said is called by its name; a damaged one is called damaged."""

import gzip
import io
import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pandas as pd
import pyarrow as pa
import pyarrow.feather
import pyarrow.orc
import pyarrow.parquet as pq
import pytest

from spark_eval import evaluate, evaluate_predictions, split
from spark_eval.errors import DataError
from spark_eval.runtime.file_kinds import kind_of_file, other_format
from spark_eval.sources.schemas import FileSchemas

ROWS: Final = pd.DataFrame({"user": [1, 2], "item": [7, 8], "score": [0.5, 0.25], "name": ["é", "x"]})


def written(write: Callable[[io.BytesIO], Any]) -> bytes:
    target = io.BytesIO()
    write(target)
    return target.getvalue()


def zipped(content: bytes) -> bytes:
    return written(lambda target: zipfile.ZipFile(target, "w").writestr("a.csv", content))


TABLE: Final = pa.Table.from_pandas(ROWS)
CSV: Final = ROWS.to_csv(index=False).encode()
JSON: Final = ROWS.to_json(orient="records", lines=True).encode()
PARQUET: Final = written(lambda target: pq.write_table(TABLE, target))
ORC: Final = written(lambda target: pa.orc.write_table(TABLE, target))
SOUND: Final = {
    "CSV": (CSV, "CSV"),
    "CSV of semicolons": (ROWS.to_csv(index=False, sep=";").encode(), "CSV"),
    "CSV of tabs": (ROWS.to_csv(index=False, sep="\t").encode(), "CSV"),
    "CSV without names": (ROWS.to_csv(index=False, header=False).encode(), "CSV"),
    "CSV of Windows": (ROWS.to_csv(index=False, lineterminator="\r\n").encode("utf-8-sig"), "CSV"),
    "CSV in Latin-1": (CSV.decode().encode("latin-1"), "CSV"),
    "CSV in UTF-16": (CSV.decode().encode("utf-16"), "CSV"),
    "CSV as MovieLens has it": (b"1::2::5\n1::3::4\n", "CSV"),
    "CSV of names alone": (b"user,item\n", "CSV"),
    "long CSV": (CSV + b"1,7,0.5,\xc3\xa9\n" * 2_000, "CSV"),
    "CSV in gzip": (gzip.compress(CSV), "CSV"),
    "JSON": (JSON, "JSON"),
    "JSON array": (json.dumps([{"user": 1}], indent=1).encode(), "JSON"),
    "JSON in gzip": (gzip.compress(JSON), "JSON"),
    "ORC": (ORC, "ORC"),
    "Avro": (b"Obj\x01\x04\x14avro.codec", "Avro"),
    "Arrow": (written(lambda target: pa.feather.write_feather(TABLE, target)), "Arrow"),
    "Excel": (zipped(CSV), "zip"),
    "Parquet": (PARQUET, "Parquet"),
    "Parquet in gzip": (gzip.compress(PARQUET), "Parquet"),
}
DAMAGED: Final = {
    "bytes": bytes(range(256)),
    "CSV with zeros": CSV + b"\x00" * 100,
    "a sentence": b"hello, world",
    "an error page": b"<html>\n<body>not found</body>\n",
    "no gzip": b"\x1f\x8b\x08 and no more",
    "empty": b"",
}


@pytest.mark.parametrize(("content", "kind"), SOUND.values(), ids=SOUND)
def test_files_are_known_by_their_first_bytes(tmp_path: Path, content: bytes, kind: str) -> None:
    path = tmp_path / "a"
    path.write_bytes(content)
    assert kind_of_file(str(path)) == kind
    for wanted, name in {"parquet": "Parquet", "orc": "ORC", "csv": "CSV", "json": "JSON"}.items():
        told = other_format(str(path), wanted)
        if kind == name or {kind, name} <= {"CSV", "JSON"}:
            assert told is None
        else:
            assert told is not None
            assert told.startswith(f"{str(path)!r} is {kind}, not {name}; for {kind} ")
            with pytest.raises(DataError, match=rf"WRONG_FORMAT.*log: .*is {kind}, not {name}"):
                FileSchemas.of([str(path)], wanted, "log")


@pytest.mark.parametrize("content", DAMAGED.values(), ids=DAMAGED)
def test_damaged_files_stay_damaged(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "a"
    path.write_bytes(content)
    assert kind_of_file(str(path)) is None
    with pytest.raises(DataError, match="CORRUPT_FILE"):
        FileSchemas.of([str(path)], "parquet", "log")
    path.write_bytes(PARQUET[: len(PARQUET) // 2])
    with pytest.raises(DataError, match="CORRUPT_FILE"):
        FileSchemas.of([str(path)], "parquet", "log")


@pytest.mark.parametrize("name", ["CSV", "CSV in gzip", "JSON", "ORC"])
@pytest.mark.parametrize("place", ["a b.csv", "folder/a é.csv", "beside Parquet/b.csv"])
@pytest.mark.usefixtures("spark")
def test_verbs_say_of_a_path_that_it_is_not_parquet(tmp_path: Path, name: str, place: str) -> None:
    content, kind = SOUND[name]
    path = tmp_path / place
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content)
    if place.startswith("beside"):
        (path.parent / "a.parquet").write_bytes(PARQUET)
    given = path if path.parent == tmp_path else path.parent
    verbs: list[Callable[[], Any]] = [
        lambda: evaluate(given, ROWS, model="als").metrics,
        lambda: evaluate(ROWS, given, model="als").metrics,
        lambda: split(given, timestamp_unit="s").rows.count(),
        lambda: evaluate_predictions(given, task="binary", model="als").metrics,
    ]
    for verb in verbs[:1] if place.startswith("beside") else verbs:
        with pytest.raises(DataError) as raised:
            verb()
        assert raised.value.code == "WRONG_FORMAT"
        assert f"is {kind}, not Parquet; for {kind} say format: " in raised.value.message


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("kind", ["text", "text in gzip"])
def test_a_config_says_of_a_path_that_it_is_not_parquet(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str
) -> None:
    from spark_eval.cli.commands import main

    log = tmp_path / "log.csv"
    log.write_bytes(gzip.compress(CSV) if "gzip" in kind else CSV)
    config = tmp_path / "config.yaml"
    config.write_text(
        f"output: {{path: {tmp_path / 'out'}}}\ninteractions: {{path: {log}, timestamp_unit: s}}\n"
    )
    for verb in (["validate", "--verb", "split"], ["split"]):
        with pytest.raises(SystemExit, check=lambda left: left.code == 3):
            main([*verb, "--config", str(config)])
        says = "not Parquet; for CSV say format: csv, or read it with pandas"
        assert capsys.readouterr().err == f"error[WRONG_FORMAT] interactions: {str(log)!r} is CSV, {says}\n"
