"""All rings of tests, one after the other: ``make test-all``.

A ring that has passed on this commit is not run again, so that a call that was cut off goes on where it was.
When all have passed, docs/testing.md says on which commit, and what each took.
"""

import json
import os
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

REPOSITORY: Final = Path(__file__).parents[1]
# Targets of make, the cheapest first.
RINGS: Final = (
    *("check", "docs", "test", "test-spark", "test-slow", "test-parity", "test-browser", "demo"),
    *("test-airflow", "test-pages", "test-stores", "test-versions", "test-exhaustive"),
)
RESULTS: Final = REPOSITORY / ".rings"
PAGE: Final = REPOSITORY / "docs" / "testing.md"
PART: Final = re.compile(r"(<!-- by make test-all -->\n).*?(<!-- to here -->)", re.DOTALL)
OUTCOMES: Final = ("passed", "failed", "skipped", "error")
# A line with the numbers of tests, such as "== 3 passed, 1 skipped in 0.12s ==".
NUMBERS: Final = re.compile(rf"(\d+) ({'|'.join(OUTCOMES)})s?\b")
CLOSING: Final = re.compile(
    r"^(?:=+ )?\d+ (?:passed|failed|skipped|errors?|deselected)\b.* in [\d.]+s", re.MULTILINE
)
SKIPPED: Final = re.compile(r"^SKIPPED \[\d+\] (.*)$", re.MULTILINE)


def main(wanted: list[str]) -> int:
    """Run these rings, or all; return the exit code: 1 if one fails."""
    commit = git("rev-parse", "HEAD")
    if git("status", "--porcelain", "--untracked-files=no"):
        print("Some files are not committed: results are of no commit, and are not kept.")
        commit = ""
    results = {ring: result_of(ring, commit) for ring in wanted or RINGS}
    print(table(results))
    for ring, result in results.items():
        for reason in result["reasons"]:
            print(f"skipped in {ring}: {reason}")
    if commit and not wanted and all(result["code"] == 0 for result in results.values()):
        write_page(commit, results)
    return int(any(result["code"] for result in results.values()))


def git(*words: str) -> str:
    """Return what git prints."""
    done = subprocess.run(["git", *words], cwd=REPOSITORY, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def result_of(ring: str, commit: str) -> dict[str, Any]:
    """Run a ring, unless it has passed on this commit; return what became of it."""
    file = RESULTS / f"{commit}.json"
    known: dict[str, Any] = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    if known.get(ring, {}).get("code") == 0:
        print(f"=== make {ring}: passed before", flush=True)
        return dict(known[ring])
    print(f"=== make {ring}", flush=True)
    start = time.monotonic()
    code, output = printed(ring)
    result = summary(output) | {"code": code, "minutes": (time.monotonic() - start) / 60}
    if commit:
        RESULTS.mkdir(exist_ok=True)
        file.write_text(json.dumps({**known, ring: result}, indent=2), encoding="utf-8")
    return result


def printed(ring: str) -> tuple[int, str]:
    """Run a target of make and pass on what it prints; return its exit code and the output."""
    lines = []
    # The call's own ARGS are names of rings; make hands them on in both.
    environment = {name: value for name, value in os.environ.items() if name not in ("ARGS", "MAKEFLAGS")}
    with subprocess.Popen(
        ["make", "--no-print-directory", ring],
        cwd=REPOSITORY,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    ) as process:
        for line in process.stdout or ():
            print(line, end="", flush=True)
            lines.append(line)
    return process.returncode, "".join(lines)


def summary(output: str) -> dict[str, Any]:
    """Return the numbers of tests by outcome, and the reasons of skipped ones.

    >>> summary("SKIPPED [1] tests/a.py:3: no mvn\\n== 3 passed, 1 skipped in 0.12s ==\\n")
    {'passed': 3, 'failed': 0, 'skipped': 1, 'error': 0, 'reasons': ['tests/a.py:3: no mvn']}
    """
    counts = Counter[str]()
    for closing in CLOSING.finditer(output):
        for number, outcome in NUMBERS.findall(closing[0]):
            counts[outcome] += int(number)
    return {name: counts[name] for name in OUTCOMES} | {"reasons": sorted(set(SKIPPED.findall(output)))}


def table(results: Mapping[str, Mapping[str, Any]]) -> str:
    """Return a line per ring, as Markdown."""
    lines = ["| ring | passed | failed | skipped | minutes |", "|---|---|---|---|---|"]
    for ring, result in results.items():
        n_failed = result["failed"] + result["error"]
        failed = n_failed or (f"exit {result['code']}" if result["code"] else 0)
        counts = f"{result['passed']:,} | {failed} | {result['skipped']}"
        lines.append(f"| `make {ring}` | {counts} | {result['minutes']:.1f} |")
    return "\n".join(lines)


def write_page(commit: str, results: Mapping[str, Mapping[str, Any]]) -> None:
    """Write the last whole run into the page."""
    day = datetime.now(UTC).date().isoformat()
    text = f"All rings passed on {day}, commit {commit[:12]}, one after the other:\n\n{table(results)}\n"
    page = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(PART.sub(lambda found: f"{found[1]}\n{text}\n{found[2]}", page), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
