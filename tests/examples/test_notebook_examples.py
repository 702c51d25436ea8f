"""The notebooks of examples/ run, in less than two minutes each, and give the outputs that they show."""

import json
import os
import re
import resource
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

EXAMPLES = Path(__file__).parents[2] / "examples"
# Data that is not ours, where a checkout has it beside it; see docs/testing.md.
DATA = EXAMPLES.parents[1] / "shared" / "data" / "ml-latest-small"
NEEDED = {"movielens.ipynb": ("ratings.csv", "movies.csv")}
NOTEBOOKS = sorted(path.name for path in EXAMPLES.glob("*.ipynb"))
# What a line of progress says of time.
SECONDS = re.compile(r"^\[ *[\d.]+ s\].*\n?|^ +\S.* \.\.\.\n?", re.MULTILINE)


def shown(notebook: Any) -> Iterator[str]:
    """What the cells show, as text, without lines of progress; of plots, which hold scripts, the name.

    What commands print comes in pieces of any length: those of a cell are one text.
    """
    for cell in notebook.cells:
        printed = "".join(
            output["text"] for output in cell.get("outputs", []) if output.get("name") == "stdout"
        )
        if left := SECONDS.sub("", printed).strip():
            yield left
        for output in cell.get("outputs", []):
            data = output.get("data", {})
            html = data.get("text/html", "")
            is_plot = html.startswith("<iframe")
            if text := (not is_plot and html) or data.get("text/plain", ""):
                yield text


def run(notebook: Any, folder: Path) -> None:
    """Run all cells in a folder; an error of a cell is an error."""
    for cell in notebook.cells:
        cell.get("outputs", []).clear()
    resources = {"metadata": {"path": str(folder)}}
    NotebookClient(notebook, timeout=600, kernel_name="python3", resources=resources).execute()


def cpu_seconds() -> float:
    """CPU seconds of the kernels that have ended, with the commands that they ran."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def read(name: str) -> Any:
    """A notebook of examples/."""
    text = (EXAMPLES / name).read_text(encoding="utf-8")
    return nbformat.reads(text, as_version=4)  # type: ignore[no-untyped-call]


@pytest.fixture(autouse=True)
def as_users_run_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine is that of users, and `spark-eval` is a command."""
    monkeypatch.delenv("SPARK_EVAL_ENGINE")
    monkeypatch.setenv("PATH", f"{sysconfig.get_path('scripts')}{os.pathsep}{os.environ['PATH']}")


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.brief] * (name == "experiment.ipynb")) for name in NOTEBOOKS],
)
def test_a_notebook_gives_the_outputs_that_it_shows(name: str, tmp_path: Path) -> None:
    for file in NEEDED.get(name, ()):
        if not (DATA / file).exists():
            pytest.skip("MovieLens ml-latest-small is not beside the repository")
        (tmp_path / file).symlink_to(DATA / file)
    notebook = read(name)
    expected = list(shown(notebook))
    start = cpu_seconds()
    run(notebook, tmp_path)
    assert list(shown(notebook)) == expected
    assert len(expected) > 3
    # Two minutes, as the page says, on two cores.
    assert cpu_seconds() - start < 240


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_notebook_on_movielens_runs_on_a_made_up_log(tmp_path: Path) -> None:
    notebook = read("movielens.ipynb")
    run(notebook, tmp_path)
    assert any("neighbours beats popular" in text for text in shown(notebook))


def test_the_notebook_on_movielens_has_the_models_of_the_tutorial() -> None:
    page = (EXAMPLES.parent / "docs" / "tutorial.md").read_text(encoding="utf-8")
    notebook = json.loads((EXAMPLES / "movielens.ipynb").read_text(encoding="utf-8"))
    sources = ["".join(cell["source"]) for cell in notebook["cells"]]
    [models] = [source for source in sources if "def recommend" in source]
    start = models.index("def recommend")
    assert models[start : models.index("\n\n\nlists")] in page


def test_every_notebook_is_in_the_table() -> None:
    page = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    assert sorted(set(re.findall(r"\((\w+\.ipynb)\)", page))) == NOTEBOOKS
