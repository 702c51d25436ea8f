"""Batches that are spilled to files: cleared by the next run if their process has died, and only then."""

import os
import signal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from spark_eval.runners import in_process
from spark_eval.runners.in_process import ShuffleBuffer


def spilled() -> ShuffleBuffer:
    """Return a buffer with batches in files."""
    buffer = ShuffleBuffer(2)
    buffer.add(pa.record_batch({"number": [1, 2, 3]}), np.array([0, 1, 0]))
    assert buffer.folder is not None
    return buffer


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of temporary files; every batch is spilled."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(in_process, "MOST_IN_MEMORY", 0)
    return tmp_path


def in_child_that_is_killed() -> None:
    """Spill in another process, which dies by SIGKILL."""
    process = os.fork()
    if not process:
        buffer = spilled()
        os.kill(os.getpid(), signal.SIGKILL)
        del buffer
    assert os.WTERMSIG(os.waitpid(process, 0)[1]) == signal.SIGKILL


def test_the_next_run_clears_what_a_killed_one_left(folder: Path) -> None:
    for _ in range(3):
        in_child_that_is_killed()
        [left] = folder.iterdir()
        assert any(left.glob("*.arrow"))
    buffer = spilled()
    assert [*folder.iterdir()] == [buffer.folder]
    assert [
        row for part in range(2) for batch in buffer.read(part) for row in batch["number"].to_pylist()
    ] == [
        *(1, 3),
        2,
    ]
    del buffer
    assert [*folder.iterdir()] == []


def test_spilled_files_of_living_or_other_processes_stay(
    folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (elsewhere / in_process.ALIVE).touch()
    (folder / f"{in_process.SPILLED}link").symlink_to(elsewhere)
    (folder / f"{in_process.SPILLED}new").mkdir()
    (folder / f"{in_process.SPILLED}file").touch()
    (folder / "spark-eval-other").mkdir()
    (folder / "spark-eval-other" / in_process.ALIVE).touch()
    live = spilled()
    process = os.fork()
    if not process:
        ShuffleBuffer(1)
        os._exit(0)
    os.waitpid(process, 0)
    ShuffleBuffer(1)
    assert (elsewhere / in_process.ALIVE).exists()
    assert len([*folder.iterdir()]) == 5
    assert len([batch for part in range(2) for batch in live.read(part)]) == 2
