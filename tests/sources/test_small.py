"""Small tables of a config: CSV as text and Parquet, in this process and by a session."""

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from spark_eval import SparkEvalError
from spark_eval.sources.small import read_in_store, read_small

TEXT = 'run,model\n01,"a, b"\n2024-05-01,\n'
ROWS = [{"run": "01", "model": "a, b"}, {"run": "2024-05-01", "model": None}]


def no_session() -> Any:
    raise AssertionError("a session was opened")


def write(folder: Path) -> tuple[str, str]:
    (folder / "a.csv").write_text(TEXT)
    pd.DataFrame(ROWS).to_parquet(folder / "a.parquet")
    return str(folder / "a.csv"), str(folder / "a.parquet")


def test_cells_of_csv_are_text_and_empty_ones_null(tmp_path: Path) -> None:
    for path in write(tmp_path):
        assert read_small(path, "here", no_session).to_pylist() == ROWS
        assert read_small(f"file://{path}", "here", no_session).to_pylist() == ROWS


def test_a_lacking_or_odd_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "odd.csv").write_text("run,model\n1\n")
    for name in ("none.csv", "none.parquet", "odd.csv"):
        with pytest.raises(SparkEvalError, match=r"MISSING_INPUT.*here: cannot read"):
            read_small(str(tmp_path / name), "here", no_session)


def test_a_session_reads_the_same_rows(tmp_path: Path, spark: Any) -> None:
    for path in write(tmp_path):
        assert read_in_store(spark, path, "here").to_pylist() == ROWS
    with pytest.raises(SparkEvalError, match="MISSING_INPUT"):
        read_in_store(spark, str(tmp_path / "none.parquet"), "here")


def test_paths_elsewhere_open_the_session() -> None:
    with pytest.raises(AssertionError, match="a session was opened"):
        read_small("s3a://bucket/programme.csv", "here", no_session)
