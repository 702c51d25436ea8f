"""Chapters on online experiments, interleaving, and offline metrics that have predicted experiments."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from spark_eval.results.effects import (
    GATE,
    Finding,
    change,
    deciding_rows,
    is_lower_better,
    metric_of,
    p_cell,
    p_of,
    result,
)
from spark_eval.results.forecasts import forecast_sentence, sentence
from spark_eval.results.report.chapters import (
    CardLine,
    Chapter,
    Dataset,
    Form,
    Span,
    Statement,
    Tone,
    VerdictCard,
    View,
    chart,
    warning,
)
from spark_eval.results.report.data import RunFacts
from spark_eval.results.sentences import RARE, number_order, seems_certain
from spark_eval.schema import ALL, SEGMENT, SEGMENT_VALUE, Row, Table
from spark_eval.statistics.intervals import CERTAIN

TONES: Final[Mapping[str, tuple[Tone, str]]] = {
    "win": (Tone.GOOD, "WIN"),
    "loss": (Tone.BAD, "LOSS"),
    "blocked": (Tone.BAD, "BLOCKED"),
    "flat": (Tone.PLAIN, "FLAT"),
    "undecided": (Tone.WARNING, "UNDECIDED"),
}
FOUND: Final[Mapping[str, Tone]] = {
    Finding.WINS: Tone.GOOD,
    Finding.HOLDS: Tone.GOOD,
    Finding.LOSES: Tone.BAD,
    Finding.BREACHED: Tone.BAD,
    Finding.NOT_RULED_OUT: Tone.WARNING,
    Finding.UNKNOWN: Tone.WARNING,
}
# Findings that are certain; the dots of their intervals are full.
CERTAIN_FINDINGS: Final = (Finding.WINS, Finding.LOSES, Finding.HOLDS, Finding.BREACHED)
COLUMNS: Final = (
    *("experiment", "treatment", "metric", "role", "method", "line", "test", "segment", "segment_value"),
    *("n_control", "n_treatment", "control_value", "treatment_value"),
    *("difference", "ci_low", "ci_high", "lift", "p_value", "p_adjusted", "mde", "n_needed", "reason"),
)
DIFFERENCES: Final = (
    *("treatment", "method", "control_value", "treatment_value", "difference", "ci_low", "ci_high"),
    *("lift", "p_value", "p_adjusted", "n_control", "n_treatment", "reason"),
)
ANALYSES: Final = (
    *("experiment", "analysis", "difference", "std_error", "ci_low", "ci_high", "p_value"),
    *("wins", "ties", "losses", "n_users", "n_impressions"),
)
CHECK_COLUMNS: Final = ("experiment", "check", "subject", "statistic", "df", "p_value", "passed")
HEADINGS: Final = {
    "ci_low": "from",
    "ci_high": "to",
    "mde": "smallest detectable effect",
    "n_needed": "control units needed",
    "p_adjusted": "p, corrected",
    "test": "question",
}
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
# Methods whose rows have an interval of a difference, each with its meaning.
TWO_SIDED: Final[Mapping[str, str]] = {
    "raw": "raw is the difference as it was measured",
    "z_pooled": "z_pooled is the z-test of two shares, and decides instead of raw",
    "cuped": "cuped is the difference less what the users' own past explains, which makes it more precise",
    "sequential": "sequential holds however often one looks, and decides instead of raw",
    "novelty": "novelty is the last half of the users' days less the first half",
}
# Tests over the values of a segment, each with its question.
INTERACTION: Final[Mapping[str, str]] = {
    "cochran_q": "Do the differences differ? (cochran_q)",
    "gail_simon": "Does it help some and harm others? (gail_simon)",
}
CARDS_EXPLAINED: Final = (
    "In the cards a dot is full where the result is certain. The dotted line is no change, the dashed line "
    "the margin of a guardrail or gate."
)
INTERACTION_NOTE: Final = (
    "A small p-value says yes. cochran_q is Cochran's test that all values have the same difference; "
    "gail_simon is Gail and Simon's test that all differences have the same sign."
)
SEGMENT_NOTE: Final = (
    "Some intervals leave out 0 although their p is above .05: an interval is of one value alone, and p is "
    "corrected for all values."
)
POWER_NOTE: Final = (
    "An effect of this size would have been found with the planned power. The units needed are those for the "
    "planned effect; a dash says that none is planned."
)
CHECKS_NOTE: Final = (
    "srm compares the numbers of units with the planned weights, pre_period the arms before the exposure, "
    "crossover counts users of two variants. Checks without yes or no show where, and never fail."
)
CHECK_NAMES: Final[Mapping[str, str]] = {
    "srm": "sample ratio (srm)",
    "pre_period": "the time before the exposure (pre_period)",
    "assignment": "logged variants against hashed ones (assignment)",
    "crossover": "users of two variants (crossover)",
    "first_pick": "first pick (first_pick)",
    "position": "positions (position)",
}
# P-values of A/A experiments are not uniform below this p-value.
UNLIKELY: Final = 0.001


def experiments(facts: RunFacts) -> Chapter | None:
    """Return the chapter on experiments: a card per treatment, then charts of a chosen metric."""
    rows = labelled(facts.rows(Table.EXPERIMENTS))
    if not rows:
        return None
    names = {row["experiment"] for row in rows}
    checks, decisions = (
        [row for row in facts.rows(table) if row["experiment"] in names]
        for table in (Table.CHECKS, Table.DECISIONS)
    )
    cards = [verdict_card(row, rows, checks) for row in decisions]
    statements = [Statement(CARDS_EXPLAINED), *skewed(checks), *opposite(rows, decisions)]
    dataset = Dataset.of("experiments", rows, COLUMNS, HEADINGS)
    views = [*charts(dataset, rows), *check_views(checks)]
    return Chapter("Experiments", statements, views, picks=("experiment", "metric"), verdicts=cards)


def labelled(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Return the rows with labels for charts, values of segments in the order of their numbers."""
    arms, methods = dict[str, set[str]](), dict[str, set[str]]()
    for row in rows:
        arms.setdefault(row["experiment"], set()).add(row["treatment"])
        if row["method"] in TWO_SIDED:
            methods.setdefault(row["segment"], set()).add(row["method"])
    lines = []
    for row in rows:
        is_whole, segment = row["segment"] == ALL, row["segment"]
        texts = [] if is_whole else [row["segment_value"]]
        texts += [row["treatment"]] if is_whole or len(arms[row["experiment"]]) > 1 else []
        texts += [row["method"]] if is_whole or len(methods.get(segment, ())) > 1 else []
        lines.append({**row, "line": " · ".join(texts), "test": INTERACTION.get(row["method"], "")})
    order = {key: at for at, key in enumerate(dict.fromkeys(map(series_of, rows)))}
    return sorted(lines, key=lambda row: (order[series_of(row)], number_order(row["segment_value"])))


def series_of(row: Row) -> tuple[str, ...]:
    """Return the experiment, metric and segment of a row."""
    return row["experiment"], row["metric"], row["segment"]


def verdict_card(decision: Row, rows: Sequence[Row], checks: Sequence[Row]) -> VerdictCard:
    """Return the card of a decision: all goals, guardrails and gates of a treatment, and its trust."""
    name, treatment = decision["experiment"], decision["treatment"]
    deciding = deciding_rows(
        row for row in rows if (row["experiment"], row["treatment"]) == (name, treatment)
    )
    scale = scale_of(deciding)
    lines = [card_line(row, scale) for row in deciding]
    against = f" against {deciding[0]['control']}" if deciding and deciding[0].get("control") else ""
    trust = next(
        trusted([row for row in checks if row["experiment"] == name]), Statement("No check is known.")
    )
    return VerdictCard(f"{name}: {treatment}{against}", decided(decision), lines, trust)


def card_line(row: Row, scale: tuple[float, float]) -> CardLine:
    """Return the line of a row that decides."""
    finding = row.get("finding") if row["trusted"] else None
    ends = (row["lift_low"], row["lift"], row["lift_high"])
    limit = limit_of(row)
    is_certain = finding in CERTAIN_FINDINGS
    span = None if None in ends else Span.within(scale, *ends, is_certain=is_certain, limit=limit)
    outcome = Statement(result(row), FOUND.get(finding or "", Tone.PLAIN))
    name, role = (row["metric"], GATE) if row["method"] == GATE else (metric_of(row), row["role"])
    return CardLine(name, role, change(row), p_cell(p_of(row)), outcome, span)


def limit_of(row: Row) -> float | None:
    """Return the margin of a row as a share of the control's value; None without a margin."""
    margin = row.get("margin")
    if not margin:
        return None
    share = margin if row["margin_kind"] == "relative" else margin / abs(row["control_value"] or 1)
    return float(share if is_lower_better(row) else -share)


def scale_of(rows: Sequence[Row]) -> tuple[float, float]:
    """Return the range of all changes, and of the margins that are shares."""
    ends = [row[end] for row in rows for end in ("lift_low", "lift", "lift_high")]
    ends += [limit_of(row) for row in rows if row.get("margin_kind") == "relative"]
    known = [end for end in ends if end is not None]
    return min(known, default=0.0), max(known, default=0.0)


def decided(row: Row) -> Statement:
    """Return a decision with its reason."""
    tone, word = TONES.get(row["decision"], (Tone.PLAIN, row["decision"].upper()))
    return Statement(f"{row['reason']}.", tone, word)


def trusted(checks: Sequence[Row]) -> Iterator[Statement]:
    """Yield a statement for each experiment: trusted, or the failed checks."""
    for name in dict.fromkeys(row["experiment"] for row in checks):
        known = [row for row in checks if row["experiment"] == name and row["passed"] is not None]
        failed = [f"{check_name(row)} of {row['subject']}" for row in known if not row["passed"]]
        if failed:
            yield Statement(f"failed: {'; '.join(failed)}.", Tone.BAD, "NOT TRUSTED")
        elif known:
            passed = ", ".join(dict.fromkeys(map(check_name, known)))
            yield Statement(f"all checks pass: {passed}.", Tone.PLAIN, "Trusted:")
        else:
            yield Statement("no check could be decided.", Tone.PLAIN, "Trust:")


def check_name(row: Row) -> str:
    """Return the name of a check in words."""
    return CHECK_NAMES.get(row["check"], row["check"])


def check_views(checks: Sequence[Row]) -> Iterator[View]:
    """Yield the table of checks; it is folded if none failed."""
    if checks:
        dataset = Dataset.of("checks", checks, CHECK_COLUMNS)
        is_folded = all(row["passed"] is not False for row in checks)
        yield View(
            Form.TABLE,
            "Checks of trust",
            dataset,
            shown=CHECK_COLUMNS[1:],
            note=CHECKS_NOTE,
            is_folded=is_folded,
        )


def skewed(checks: Sequence[Row]) -> Iterator[Statement]:
    """Yield a warning for each metric whose p-values are not uniform between random halves of the units."""
    for row in checks:
        p_value = row["p_value"]
        if row["check"] == "uniformity" and p_value is not None and p_value < UNLIKELY:
            text = f"{row['experiment']}: p-values of {row['subject']} are not uniform in A/A experiments"
            yield warning("P-values", f"{text} (p = {p_value:.2g}); cap or winsorise it.")


def opposite(rows: Sequence[Row], decisions: Sequence[Row]) -> Iterator[Statement]:
    """Yield a warning for each metric with effects in both directions that no decision names."""
    reasons = " ".join(row["reason"] for row in decisions)
    for row in rows:
        p_value, what = row["p_value"], f"{row['metric']} depends on {row['segment']}"
        if row["method"] == "gail_simon" and p_value is not None and p_value < RARE and what not in reasons:
            text = f"{row['experiment']}, {row['treatment']}: {row['metric']} is better in some values of"
            yield warning("Opposite", f"{text} {row['segment']}, worse in others (p = {p_value:.2g}).")


def charts(dataset: Dataset, rows: Sequence[Row]) -> Iterator[View]:
    """Yield the differences over all users, then by each segment and slice, their tests, and the power."""
    methods = {row["method"] for row in rows}
    meanings = "; ".join(meaning for method, meaning in TWO_SIDED.items() if method in methods)
    yield chart(
        Form.INTERVALS,
        "Differences with their intervals",
        dataset,
        "Difference of each treatment from the control with its interval; a line at 0",
        shown=DIFFERENCES,
        where={SEGMENT: [ALL], "method": list(TWO_SIDED)},
        note=f"{meanings}.",
        label="line",
        value="difference",
        zero=True,
    )
    for segment in dict.fromkeys(row["segment"] for row in rows if row["segment"] != ALL):
        yield chart(
            Form.INTERVALS,
            f"Differences by {segment}",
            dataset,
            f"Difference from the control for each value of {segment}, with its interval; a line at 0",
            shown=(SEGMENT_VALUE, *DIFFERENCES),
            where={SEGMENT: [segment], "method": list(TWO_SIDED)},
            note=SEGMENT_NOTE if any(seems_certain(row) for row in rows if row[SEGMENT] == segment) else "",
            label="line",
            value="difference",
            zero=True,
            is_ordered=True,
        )
    if methods & INTERACTION.keys():
        yield View(
            Form.TABLE,
            "Does the effect depend on it?",
            dataset,
            shown=("treatment", SEGMENT, "test", "p_value"),
            where={"method": list(INTERACTION)},
            note=INTERACTION_NOTE,
        )
    if methods & {"raw", "cuped"}:
        yield View(
            Form.TABLE,
            "Power",
            dataset,
            shown=("treatment", "method", "n_control", "n_treatment", "mde", "n_needed"),
            where={SEGMENT: [ALL], "method": ["raw", "cuped"]},
            note=POWER_NOTE,
        )


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
        *check_views(checks),
    ]
    cards = [
        VerdictCard(f"{row['experiment']}: {row['treatment']}", decided(row), (), trust)
        for row in decisions
        for trust in trusted([check for check in checks if check["experiment"] == row["experiment"]])
    ]
    return Chapter("Interleaving", (), views, picks=("experiment",), verdicts=cards)


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
