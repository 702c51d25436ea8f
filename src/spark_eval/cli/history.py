"""The command ``history``: the newest values with their changes, and the page."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from spark_eval.cli.options import SET_OPTION
from spark_eval.cli.runner import open_config, working
from spark_eval.cli.terminal import Terminal
from spark_eval.errors import ConfigError
from spark_eval.monitoring.history import History
from spark_eval.monitoring.page import changed
from spark_eval.monitoring.plan import HistoryOptions, HistoryPlan, make_history_plan
from spark_eval.options import declared
from spark_eval.publishing.attempt import Store
from spark_eval.publishing.stores import store_of
from spark_eval.results.sentences import interval_text, short, where
from spark_eval.runtime.local_files import check_working_folder
from spark_eval.schema import REPORT, Row
from spark_eval.verbs.history import history_of
from spark_eval.verbs.report import store_at

# No run id begins with an underscore.
PAGE = "_history.html"
HEADER = (
    *("day", "model", "metric", "value", "interval"),
    *("since the run before", "since a week before", "marks"),
)
# Maximum number of lines on the screen; the page has all.
MOST_LINES = 50


@click.command("history")
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
def command(
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
    if (path is None) == (file is None):
        raise click.UsageError("give either --path, of an output on this machine, or --config")
    check_working_folder()
    options = {name: value for name, value in given.items() if value} | ({"paired": True} if paired else {})
    show_history(path, file, settings, page, options)


def show_history(
    path: str | None, file: Path | None, settings: Sequence[str], page: str | None, options: Row
) -> None:
    """Print the newest value of each line of a history, and write its page."""
    with opened(path, file, settings, options) as (store, plan):
        found = history_of(store, plan)
        if page is None and not store.is_local:
            raise ConfigError("UNSUPPORTED_OUTPUT", "the output is not on this machine; give --page FILE")
        target = page or str(Path(store.files.root, REPORT, PAGE))
        found.write(target)
    screen = Terminal()
    lines = newest_lines(found)
    screen.grid(HEADER, lines[:MOST_LINES], f"history of {len(found.runs)} runs, newest values")
    if lines[MOST_LINES:]:
        screen.say(f"and {len(lines) - MOST_LINES} more on the page")
    for run_id, reason in found.damaged.items():
        screen.say(f"run {run_id} is left out: {reason}")
    print(f"  page        {target}")


@contextmanager
def opened(
    path: str | None, file: Path | None, settings: Sequence[str], options: Row
) -> Iterator[tuple[Store, HistoryPlan]]:
    """Yield the store and the plan of a path or a config."""
    if file is None:
        if settings:
            raise ConfigError("INVALID_SETTING", "--set is for a config; give --config")
        yield store_at(str(path)), make_history_plan(**options)
        return
    config = open_config(file, settings, None)
    section = {name: getattr(config.history, name) for name in declared(HistoryOptions)}
    with working(config, "history") as session:
        yield store_of(config.output, session), make_history_plan(**{**section, **options})


def newest_lines(history: History) -> list[list[str]]:
    """Return the cells of the newest row of each line."""
    newest = {row.line: row for row in history.rows}
    return [
        [
            *(row.run_id, row.model, where(row._asdict()), short(row.value)),
            interval_text(row.ci_low, row.ci_high),
            changed(row.difference, row.difference_low, row.difference_high),
            changed(row.week_difference, row.week_low, row.week_high),
            ", ".join([*(["gate failed"] if row.failed_gates else []), *([row.alarm] if row.alarm else [])]),
        ]
        for row in newest.values()
    ]
