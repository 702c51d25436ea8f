"""The wheel holds the package and nothing else, and runs where the tree is not."""

import os
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from email import message_from_string
from pathlib import Path

import pandas as pd
import pytest
import yaml
from tests.pages.walk import clone

from spark_eval.runtime.session import LAUNCHER_HOME

REPOSITORY = Path(__file__).parents[2]
PACKAGE = REPOSITORY / "src" / "spark_eval"
# What is no module: types, the report's page and charts, the launcher of Java, a page of text.
DATA = (
    *("py.typed", "functions/__init__.pyi", "cli/conventions.md"),
    *("results/report/assets/echarts.min.js", "runtime/java/bin/java", "runtime/java/log4j2.properties"),
)
# What a reader of the source distribution needs where no address leads to it.
PAGES = ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "LICENSE", "docs/operations.md", "conf/example.yaml")

pytestmark = [pytest.mark.setup, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel that ``make package`` builds, beside the archive for spark-submit."""
    folder = tmp_path_factory.mktemp("dist")
    source = clone(tmp_path_factory.mktemp("source") / "spark-eval")
    done = subprocess.run(
        ["make", "package", f"dist={folder}"], cwd=source, check=True, capture_output=True, text=True
    )
    [built] = folder.glob("*.whl")
    assert done.stdout.split() == [f"{folder}/spark_eval.zip", str(built)]
    return built


@pytest.fixture(scope="module")
def venv(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with the wheel, and by their path the packages that it needs."""
    home = tmp_path_factory.mktemp("elsewhere") / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(home)], check=True)
    pip = [sys.executable, "-m", "pip", "--python", str(home / "bin" / "python")]
    subprocess.run([*pip, "install", "--no-deps", "--no-index", "--quiet", str(wheel)], check=True)
    [packages] = home.glob("lib/python*/site-packages")
    # Files .pth of a folder that is only on the path do not count: the tree is not on it.
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib"))
    return home


def run(venv: Path, folder: Path, *command: str) -> str:
    """What a program of the environment prints, in a folder that knows nothing of the tree."""
    given = os.environ.get("JAVA_HOME", str(LAUNCHER_HOME))
    java = {} if given == str(LAUNCHER_HOME) else {"JAVA_HOME": given}
    done = subprocess.run(
        [venv / "bin" / command[0], *command[1:]],
        cwd=folder,
        env={"PATH": os.environ["PATH"], "HOME": str(folder), **java},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return done.stdout


def test_the_wheel_holds_the_package_and_no_other_file(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if not name.endswith("/")}
    files = {
        f"spark_eval/{path.relative_to(PACKAGE)}"
        for path in PACKAGE.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert {name for name in names if ".dist-info/" not in name} == files
    assert {f"spark_eval/{name}" for name in DATA} <= files
    assert {name.partition("/")[0] for name in names} == {"spark_eval", "spark_eval-0.1.0.dist-info"}


def test_metadata_has_no_address(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        metadata = message_from_string(archive.read("spark_eval-0.1.0.dist-info/METADATA").decode())
    assert metadata.get_all("Project-URL") is None
    assert metadata["License-Expression"] == "Apache-2.0"


def test_the_source_distribution_holds_what_addresses_would_lead_to(tmp_path: Path) -> None:
    build = [sys.executable, "-m", "hatchling", "build", "--target", "sdist", "--directory", str(tmp_path)]
    subprocess.run(build, cwd=REPOSITORY, check=True, capture_output=True)
    [built] = tmp_path.glob("*.tar.gz")
    with tarfile.open(built) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {*PAGES, *(f"src/spark_eval/{name}" for name in DATA), "Makefile", "tests/conftest.py"} <= names


@pytest.mark.brief
def test_commands_run_where_the_tree_is_not(venv: Path, tmp_path: Path) -> None:
    where = run(venv, tmp_path, "python", "-c", "import spark_eval; print(spark_eval.__file__)")
    assert Path(where.strip()).is_relative_to(venv)
    assert run(venv, tmp_path, "spark-eval", "--version") == "spark-eval, version 0.1.0\n"
    assert "ndcg" in run(venv, tmp_path, "spark-eval", "metrics")
    assert run(venv, tmp_path, "spark-eval", "metrics", "--markdown").startswith("# Metrics, conventions")
    pd.DataFrame({"user": [1], "item": [2], "score": [0.5]}).to_parquet(tmp_path / "als.parquet")
    pd.DataFrame({"user": [1], "item": [2]}).to_parquet(tmp_path / "truth.parquet")
    tables = ("--recommendations", "als.parquet", "--truth", "truth.parquet")
    run(venv, tmp_path, "spark-eval", "init", "--config", "first.yaml", *tables)
    assert yaml.safe_load((tmp_path / "first.yaml").read_text())["recommendations"]["model"] == "als"


def test_the_demo_runs_where_the_tree_is_not(venv: Path, tmp_path: Path) -> None:
    printed = run(venv, tmp_path, "spark-eval", "demo", "--scale", "0.1")
    assert "leaked rows: 0" in printed
    report = tmp_path / "spark-eval-demo" / "report" / "demo.html"
    assert "echarts" in report.read_text()
