"""The pages of the documentation as blocks; docs/testing.md says how a page tells what its blocks are."""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import dropwhile, groupby, takewhile
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]
# Printed by the program; tests compare them, and run their examples.
GENERATED = ("docs/conventions.md",)
# The pages of the site, but for what is history: CHANGELOG.md and docs/decisions.
PAGES = [
    *("README.md", "CONTRIBUTING.md", "SECURITY.md"),
    *sorted(str(page.relative_to(REPOSITORY)) for page in (REPOSITORY / "docs").glob("*.md")),
    *("benchmarks/README.md", "examples/README.md"),
]
WALKED = [page for page in PAGES if page not in GENERATED]
CONFIGS = sorted(str(file.relative_to(REPOSITORY)) for file in (REPOSITORY / "conf").glob("*.yaml"))

SHELL, PYTHON, YAML, OUTPUT, DRAWING = "sh", "python", "yaml", "text", ""
LANGUAGES = (SHELL, PYTHON, YAML, OUTPUT, DRAWING)
FENCE = re.compile(r"^```([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
MARKER = re.compile(r"^<!-- walk: (.*?) -->$", re.MULTILINE)
SKIP = re.compile(r"skip(?: `([^`]+)`)?, (\S.*)")
WITH = re.compile(r"with (\S+), (\S.*)")
PRINTED_BY = re.compile(r"printed by `([^`]+)`")
WORDS_BEFORE = ("do", "then", "if", "until", "while", "!", "time", "nice")
NAMED = re.compile(r"# (\S+\.yaml)\n")


@dataclass(frozen=True)
class Block:
    """A fenced block: what it is, where it stands, what of it is not run and why, the data it needs.

    Output is that of the block before it, or of the command that ``printed_by`` names.
    """

    page: str
    line: int
    language: str
    text: str
    skipped: str | None = None
    skipped_line: str | None = None
    needs: str | None = None
    printed_by: str | None = None

    @property
    def place(self) -> str:
        """Where it stands, as editors take it."""
        return f"{self.page}:{self.line}"

    @property
    def is_run(self) -> bool:
        """Whether the walk does anything with it."""
        return self.skipped is None or self.skipped_line is not None

    @property
    def commands(self) -> str:
        """What of it the walk runs."""
        if self.skipped_line is None:
            return self.text
        lines = self.text.splitlines(keepends=True)
        return "".join(line for line in lines if not line.startswith(self.skipped_line))

    @property
    def file(self) -> str | None:
        """The file that a config is written to, by its first line."""
        found = NAMED.match(self.text)
        return found[1] if found else None


def read(page: str) -> str:
    """The source of a page."""
    return (REPOSITORY / page).read_text(encoding="utf-8")


def blocks(page: str) -> list[Block]:
    """The fenced blocks of a page, in order; ValueError for a marker that is none, or has no block."""
    text = read(page)
    markers = {found.end(): found for found in MARKER.finditer(text)}
    result = []
    for found in FENCE.finditer(text):
        block = Block(page, text.count("\n", 0, found.start()) + 1, found[1], found[2])
        before = text[: found.start()].rstrip()
        marker = markers.pop(len(before), None)
        result.append(block if marker is None else marked(block, marker[1]))
    for lost in markers.values():
        raise ValueError(f"{page}: no block after {lost[0]!r}")
    return result


def marked(block: Block, words: str) -> Block:
    """A block with what its marker says."""
    if found := SKIP.fullmatch(words):
        return replace(block, skipped=found[2], skipped_line=found[1])
    if found := WITH.fullmatch(words):
        return replace(block, needs=found[1])
    if (found := PRINTED_BY.fullmatch(words)) and block.language == OUTPUT:
        return replace(block, printed_by=found[1])
    raise ValueError(f"{block.place}: not a marker: {words!r}")


def command_lines(text: str) -> Iterator[list[str]]:
    """The words of every simple command of a script, without what may stand before it or redirect it."""
    text = re.sub(r"\\\n|\s2>&1", " ", text)
    text = re.sub(r"(^|\s)#.*$", "", text, flags=re.MULTILINE)
    for line in text.splitlines():
        lexer = shlex.shlex(line, posix=True, punctuation_chars="|&;()")
        lexer.whitespace_split = True
        lexer.commenters = ""
        for is_separator, words in groupby(lexer, lambda word: set(word) <= set("|&;()")):
            if not is_separator and (simple := without_prefix(list(words))):
                yield list(takewhile(lambda word: word not in (">", ">>", "<"), simple))


def without_prefix(words: list[str]) -> list[str]:
    """A command without assignments and words of the shell."""
    return list(dropwhile(lambda word: word in WORDS_BEFORE or re.match(r"\w+=", word), words))


def spans(page: str) -> Iterator[tuple[int, str]]:
    """The code within the prose and the tables of a page, with its line."""
    prose = FENCE.sub(lambda found: "\n" * found[0].count("\n"), read(page))
    for number, line in enumerate(prose.splitlines(), 1):
        for found in re.finditer(r"(?<!`)`([^`]+)`(?!`)", line):
            yield number, found[1]
