"""Chapters on online experiments, on interleaving, and on offline metrics that have predicted experiments."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from spark_eval.results.forecasts import forecast_sentence, sentence
from spark_eval.results.report.chapters import Chapter, Dataset, Form, Statement, Tone, View, chart, warning
from spark_eval.results.report.data import RunFacts
from spark_eval.schema import ALL, Row, Table
from spark_eval.statistics.intervals import CERTAIN

TONES: Final[Mapping[str, tuple[Tone, str]]] = {
    "win": (Tone.GOOD, "WIN"),
    "loss": (Tone.BAD, "LOSS"),
    "blocked": (Tone.BAD, "BLOCKED"),
    "undecided": (Tone.WARNING, "UNDECIDED"),
}
COLUMNS: Final = (
    *("experiment", "treatment", "metric", "role", "method", "part", "segment", "segment_value"),
    *("n_control", "n_treatment", "control_value", "treatment_value"),
    *("difference", "ci_low", "ci_high", "lift", "p_value", "p_adjusted", "mde", "n_needed", "reason"),
)
DIFFERENCES: Final = (
    *("treatment", "method", "control_value", "treatment_value", "difference", "ci_low", "ci_high"),
    *("lift", "p_value", "p_adjusted", "reason"),
)
ANALYSES: Final = (
    *("experiment", "analysis", "difference", "std_error", "ci_low", "ci_high", "p_value"),
    *("wins", "ties", "losses", "n_users", "n_impressions"),
)
HEADINGS: Final = {"ci_low": "from", "ci_high": "to", "mde": "smallest detectable effect"}
EXPERIMENT: Final = "experiment"
# Columns of the picture of past experiments: a row is an experiment, or a point of the fitted line.
PAST: Final = (
    *("metric", "goal", "point", EXPERIMENT, "treatment"),
    *("offline", "offline_low", "offline_high", "online", "online_low", "online_high"),
)
EXPLAINED: Final = (
    "Arms are intervals of 95 %. The line is the true online effect to expect. "
    "The band holds 95 % of the true effects."
)
# Number of points of a fitted line.
N_OF_LINE: Final = 2
CALIBRATED: Final = {
    "calibration": (
        "How well it has predicted",
        ("n", "left_out", "n_decided", "agree", "rho", "rho_low", "rho_high", "naive_rho", "slope", "reason"),
    ),
    "shipped": (
        "Shipped if certainly better offline",
        ("shipped", "online_sum", "online_std_error", "online_all", "online_best"),
    ),
}
# Methods whose rows have an interval of a difference.
TWO_SIDED: Final = ("raw", "z_pooled", "cuped", "sequential", "novelty")
ONE_SIDED: Final = ("non_inferiority", "gate")
INTERACTION: Final = ("cochran_q", "gail_simon")
# P-values of A/A experiments are not uniform below this p-value.
UNLIKELY: Final = 0.001
# A test of interaction is named below this p-value.
RARE: Final = 0.05


def experiments(facts: RunFacts) -> Chapter | None:
    """Return the chapter on experiments; readers choose experiment and metric."""
    rows = [{**row, "part": f"{row['treatment']} · {row['method']}"} for row in facts.rows(Table.EXPERIMENTS)]
    if not rows:
        return None
    names = {row["experiment"] for row in rows}
    checks, decisions = (
        [row for row in facts.rows(table) if row["experiment"] in names]
        for table in (Table.CHECKS, Table.DECISIONS)
    )
    statements = [*decided(decisions), *doubts(checks), *skewed(checks), *interactions(rows)]
    dataset = Dataset.of("experiments", rows, COLUMNS, HEADINGS)
    views = [
        View(
            Form.TABLE,
            "Decisions",
            Dataset.of("decisions", decisions, ("experiment", "treatment", "decision", "reason")),
        ),
        *charts(dataset, rows),
        View(
            Form.TABLE,
            "Checks of trust",
            Dataset.of("checks", checks, list(checks[0]) if checks else ()),
        ),
    ]
    return Chapter("Experiments", statements, views, picks=("experiment", "metric"))


def decided(decisions: Sequence[Row]) -> Iterator[Statement]:
    """Yield a statement for each decision."""
    for row in decisions:
        tone, word = TONES.get(row["decision"], (Tone.PLAIN, ""))
        text = f"{row['experiment']}, {row['treatment']}: {row['decision']}: {row['reason']}."
        yield Statement(text, tone, word)


def doubts(checks: Sequence[Row]) -> Iterator[Statement]:
    """Yield a statement for each experiment: trusted, or the failed checks."""
    for name in dict.fromkeys(row["experiment"] for row in checks):
        failed = [
            f"{row['check']} ({row['subject']})"
            for row in checks
            if row["experiment"] == name and row["passed"] is False
        ]
        if failed:
            yield Statement(f"{name} cannot be trusted: {', '.join(failed)}.", Tone.BAD, "NOT TRUSTED")
        else:
            yield Statement(f"{name} passes all checks of trust.", Tone.GOOD, "TRUSTED")


def skewed(checks: Sequence[Row]) -> Iterator[Statement]:
    """Yield a warning for each metric whose p-values are not uniform between random halves of the units."""
    for row in checks:
        p_value = row["p_value"]
        if row["check"] == "uniformity" and p_value is not None and p_value < UNLIKELY:
            text = f"{row['experiment']}: p-values of {row['subject']} are not uniform in A/A experiments"
            yield warning("P-values", f"{text} (p = {p_value:.2g}); cap or winsorise it.")


def interactions(rows: Sequence[Row]) -> Iterator[Statement]:
    """Yield a warning for each segment or slice with effects in both directions."""
    for row in rows:
        p_value = row["p_value"]
        if row["method"] == "gail_simon" and p_value is not None and p_value < RARE:
            subject = f"{row['experiment']}, {row['treatment']}: {row['metric']}"
            text = f"{subject} is better in some values of {row['segment']}, worse in others"
            yield warning("Opposite", f"{text} (p = {p_value:.2g}).")


def charts(dataset: Dataset, rows: Sequence[Row]) -> Iterator[View]:
    """Yield the differences over all users, then by each segment and slice, and the one-sided tests."""
    yield chart(
        Form.INTERVALS,
        "Differences with their intervals",
        dataset,
        "Difference of each treatment from the control with its interval; a line at 0",
        shown=DIFFERENCES,
        where={"segment": [ALL], "method": list(TWO_SIDED)},
        label="part",
        value="difference",
        zero=True,
    )
    for segment in dict.fromkeys(row["segment"] for row in rows if row["segment"] != ALL):
        yield chart(
            Form.INTERVALS,
            f"Differences by {segment}",
            dataset,
            f"Difference from the control for each value of {segment}, with its interval; a line at 0",
            shown=("segment_value", *DIFFERENCES),
            where={"segment": [segment], "method": list(TWO_SIDED)},
            label="segment_value",
            value="difference",
            zero=True,
        )
    methods = {row["method"] for row in rows}
    tables: dict[str, tuple[tuple[str, ...], dict[str, list[str]]]] = {
        "Guardrails and gates": (
            ("treatment", "method", "difference", "p_value", "reason"),
            {"method": list(ONE_SIDED)},
        ),
        "Does the effect depend on it?": (
            ("treatment", "segment", "method", "p_value"),
            {"method": list(INTERACTION)},
        ),
        "Power": (
            ("treatment", "method", "n_control", "n_treatment", "mde", "n_needed"),
            {"segment": [ALL], "method": ["raw", "cuped"]},
        ),
    }
    for title, (shown, where) in tables.items():
        if methods & {*where["method"]}:
            yield View(Form.TABLE, title, dataset, shown=shown, where=where)


def interleaving(facts: RunFacts) -> Chapter | None:
    """Return the chapter on interleaved lists; readers choose the experiment."""
    rows = facts.rows(Table.INTERLEAVINGS)
    if not rows:
        return None
    names = {row["experiment"] for row in rows}
    decisions, checks = (
        [row for row in facts.rows(table) if row["experiment"] in names]
        for table in (Table.DECISIONS, Table.CHECKS)
    )
    dataset = Dataset.of("interleavings", rows, ANALYSES, HEADINGS)
    views = [
        chart(
            Form.INTERVALS,
            "Preference for the first team",
            dataset,
            "Difference of the first team from the second with its interval; a line at 0",
            shown=ANALYSES[1:],
            label="analysis",
            value="difference",
            zero=True,
        ),
        View(
            Form.TABLE,
            "Checks of the draft",
            Dataset.of("draft_checks", checks, list(checks[0]) if checks else ()),
        ),
    ]
    return Chapter("Interleaving", [*decided(decisions), *doubts(checks)], views, picks=("experiment",))


def calibration(facts: RunFacts) -> Chapter | None:
    """Return the chapter on a calibration; readers choose the offline metric and the goal."""
    rows = facts.rows(Table.CALIBRATION)
    if not rows:
        return None
    statements = [Statement(f"{sentence(row)}.") for row in rows]
    statements += [Statement(f"{forecast_sentence(row)}.") for row in facts.rows(Table.FORECASTS)]
    points = [
        *(past_point(row) for row in facts.rows(Table.PROGRAMME) if row["reason"] is None),
        *(point for row in rows for point in fitted_line(row, facts.rows(Table.PROGRAMME))),
    ]
    views = [
        chart(
            Form.CROSSES,
            "Offline against online effects",
            Dataset.of("past_experiments", points, PAST, HEADINGS),
            "A cross of intervals for each past experiment; the fitted line and its band",
            note=EXPLAINED,
            x="offline",
            y="online",
            is_point=EXPERIMENT,
        ),
        *(
            View(Form.TABLE, title, Dataset.of(name, rows, ("metric", "goal", *columns)))
            for name, (title, columns) in CALIBRATED.items()
        ),
    ]
    return Chapter("Offline metrics and online wins", statements, views, picks=("metric", "goal"))


def past_point(row: Row) -> Row:
    """Return a past experiment with the intervals of both effects."""
    point = {"point": EXPERIMENT, "experiment": row["experiment"], "treatment": row["treatment"]}
    for side in ("offline", "online"):
        effect, half = row[f"{side}_difference"], CERTAIN * row[f"{side}_std_error"]
        point |= {side: effect, f"{side}_low": effect - half, f"{side}_high": effect + half}
    return {"metric": row["metric"], "goal": row["goal"], **point}


def fitted_line(row: Row, programme: Sequence[Row]) -> Iterator[Row]:
    """Yield points of the fitted line of a row of ``calibration``, with the band of true online effects."""
    pair = {"metric": row["metric"], "goal": row["goal"]}
    seen = [
        one["offline_difference"]
        for one in programme
        if one["reason"] is None and {name: one[name] for name in pair} == pair
    ]
    if row["rho"] is None or not seen:
        return
    half = CERTAIN * row["online_spread"] * math.sqrt(1 - row["rho"] ** 2)
    for share in range(N_OF_LINE):
        offline = min(seen) + (max(seen) - min(seen)) * share / (N_OF_LINE - 1)
        online = row["online_mean"] + row["slope"] * (offline - row["offline_mean"])
        ends = {"online": online, "online_low": online - half, "online_high": online + half}
        yield {**dict.fromkeys(PAST), **pair, "point": "line", "offline": offline, **ends}
