"""What users rely on, as it was when ``frozen/`` was written; see docs/testing.md, *The freeze*."""

import difflib
import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.freeze import public, published, runs

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FROZEN = Path(__file__).parent / "frozen"


@pytest.fixture
def holds(request: pytest.FixtureRequest) -> Callable[[str, Any], None]:
    """Return a function that fails where what is found is not what is frozen, or freezes it if asked to."""

    def check(name: str, found: Any) -> None:
        path = FROZEN / f"{name}.json"
        text = json.dumps(found, indent=1, sort_keys=True, ensure_ascii=False) + "\n"
        if request.config.getoption("--write-frozen", default=False):
            path.write_text(text, encoding="utf-8")
        frozen = path.read_text(encoding="utf-8")
        if text != frozen:
            lines = difflib.unified_diff(
                frozen.splitlines(), text.splitlines(), "frozen", "found", lineterm=""
            )
            pytest.fail("\n".join([f"{path.name} has changed:", *lines]), pytrace=False)

    return check


@pytest.mark.parametrize(
    "what",
    [public.named_errors, public.commands, public.config_keys, public.split_options, public.python_names],
)
def test_names(holds: Callable[[str, Any], None], what: Callable[[], Any]) -> None:
    holds(what.__name__, what())


@pytest.mark.parametrize("run_all", [runs.verbs, pytest.param(runs.splits, marks=pytest.mark.slow)])
def test_what_is_published(
    holds: Callable[[str, Any], None], spark: "SparkSession", tmp_path: Path, run_all: Callable[[Path], Path]
) -> None:
    assert spark.getActiveSession() is not None
    root = run_all(tmp_path)
    name = run_all.__name__
    holds(f"{name}_tables", published.columns_of(root))
    holds(f"{name}_commits", published.commits_of(root, tmp_path))
    if run_all is runs.verbs:
        holds("means", published.means_of(root))
    holds(f"{name}_bits", published.bits_of(root))
