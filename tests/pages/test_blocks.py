"""What can be said of the pages without running them: blocks, configs, commands, paths and links."""

import re
import shlex
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from string import Template

import click
import pytest
from benchmarks.run import main as benchmarks
from tests.pages.blocks import (
    CONFIGS,
    DRAWING,
    LANGUAGES,
    OUTPUT,
    PAGES,
    PYTHON,
    REPOSITORY,
    SHELL,
    WALKED,
    YAML,
    Block,
    blocks,
    command_lines,
    read,
    spans,
)
from tests.pages.walk import difference
from tests.reference import commands

from spark_eval.config.strict_yaml import load_yaml
from spark_eval.errors import ConfigError
from spark_eval.runs.sections import parse_config, read_config

MAKEFILE = (REPOSITORY / "Makefile").read_text(encoding="utf-8")
# What a reader's shell has, and what the blocks use of it.
TOOLS = {
    *("[", "break", "cd", "cp", "cat", "date", "deactivate", "do", "done", "echo", "export", "for"),
    *("git", "grep", "kill", "mkdir", "rm", "sed", "sleep", "source", "until"),
}
SPARK_PROGRAMS = {"spark-class", "spark-submit"}
SUBMIT_OPTIONS = {
    *("--master", "--deploy-mode", "--conf", "--py-files", "--archives", "--files", "--packages"),
    "--properties-file",
}
PLACEHOLDER = re.compile(r"…|[A-Z][A-Z_/:]*")
# Paths that a page may name only if the tree has them.
IN_THE_TREE = re.compile(r"(?:tests|docs|conf|benchmarks|jobs|dags|requirements)/[\w./*-]+")
COMMAND_SPAN = re.compile(r"(spark-eval|make|spark-submit|\.venv/bin/\S+|python -m) ")
LINK = re.compile(r"\]\((?!https?:)([^)#\s]*)(#[^)\s]+)?\)")


def fault(words: Sequence[str]) -> str | None:
    """What is wrong with a command; None for one that a reader may type."""
    name = words[0].rsplit("/", 1)[-1]
    if name == "spark-eval":
        return verb_fault(words[1:])
    if name == "spark-submit":
        return submit_fault(words[1:])
    if name == "make":
        return make_fault(words[1:])
    if name in ("python", "python3"):
        return python_fault(words[1:])
    known = name in TOOLS | SPARK_PROGRAMS | {"airflow", "pip"}
    return None if known else f"no such program: {name}"


def context_of(command: click.Command) -> click.Context:
    """A context with the program's names of help: a command keeps those of its first context."""
    return click.Context(command, help_option_names=["-h", "--help"])


def verb_fault(words: Sequence[str]) -> str | None:
    """What is wrong with the arguments of our program, settings included."""
    if not words or words[0] in ("--help", "--version"):
        return None
    command = commands().get(words[0])
    if command is None:
        return None if PLACEHOLDER.fullmatch(words[0]) else f"no verb {words[0]!r}"
    if wrong := options_fault(command, words[1:]):
        return wrong
    options, _, _ = command.make_parser(context_of(command)).parse_args(list(words[1:]))
    return settings_fault(options.get("file"), options.get("settings") or [])


def options_fault(command: click.Command, words: Sequence[str]) -> str | None:
    """What is wrong with the options of a command, whatever is left out of them."""
    try:
        _, rest, _ = command.make_parser(context_of(command)).parse_args(list(words))
    except click.UsageError as error:
        return error.format_message()
    odd = [word for word in rest if not PLACEHOLDER.fullmatch(word)]
    return f"{command.name} takes no {odd}" if odd else None


def settings_fault(file: str | None, settings: Sequence[str]) -> str | None:
    """What is wrong with what is laid over a config of the tree; variables are days."""
    days = {"before": "2024-05-04", "day": "2024-06-01"}
    path = REPOSITORY / (file or "")
    if not path.is_file():
        path = REPOSITORY / "conf" / "example.yaml"
    try:
        read_config(path, [Template(text).safe_substitute(days) for text in settings])
    except ConfigError as error:
        return str(error)
    return None


def submit_fault(words: Sequence[str]) -> str | None:
    """What is wrong with a submission, and with the arguments of its job."""
    jobs = [number for number, word in enumerate(words) if re.fullmatch(r"jobs/\w+\.py", word)]
    own = words[: jobs[0]] if jobs else words
    unknown = {word.partition("=")[0] for word in own if word.startswith("--")} - SUBMIT_OPTIONS
    if unknown:
        return f"spark-submit has no {unknown}"
    return verb_fault([Path(words[jobs[0]]).stem, *words[jobs[0] + 1 :]]) if jobs else None


def make_fault(words: Sequence[str]) -> str | None:
    """What is wrong with a call of make."""
    for word in words:
        name, is_variable, value = word.partition("=")
        if is_variable and name not in ("ARGS", "PYTHON", "dist"):
            return f"make knows no variable {name}"
        if (
            name == "ARGS"
            and words[0] == "benchmarks"
            and (wrong := options_fault(benchmarks, shlex.split(value)))
        ):
            return wrong
        if not is_variable and not re.search(rf"^{re.escape(name)}:", MAKEFILE, re.MULTILINE):
            return f"make has no target {name}"
    return None


def python_fault(words: Sequence[str]) -> str | None:
    """What is wrong with a call of Python: a module that is not there, a file of the tree that is not."""
    if words[0] == "-m" and find_spec(words[1]) is None:
        return f"no module {words[1]}"
    gone = not words[0].startswith("-") and not (REPOSITORY / words[0]).is_file()
    return f"no file {words[0]}" if gone else None


def in_prose(page: str) -> Iterator[tuple[str, str]]:
    """The commands that stand in the prose and the tables of a page, or in the comments of a config."""
    if page in CONFIGS:
        for number, line in enumerate(read(page).splitlines(), 1):
            if found := re.match(r"#   (spark-eval .*)", line):
                yield f"{page}:{number}", found[1]
    else:
        for number, span in spans(page):
            if COMMAND_SPAN.match(span):
                yield f"{page}:{number}", span


def as_it_is(found: Block) -> str | None:
    """What is wrong with a block before anything runs; None for a block that is what its language says."""
    if found.language not in LANGUAGES:
        return f"no such language: {found.language!r}; one of {LANGUAGES}"
    first = found.text.split(maxsplit=1)[0]
    if found.language == DRAWING and (COMMAND_SPAN.match(f"{first} ") or first in TOOLS | {"$", "airflow"}):
        return "a block of commands has the language `sh`"
    if found.language == YAML:
        try:
            parse_config({"output": {"path": "out"}, **load_yaml(found.text, found.place)})
        except ConfigError as error:
            return str(error)
    return None


def slug(heading: str) -> str:
    """The anchor of a heading."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


@pytest.mark.parametrize("page", WALKED)
def test_every_block_is_what_its_language_says(page: str) -> None:
    found = blocks(page)
    wrong = [f"{block.place}: {what}" for block in found if (what := as_it_is(block))]
    for before, block in zip([None, *found], found, strict=False):
        follows_code = before is not None and before.language in (SHELL, PYTHON)
        if block.language == OUTPUT and not follows_code and not block.printed_by:
            wrong.append(f"{block.place}: output of nothing; a drawing has no language")
    assert not wrong, "\n".join(wrong)


def test_what_is_history_has_no_blocks() -> None:
    decisions = [str(page.relative_to(REPOSITORY)) for page in (REPOSITORY / "docs" / "decisions").glob("*")]
    assert len(decisions) > 20
    assert [block.place for page in ("CHANGELOG.md", *decisions) for block in blocks(page)] == []


@pytest.mark.parametrize("page", [*PAGES, *CONFIGS])
def test_every_command_is_one(page: str) -> None:
    scripts = [(block.place, block.text) for block in blocks(page) if block.language == SHELL]
    wrong = [
        f"{place}: {what}: {shlex.join(words)}"
        for place, text in [*scripts, *in_prose(page)]
        for words in command_lines(text)
        if (what := fault(words))
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("config", CONFIGS)
def test_every_config_is_valid(config: str) -> None:
    read_config(REPOSITORY / config)


@pytest.mark.parametrize("page", PAGES)
def test_every_link_and_path_leads_somewhere(page: str) -> None:
    text, home = read(page), (REPOSITORY / page).parent
    wrong = []
    for file, anchor in LINK.findall(text):
        target = (home / file) if file else REPOSITORY / page
        headings = (
            re.findall(r"^#+ (.*)$", target.read_text(), re.MULTILINE) if anchor and target.exists() else []
        )
        if not target.exists() or (anchor and anchor[1:] not in map(slug, headings)):
            wrong.append(f"{file}{anchor}")
    named = [
        path.rstrip(".") for _, span in spans(page) for path in IN_THE_TREE.findall(span) if "<" not in span
    ]
    reasons = [path for block in blocks(page) if block.skipped for path in IN_THE_TREE.findall(block.skipped)]
    wrong += [path for path in [*named, *reasons] if not list(REPOSITORY.glob(path.rstrip("/")))]
    assert not wrong


@pytest.mark.parametrize("words", ["mean reciprocal rank", "cold start", "bootstrap", "install"])
def test_what_readers_search_for_is_in_a_heading(words: str) -> None:
    headings = [line.lower() for page in PAGES for line in read(page).splitlines() if re.match(r"#+ ", line)]
    assert any(words in line for line in headings)


def test_decisions_have_the_numbers_of_their_files() -> None:
    for page in (REPOSITORY / "docs" / "decisions").glob("*.md"):
        assert page.read_text(encoding="utf-8").startswith(f"# {page.name.partition('-')[0]} "), page.name


def test_sources_are_ones_that_a_reader_can_open() -> None:
    files = [*(REPOSITORY / "src").rglob("*.py"), *(REPOSITORY / page for page in PAGES)]
    assert [str(file) for file in files if "seed document" in file.read_text(encoding="utf-8")] == []


def test_selections_of_tests_select_some() -> None:
    """`-k` in the tables of the page on reliability: of the file named last, or of all."""
    file = ""
    for number, span in spans("docs/reliability.md"):
        found = re.search(r"tests/\S+?\.py", span)
        if found or span.startswith("make "):
            named = [found[0]] if found else [str(path) for path in (REPOSITORY / "tests").rglob("test_*.py")]
            file = "".join((REPOSITORY / path).read_text(encoding="utf-8") for path in named)
        for words in re.findall(r"-k (\w+|\"[\w ]+\")", span):
            for word in set(re.findall(r"\w+", words)) - {"or", "and", "not"}:
                assert word in file, f"docs/reliability.md:{number}: no test {word!r}"


@pytest.mark.parametrize(
    ("said", "printed", "is_same"),
    [
        ("a\nb\n", "a  \nb\n\n", True),
        ("a\nb\n", "a\nb\nc\n", False),
        ("…\nb\n", "x\ny\nb\n", True),
        ("a\n…\n", "a\n", True),
        ("[… s] read, … rows\n", "[  0.6 s] read, 1,240 rows\n", True),
        ("[… s] read\n", "[0.6 s] read\n[0.1 s] truth\n", False),
        ("cost (1+1)\n", "cost (1+1)\n", True),
    ],
)
def test_an_ellipsis_matches_what_varies(said: str, printed: str, is_same: bool) -> None:
    assert (difference(said, printed) is None) is is_same


def test_commands_are_found_in_a_script() -> None:
    script = """
    day=2024-06-01                   # a comment; make nothing
    A=b C="d e" spark-eval split --set "x={a: 'b'}" \\
        --replace > log 2>&1 &
    for day in 1 2; do make demo || break; done
    """
    assert list(command_lines(script)) == [
        ["spark-eval", "split", "--set", "x={a: 'b'}", "--replace"],
        ["for", "day", "in", "1", "2"],
        ["make", "demo"],
        ["break"],
        ["done"],
    ]


@pytest.mark.parametrize(
    "command",
    [
        "spark-eval evalute --config FILE",
        "spark-eval split --config FILE --rnu-id x",
        "spark-eval split --config conf/example.yaml --set split.local_cat=1",
        "spark-submit --py-file x jobs/split.py --config FILE",
        "spark-submit jobs/split.py --confg FILE",
        "make package archve",
        "python -m benchmarks.strat",
        "python tests/no/such.py",
        "spark-evl demo",
    ],
)
def test_an_invalid_command_is_found(command: str) -> None:
    assert fault(command.split())
