"""The verb ``predictions``: measure predictions against their labels."""

from contextlib import closing
from typing import Any

from spark_eval.predictions.evaluate import measure_predictions
from spark_eval.predictions.specs import specs_of, table_of
from spark_eval.predictions.tables import metrics_by_model, six_digits
from spark_eval.predictions.task import Clusters
from spark_eval.predictions.values import SCORED
from spark_eval.runs.job import Run
from spark_eval.runs.run import needed, stage_frame
from spark_eval.runs.sections import Config, PredictionsSection
from spark_eval.runs.tables import rows_of, sources_here
from spark_eval.runs.verb import ACCOUNTING, METRICS, Computed, LocalInput, Published, Screen, Verb, Work
from spark_eval.schema import ALL, MODEL, Table
from spark_eval.verbs import gates
from spark_eval.verbs.kinds import PREDICTIONS


def section_of(config: Config) -> PredictionsSection:
    """Return the section of the config; raise ConfigError MISSING_SECTION if there is none."""
    return needed(config.predictions, PREDICTIONS.name)


def has_curves(config: Config) -> bool:
    """Return True if the config asks for curves."""
    return section_of(config).checked().curves


def has_rules(config: Config) -> bool:
    """Return True if the config asks for thresholds to be chosen."""
    return bool(section_of(config).checked().rules)


def compute(work: Work) -> Computed:
    """Measure all predictions in one pass, and in score order if a metric needs it."""
    source = section_of(work.config)
    plan = source.checked()
    rows = rows_of(specs_of(plan, source.model), work, {PREDICTIONS.name: plan.segments})
    table = table_of(rows, plan, source.model)
    measured = measure_predictions(table, work.job.most_quarantined)
    work.resources.enter_context(closing(measured.resources))
    written, facts = dict[str, int](), dict[str, Any]()
    if plan.intervals is Clusters.USER:
        stage_frame(measured.users.frame, work.attempt, Table.PER_USER, MODEL)
        written[Table.PER_USER] = measured.n_per_user
        facts[SCORED] = {model: one.to_record() for model, one in measured.values_by_model.items()}
    return Computed(
        rows=measured.small_tables,
        entries=measured.entries,
        written=written,
        judged={PREDICTIONS.name: table.judged},
        facts={"conventions": plan.stamp, "models": measured.models} | facts,
        n_rows=len(measured.metric_rows),
    )


def open_locally(work: Work) -> LocalInput:
    """Return the predictions as a table of this process."""
    source = section_of(work.config)
    plan = source.checked()
    return sources_here(specs_of(plan, source.model), work, {PREDICTIONS.name: plan.segments})


def has_users(config: Config) -> bool:
    """Return True if the config asks for intervals by user: then the sums of users are published."""
    return section_of(config).checked().intervals is Clusters.USER


def comparison_of_gates(config: Config) -> str | None:
    """Return the verb that decides the gates; gates of a config with recommendations are of ``evaluate``."""
    return None if config.recommendations is not None else gates.comparison_of_gates(config)


def show(run: Run, screen: Screen) -> None:
    """Print one line per metric over all rows, with one column per model; then the chosen thresholds."""
    header, lines = metrics_by_model(run.rows(Table.METRICS))
    screen.grid(header, lines, f"metrics of run {run.run_id}", of=Table.METRICS)
    if Table.THRESHOLDS in run.tables:
        shown = ("threshold", "precision", "recall", "flags", "cost")
        chosen = [row for row in run.rows(Table.THRESHOLDS) if row["segment"] == ALL]
        thresholds = [
            (row["model"], row["rule"], *(six_digits(row[name]) for name in shown)) for row in chosen
        ]
        screen.grid(("model", "chosen for", *shown), thresholds)


VERB = Verb(
    name=PREDICTIONS.name,
    about="With intervals by user, per_user has the sums of each user. If the config has gates and no "
    "recommendations, the comparison follows: exit code 5 if one fails.",
    sections=PREDICTIONS.sections,
    tables=(
        METRICS,
        Published(Table.SUMS, by=(MODEL,), is_reported=False),
        ACCOUNTING,
        Published(Table.PER_USER, by=(MODEL,), is_reported=False, is_asked=has_users),
        Published(Table.CURVES, by=(MODEL,), is_asked=has_curves),
        Published(Table.THRESHOLDS, by=(MODEL,), is_asked=has_rules),
    ),
    phases=("metrics",),
    compute=compute,
    open_locally=open_locally,
    show=show,
    then=comparison_of_gates,
)
