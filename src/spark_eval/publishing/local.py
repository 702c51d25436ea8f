"""Publish in a local folder: by renames, atomic swaps, and locks of the kernel.

An intent is ``<root>/_staging/<attempt>/intent.json``. A live attempt holds the lock of its verb and run.
"""

import errno
import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import pyarrow.parquet as pq

from spark_eval.errors import BusyError, SetupError
from spark_eval.publishing.columns import kinds_in_arrow, united_kinds
from spark_eval.publishing.commits import (
    SHARED,
    STAGING,
    CommitForm,
    JobForm,
    Moves,
    Sealed,
    Staging,
    commit_path,
    parse_record,
    usual_place,
)
from spark_eval.publishing.verify import Expected
from spark_eval.runtime.local_files import (
    LocalFiles,
    Lock,
    is_there,
    make_folder,
    remove_if_dead,
    share_below,
    swap,
    sync,
    sync_below,
    write_whole,
)

INTENT: Final = "intent.json"
# Hidden file in every published folder: the attempt that wrote the folder, and its content.
MANIFEST: Final = "_manifest.json"
# A process that only checks whether an attempt is alive holds its lock for a moment.
SECONDS_TO_WAIT: Final = 1.0


class LocalStore:
    """A folder of this machine, or on a mounted disk."""

    is_local = True
    manifest = False

    def __init__(self, root: Path | str) -> None:
        self.files = LocalFiles(str(root))
        self.locked: set[Path] = set()

    def home(self) -> str:
        """Return the folder of attempts."""
        return f"{self.files.root}/{STAGING}"

    def lock(self, staging: Staging) -> Lock:
        """Return the lock of a verb and run, held by a live attempt."""
        return Lock(Path(self.home(), f"{staging.run_id}-{staging.verb}.lock"))

    @contextmanager
    def claimed(self, staging: Staging) -> Iterator[None]:
        """Hold the lock of this verb and run; at the end remove the staging folder if it has no intent."""
        had_root = self.files.is_there(self.files.root)
        lock, latest = self.lock(staging), time.monotonic() + SECONDS_TO_WAIT
        while not lock.acquire():
            if time.monotonic() > latest:
                message = f"another attempt at {staging.work} is at work; retry later"
                raise BusyError("RUN_BUSY", message)
            time.sleep(SECONDS_TO_WAIT / 20)
        self.locked.add(lock.path)
        try:
            for path in set(Path(self.home()).glob("*.lock")) - self.locked:
                remove_if_dead(path)  # of an attempt that died and left nothing else
            yield
        finally:
            if not is_there(Path(staging.folder, INTENT)):  # the next start carries out an intent
                self.files.remove(staging.folder)
            self.locked.remove(lock.path)
            lock.release()
            with suppress(OSError):
                Path(self.home()).rmdir()
                if not had_root:
                    Path(self.files.root).rmdir()  # nothing was published

    def unfinished(self) -> list[Staging]:
        """Return the attempts with a folder: those that are running, and those that failed."""
        folders = [f"{self.home()}/{name}" for name in self.files.names(self.home())]
        return [staging for folder in folders if (staging := Staging.at(folder)) is not None]

    @contextmanager
    def dead(self, staging: Staging) -> Iterator[bool]:
        """Yield True if an attempt is dead: its folder exists and its lock is free. Hold the lock."""
        lock = self.lock(staging)
        try:
            is_free = lock.path in self.locked or lock.acquire()
            yield is_free and self.files.is_there(staging.folder)
        finally:
            lock.release()

    def about(self, staging: Staging) -> dict[str, Any]:
        """Return ids and state of an attempt: ``is_alive``, and ``changed_at``, its folder's last change."""
        moment = datetime.fromtimestamp(Path(staging.folder).stat().st_mtime, UTC)
        known = {"attempt": staging.name, "run_id": staging.run_id, "verb": staging.verb}
        with self.dead(staging) as is_dead:
            return {**known, "is_alive": not is_dead, "changed_at": moment.isoformat(timespec="seconds")}

    def check_swap(self, staging: Staging) -> None:
        """Swap two empty folders as a test, before anything depends on it."""
        one, other = (Path(staging.folder, name) for name in ("_one", "_other"))
        try:
            for folder in (one, other):
                folder.mkdir(parents=True, exist_ok=True)
            swap(one, other)
        except (OSError, AttributeError) as error:
            if getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT):
                raise
            message = f"{self.files.root}: this file system cannot swap two folders in one step ({error}); "
            message += "publish under another --run-id"
            raise SetupError("CANNOT_SWAP", message) from error

    def seal(self, folder: str, expected: Expected | None) -> Sealed:
        """Check a table by its footers and sync it to disk; return its description."""
        Path(folder).mkdir(parents=True, exist_ok=True)
        if expected is not None:
            expected.check_files(Path(folder))
        files = sorted(Path(folder).rglob("*.parquet"))
        footers = {str(file.relative_to(folder)): pq.read_metadata(file) for file in files}
        rows = {name: footer.num_rows for name, footer in footers.items()}
        columns = united_kinds(kinds_in_arrow(one.schema.to_arrow_schema()) for one in footers.values())
        manifest = {"attempt": Path(folder).parent.name, "files": rows}
        Path(folder, MANIFEST).write_text(json.dumps(manifest, indent=2, sort_keys=True) + "\n")
        share_below(Path(folder))
        sync_below(Path(folder))
        return Sealed(list(map(str, files)), sum(rows.values()), columns)

    def commit(
        self, staging: Staging, job: Mapping[str, Any], _moves: Moves, _number: int
    ) -> Mapping[str, Any]:
        """Write the intent to the attempt's folder, and carry it out; return the content of the record."""
        folder = Path(staging.folder)
        write_whole(folder / INTENT, json.dumps(job, sort_keys=True), folder / f"_{INTENT}")
        self.carry_out(staging)
        return job

    def carry_out(self, staging: Staging) -> None:
        """Carry out an intent; each step is atomic and idempotent, so it can be repeated."""
        folder = Path(staging.folder)
        if not is_there(folder / INTENT):
            return
        # Verbs of a run share the commit record.
        lock = Lock(folder.parent / f"{staging.run_id}.publishing.lock")
        lock.acquire(wait=True)
        try:
            job = parse_record(self.files, str(folder / INTENT), JobForm)
            path = commit_path(self.files.root, staging.run_id)
            commit = parse_record(self.files, path, CommitForm) or {"run_id": staging.run_id, "jobs": {}}
            before = commit["jobs"].get(staging.verb, {"tables": {}})
            for name in job["tables"]:
                self.move(staging, name)
            # Remove tables of the previous content that the new content lacks.
            for name in before["tables"].keys() - job["tables"].keys():
                goal = Path(usual_place(self.files.root, staging.run_id, staging.verb, name))
                if goal.is_dir():
                    goal.rename(folder / f"_old-{name}")
                else:
                    goal.unlink(missing_ok=True)
            commit["jobs"][staging.verb] = job
            make_folder(Path(path).parent)
            text = json.dumps(commit, indent=2, sort_keys=True) + "\n"
            write_whole(Path(path), text, folder / "_commit.json")
            (folder / INTENT).unlink()
            self.files.remove(staging.folder)
        finally:
            lock.release()

    def move(self, staging: Staging, table: str) -> None:
        """Move a table to its final path; the previous table is then in the staging folder."""
        staged = Path(staging.folder, table)
        goal = Path(usual_place(self.files.root, staging.run_id, staging.verb, table))
        make_folder(goal.parent)
        if table in SHARED:
            for name in self.files.names(str(staged)):
                if name.endswith(".parquet"):  # at most one; none if it was moved before
                    (staged / name).replace(goal)
        elif not is_there(goal):
            staged.rename(goal)
        elif not wrote(staging, goal):
            swap(staged, goal)
        sync(goal.parent)


def wrote(staging: Staging, folder: Path) -> bool:
    """Return True if this attempt wrote a published folder."""
    return manifest_of(folder).get("attempt") == staging.name


def manifest_of(folder: Path) -> Mapping[str, Any]:
    """Return the manifest of a published folder; empty if it is missing or damaged."""
    with suppress(OSError, ValueError, RecursionError):
        manifest = json.loads((folder / MANIFEST).read_text())
        return manifest if isinstance(manifest, dict) else {}
    return {}
