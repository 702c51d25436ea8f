"""Count the constructions that the prose of package, pages and tests retires; no count may grow.

A docstring is a noun phrase or begins with a verb, and a sentence has a subject and a verb and says one idea.
A name is the thing. Lower a limit when you have removed some.
``python -m tests.test_prose`` prints where each construction is left.
"""

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from tests.pages.blocks import FENCE, GENERATED, PAGES

REPOSITORY: Final = Path(__file__).parents[1]
SOURCE: Final = REPOSITORY / "src" / "spark_eval"
TESTS: Final = REPOSITORY / "tests"
# A clause that begins with "of", instead of a subject: "Of a log all columns are needed".
OF_CLAUSE: Final = r"(?:^|[.?!|] +|^ *- |\"\"\")Of (?!course)|[;:|] +of (?!course)"
PREPOSITION_AND_WHICH: Final = r"\b(of|in|by|to|for|with|from|at|on|under) (which|whom|whose)\b"
# Repeat the noun.
THOSE_OF: Final = r"\b([Tt]hose|[Tt]hat|[Tt]he ones?) of\b"
# Each construction, and how often it is left in the package at most.
RETIRED: Final = {
    # A class or property described by a free relative clause; write a noun phrase.
    r'"""(What|How|Which|Whether|Where|Whose|Who) ': 0,
    # Write "Return the ...", or "True if" of a predicate.
    r"Return (what|which|how|whether|who|whose|where|of) ": 0,
    # Write "None if not requested", "None if unknown".
    r"\b[Nn]obody\b|\b[Ss]omebody\b": 2,
    # Write "not a".
    r"\b(is|are) no (text|folder|file|number|path|column|mapping|list|name|table)\b|\bnone of ours\b": 1,
    # Write "if", "n", "instead of", "is in".
    r"\bas far as\b|\bso many\b|\bin the place of\b|\bstands in\b": 2,
    # Write "as well as", "in addition to".
    r"\b[Bb]eside\b": 9,
    # Write two sentences.
    PREPOSITION_AND_WHICH: 4,
    OF_CLAUSE: 24,
    THOSE_OF: 240,
}
# The same in pages; without what the program prints and what is history.
RETIRED_IN_PAGES: Final = {
    OF_CLAUSE: 80,
    THOSE_OF: 78,
    PREPOSITION_AND_WHICH: 74,
    r"\b[Nn]obody\b|\b[Ss]omebody\b": 3,
    r"\b(is|are) none\b|\bnone of ours\b|\bof ours\b": 8,
    # Write "is", "is in", "lists", "says".
    r"\bstands? (in|on|at|by|with|there|beside|for)\b|\b(can|cannot|that) tells?\b": 7,
    r"\b[Bb]eside\b": 13,
    # A page says what holds, and how to repeat it.
    r"\bon 20\d\d-\d\d-\d\d|\bother work\b|\bof the day before\b|\bwhile others\b": 0,
}
# Riddles in names of tests: name what is done, and what is right.
RIDDLES: Final = (
    r"_(is|are)_none(_|$)|_(nobody|somebody|whom|whose|ours|theirs|told|stands?|tells?|elsewhere)(_|$)"
    r"|_of_one(_|$)|_one_is_|_(as|where|what)_(it|they|there)_(is|are|was|were)(_|$)"
)
MOST_RIDDLES: Final = 72
# Names of variables that do not say what they are, and how many are left at most; name the thing.
VAGUE: Final = {*("told", "said", "asked", "met", "taken", "kept", "found", "held", "place", "places")}
MOST_VAGUE: Final = 64
# Names that are a preposition or a pronoun: `of_users` is `user_rows`, `own` is `source_columns`.
PRONOUN: Final = r"of_\w+|own|theirs|ours|mine|others?"
MOST_PRONOUNS: Final = {SOURCE: 864, TESTS: 609}


def trees(folder: Path) -> Iterator[tuple[Path, ast.Module]]:
    for path in sorted(folder.rglob("*.py")):
        yield path.relative_to(REPOSITORY), ast.parse(path.read_text(encoding="utf-8"))


def variables(folder: Path) -> Iterator[tuple[str, str]]:
    for path, tree in trees(folder):
        for node in ast.walk(tree):
            match node:
                case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name):
                    yield name, f"{path}:{node.lineno}: {name}"


def vague_names() -> list[str]:
    return [line for name, line in variables(SOURCE) if name in VAGUE]


def pronouns(folder: Path) -> list[str]:
    return [line for name, line in variables(folder) if re.fullmatch(PRONOUN, name)]


def riddles() -> list[str]:
    return [
        f"{path}:{node.lineno}: {node.name}"
        for path, tree in trees(TESTS)
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef) and re.search(RIDDLES, node.name.removeprefix("test"))
    ]


def lines_of(path: Path) -> list[str]:
    """The lines of a module, or the prose of a page."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        text = FENCE.sub(lambda block: "\n" * block[0].count("\n"), text)
    return text.splitlines()


def found(pattern: str, paths: list[Path]) -> list[str]:
    return [
        f"{path.relative_to(REPOSITORY)}:{number}: {line.strip()}"
        for path in paths
        for number, line in enumerate(lines_of(path), start=1)
        if re.search(pattern, line)
    ]


MODULES: Final = sorted(SOURCE.rglob("*.py"))
PROSE: Final = [
    *(REPOSITORY / page for page in PAGES if page not in GENERATED),
    *sorted((REPOSITORY / "docs" / "decisions").glob("*.md")),
]


@pytest.mark.parametrize(("pattern", "limit"), RETIRED.items())
def test_a_retired_construction_does_not_come_back(pattern: str, limit: int) -> None:
    lines = found(pattern, MODULES)
    assert len(lines) <= limit, "\n".join(lines)


@pytest.mark.parametrize(("pattern", "limit"), RETIRED_IN_PAGES.items())
def test_a_construction_retired_from_pages_does_not_come_back(pattern: str, limit: int) -> None:
    lines = found(pattern, PROSE)
    assert len(lines) <= limit, "\n".join(lines)


def test_vague_names_of_variables_do_not_come_back() -> None:
    lines = vague_names()
    assert len(lines) <= MOST_VAGUE, "\n".join(lines)


@pytest.mark.parametrize("folder", [SOURCE, TESTS], ids=["package", "tests"])
def test_names_that_are_prepositions_or_pronouns_do_not_come_back(folder: Path) -> None:
    lines = pronouns(folder)
    assert len(lines) <= MOST_PRONOUNS[folder], "\n".join(lines)


def test_riddles_in_names_of_tests_do_not_come_back() -> None:
    lines = riddles()
    assert len(lines) <= MOST_RIDDLES, "\n".join(lines)


if __name__ == "__main__":
    for title, lines in (
        *((pattern, found(pattern, MODULES)) for pattern in RETIRED),
        *((f"pages: {pattern}", found(pattern, PROSE)) for pattern in RETIRED_IN_PAGES),
        ("vague names", vague_names()),
        *((f"pronouns in {folder.name}", pronouns(folder)) for folder in (SOURCE, TESTS)),
        ("riddles", riddles()),
    ):
        print(f"{len(lines):5} {title}", file=sys.stderr)
        print(*lines, sep="\n")
