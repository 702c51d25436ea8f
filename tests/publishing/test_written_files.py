"""Files that users name: whole, through links, into devices and pipes, never over a published run."""

import errno
import os
import stat
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import pandas as pd
import pytest
from tests.cli.conftest import call
from tests.publishing.deaths import die_at, ended, fail_at, forked
from tests.results.report import made_runs

from spark_eval.errors import ConfigError, SparkEvalError
from spark_eval.publishing.local import LocalStore
from spark_eval.results.report.plots import Plot
from spark_eval.runtime.local_files import DRAFT, Lock, check_path, write_file, write_whole
from spark_eval.verbs.report import report, write_report


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An output with a run, and a table to draft a config of."""
    root = tmp_path_factory.mktemp("home") / "out"
    made_runs.lists(root, "a", ("als",), n_users=5)
    pd.DataFrame({"user": [1], "item": [2], "score": [0.5]}).to_parquet(root.parent / "lists.parquet")
    return root


def by_command(*arguments: str) -> None:
    answer = call(*arguments)
    if answer.code:
        assert answer.code == 2
        raise ConfigError(answer.error, answer.err)


# Each writes the file that it is given; the root tells where the data are.
WRITERS: Final[Mapping[str, Callable[[Path, Path], object]]] = {
    "report --to": lambda root, file: by_command(
        "report", "--path", str(root), "--run-id", "a", "--to", str(file)
    ),
    "report in Python": lambda root, file: report(root, file, run_id="a"),
    "plot": lambda _, file: Plot("models", "title", "<p>").write(file),
    "init": lambda root, file: by_command(
        *("init", "--config", str(file), "--force", "--model", "als"),
        *("--recommendations", str(root.parent / "lists.parquet")),
        *("--truth", str(root.parent / "lists.parquet")),
    ),
}
EVERY_WRITER: Final = pytest.mark.parametrize("write", WRITERS.values(), ids=WRITERS)


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def named(path: Path, name: str) -> str:
    """The content, without the name that it was written under: a config tells what to run next."""
    return path.read_text().replace(str(path.parent / name), "FILE")


def no_place(kind: str, root: Path, home: Path) -> Path:
    """A path where no file can be."""
    (home / "folder").mkdir()
    (home / "file").write_text("x")
    (home / "loop").symlink_to(home / "loop")
    (home / "to the record").symlink_to(root / "_commits" / "a.json")
    return {
        "a folder": home / "folder",
        "a link to a folder": home / "folder" / ".." / "folder",
        "through a file": home / "file" / "x.html",
        "a long name": home / ("n" * 256),
        "a long folder": home / ("n" * 256) / "x.html",
        "a long name of many bytes": home / ("é" * 128),
        "a loop": home / "loop",
        "a loop of folders": home / "loop" / "x.html",
        "the output": root,
        "a file in the output": root / "x.html",
        "a commit record": root / "_commits" / "a.json",
        "a new commit record": root / "_commits" / "b.json",
        "a table": root / "metrics" / "run_id=a" / "x.html",
        "a new table": root / "gates" / "x.html",
        "the reports": root / "report",
        "out of the reports": root / "report" / ".." / "metrics" / "x.html",
        "a link into the output": home / "to the record",
    }[kind]


@EVERY_WRITER
@pytest.mark.parametrize(
    "kind",
    [
        *("a folder", "a link to a folder", "through a file", "a long name", "a long folder"),
        *("a long name of many bytes", "a loop", "a loop of folders", "the output", "a file in the output"),
        *("a commit record", "a new commit record", "a table", "a new table", "the reports"),
        *("out of the reports", "a link into the output"),
    ],
)
def test_a_path_that_is_no_place_for_a_file_is_refused(
    root: Path, tmp_path: Path, write: Callable[[Path, Path], object], kind: str
) -> None:
    file = no_place(kind, root, tmp_path)
    before = contents(root.parent), contents(tmp_path)
    with pytest.raises(ConfigError) as raised:
        write(root, file)
    assert raised.value.code == "INVALID_PATH"
    assert (contents(root.parent), contents(tmp_path)) == before


@EVERY_WRITER
def test_where_no_file_can_be_made_none_is_begun(root: Path, write: Callable[[Path, Path], object]) -> None:
    for path in ("/proc/x.html", "/proc/new/x.html"):
        with pytest.raises(SparkEvalError) as raised:
            write(root, Path(path))
        assert (raised.value.code, raised.value.exit_code) == ("NO_PERMISSION", 2)


@EVERY_WRITER
def test_links_stay_and_their_targets_are_written(
    root: Path, tmp_path: Path, write: Callable[[Path, Path], object]
) -> None:
    target, link, dangling = (tmp_path / name for name in ("target", "link", "dangling"))
    target.write_text("old")
    target.chmod(0o640)
    link.symlink_to("target")
    dangling.symlink_to("folder/new")
    write(root, link)
    write(root, dangling)
    assert link.is_symlink()
    assert dangling.is_symlink()
    assert named(target, "link") == named(dangling, "dangling") != "old"
    assert stat.S_IMODE(target.stat().st_mode) == 0o640
    assert len(contents(tmp_path)) == 4


@EVERY_WRITER
def test_a_pipe_is_written_into_and_stays(
    root: Path, tmp_path: Path, write: Callable[[Path, Path], object]
) -> None:
    write(root, tmp_path / "file")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("pipe")
    for name in ("pipe", "link"):
        with (
            (tmp_path / "read").open("wb") as out,
            subprocess.Popen(["cat", tmp_path / "pipe"], stdout=out) as reader,
        ):
            try:
                write(root, tmp_path / name)
            except ConfigError:
                reader.kill()
                raise
        assert named(tmp_path / "read", name) == named(tmp_path / "file", "file")
    assert (tmp_path / "pipe").is_fifo()
    write(root, Path("/dev/null"))
    assert Path("/dev/null").is_char_device()


@pytest.mark.parametrize("stdout", ["a pipe", "a file"])
def test_stdout_is_a_file_to_write(root: Path, tmp_path: Path, stdout: str) -> None:
    write_report(LocalStore(root), "a", file=str(tmp_path / "file"))
    command = "from spark_eval.cli.commands import main; main()"
    arguments = ["report", "--path", str(root), "--run-id", "a", "--to", "/dev/stdout"]
    with (tmp_path / "out").open("wb") as out:
        done = subprocess.run(
            [sys.executable, "-c", command, *arguments],
            stdout=out if stdout == "a file" else subprocess.PIPE,
            check=True,
        )
    assert (done.stdout or (tmp_path / "out").read_bytes()) == (tmp_path / "file").read_bytes()
    assert Path("/dev/stdout").is_symlink()


def test_reports_and_other_roots_are_free(root: Path, tmp_path: Path) -> None:
    assert check_path(root / "report" / "mine" / "x.html")
    inner = tmp_path / "inner"
    made_runs.lists(inner, "a", ("als",), n_users=5)
    (tmp_path / "_commits").mkdir()
    assert write_report(LocalStore(inner), "a") == f"{inner}/report/a.html"


OLD: Final = "old"
NEW: Final = "new" * 1000


def written(file: Path) -> bool:
    write_file(file, NEW)
    return True


def steps(file: Path) -> int:
    """The number of steps that writing a file takes."""
    read, write = os.pipe()

    def step(_: int, __: str) -> None:
        os.write(write, b"x")

    assert ended(forked(lambda: written(file), step)) == 0
    os.close(write)
    with os.fdopen(read) as stream:
        return len(stream.read())


@pytest.mark.parametrize("had_file", [False, True], ids=["new", "over another"])
@pytest.mark.parametrize("how", ["killed", "disk full"])
def test_whatever_happens_a_file_is_whole_and_the_next_one_clears_up(
    tmp_path: Path, had_file: bool, how: str
) -> None:
    file = tmp_path / "folder" / "file"
    file.parent.mkdir()
    n_steps = steps(file)
    assert n_steps > 5
    for number in range(1, n_steps + 1):
        file.unlink(missing_ok=True)
        if had_file:
            file.write_text(OLD)
        step = die_at(number) if how == "killed" else fail_at(number, errno.ENOSPC)
        ended(forked(lambda: written(file), step))
        left = {path.name: path.read_text() for path in file.parent.iterdir()}
        assert left.get("file", OLD) in (OLD, NEW)
        assert "file" in left or not had_file
        write_file(file, NEW)
        assert {path.name: path.read_text() for path in file.parent.iterdir()} == {"file": NEW}


def test_the_draft_of_a_live_process_stays(tmp_path: Path) -> None:
    live, dead = (tmp_path / f"{DRAFT}{name}" for name in ("live", "dead"))
    dead.write_text("half")
    lock = Lock(live)
    assert lock.acquire()
    process = forked(lambda: written(tmp_path / "file"))
    assert ended(process) == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == [live.name, "file"]
    lock.release()


def test_planted_drafts_and_locks_lead_nowhere(tmp_path: Path) -> None:
    """In a folder that all may write, links of others are not followed: no goal is made or changed."""
    home, folder = tmp_path / "home", tmp_path / "folder"
    for path in (home, folder, folder / f"{DRAFT}folder"):
        path.mkdir()
    (home / "file").write_text(OLD)
    os.mkfifo(folder / f"{DRAFT}pipe")
    goals = {"dangling": home / "new", "file": home / "file", "folder of links": home, "loop": folder}
    for name, goal in goals.items():
        (folder / f"{DRAFT}link to {name}").symlink_to(goal)
    before = contents(home), sorted(path.name for path in folder.iterdir())
    write_file(folder / "page", NEW)
    with pytest.raises(OSError, match="symbolic links"):
        Lock(folder / f"{DRAFT}link to dangling").acquire()
    with pytest.raises(OSError, match="symbolic links"):
        write_whole(folder / "page", OLD, folder / f"{DRAFT}link to file")
    (folder / "page").unlink()
    assert (contents(home), sorted(path.name for path in folder.iterdir())) == before


def test_planted_locks_of_an_output_stop_no_run(tmp_path: Path) -> None:
    staging = tmp_path / "out" / "_staging"
    staging.mkdir(parents=True)
    (staging / "old-evaluate.lock").symlink_to(tmp_path / "new")
    (staging / "dead-evaluate.lock").touch()
    made_runs.lists(tmp_path / "out", "a", ("als",), n_users=5)
    assert sorted(path.name for path in staging.iterdir()) == ["old-evaluate.lock"]
    assert not (tmp_path / "new").exists()


def test_a_config_that_could_not_be_written_is_not_there(root: Path, tmp_path: Path) -> None:
    """A second ``init`` finds no half-written config."""
    file = tmp_path / "first.yaml"
    lists = str(root.parent / "lists.parquet")
    tables = ("--model", "als", "--recommendations", lists, "--truth", lists)

    def init() -> int:
        return call("init", "--config", str(file), *tables).code

    def full(_: int, event: str) -> None:
        if event == "fsync":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    assert ended(forked(lambda: init() == 1, full)) == 0
    assert list(tmp_path.iterdir()) == []
    assert init() == 0
    assert file.read_text()
