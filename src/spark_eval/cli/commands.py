"""The command line ``spark-eval <verb>``, which ``jobs/<verb>.py`` also runs.

Spark and the libraries for tables are imported by the verbs that need them, so that help and config errors
appear at once.
"""

import gc
import json
import logging
import sys
import traceback
from collections.abc import Callable, Sequence
from functools import reduce
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeVar

import click

from spark_eval.errors import ConfigError, SparkEvalError
from spark_eval.runtime import endings, events, streams
from spark_eval.runtime.local_files import check_working_folder, is_stdout
from spark_eval.runtime.signals import Stopped, handle_signals
from spark_eval.schema import VERSION
from spark_eval.verbs import SENTENCES, VERBS

if TYPE_CHECKING:
    from spark_eval.runs.verb import Verb

Command = TypeVar("Command", bound=Callable[..., None])
CONFIG = click.option(
    "--config", "file", required=True, type=click.Path(path_type=Path), help="YAML config file."
)
SET_OPTION = click.option(
    "--set", "settings", multiple=True, metavar="KEY=VALUE", help="Override a.dotted.key; may be repeated."
)
# Objects that Python makes between two searches for garbage. Imports make many, and hardly any garbage:
# with the default of 700, searches take a tenth of the start.
OBJECTS_TO_SEARCH: Final = 50_000
VERDICT = click.option(
    "--verdict",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Write the gates to a file, FILE.json or FILE.md.",
)
# Options of all verbs that make a run. ``main`` handles --debug and --log-format itself.
OF_RUNS = (
    CONFIG,
    click.option(
        "--run-id", help="Default: a hash of config, inputs and code. Use one id for split and evaluate."
    ),
    SET_OPTION,
    click.option(
        "--replace",
        is_flag=True,
        help="Overwrite this run if it is already published with different content.",
    ),
    click.option(
        "--engine",
        type=click.Choice(["auto", "local", "spark"]),
        help="Where it runs: this process, Spark, or auto: this process for plain Parquet files of this "
        "machine. Default: that of the config.",
    ),
    click.option(
        "--log-format",
        type=click.Choice(["text", "json"]),
        default="text",
        show_default=True,
        expose_value=False,
        help="Progress as text on stdout, or as one JSON object a line on stderr.",
    ),
    click.option(
        "--debug",
        is_flag=True,
        expose_value=False,
        help="Show the trace of a failure, and what Spark prints.",
    ),
)


def run_options(command: Command) -> Command:
    """Add the options of runs to a command."""
    return reduce(lambda decorated, option: option(decorated), reversed(OF_RUNS), command)


class Program(click.Group):
    """The program; the record of a verb is loaded when its command is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands."""
        return sorted([*SENTENCES, *super().list_commands(ctx)])

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command of this name; None if there is none."""
        return command_of(VERBS[cmd_name]) if cmd_name in SENTENCES else super().get_command(ctx, cmd_name)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands, each with its first sentence, without loading a verb."""
        named = {name: click.Command(name, help=text) for name, text in SENTENCES.items()}
        click.Group(commands={**named, **self.commands}).format_commands(ctx, formatter)


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


class VerbCommand(click.Command):
    """Command of a verb, whose help lists the options of its section that the record names."""

    def __init__(self, *, verb: "Verb", **given: Any) -> None:
        super().__init__(**given)
        self.verb = verb

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options of the config's section."""
        if options := self.verb.options():
            with formatter.section(f"Options of {self.verb.name} in the config (methods; default)"):
                formatter.write_dl(options)
        super().format_epilog(ctx, formatter)


def command_of(verb: "Verb") -> click.Command:
    """Return the command of a verb that makes a run."""

    @run_options
    def make(settings: Sequence[str], engine: str | None, **given: Any) -> None:
        from spark_eval.cli.runner import make_run

        if engine is not None:
            settings = [*settings, f"engine={engine}"]
        chosen = {one.key: given.pop(one.parameter) for one in verb.shortcuts}
        own = [f"{key}={json.dumps(value)}" for key, value in chosen.items() if value is not None]
        make_run(verb.name, settings=[*settings, *own], **given)

    for one in reversed(verb.shortcuts):
        make = click.option(one.option, one.parameter, metavar=one.metavar, help=one.meaning)(make)
    if verb.has_verdict:
        make = VERDICT(make)
    text = f"{SENTENCES[verb.name]}\n\n{verb.about}"
    return click.command(verb.name, cls=VerbCommand, help=text, verb=verb)(make)


@program.command()
@click.option("--path", help="The output root, on this machine; needs no Spark and no config.")
@click.option("--config", "file", type=click.Path(path_type=Path), help="Config with the output instead.")
@click.option("--run-id", required=True, help="The run that the report is on.")
@click.option("--baseline", help="A run to compare the means of this run with.")
@click.option("--primary", help="The metric of its verdict: ndcg@10. Default: nDCG at its largest k.")
@click.option("--to", help="File to write. Default: report/RUN_ID.html below the output.")
def report(
    path: str | None,
    file: Path | None,
    run_id: str,
    baseline: str | None,
    primary: str | None,
    to: str | None,
) -> None:
    """Write one self-contained HTML page on a published run, from its tables alone."""
    from spark_eval.cli.runner import open_config, working
    from spark_eval.publishing.stores import store_of
    from spark_eval.verbs.report import store_at, write_report

    if (path is None) == (file is None):
        raise click.UsageError("give either --path, of an output on this machine, or --config")
    check_working_folder()
    events.log.setLevel(logging.WARNING)  # stdout is the path, or the page
    if file is None:
        written = write_report(store_at(str(path)), run_id, baseline, to, primary)
    else:
        config = open_config(file, (), run_id)
        with working(config, "report") as session:
            store = store_of(config.output, session)
            written = write_report(store, run_id, baseline, to, primary or config.primary)
    if to is None or not is_stdout(Path(to)):
        print(written)


@program.command()
@click.option("--path", help="The output root, on this machine; needs no Spark and no config.")
@click.option("--config", "file", type=click.Path(path_type=Path), help="Config with the output instead.")
@SET_OPTION
@click.option("--metrics", multiple=True, metavar="METRIC", help="ndcg@10, or ndcg at each k. Default: all.")
@click.option("--models", multiple=True, metavar="MODEL", help="Default: all.")
@click.option("--from", "first", metavar="DAY", help="First day, the id of its run. Default: the oldest.")
@click.option("--to", "last", metavar="DAY", help="Last day, included. Default: the newest.")
@click.option("--segments", multiple=True, metavar="SEGMENT", help="Shown as well as all users.")
@click.option("--paired", is_flag=True, help="Intervals of differences allow for users of both runs.")
@click.option("--page", metavar="FILE", help="HTML file. Default: report/_history.html below the output.")
def history(
    path: str | None,
    file: Path | None,
    settings: Sequence[str],
    page: str | None,
    paired: bool,
    **given: Any,
) -> None:
    """Show the values of published days over time, with their changes; write one self-contained HTML page.

    Options override the keys of the config's section history.
    """
    from spark_eval.cli.history import show_history

    if (path is None) == (file is None):
        raise click.UsageError("give either --path, of an output on this machine, or --config")
    check_working_folder()
    options = {name: value for name, value in given.items() if value} | ({"paired": True} if paired else {})
    show_history(path, file, settings, page, options)


@program.command()
@click.option(
    "--ratings", type=click.Path(path_type=Path), help="A MovieLens-style CSV instead of a made-up log."
)
@click.option("--scale", type=click.FloatRange(0.1, 1000), default=1.0, help="Size of the made-up log.")
@click.option(
    "--output",
    type=click.Path(path_type=Path),
    default=Path("spark-eval-demo"),
    show_default=True,
    help="Folder of all that it makes.",
)
@click.option("--replace", is_flag=True, help="Replace the demo of another log in the output folder.")
@click.option("--online", is_flag=True, help="An online experiment instead: a week of made-up events.")
@click.option("--programme", is_flag=True, help="Thirty past experiments instead, and their calibration.")
def demo(
    ratings: Path | None, scale: float, output: Path, replace: bool, online: bool, programme: bool
) -> None:
    """Everything end to end: split a made-up log, train three models, evaluate, compare, decide a gate."""
    from spark_eval.cli.demo import run_demo, run_online_demo, run_programme_demo

    check_working_folder()
    events.log.setLevel(logging.WARNING)  # the demo prints its own steps
    if online and programme:
        raise click.UsageError("--online and --programme are two demos; give one")
    if online or programme:
        if ratings is not None:
            name = "--online" if online else "--programme"
            raise click.UsageError(f"{name} makes its own events; leave --ratings out")
        (run_online_demo if online else run_programme_demo)(scale, output)
        return
    run_demo(ratings, scale, output, replace)


@program.command()
@CONFIG
@SET_OPTION
@click.option(
    "--verb",
    type=click.Choice(list(VERBS)),
    help="Check the inputs of this verb only; the others need not exist yet.",
)
def validate(file: Path, settings: Sequence[str], verb: str | None) -> None:
    """Check the config and the columns and types of its inputs, or that baselines exist; no table is read."""
    from spark_eval.cli import terminal
    from spark_eval.cli.runner import open_config, working
    from spark_eval.verbs.validate import check_inputs, check_verb

    config = open_config(file, settings, None)
    chosen = None if verb is None else VERBS[verb]
    if chosen is not None:
        chosen.check_sections(config)
    with working(config, "validate") as session:
        checked = check_verb(chosen, config, session) if chosen else check_inputs(session, config)
    terminal.show_checked(file, checked)


@program.command()
@CONFIG
@click.option(
    "--output", metavar="PATH", default="out", show_default=True, help="Where runs are to be written."
)
@click.option(
    "--interactions", metavar="PATH", help="A log of user, item and time: to split by time, and to test on."
)
@click.option(
    "--recommendations", metavar="PATH", help="Lists: user, item, score or rank, of one or many models."
)
@click.option(
    "--truth", metavar="PATH", help="What was relevant: user and item. Default: the test part of the log."
)
@click.option("--train", metavar="PATH", help="Training interactions, for segments and popularity.")
@click.option("--items", metavar="PATH", help="The catalogue: groups, features or vectors of items.")
@click.option("--users", metavar="PATH", help="A row per user with columns to segment by.")
@click.option("--predictions", metavar="PATH", help="Rows of a label and a score.")
@click.option(
    "--column",
    "given",
    multiple=True,
    metavar="[SECTION.]OURS=THEIRS",
    help="Tell a column instead of having it guessed; may be repeated.",
)
@click.option("--timestamp-unit", type=click.Choice(["s", "ms", "us"]), help="The unit of times in numbers.")
@click.option("--model", help="The model's name, where no column has it.")
@click.option("--force", is_flag=True, help="Replace the config file if it is there.")
def init(
    file: Path,
    output: str,
    given: Sequence[str],
    timestamp_unit: str | None,
    model: str | None,
    force: bool,
    **tables: str | None,
) -> None:
    """Write a commented config for the tables it is shown: columns guessed, given, to be confirmed.

    It looks at some thousand rows of Parquet, ORC, CSV or JSON, without Spark.
    """
    from spark_eval.cli.init.first_config import write_first_config

    check_working_folder()
    paths = {name: path for name, path in tables.items() if path is not None}
    if not paths:
        raise click.UsageError("show it a table, such as --interactions or --recommendations with --truth")
    write_first_config(file, output, paths, given, timestamp_unit, model, force)


@program.command()
@click.argument("name", required=False)
@click.option("--preset", help="Show what a preset chooses of every convention, and why its numbers differ.")
@click.option("--markdown", is_flag=True, help="Print all of it as a document.")
def metrics(name: str | None, preset: str | None, markdown: bool) -> None:
    """List the metrics with their formulas, and the conventions; or show one metric NAME in full.

    NAME is understood in any case and by its other names: ndcg, NDCG@10, HR. With --preset it says what
    that preset chooses for this metric.
    """
    from spark_eval.cli import terminal

    if markdown and (name or preset):
        raise click.UsageError("--markdown prints all metrics and presets; leave out NAME and --preset")
    terminal.show_metrics(name, preset, markdown)


@program.command()
@CONFIG
@click.option("--json", "as_json", is_flag=True, help="Print it as one JSON object.")
@click.option(
    "--failed",
    "failed_only",
    is_flag=True,
    help="Only runs with gates that failed, alarms or undecided gates.",
)
def status(file: Path, as_json: bool, failed_only: bool) -> None:
    """List published runs with the results of their gates, and unfinished attempts, running or dead."""
    from spark_eval.cli import terminal
    from spark_eval.cli.runner import open_config, open_session

    if as_json:
        events.listen(as_json=True)  # on stderr
    events.log.setLevel(logging.WARNING)  # stdout is the list
    config = open_config(file, (), None)
    terminal.show_status(config, lambda: open_session(config, "status"), as_json, failed_only)


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
