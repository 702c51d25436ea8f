"""Where the demo writes: an older one of another log is not replaced unasked, nor any without a word."""

from pathlib import Path

import pytest
import yaml

from spark_eval.cli.commands import main
from spark_eval.cli.demo import check_older, movielens, settings


@pytest.fixture
def older(tmp_path: Path) -> Path:
    """The config of a demo of ratings.csv."""
    file = tmp_path / "demo.yaml"
    file.write_text(yaml.safe_dump(settings(movielens(tmp_path / "ratings.csv"), tmp_path)))
    return file


def test_the_demo_of_another_log_is_not_replaced_unasked(
    older: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = tmp_path / "other.csv"
    other.touch()
    before = older.read_bytes()
    arguments: tuple[list[str], ...] = ([], ["--ratings", str(other)])
    for given in arguments:
        with pytest.raises(SystemExit, check=lambda left: left.code == 2):
            main(["demo", *given, "--output", str(tmp_path)])
        said = capsys.readouterr()
        assert said.out == ""
        assert said.err.startswith("error[RUN_EXISTS] ")
        assert "ratings.csv'; use --replace or another --output" in said.err
    assert older.read_bytes() == before
    assert not (tmp_path / "log.parquet").exists()


def test_what_is_replaced_is_said(older: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    check_older(tmp_path / "none.yaml", tmp_path / "ratings.csv", replace=False)
    assert capsys.readouterr().out == ""
    for log, replace in (("ratings.csv", False), ("other.csv", True)):
        check_older(older, tmp_path / log, replace=replace)
        assert capsys.readouterr().out.startswith("replaces the demo of ")
