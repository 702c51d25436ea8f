"""Count the constructions that the package's prose retires; a count may fall, and never grows.

A docstring is a noun phrase or begins with a verb, and a sentence says one idea. Lower a limit when you
have removed some.
``python -m tests.test_prose`` prints where each construction is left.
"""

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

SOURCE: Final = Path(__file__).parents[1] / "src" / "spark_eval"
# Each construction, and how often it is left in the package at most.
RETIRED: Final = {
    # A class or property described by a free relative clause; write a noun phrase.
    r'"""(What|How|Which|Whether|Where|Whose|Who) ': 0,
    # Write "Return the ...", or "True if" of a predicate.
    r"Return (what|which|how|whether|who|whose|where|of) ": 0,
    # Write "None if not requested", "None if unknown".
    r"\b[Nn]obody\b|\b[Ss]omebody\b": 3,
    # Write "not a".
    r"\b(is|are) no (text|folder|file|number|path|column|mapping|list|name|table)\b|\bnone of ours\b": 1,
    # Write "if", "n", "instead of", "is in".
    r"\bas far as\b|\bso many\b|\bin the place of\b|\bstands in\b": 2,
    # Write "as well as", "in addition to".
    r"\b[Bb]eside\b": 10,
    # Write two sentences.
    r"\b(of|in|by|to|for|with|from|at|on|under) (which|whom|whose)\b": 4,
}
# Names of variables that do not say what they are, and how many are left at most; name the thing.
VAGUE: Final = {*("told", "said", "asked", "met", "taken", "kept", "found", "held", "place", "places")}
MOST_VAGUE: Final = 64


def vague_names() -> Iterator[str]:
    for path in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            match node:
                case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name) if name in VAGUE:
                    yield f"{path.relative_to(SOURCE.parent)}:{node.lineno}: {name}"


def found(pattern: str) -> Iterator[str]:
    for path in sorted(SOURCE.rglob("*.py")):
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
            if re.search(pattern, line):
                yield f"{path.relative_to(SOURCE.parent)}:{number}: {line.strip()}"


@pytest.mark.parametrize(("pattern", "limit"), RETIRED.items())
def test_a_retired_construction_does_not_come_back(pattern: str, limit: int) -> None:
    lines = list(found(pattern))
    assert len(lines) <= limit, "\n".join(lines)


def test_vague_names_of_variables_do_not_come_back() -> None:
    lines = list(vague_names())
    assert len(lines) <= MOST_VAGUE, "\n".join(lines)


if __name__ == "__main__":
    for pattern in RETIRED:
        lines = list(found(pattern))
        print(f"{len(lines):5} {pattern}", file=sys.stderr)
        print(*lines, sep="\n")
