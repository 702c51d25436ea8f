"""What the libraries compute, each in its own process, and a line for each at the end of the report."""

import json
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from cases import KS, User, users_of

PYTHON = Path(__file__).parents[2] / ".venv-parity" / "bin" / "python"
SCRIPTS = Path(__file__).parent / "libraries"
COMPARED = pytest.StashKey[list[str]]()

Answer = Mapping[str, Any]


@pytest.fixture(scope="session")
def answers(request: pytest.FixtureRequest) -> Iterator[Mapping[str, "Future[Answer]"]]:
    """Answers of all libraries that have a script and a test to come, one after the other, while Spark works.

    Skips where there is no environment to run them in.
    """
    asked = [item.callspec.params.get("trial") for item in request.session.items if hasattr(item, "callspec")]
    if not PYTHON.exists():
        pytest.skip("the libraries are not installed; `make test-parity` installs them and runs this")
    pool = ThreadPoolExecutor(max_workers=1)
    yield {
        library: pool.submit(ask, library, users_of(library))
        for library in dict.fromkeys(asked)
        if (SCRIPTS / f"ask_{library}.py").exists()
    }
    pool.shutdown(cancel_futures=True)


def ask(library: str, users: Sequence[User]) -> Answer:
    """What a library computes for these users, by its script."""
    done = subprocess.run(
        [PYTHON, SCRIPTS / f"ask_{library}.py"],
        input=json.dumps({"users": [user.as_json() for user in users], "ks": KS}),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    answer: Answer = json.loads(done.stdout)
    return answer


@pytest.fixture(scope="session")
def compared(request: pytest.FixtureRequest) -> list[str]:
    """Lines that stand at the end of the report."""
    return request.config.stash.setdefault(COMPARED, [])


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Who was compared, and how far apart the numbers are at worst."""
    for line in config.stash.get(COMPARED, []):
        terminalreporter.write_line(line)
