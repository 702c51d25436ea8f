"""Programmes: tables of past experiments, each with the published runs of both sides."""

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from typing import Final, NamedTuple

import pyarrow as pa

from spark_eval.calibration.effects import EXPERIMENT, GOAL, METRIC, TREATMENT
from spark_eval.errors import ConfigError, DataError
from spark_eval.names import check_run_id, summarize_names
from spark_eval.schema import ALL, Direction, Row
from spark_eval.tables.columns import missing_column

PROGRAMME_FILE: Final = "calibrate.programme"


class PastExperiment(NamedTuple):
    """Row of a programme: an experiment, its run of ``online``, and that of ``compare`` with its models.

    ``treatment`` is None where the experiment has only one. A model is None where the run of ``compare`` has
    only one pair, or one with the other model.
    """

    experiment: str
    online_run: str
    offline_run: str
    candidate: str | None = None
    baseline: str | None = None
    treatment: str | None = None

    @property
    def models(self) -> str:
        """Both models in words."""
        return " against ".join(name or "any" for name in (self.candidate, self.baseline))


NEEDED: Final = PastExperiment._fields[:3]


def programme_of(table: pa.Table) -> list[PastExperiment]:
    """Return the rows of a programme.

    Raises DataError MISSING_COLUMN, NULL_ID for a row without a name, EMPTY_INPUT without rows,
    DUPLICATE_EXPERIMENT for a repeated row; ConfigError INVALID_RUN_ID.
    """
    for column in NEEDED:
        if column not in table.column_names:
            raise missing_column(PROGRAMME_FILE, column, {}, table.column_names)
    names = [name for name in PastExperiment._fields if name in table.column_names]
    try:
        columns = {name: table[name].cast(pa.string()) for name in names}
    except pa.ArrowException as error:
        raise DataError("UNSUPPORTED_TYPE", f"{PROGRAMME_FILE}: {error}; give text") from error
    for name in NEEDED:
        if columns[name].null_count:
            raise DataError("NULL_ID", f"{PROGRAMME_FILE}: column {name!r} has rows without a value")
    rows = sorted(
        (PastExperiment(**row) for row in pa.table(columns).to_pylist()),
        key=lambda row: tuple(name or "" for name in row),
    )
    if not rows:
        raise DataError("EMPTY_INPUT", f"{PROGRAMME_FILE} has no rows; give a row per experiment")
    for run_id in sorted({run_id for row in rows for run_id in (row.online_run, row.offline_run)}):
        check_run_id(run_id)
    tested = Counter((row.online_run, row.experiment, row.treatment) for row in rows)
    for (_, experiment, _), count in tested.items():
        if count > 1:
            message = f"{PROGRAMME_FILE}: experiment {experiment!r} has {count} rows"
            raise DataError("DUPLICATE_EXPERIMENT", f"{message}; give one, or a column treatment")
    return rows


def named_experiments(programme: Sequence[PastExperiment]) -> dict[PastExperiment, str]:
    """Return the name of each experiment; those of one name in several runs have the run before it."""
    runs: dict[str, set[str]] = {}
    for past in programme:
        runs.setdefault(past.experiment, set()).add(past.online_run)
    return {
        past: past.experiment if len(runs[past.experiment]) == 1 else f"{past.online_run}/{past.experiment}"
        for past in programme
    }


def compared_rows(past: PastExperiment, name: str, published: Iterable[Row]) -> list[Row]:
    """Return the rows of ``comparisons`` with the models of an experiment, candidate minus baseline.

    Raises the errors of ``pair_of``.
    """
    rows = [row for row in published if row["segment"] == ALL]
    sign, pair = pair_of(past, sorted({(row["candidate"], row["baseline"]) for row in rows}))
    of_pair = [row for row in rows if (row["candidate"], row["baseline"]) == pair]
    test = next((row["test"] for row in of_pair if row["std_error"] is not None), None)
    return [
        {
            EXPERIMENT: name,
            TREATMENT: past.treatment,
            METRIC: row["metric"],
            "k": row["k"],
            "difference": None if row["difference"] is None else sign * row["difference"],
            "std_error": row["std_error"],
            "conventions": row["conventions"],
        }
        for row in of_pair
        if row["test"] == test
    ]


def pair_of(past: PastExperiment, pairs: Sequence[tuple[str, str]]) -> tuple[int, tuple[str, str]]:
    """Return the compared pair of an experiment, and -1 if it was compared the other way round, otherwise 1.

    Raises ConfigError UNKNOWN_MODEL if the run has not compared them, DataError DUPLICATE_EXPERIMENT if
    several of its pairs may be meant.
    """
    named = (past.candidate, past.baseline)

    def is_meant(pair: Sequence[str]) -> bool:
        return all(name in (None, model) for name, model in zip(named, pair, strict=True))

    meant = [(1, pair) for pair in pairs if is_meant(pair)]
    meant = meant or [(-1, pair) for pair in pairs if is_meant(pair[::-1])]
    if not meant:
        known = [" against ".join(pair) for pair in pairs]
        where = f"comparisons of run {past.offline_run}"
        raise ConfigError.unknown("UNKNOWN_MODEL", "pair of models", past.models, known, where)
    if len(meant) > 1:
        several = summarize_names([" against ".join(pair) for _, pair in meant])
        message = f"experiment {past.experiment!r}: run {past.offline_run!r} compares {several}"
        raise DataError("DUPLICATE_EXPERIMENT", f"{message}; name candidate and baseline in the programme")
    return meant[0]


def measured_rows(
    past: PastExperiment, name: str, published: Sequence[Row], lower: Collection[str]
) -> list[Row]:
    """Return the rows of ``experiments`` of an experiment, turned so that more is better.

    Lower values are better of the goals in ``lower``, and of those that were published so.

    Raises ConfigError UNKNOWN_EXPERIMENT if the run has not measured it, or not this treatment.
    """
    known = {(row["experiment"], row["treatment"]) for row in published}
    treatments = {treatment for experiment, treatment in known if experiment == past.experiment}
    where = f"experiments of run {past.online_run}"
    if not treatments:
        names = {experiment for experiment, _ in known}
        raise ConfigError.unknown("UNKNOWN_EXPERIMENT", "experiment", past.experiment, names, where)
    if past.treatment is not None and past.treatment not in treatments:
        raise ConfigError.unknown("UNKNOWN_EXPERIMENT", "treatment", past.treatment, treatments, where)
    return [
        {
            EXPERIMENT: name,
            TREATMENT: past.treatment,
            GOAL: row["metric"],
            "method": row["method"],
            "difference": turned(
                row["difference"], Direction.LOWER if row["metric"] in lower else row["direction"]
            ),
            "std_error": row["std_error"],
            "trusted": row["trusted"],
        }
        for row in published
        if row["experiment"] == past.experiment
        and row["segment"] == ALL
        and past.treatment in (None, row["treatment"])
    ]


def turned(difference: float | None, direction: str) -> float | None:
    """Return a difference, turned so that more is better."""
    return -difference if difference is not None and direction == Direction.LOWER else difference
