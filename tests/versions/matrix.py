"""``make test-versions``: a part of the tests, in an environment of its own for each line of versions.txt.

Prints the table of what was seen, which docs/versions.md quotes; ``--write`` writes it there. Words choose
lines:  lines: ``ARGS="spark4.0 --write"``.
"""

import argparse
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import astuple, dataclass
from datetime import UTC, datetime
from pathlib import Path
from xml.etree import ElementTree

REPOSITORY = Path(__file__).parents[2]
LINES = REPOSITORY / "requirements" / "versions.txt"
ENVIRONMENTS = REPOSITORY / ".venv-versions"
PAGE = REPOSITORY / "docs" / "versions.md"
PINS = re.compile(r"^([A-Za-z0-9._-]+)==([^\s;]+)", re.MULTILINE)
TABLE = re.compile(r"^\| Spark \| Python \|.*\n(?:\|.*\n)+", re.MULTILINE)
HEADER = ("Spark", "Python", "pandas", "pyarrow", "numpy", "tests", "values", "seen")
# Spark 4.0 leaves sockets to the collector of garbage, which is no fault of ours.
OPTIONS = (
    *("-p", "no:cacheprovider", "-o", "junit_family=xunit1"),
    *("-W", "ignore::ResourceWarning", "-W", "ignore::pytest.PytestUnraisableExceptionWarning"),
)
TOOLS = ("chispa", "hypothesis", "polars", "pyspark[connect]", "pytest", "pytest-timeout")
# The numbers, lists and items against oracles, comparison, splits, predictions, the commands end to end, and
# the values of one evaluation.
TESTS = (
    "tests/kernels/test_textbook.py",
    "tests/kernels/test_golden.py",
    "tests/evaluation/test_engine_oracle.py",
    "tests/evaluation/test_evaluate.py",
    "tests/tables/test_frames.py",
    "tests/tables/test_pandas_types.py",
    "tests/evaluation/test_items.py",
    "tests/comparison/test_compare.py",
    "tests/predictions/test_predictions.py",
    "tests/functions/test_functions.py",
    "tests/splits/test_split.py",
    "tests/splits/test_split_plain.py",
    "tests/cli/test_tables.py",
    "tests/verbs/test_predictions_verb.py",
    "tests/faults/test_bit_identity.py::test_one_hash_of_the_values",
)


class Skipped(Exception):
    """A line that cannot be tried on this machine; the message says why."""


@dataclass(frozen=True)
class Line:
    """The versions of one environment, as in versions.txt."""

    python: str
    pyspark: str
    pandas: str
    pyarrow: str
    numpy: str

    @property
    def name(self) -> str:
        """What words of the command line choose it by, and its folder."""
        return f"py{self.python}-spark{self.pyspark}-pandas{self.pandas}"

    @property
    def home(self) -> Path:
        """Its environment."""
        return ENVIRONMENTS / self.name

    @property
    def result(self) -> Path:
        """What was seen when it was tried last."""
        return self.home / "seen.json"

    def constraints(self) -> str:
        """Its versions, and those of dev.txt of everything else."""
        pins = dict(PINS.findall((REPOSITORY / "requirements" / "dev.txt").read_text(encoding="utf-8")))
        pins |= {name: version for name, version in vars(self).items() if name != "python"}
        return "".join(f"{name}=={version}\n" for name, version in pins.items() if name != "py4j")


def lines() -> list[Line]:
    """All lines of versions.txt."""
    text = LINES.read_text(encoding="utf-8").splitlines()
    return [Line(*line.split()) for line in text if not line.startswith("#")]


def run(*command: str | Path) -> "subprocess.CompletedProcess[str]":
    """A program at the root of the repository; what it prints is kept."""
    return subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)


def install(line: Line) -> Path:
    """The line's interpreter, in an environment that pip makes only once; raises Skipped."""
    python = line.home / "bin" / "python"
    wanted, installed = line.constraints(), line.home / "constraints.txt"
    if python.exists() and installed.exists() and installed.read_text(encoding="utf-8") == wanted:
        return python
    base = shutil.which(f"python{line.python}")
    if base is None or run(base, "-c", "import ensurepip, venv").returncode:
        raise Skipped(f"no python{line.python} with venv on PATH")
    run(base, "-m", "venv", "--clear", line.home)
    given = line.home / "given.txt"
    given.write_text(wanted, encoding="utf-8")
    pip = (python, "-m", "pip", "install", "-qq", "--no-input")
    build = (*pip, "--require-hashes", "-r", "requirements/build.txt")
    # With dependencies: pip refuses a line that pyproject.toml does not allow.
    for command in (build, (*pip, "--no-build-isolation", "-c", given, "-e", ".", *TOOLS)):
        done = run(*command)
        if done.returncode:
            raise SystemExit(f"{line.name}: pip refuses it: {done.stderr.strip()}")
    given.rename(installed)
    return python


def attempt(line: Line) -> bool:
    """Run the tests, note what was seen, and tell whether all is well."""
    python, report = install(line), line.home / "report.xml"
    log = line.home / "tests.log"
    done = run(python, "-m", "pytest", "-q", *OPTIONS, f"--junitxml={report}", *TESTS)
    log.write_text(done.stdout + done.stderr, encoding="utf-8")
    [suite] = ElementTree.parse(report).getroot()
    n_bad = int(suite.attrib["failures"]) + int(suite.attrib["errors"])
    n_left_out = int(suite.attrib["skipped"])
    n_passed = int(suite.attrib["tests"]) - n_bad - n_left_out
    tests = f"{n_passed} passed" + (f", {n_bad} failed" if n_bad else "")
    tests += f", {n_left_out} skipped" if n_left_out else ""
    values = [item.attrib["value"] for item in suite.iter("property") if item.attrib["name"] == "values"]
    seen = {"tests": tests, "values": "".join(values), "seen": f"{datetime.now(UTC):%Y-%m-%d}"}
    line.result.write_text(json.dumps(seen), encoding="utf-8")
    print(f"{line.name}: {tests} in {float(suite.attrib['time']):.0f} s, values {seen['values'] or 'none'}")
    if done.returncode:
        print(f"  see {log}")
    return not done.returncode


def run_tests(line: Line, tests: str) -> int:
    """Run tests in an environment, if this machine can have it; return the exit code."""
    try:
        python = install(line)
    except Skipped as reason:
        print(f"{tests}: skipped: {reason}")
        return 0
    command = [str(python), "-m", "pytest", *OPTIONS, "-m", "not exhaustive", *tests.split()]
    return subprocess.run(command, cwd=REPOSITORY, check=False).returncode


def table() -> str:
    """What was seen of every line."""
    rows = [HEADER, tuple("---" for _ in HEADER)]
    for line in lines():
        seen = json.loads(line.result.read_text(encoding="utf-8")) if line.result.exists() else {}
        python, pyspark, *libraries = astuple(line)
        told = [seen.get("tests", "not run"), f"`{seen['values']}`" if seen.get("values") else "-"]
        rows.append((pyspark, python, *libraries, *told, seen.get("seen", "-")))
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def quoted_table() -> str:
    """The table as it stands on the page."""
    [found] = TABLE.findall(PAGE.read_text(encoding="utf-8"))
    return str(found)


def main(arguments: Sequence[str]) -> int:
    """Try the chosen lines; 1 if any failed or if their values differ."""
    parser = argparse.ArgumentParser(prog="make test-versions", description=__doc__)
    parser.add_argument("words", nargs="*", help="parts of names, such as spark4.0 or py3.13; all without")
    parser.add_argument("--write", action="store_true", help="write the table into docs/versions.md")
    parser.add_argument(
        "--tests", help="run these files of tests instead, show what they say, and note nothing"
    )
    given = parser.parse_args(arguments)
    chosen = [line for line in lines() if all(word in line.name for word in given.words)]
    is_well = bool(chosen)
    if given.tests:
        return max(run_tests(line, given.tests) for line in chosen)
    for line in chosen:
        try:
            is_well &= attempt(line)
        except Skipped as reason:
            print(f"{line.name}: skipped: {reason}")
    found = table()
    print(found, end="")
    # Tables may have had other columns on another day.
    values_of_days = set(re.findall(r"`(\w+)` \| ([\d-]+) \|", found))
    if len({day for _, day in values_of_days}) < len(values_of_days):
        print("The values differ between environments.")
        is_well = False
    if given.write:
        PAGE.write_text(TABLE.sub(lambda _: found, PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    return 0 if is_well else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
