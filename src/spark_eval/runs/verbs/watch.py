"""The verb ``watch``: judge a day by the days before, as a gate."""

from typing import TYPE_CHECKING

from spark_eval.runs.verb import Computed, Published, Screen, Verb, Work
from spark_eval.schema import Table

if TYPE_CHECKING:
    from spark_eval.runs.job import Job, Run
    from spark_eval.runs.sections import Config
    from spark_eval.runtime.any_session import OpenSession


def job(verb: Verb, config: "Config", run_id: str | None, session: "OpenSession") -> "Job":
    """Return the job, which has the id DAY_watch and reads published runs."""
    from spark_eval.runs.watch import job_of_day

    return job_of_day(verb, config, run_id, session)


def compute(work: Work) -> Computed:
    """Judge the metrics of the day; alarms are published as well."""
    from datetime import date

    from spark_eval.comparison.rows import GATES
    from spark_eval.runs.history import WATCHED
    from spark_eval.runs.watch import watch_published

    plan = work.config.watch.checked()
    day = work.job.run_id.removesuffix(WATCHED)
    found, others = watch_published(work.job.store, date.fromisoformat(day), plan)
    rows = [one.gate_row(plan) for one in found]
    return Computed(
        rows={Table.GATES: (rows, GATES)},
        entries=[],
        facts={"parts": dict(work.job.runs), "not_comparable": others},
        n_rows=len(rows),
    )


def show(run: "Run", screen: Screen) -> None:
    """Print the judgement of each metric."""
    from spark_eval.names import summarize_names
    from spark_eval.results.sentences import where

    header = ("metric", "model", "moved", "passed", "decision")
    rows = run.rows(Table.GATES)
    cells = [
        [where(row), row["model"], row["watch"] or "-", "yes" if row["passed"] else "NO", row["decision"]]
        for row in rows
    ]
    screen.grid(header, cells, f"watch of run {run.run_id}", of=Table.GATES)
    for row in rows:
        screen.say(f"{where(row)} of {row['model']}: {row['reason']}")
    if others := run.record.job["not_comparable"]:
        screen.say(f"not comparable, left out: {summarize_names(others)}")


def check(_verb: Verb, config: "Config", _session: "OpenSession") -> list[str]:
    """Check the metrics of the config; the day is known to the command alone."""
    return [f"metric {name}" for name in config.watch.checked().metrics]


def judge(run: "Run") -> None:
    """Raise GateFailure GATE_FAILED if a published watch has an alarm, in this call or in an earlier one."""
    from spark_eval.runs.watch import check_alarms

    check_alarms(run)


def options() -> list[tuple[str, str]]:
    """Return the options of its section, with their meanings."""
    from spark_eval.days.plan import WatchOptions
    from spark_eval.options import meanings

    return meanings(WatchOptions)


VERB = Verb(
    name="watch",
    order=6,
    about="""Judge a published day by the days before; publish gates. Exit code 5 for an alarm.

    --run-id is the day. The watch is a run of its own, DAY_watch.
    """,
    sections=("watch",),
    tables=(Published(Table.GATES),),
    phases=("watch",),
    compute=compute,
    show=show,
    job=job,
    check=check,
    judge=judge,
    options=options,
    opens_spark=False,
    has_verdict=True,
)
