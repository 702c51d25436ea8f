"""The command line ``spark-eval <verb>``, which ``jobs/<verb>.py`` also runs.

Each command is a module, loaded when it is called, so that help and usage errors appear at once.
"""

import gc
import sys
import traceback
from collections.abc import Mapping, Sequence
from importlib import import_module
from itertools import pairwise
from typing import Final, NoReturn

import click

from spark_eval.errors import ConfigError, SparkEvalError
from spark_eval.runtime import endings, events, streams
from spark_eval.runtime.signals import Stopped, handle_signals
from spark_eval.schema import VERSION
from spark_eval.verbs import SENTENCES, VERBS

# Objects that Python makes between two searches for garbage. Imports make many, and hardly any garbage:
# with the default of 700, searches take a tenth of the start.
OBJECTS_TO_SEARCH: Final = 50_000
# The first sentence of the help of each other command; its module has its name.
OTHERS: Final[Mapping[str, str]] = {
    "report": "Write one self-contained HTML page on a published run, from its tables alone.",
    "history": "Show the values of published days over time, with their changes; "
    "write one self-contained HTML page.",
    "demo": "Everything end to end: split a made-up log, train three models, evaluate, compare, "
    "decide a gate.",
    "validate": "Check the config and the columns and types of its inputs, or that baselines exist; "
    "no table is read.",
    "init": "Write a commented config for the tables it is shown: columns guessed, given, to be confirmed.",
    "metrics": "List the metrics with their formulas, and the conventions; or show one metric NAME in full.",
    "status": "List published runs with the results of their gates, and unfinished attempts, "
    "running or dead.",
}


class Program(click.Group):
    """The program; the module of a command is loaded, with all that it imports, when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands."""
        del ctx
        return sorted([*SENTENCES, *OTHERS])

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command of this name; None if there is none."""
        del ctx
        if cmd_name in SENTENCES:
            made: click.Command = import_module("spark_eval.cli.runner").command_of(VERBS[cmd_name])
            return made
        return import_module(f"spark_eval.cli.{cmd_name}").command if cmd_name in OTHERS else None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands, each with its first sentence, without loading their modules."""
        named = {name: click.Command(name, help=text) for name, text in {**SENTENCES, **OTHERS}.items()}
        click.Group(commands=named).format_commands(ctx, formatter)


@click.group(
    cls=Program,
    no_args_is_help=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(VERSION, prog_name="spark-eval")
def program() -> None:
    """Evaluate recommender systems, offline and online, in one process or on Spark.

    Exit codes: 0 done or already published, 1 infrastructure (retry), 2 config, 3 data (both: stop),
    4 another attempt holds the run (retry later), 5 a gate failed (alert; the run is published).
    """


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the program and exit; a failure prints its message as the last line on stderr."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in given
    given = [argument for argument in given if argument != "--debug"]
    gc.set_threshold(OBJECTS_TO_SEARCH)
    events.listen(as_json="--log-format=json" in given or ("--log-format", "json") in pairwise(given))
    with events.program(), streams.protect_streams() as out, handle_signals() as signals:
        with streams.capture_child_output(is_shown=debug):
            code, error, trace = answer(given)
            signals.is_over = True
        out.flush()
        error = error or endings.output_error(out)
        if error is not None:
            endings.print_error(error, trace if debug else "")
    sys.exit(code if error is None else error.exit_code)


def answer(given: list[str]) -> tuple[int, SparkEvalError | None, str]:
    """Return (exit code, error, traceback) of a command; without error, None and an empty text."""
    try:
        code = program.main(given, prog_name="spark-eval", standalone_mode=False)
    except click.ClickException as error:
        message = f"{error.format_message()} (spark-eval --help shows what is allowed)"
        return 2, ConfigError("USAGE", message), traceback.format_exc()
    except (Exception, Stopped) as error:
        return 1, endings.named_error(error), traceback.format_exc()
    return (code if isinstance(code, int) else 0), None, ""
