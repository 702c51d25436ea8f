"""The summary of all rings."""

import re
from pathlib import Path

import pytest
from tests import rings

MAKEFILE = (Path(__file__).parents[1] / "Makefile").read_text(encoding="utf-8")


def test_all_rings_of_the_makefile_are_run() -> None:
    targets = set(re.findall(r"^(test[\w-]*|check|docs|demo):", MAKEFILE, re.MULTILINE))
    # The brief ones are parts of others.
    assert set(rings.RINGS) == targets - {"test-all", *(name for name in targets if name.endswith("-brief"))}


@pytest.mark.parametrize(
    ("output", "counts"),
    [
        ("===== 7 passed, 2 skipped, 3 warnings in 1.50s (0:01:30) =====\n", (7, 0, 2, 0)),
        ("7 passed in 1.50s\n1 failed, 6 passed, 2 errors in 3.00s\n", (13, 1, 0, 2)),
        ("Success: no issues found in 699 source files\n", (0, 0, 0, 0)),
        ("the 3 passed cases in 4.0s do not close a run\n", (0, 0, 0, 0)),
    ],
)
def test_outcomes_are_counted_over_all_runs_of_a_ring(output: str, counts: tuple[int, ...]) -> None:
    found = rings.summary(output)
    assert tuple(found[name] for name in rings.OUTCOMES) == counts


def test_a_ring_that_has_passed_on_a_commit_is_not_run_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = list[str]()

    def fake(ring: str) -> tuple[int, str]:
        runs.append(ring)
        return int(ring == "test" and runs.count("test") == 1), "1 passed in 0.1s\n"

    monkeypatch.setattr(rings, "RESULTS", tmp_path)
    monkeypatch.setattr(rings, "printed", fake)
    monkeypatch.setattr(rings, "git", lambda *words: "" if words[0] == "status" else "abc")
    assert rings.main(["check", "test"]) == 1
    assert rings.main(["check", "test"]) == 0
    assert runs == ["check", "test", "test"]


def test_a_ring_does_not_get_the_names_of_rings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make hands the variables of its call on to the make that it runs."""
    (tmp_path / "Makefile").write_text("check:\n\t@echo '<$(ARGS)>'\n", encoding="utf-8")
    monkeypatch.setattr(rings, "REPOSITORY", tmp_path)
    monkeypatch.setenv("MAKEFLAGS", " -- ARGS=check")
    monkeypatch.setenv("ARGS", "check")
    assert rings.printed("check") == (0, "<>\n")
