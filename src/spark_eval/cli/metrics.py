"""The command ``metrics``: the metrics with their formulas, and the conventions."""

import click

from spark_eval.cli import metric_tables
from spark_eval.cli.terminal import grid
from spark_eval.conventions.presets import PRESETS, conventions_of


@click.command("metrics")
@click.argument("name", required=False)
@click.option("--preset", help="Show what a preset chooses of every convention, and why its numbers differ.")
@click.option("--markdown", is_flag=True, help="Print all of it as a document.")
def command(name: str | None, preset: str | None, markdown: bool) -> None:
    """List the metrics with their formulas, and the conventions; or show one metric NAME in full.

    NAME is understood in any case and by its other names: ndcg, NDCG@10, HR. With --preset it says what
    that preset chooses for this metric.
    """
    if markdown and (name or preset):
        raise click.UsageError("--markdown prints all metrics and presets; leave out NAME and --preset")
    show_metrics(name, preset, markdown)


def show_metrics(name: str | None, preset: str | None, markdown: bool) -> None:
    """Print all metrics and conventions, or one metric in full, or the choices of a preset."""
    if markdown:
        print(metric_tables.document(), end="")
    elif name is not None:
        print(metric_tables.metric_text(name, preset))
    elif preset is not None:
        conventions_of(preset)
        grid(*metric_tables.preset_choice_table(preset), f"preset {preset}")
        details = PRESETS[preset]
        print(f"numbers of: {details.source}\nwhy they differ: {details.differs}")
        print(f"not reproduced: {details.leaves_out or 'nothing is left out'}")
    else:
        grid(*metric_tables.ranking_table())
        grid(*metric_tables.prediction_table())
        grid(*metric_tables.choice_table())
        grid(*metric_tables.preset_table(3))
        print("a variant: map(denominator=relevant)@5, options in brackets, after @ its own k or all")
        print("more: spark-eval metrics NAME (with examples), spark-eval metrics --preset NAME")
