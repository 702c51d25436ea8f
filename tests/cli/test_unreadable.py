"""Files that may not be read, and outputs where nothing can be made: exit 2, whichever verb asks."""

import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, Final

import pandas as pd
import pytest
import yaml
from tests.cli.conftest import call
from tests.monitoring.test_window_verb import no_spark
from tests.verbs.test_validate_sections import KEYS, OTHERS, TABLES

from spark_eval import evaluate
from spark_eval.errors import SparkEvalError

# A user without any right, whom no rights of root help.
NOBODY: Final = 65_534
VERBS: Final[Mapping[str, tuple[str, ...]]] = {
    "split": ("interactions", "split"),
    "evaluate": ("recommendations", "truth", "train", "evaluate"),
    "predictions": ("predictions",),
    "online": ("exposures", "events", "online"),
    "linkage": ("predicted", "true", "candidates"),
    "sample": ("candidates", "predicted", "sample"),
}


@contextmanager
def without_rights() -> Iterator[None]:
    """Act as a user without the rights of root."""
    is_root = os.geteuid() == 0
    if is_root:
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        if is_root:
            os.seteuid(0)


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder that others may enter, with all tables; pytest's own folders are closed to others."""
    monkeypatch.setattr("spark_eval.cli.runner.open_session", lambda *_: no_spark())
    home = Path(mkdtemp())
    home.chmod(0o777)
    for name, columns in TABLES.items():
        pd.DataFrame(dict(columns)).to_parquet(home / f"{name}.parquet", index=False)
    yield home
    shutil.rmtree(home)


def config_of(home: Path, sections: tuple[str, ...], output: str = "out") -> str:
    tree: dict[str, Any] = {"output": {"path": str(home / output)}}
    tree |= {
        name: {"path": str(home / f"{name}.parquet"), **KEYS.get(name, {})}
        if name in TABLES
        else OTHERS[name]
        for name in sections
    }
    (home / "c.yaml").write_text(yaml.safe_dump(tree))
    return str(home / "c.yaml")


@pytest.mark.parametrize(
    ("verb", "table"), [(verb, name) for verb, names in VERBS.items() for name in names if name in TABLES]
)
def test_an_input_that_may_not_be_read_is_a_matter_of_permission(home: Path, verb: str, table: str) -> None:
    config = config_of(home, VERBS[verb])
    assert call("validate", "--config", config).code == 0
    file = home / f"{table}.parquet"
    file.chmod(0)
    with without_rights():
        for words in ((verb,), ("validate",), ("validate", "--verb", verb)):
            answer = call(words[0], "--config", config, *words[1:])
            assert (answer.code, answer.error) == (2, "NO_PERMISSION"), answer.err
            assert str(file) in answer.err
            assert "permissions" in answer.err
            assert not (home / "out" / "_commits").exists()


def test_init_and_python_say_the_same(home: Path) -> None:
    lists, truth = (str(home / f"{name}.parquet") for name in ("recommendations", "truth"))
    shown = ("init", "--config", str(home / "new.yaml"), "--truth", truth, "--recommendations", lists)
    assert evaluate(lists, truth, model="m", metrics=["recall"], k=[1], engine="local").metrics is not None
    Path(lists).chmod(0)
    with without_rights():
        answer = call(*shown, "--model", "m")
        assert (answer.code, answer.error) == (2, "NO_PERMISSION")
        with pytest.raises(SparkEvalError, match=r"recommendations\.parquet") as raised:
            evaluate(lists, truth, model="m", metrics=["recall"], k=[1], engine="local")
    assert (raised.value.code, raised.value.exit_code) == ("NO_PERMISSION", 2)


def test_a_folder_that_may_not_be_read_is_a_matter_of_permission(home: Path) -> None:
    config = config_of(home, VERBS["evaluate"])
    assert call("validate", "--config", config).code == 0
    (home / "truth.parquet").rename(home / "0.parquet")
    (home / "truth.parquet").mkdir()
    (home / "0.parquet").rename(home / "truth.parquet" / "0.parquet")
    (home / "truth.parquet").chmod(0)
    with without_rights():
        answer = call("evaluate", "--config", config)
    (home / "truth.parquet").chmod(0o755)
    assert (answer.code, answer.error) == (2, "NO_PERMISSION")


@pytest.mark.parametrize("output", ["/proc/x", "/proc/x/y", "/proc/self/x", "closed/out"])
@pytest.mark.parametrize("verb", ["split", "evaluate", "predictions"])
def test_an_output_where_nothing_can_be_made_is_refused_for_ever(home: Path, verb: str, output: str) -> None:
    (home / "closed").mkdir(mode=0o555)
    config = config_of(home, VERBS[verb], output)
    assert call("validate", "--config", config).code == 0
    with without_rights():
        answer = call(verb, "--config", config)
    assert (answer.code, answer.error) == (2, "NO_PERMISSION"), answer.err
