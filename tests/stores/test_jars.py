"""The jars of the ring where they cannot be had: what is said, and whether that is a failure."""

from pathlib import Path

import pytest
from tests.stores import jars


@pytest.mark.parametrize(
    ("words", "code"), [([], 1), (["--if-reachable"], 0), (["--if-reachable", "nothing"], 0)]
)
def test_a_registry_that_is_away(
    words: list[str],
    code: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    mvn = tmp_path / "mvn"
    mvn.write_text("#!/bin/sh\nexit 1\n")
    mvn.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(jars, "CACHE", tmp_path / "jars")
    assert jars.main(words) == code
    said = capfd.readouterr().err
    assert said.startswith("Skipped: mvn did not fetch ") == ("nothing" not in words)
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    assert jars.main(words) == 0
