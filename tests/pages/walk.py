"""To do what a page says, in a clone of its own: commands in one shell, Python in one session."""

import contextlib
import io
import os
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.pages.blocks import OUTPUT, PYTHON, REPOSITORY, SHELL, YAML, Block

from spark_eval.runtime.session import LAUNCHER_HOME

SECONDS_PER_BLOCK = 900
# What a page leaves out of what is printed: the rest of a line, or as a line of its own any lines.
ELLIPSIS = "…"


def clone(target: Path) -> Path:
    """The tree as a clone of it would be, and in it an environment that `make` takes for its own."""
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listed, cwd=REPOSITORY, check=True, capture_output=True, text=True).stdout
    for name in filter(None, names.split("\0")):
        if (REPOSITORY / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(REPOSITORY / name, target / name)
    lend_environment(target / ".venv", target / "src")
    return target


def lend_environment(venv: Path, source: Path) -> None:
    """An environment with the packages of this one, by links, and with the package of ``source``."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(venv)], check=True)
    ours, theirs = Path(sysconfig.get_path("purelib")), next(venv.glob("lib/python*/site-packages"))
    for entry in ours.iterdir():
        if not entry.name.startswith("_editable_impl"):
            (theirs / entry.name).symlink_to(entry)
    (theirs / "_editable_impl_spark_eval.pth").write_text(str(source))
    for program in Path(sysconfig.get_path("scripts")).iterdir():
        target = venv / "bin" / program.name
        if target.exists() or program.is_dir():
            continue
        with suppress(UnicodeDecodeError):
            target.write_text(program.read_text().replace(sys.prefix, str(venv)))
            target.chmod(0o755)
    for stamp in (".python", ".run", ".dev"):
        (venv / stamp).touch()


class Shell:
    """One bash for all commands of a page: what is exported stays, what is started goes on."""

    def __init__(self, folder: Path, scratch: Path, variables: dict[str, str]) -> None:
        self.scratch = scratch
        self.output = scratch / "output"
        self.count = 0
        with self.output.open("wb") as file:
            self.process = subprocess.Popen(
                ["bash", "--norc", "--noprofile"],
                cwd=folder,
                env=variables,
                stdin=subprocess.PIPE,
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def run(self, text: str) -> str:
        """What the commands print; AssertionError for one that fails, or does not end."""
        assert self.process.stdin is not None
        start = self.output.stat().st_size
        self.count += 1
        done, script = self.scratch / f"{self.count}.done", self.scratch / f"{self.count}.sh"
        script.write_text(f"set -e\n{text}\nset +e\n")
        self.process.stdin.write(f"source '{script}' </dev/null\ntouch '{done}'\n".encode())
        self.process.stdin.flush()
        deadline = time.monotonic() + SECONDS_PER_BLOCK
        while not done.exists() and self.process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.05)
        printed = self.output.read_bytes()[start:].decode(errors="replace")
        assert done.exists(), f"failed: exit code {self.process.poll()}\n{printed}"
        return printed

    def close(self) -> None:
        """End it, and what it started and left."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(30)
        assert self.process.stdin is not None
        self.process.stdin.close()


@dataclass
class Walk:
    """A page under way: its folder, its shell, the names of its Python, and what was printed last.

    Without a shell only its Python is done.
    """

    folder: Path
    shell: Shell | None = None
    names: dict[str, Any] = field(default_factory=dict)
    printed: str | None = None
    outputs: dict[str, str] = field(default_factory=dict)

    def take(self, block: Block) -> None:
        """Do what a block says; AssertionError where that fails, or prints something else."""
        if not block.is_run:
            self.printed = None
        elif block.language == SHELL:
            self.printed = None if self.shell is None else self.shell.run(block.commands)
            if self.printed is not None:
                self.outputs |= dict.fromkeys(block.commands.splitlines(), self.printed)
        elif block.language == PYTHON:
            self.printed = self.execute(block)
        elif block.language == YAML and block.file:
            (self.folder / block.file).write_text(block.text)
        elif block.language == OUTPUT and (printed := self.output_of(block)) is not None:
            wrong = difference(block.text, printed)
            assert wrong is None, wrong

    def output_of(self, block: Block) -> str | None:
        """What the block before it printed, or the command that it names; None if that was not run."""
        if block.printed_by is None or self.shell is None:
            return None if block.printed_by else self.printed
        assert block.printed_by in self.outputs, f"{block.printed_by!r} was not run before"
        return self.outputs[block.printed_by]

    def execute(self, block: Block) -> str:
        """What Python prints, in the page's folder."""
        printed = io.StringIO()
        with contextlib.chdir(self.folder), contextlib.redirect_stdout(printed):
            exec(compile("\n" * block.line + block.text, block.page, "exec"), self.names)
        return printed.getvalue()


@contextmanager
def walking(folder: Path, scratch: Path, **more: str) -> Iterator[Walk]:
    """A walk in a clone; what its commands leave at work ends with it."""
    shell = Shell(folder, scratch, environment(scratch, **more))
    try:
        yield Walk(folder, shell)
    finally:
        shell.close()


def environment(home: Path, **more: str) -> dict[str, str]:
    """What a new shell of a user has who has Python, Java perhaps, and this very tree's Python nowhere."""
    own = Path(sys.prefix)
    path = [entry for entry in os.environ["PATH"].split(":") if own not in Path(entry, "x").parents]
    kept = {name: value for name, value in os.environ.items() if name.startswith(("PIP_", "LANG", "LC_"))}
    # A session in this process has set our launcher, which needs what a shell of its own does not have.
    given = os.environ.get("JAVA_HOME", str(LAUNCHER_HOME))
    java = {} if given == str(LAUNCHER_HOME) else {"JAVA_HOME": given}
    # Nothing that a page starts may be seen from elsewhere.
    loopback = {"SPARK_LOCAL_IP": "127.0.0.1"}
    return {**kept, **java, **loopback, "PATH": ":".join(path), "HOME": str(home), **more}


def difference(expected: str, printed: str) -> str | None:
    """What a page says is printed, and what is; None where both are one. An ellipsis stands for anything."""
    wanted = [line.rstrip() for line in expected.rstrip("\n").splitlines()]
    found = "".join(f"{line.rstrip()}\n" for line in printed.rstrip("\n").splitlines())
    pattern = "".join(r"(?:.*\n)*?" if line.strip() == ELLIPSIS else f"{any_of(line)}\n" for line in wanted)
    if re.fullmatch(pattern, found):
        return None
    return f"the page says\n\n{expected}\nbut what is printed is\n\n{found}"


def any_of(line: str) -> str:
    """A line as a pattern; blanks before an ellipsis may be as many as there are, for columns."""
    parts = [re.escape(part) for part in line.split(ELLIPSIS)]
    return ".*".join(parts)
