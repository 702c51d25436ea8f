"""The verb ``window``: merge the evaluations of days into one run."""

from typing import TYPE_CHECKING

from spark_eval.runs.verb import ACCOUNTING, METRICS, Computed, Published, Screen, Shortcut, Verb, Work
from spark_eval.schema import MODEL, Table

if TYPE_CHECKING:
    from spark_eval.runs.job import Job, Run
    from spark_eval.runs.sections import Config
    from spark_eval.runtime.any_session import OpenSession


def job(verb: Verb, config: "Config", run_id: str | None, session: "OpenSession") -> "Job":
    """Return the job, which has the id FROM_TO and reads published runs."""
    from spark_eval.runs.windows import job_of_days

    return job_of_days(verb, config, run_id, session)


def compute(work: Work) -> Computed:
    """Merge the sums of the days, and cluster their users; of predictions also the bins of calibration."""
    from spark_eval.runs.windows import merge_published

    plan = work.config.window.checked()
    window = merge_published(work.job.store, list(work.job.runs), plan)
    return Computed(
        rows={name: small for name, small in window.small_tables.items() if name != Table.CURVES or small[0]},
        entries=window.entries,
        facts={
            "conventions": window.conventions,
            "models": list(window.models),
            "parts": dict(window.days),
            "n_days": len(window.days),
            "missing": [day for day in plan.days if day not in window.days],
            "absent": list(window.absent),
            "unclustered": window.unclustered,
        },
        n_rows=len(window.metric_rows),
    )


def show(run: "Run", screen: Screen) -> None:
    """Print the leaderboard, of predictions a line per metric; and what could not be merged."""
    from spark_eval.names import summarize_names
    from spark_eval.predictions.tables import metrics_by_model
    from spark_eval.results.leaderboard import Leaderboard

    facts, rows, title = run.record.job, run.rows(Table.METRICS), f"metrics of window {run.run_id}"
    if "n_rows" in rows[0]:
        screen.grid(*metrics_by_model(rows), title, of=Table.METRICS)
        screen.say(f"{facts['n_days']} days merged")
    else:
        screen.board(Leaderboard.of(rows), title)
        screen.say(f"{facts['n_days']} days merged; a user counts once a day unless window.unit is users")
    if facts["missing"]:
        screen.say(f"missing days: {summarize_names(facts['missing'])}")
    if facts["absent"]:
        absent = summarize_names(facts["absent"])
        screen.say(f"not merged: {absent}; evaluate the days together for these")
    if facts["unclustered"]:
        screen.say("no standard errors: per_user of a day was removed; window.errors: independent needs none")


def check(_verb: Verb, config: "Config", session: "OpenSession") -> list[str]:
    """Check that the days are published; return their names."""
    from spark_eval.publishing.stores import store_of
    from spark_eval.runs.windows import parts_of

    plan = config.window.checked()
    return [f"run {day}" for day in parts_of(store_of(config.output, session), plan)]


def options() -> list[tuple[str, str]]:
    """Return the options of its section, with their meanings."""
    from spark_eval.days.plan import WindowOptions
    from spark_eval.options import meanings

    return meanings(WindowOptions)


CURVES = Published(Table.CURVES, by=(MODEL,))

VERB = Verb(
    name="window",
    order=5,
    about="""Merge the evaluations or predictions of days into a window; publish metrics, sums, accounting.

    Days are run ids. The window's own id is FROM_TO. Values are exact; standard errors are clustered by user.
    """,
    sections=("window",),
    tables=(METRICS, Published(Table.SUMS, by=(MODEL,), is_reported=False), ACCOUNTING, CURVES),
    phases=("merge",),
    compute=compute,
    show=show,
    job=job,
    check=check,
    options=options,
    shortcuts=(
        Shortcut("--from", "DAY", "window.first", "First day, the id of its run: 2024-03-01."),
        Shortcut("--to", "DAY", "window.last", "Last day; both ends are included."),
    ),
    opens_spark=False,
)
