"""Options of more than one command."""

from collections.abc import Callable
from functools import reduce
from pathlib import Path
from typing import TypeVar

import click

Command = TypeVar("Command", bound=Callable[..., None])
CONFIG = click.option(
    "--config", "file", required=True, type=click.Path(path_type=Path), help="YAML config file."
)
SET_OPTION = click.option(
    "--set", "settings", multiple=True, metavar="KEY=VALUE", help="Override a.dotted.key; may be repeated."
)
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
