"""Pages and notebooks import public names alone."""

import json
import re
from collections.abc import Iterator
from importlib import import_module

import pytest
from tests.pages.blocks import GENERATED, PAGES, REPOSITORY, read

import spark_eval
from spark_eval import demo, functions, kernels

PUBLIC = {one.__name__: set(vars(one)["__all__"]) for one in (spark_eval, functions, kernels, demo)}
# They speak to those who change the package.
FOR_DEVELOPERS = {"docs/architecture.md", "CONTRIBUTING.md"}
NOTEBOOKS = sorted(str(path.relative_to(REPOSITORY)) for path in (REPOSITORY / "examples").glob("*.ipynb"))
IMPORT = re.compile(
    r"^(?:>>> |\.\.\. )?\s*(?:from (spark_eval[\w.]*) import ([\w, ]+)|import (spark_eval[\w.]*))", re.M
)


def source(page: str) -> str:
    """The text of a page; of a notebook the code of its cells."""
    if not page.endswith(".ipynb"):
        return read(page)
    cells = json.loads(read(page))["cells"]
    return "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")


def private_names(text: str) -> Iterator[str]:
    """The imported names that no public module offers."""
    for module, names, whole in IMPORT.findall(text):
        if whole and whole not in PUBLIC:
            yield whole
        for name in re.findall(r"(\w+)(?: as \w+)?", names):
            is_module = f"{module}.{name}" in PUBLIC
            if not is_module and name not in PUBLIC.get(module, ()):
                yield f"{module}.{name}"


@pytest.mark.parametrize("page", sorted({*PAGES, *GENERATED, *NOTEBOOKS} - FOR_DEVELOPERS))
def test_a_page_imports_public_names_alone(page: str) -> None:
    assert list(private_names(source(page))) == []


def test_private_names_are_found() -> None:
    lines = (
        ">>> from spark_eval.kernels.binary import f1",
        "import spark_eval.schema",
        "from spark_eval import evaluate, Plan",
    )
    assert list(private_names("\n".join(lines))) == [
        "spark_eval.kernels.binary.f1",
        "spark_eval.schema",
        "spark_eval.Plan",
    ]


@pytest.mark.parametrize("module", sorted(PUBLIC))
def test_a_public_module_has_all_that_it_offers(module: str) -> None:
    assert all(getattr(import_module(module), name) is not None for name in PUBLIC[module])
