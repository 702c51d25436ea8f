"""The command ``report``: one page on a published run."""

import logging
from pathlib import Path

import click

from spark_eval.cli.runner import open_config, working
from spark_eval.publishing.stores import store_of
from spark_eval.runtime import events
from spark_eval.runtime.local_files import check_working_folder, is_stdout
from spark_eval.verbs.report import store_at, write_report


@click.command("report")
@click.option("--path", help="The output root, on this machine; needs no Spark and no config.")
@click.option("--config", "file", type=click.Path(path_type=Path), help="Config with the output instead.")
@click.option("--run-id", required=True, help="The run that the report is on.")
@click.option("--baseline", help="A run to compare the means of this run with.")
@click.option("--primary", help="The metric of its verdict: ndcg@10. Default: nDCG at its largest k.")
@click.option("--to", help="File to write. Default: report/RUN_ID.html below the output.")
def command(
    path: str | None,
    file: Path | None,
    run_id: str,
    baseline: str | None,
    primary: str | None,
    to: str | None,
) -> None:
    """Write one self-contained HTML page on a published run, from its tables alone."""
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
