"""What users rely on, as it was when ``frozen/`` was written; see docs/testing.md, *The freeze*."""

import difflib
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.cli.conftest import Desk
from tests.freeze import public, published, runs

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FROZEN = Path(__file__).parent / "frozen"


@pytest.fixture
def compare(request: pytest.FixtureRequest) -> Callable[[Mapping[str, Any]], None]:
    """Return what fails with a diff where something is not what its file says, or writes the files anew."""

    def check(found: Mapping[str, Any]) -> None:
        diffs: list[str] = []
        for name, now in found.items():
            path = FROZEN / f"{name}.json"
            text = json.dumps(now, indent=1, sort_keys=True, ensure_ascii=False) + "\n"
            if request.config.getoption("--write-frozen", default=False):
                path.write_text(text, encoding="utf-8")
            before, after = path.read_text(encoding="utf-8").splitlines(), text.splitlines()
            diffs += difflib.unified_diff(before, after, f"frozen/{path.name}", "now", lineterm="")
        if diffs:
            pytest.fail("\n".join(diffs), pytrace=False)

    return check


@pytest.mark.parametrize(
    "what",
    [public.named_errors, public.commands, public.config_keys, public.split_options, public.python_names],
)
def test_names(compare: Callable[[Mapping[str, Any]], None], what: Callable[[], Any]) -> None:
    compare({what.__name__: what()})


def test_this_process_publishes_the_same_without_spark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPARK_EVAL_ENGINE", "local")
    desk = Desk(tmp_path)
    desk.tree = {"output": {"path": str(desk.out)}}
    runs.measure_graded(desk)
    found = {
        "verbs_commits": published.commits_of(desk.out, tmp_path),
        "verbs_bits": published.bits_of(desk.out),
        "verbs_means": published.means_of(desk.out),
    }
    for name, now in found.items():
        frozen = json.loads((FROZEN / f"{name}.json").read_text(encoding="utf-8"))
        assert {key: frozen.get(key) for key in now} == now
    assert len(found["verbs_commits"]) == 2


@pytest.mark.brief
@pytest.mark.slow
@pytest.mark.parametrize("run_all", [runs.verbs, runs.splits])
def test_what_is_published(
    compare: Callable[[Mapping[str, Any]], None],
    spark: "SparkSession",
    tmp_path: Path,
    run_all: Callable[[Path], Path],
) -> None:
    assert spark.getActiveSession() is not None
    root, name = run_all(tmp_path), run_all.__name__
    found = {
        f"{name}_tables": published.columns_of(root),
        f"{name}_commits": published.commits_of(root, tmp_path),
        f"{name}_bits": published.bits_of(root),
    }
    compare(found | ({f"{name}_means": published.means_of(root)} if run_all is runs.verbs else {}))
