"""What help, messages and pages say, in words that are understood at first reading."""

from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from spark_eval.cli.commands import OTHERS, program
from spark_eval.kernels.registry import RANKING

REPOSITORY = Path(__file__).parents[2]
HELP = {
    "--run-id": "Default: a hash of config, inputs and code. Use one id for split and evaluate.",
    "--replace": "Overwrite this run if it is already published with different content.",
}
PAGES = {
    "README.md": [
        "one shuffle, however the rows lie",
        "all metrics average over users with a relevant test item. A user without recommendations scores 0; "
        "`no_recommendations: drop` leaves them out.",
        "`accounting` counts every input row once: used, filtered, deduplicated, dropped or quarantined.",
    ],
    "docs/tables.md": ["`in` is the number of rows read after `where` and `subset`."],
    "docs/commands.md": [
        "Default: a hash of config, inputs and code. Use one id for split and evaluate",
        "unfinished attempts, running or dead",
        "Overwrite this run if it is already published with different content",
    ],
    "docs/conventions.md": [
        "Metrics are computed per user, then averaged. `_micro` and `_by_` are weighted averages.",
        "cannot reach 1 when a user has more relevant items than k",
        "If you pass `rank`, it is used as is. A repeated item counts at its best rank; later items do not "
        "move up.",
        "a preset plus overrides of single conventions",
    ],
    "docs/splits.md": ["355 rows of test repeat a pair of train; allowed here, `seen: drop` removes them"],
}


def one_line(text: str) -> str:
    return " ".join(text.split())


def shown(*arguments: str) -> str:
    """What the program prints, as one line."""
    done = CliRunner().invoke(program, arguments, prog_name="spark-eval")
    assert done.exit_code == 0
    return one_line(done.output)


@pytest.mark.parametrize("verb", ["split", "evaluate", "predictions"])
def test_help_says_what_options_do(verb: str) -> None:
    text = shown(verb, "--help")
    assert [said for said in HELP.values() if said not in text] == []


def test_help_says_what_status_lists() -> None:
    assert "unfinished attempts, running or dead" in shown("status", "--help")


def test_the_meaning_of_recall() -> None:
    assert RANKING["recall"].summary.endswith("cannot reach 1 when a user has more relevant items than k.")


@pytest.mark.parametrize(("page", "words"), PAGES.items())
def test_pages_say_it_too(page: str, words: list[str]) -> None:
    text = one_line((REPOSITORY / page).read_text(encoding="utf-8"))
    assert [said for said in words if said not in text] == []


@pytest.mark.parametrize("name", OTHERS)
def test_the_list_of_commands_has_the_first_sentence_of_each(name: str) -> None:
    command = program.get_command(click.Context(program), name)
    assert command is not None
    assert " ".join((command.help or "").split()).startswith(OTHERS[name])
