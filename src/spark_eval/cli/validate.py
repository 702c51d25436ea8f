"""The command ``validate``: checks of a config and its inputs."""

from collections.abc import Sequence
from pathlib import Path

import click

from spark_eval.cli.options import CONFIG, SET_OPTION
from spark_eval.cli.runner import open_config, working
from spark_eval.verbs import VERBS
from spark_eval.verbs.validate import check_inputs, check_verb


@click.command("validate")
@CONFIG
@SET_OPTION
@click.option(
    "--verb",
    type=click.Choice(list(VERBS)),
    help="Check the inputs of this verb only; the others need not exist yet.",
)
def command(file: Path, settings: Sequence[str], verb: str | None) -> None:
    """Check the config and the columns and types of its inputs, or that baselines exist; no table is read."""
    config = open_config(file, settings, None)
    chosen = None if verb is None else VERBS[verb]
    if chosen is not None:
        chosen.check_sections(config)
    with working(config, "validate") as session:
        checked = check_verb(chosen, config, session) if chosen else check_inputs(session, config)
    print(f"{file}: config is valid; inputs checked: {', '.join(checked) or 'none'}")
