"""``--verdict FILE``: what may stand at FILE, what never goes, and when an earlier verdict is removed."""

import json
import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.cli.conftest import Answer, call
from tests.monitoring.test_watch import days_of

from spark_eval.runs.verdict import Verdict, is_verdict

VERDICT: Final = Verdict("other", "watch", [], [("a gate", True, "not_worse", "as before", ["-"] * 4)])
PRECIOUS: Final = "precious\n"
UNFIT: Final = '{"run_id": "r", "verb": "watch", "passed": true, "gates": [], "more": 1}'


@pytest.fixture(scope="module")
def days(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An output with ten published days."""
    root = tmp_path_factory.mktemp("days") / "out"
    days_of(root, 10, fallen="none")
    return root


@pytest.fixture
def home(tmp_path: Path, days: Path) -> Path:
    """A folder with ten published days below ``out``, and a config that watches them."""
    tree: dict[str, Any] = {"output": {"path": str(tmp_path / "out")}, "watch": {"metrics": ["map@2"]}}
    (tmp_path / "own.json").write_text(json.dumps(tree))
    shutil.copytree(days, tmp_path / "out")
    return tmp_path


def watch(home: Path, verdict: Path | str, *words: str, config: str = "own.json", day: int = 10) -> Answer:
    """Judge a day, and ask for its verdict."""
    given = ("--config", str(home / config), "--run-id", f"2024-01-{day:02}", "--verdict", str(verdict))
    return call("watch", *given, *words)


def contents(folder: Path) -> dict[str, tuple[str, bytes]]:
    """All that is in a folder: the goals of links, and the bytes of files."""
    return {
        str(path): (
            str(path.readlink()) if path.is_symlink() else "",
            path.read_bytes() if path.is_file() else b"",
        )
        for path in folder.rglob("*")
    }


def written(path: Path, text: str) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    return path


def linked(path: Path, goal: Path) -> Path:
    path.symlink_to(goal)
    return path


def folder(path: Path) -> Path:
    path.mkdir()
    return path


# Each puts something at a path, and returns that path; and the code of the refusal.
REFUSED: Final[Mapping[str, tuple[Callable[[Path], Path], str]]] = {
    "the config itself": (lambda home: home / "own.json", "FILE_EXISTS"),
    "a page": (lambda home: written(home / "README.md", PRECIOUS), "FILE_EXISTS"),
    "a page that begins as a verdict": (
        lambda home: written(home / "notes.md", VERDICT.as_markdown() + PRECIOUS),
        "FILE_EXISTS",
    ),
    "a settings file": (lambda home: written(home / "package.json", "{}"), "FILE_EXISTS"),
    "JSON with a verdict's keys and more": (lambda home: written(home / "x.json", UNFIT), "FILE_EXISTS"),
    "JSON that is cut off": (lambda home: written(home / "x.json", VERDICT.as_json()[:-9]), "FILE_EXISTS"),
    "JSON that is too deep": (
        lambda home: written(home / "x.json", '{\n  "run_id": ' + "[" * 100_000),
        "FILE_EXISTS",
    ),
    "bytes": (
        lambda home: (home / "x.md", (home / "x.md").write_bytes(b"**PASSED**: \xff"))[0],
        "FILE_EXISTS",
    ),
    "a link to a page": (
        lambda home: linked(home / "link.md", written(home / "real.md", PRECIOUS)),
        "FILE_EXISTS",
    ),
    "a link to a page in another folder": (
        lambda home: linked(home / "link.json", written(home / "elsewhere/real.json", "[]")),
        "FILE_EXISTS",
    ),
    "a folder": (lambda home: folder(home / "verdict.md"), "INVALID_PATH"),
    "a link to a folder": (lambda home: linked(home / "link.md", folder(home / "goal")), "INVALID_PATH"),
    "a link to itself": (lambda home: linked(home / "link.md", home / "link.md"), "INVALID_PATH"),
    "below a file": (lambda home: home / "own.json/verdict.md", "INVALID_PATH"),
    "another suffix": (lambda home: home / "verdict.txt", "INVALID_PATH"),
    "a long name": (lambda home: home / ("x" * 300 + ".md"), "INVALID_PATH"),
    "the record of a run": (lambda home: home / "out/_commits/2024-01-01.json", "INVALID_PATH"),
    "where no file can be made": (lambda _: Path("/proc/verdict.md"), "NO_PERMISSION"),
}


@pytest.mark.parametrize("case", REFUSED.values(), ids=REFUSED)
def test_what_is_no_verdict_is_refused_before_the_run_and_stays(
    home: Path, case: tuple[Callable[[Path], Path], str]
) -> None:
    put, code = case
    verdict = put(home)
    before = contents(home)
    answer = watch(home, verdict)
    assert (answer.code, answer.error) == (2, code), answer.err
    assert contents(home) == before


# Each puts something at a path, and returns that path and the path of the file that becomes the verdict.
TAKEN: Final[Mapping[str, Callable[[Path], tuple[Path, Path]]]] = {
    "nothing": lambda home: (home / "v.md", home / "v.md"),
    "no folder": lambda home: (home / "new/deep/v.json", home / "new/deep/v.json"),
    "a verdict": lambda home: (written(home / "v.md", VERDICT.as_markdown()), home / "v.md"),
    "a verdict as JSON": lambda home: (written(home / "v.json", VERDICT.as_json()), home / "v.json"),
    "an empty file": lambda home: (written(home / "v.json", ""), home / "v.json"),
    "a link to a verdict": lambda home: (
        linked(home / "link.md", written(home / "elsewhere/v.md", VERDICT.as_markdown())),
        home / "elsewhere/v.md",
    ),
    "a dangling link": lambda home: (linked(home / "link.md", home / "v.md"), home / "v.md"),
    "in the reports": lambda home: (home / "out/report/v.md", home / "out/report/v.md"),
}


@pytest.mark.parametrize("put", TAKEN.values(), ids=TAKEN)
def test_a_verdict_is_replaced_and_links_are_followed(
    home: Path, put: Callable[[Path], tuple[Path, Path]]
) -> None:
    verdict, target = put(home)
    links = {path: goal for path, (goal, _) in contents(home).items() if goal}
    # Of a run that fails none is left, but the links are.
    assert watch(home, verdict, day=30).code == 3
    assert not target.exists()
    # The same again, and a run that is published: the file is the new verdict.
    for _ in range(2):
        assert watch(home, verdict).code == 0
        assert target.is_file()
        assert not target.is_symlink()
        assert "2024-01-10" in target.read_text().replace("\\", "")
        assert is_verdict(target)
    assert {path: goal for path, (goal, _) in contents(home).items() if goal} == links


@pytest.mark.parametrize(
    ("words", "config"),
    [
        (("--set", "wach.days=3"), "own.json"),
        (("--set", "watch.days=0"), "own.json"),
        (("--run-id", "a b"), "own.json"),
        ((), "nowhere.json"),
    ],
)
def test_a_wrong_config_removes_no_verdict(home: Path, words: tuple[str, ...], config: str) -> None:
    verdict = written(home / "v.md", VERDICT.as_markdown())
    before = contents(home)
    assert watch(home, verdict, *words, config=config).code == 2
    assert contents(home) == before


def test_a_config_without_the_section_removes_no_verdict(home: Path) -> None:
    verdict = written(home / "v.md", VERDICT.as_markdown())
    answer = call("online", "--config", str(home / "own.json"), "--verdict", str(verdict))
    assert (answer.code, answer.error) == (2, "MISSING_SECTION")
    assert verdict.read_text() == VERDICT.as_markdown()


def test_a_path_below_the_output_is_refused_before_the_first_run(tmp_path: Path) -> None:
    """No run is published there yet: the config tells that the folder is the output."""
    config = tmp_path / "c.json"
    config.write_text(
        json.dumps({"output": {"path": str(tmp_path / "out")}, "watch": {"metrics": ["map@2"]}})
    )
    for name in ("out/v.md", "out/metrics/v.md", "out"):
        answer = call("watch", "--config", str(config), "--verdict", str(tmp_path / name))
        assert (answer.code, answer.error) == (2, "INVALID_PATH"), name


def test_a_file_that_came_during_the_run_is_not_replaced(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from spark_eval.runs.run import run_verb

    def run_and_write(*given: Any) -> Any:
        (home / "v.md").write_text(PRECIOUS)
        return run_verb(*given)

    monkeypatch.setattr("spark_eval.cli.runner.run_verb", run_and_write)
    answer = watch(home, home / "v.md")
    assert (answer.code, (home / "v.md").read_text()) == (0, PRECIOUS)
    assert "is published, but: error[FILE_EXISTS]" in answer.err


def test_pipes_and_devices_are_written_directly(home: Path) -> None:
    pipe = home / "pipe.md"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    assert watch(home, pipe).code == 0
    assert os.read(reader, 1 << 16).startswith(b"**PASSED**: ")
    os.close(reader)
    assert pipe.is_fifo()


NAMES = st.text(max_size=12)
CELLS = st.lists(NAMES, min_size=4, max_size=4)
LINES = st.lists(st.tuples(NAMES, st.booleans(), NAMES, NAMES, CELLS), max_size=4)


@given(NAMES, st.sampled_from(["evaluate", "watch"]), LINES)
def test_every_verdict_is_known_again(
    tmp_path_factory: pytest.TempPathFactory,
    run_id: str,
    verb: str,
    lines: list[tuple[str, bool, str, str, list[str]]],
) -> None:
    verdict = Verdict(run_id, verb, [{"gate": gate} for gate, *_ in lines], lines)
    file = tmp_path_factory.getbasetemp() / "known"
    for text in (verdict.as_json(), verdict.as_markdown()):
        file.write_text(text)
        assert is_verdict(file)
        file.write_text(f"{text}{PRECIOUS}")
        assert not is_verdict(file)
