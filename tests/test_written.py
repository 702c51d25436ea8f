"""Files that follow from the code are what the code says; see ``tests.written``."""

from pathlib import Path

import pytest
from tests.written import REPOSITORY, written

FILES = dict(written())


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(REPOSITORY)))
def test_a_file_follows_from_the_code(file: Path) -> None:
    """``python -m tests.written`` writes it."""
    assert file.read_text(encoding="utf-8") == FILES[file]


def test_there_is_a_job_for_each_verb_and_no_other() -> None:
    assert set((REPOSITORY / "jobs").glob("*.py")) == {file for file in FILES if file.parent.name == "jobs"}
