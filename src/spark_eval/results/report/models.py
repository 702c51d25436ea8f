"""Chapters on models: gates, best model, cutoffs, differences, and another run."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from spark_eval.accounting import USERS, entries_of_rows, unusable
from spark_eval.conventions import NoRecommendations
from spark_eval.conventions.comparison import Decision, Drop, Mode
from spark_eval.results.leaderboard import BEST, CERTAIN, CLOSE, EXPLAINED, measure_of, models_without_lists
from spark_eval.results.report.chapters import (
    FAILED,
    UNDECIDED,
    Chapter,
    Dataset,
    Form,
    Statement,
    Tone,
    View,
    chart,
    warning,
)
from spark_eval.results.report.data import RunFacts, as_number, part_of
from spark_eval.results.sentences import (
    SEEMS_CERTAIN,
    in_run,
    interval_text,
    lost_sentences,
    meanings_of_segments,
    seed_sentences,
    seems_certain,
    sentences,
    short,
    undecided_text,
    where,
)
from spark_eval.schema import ALL, MODEL, SEGMENT, WATCH, Outcome, Reason, Row, Table
from spark_eval.statistics.differences import unpaired
from spark_eval.statistics.significance import t_test

MOST_SENTENCES_SHOWN: Final = 12
MOST_NAMED: Final = 5
# Treatment of users without a list, by convention.
NO_LIST: Final[Mapping[str, str]] = {
    NoRecommendations.ZERO: "They count as 0 where hits are measured, and have no value in metrics of the "
    "lists themselves, such as novelty: cells of fewer users than their line say how many (n).",
    NoRecommendations.DROP: "They are left out: cells of fewer users than their line say how many (n).",
}
# Maximum number of rows of comparisons on a page: all users first, then segments.
MOST_COMPARISONS: Final = 10_000
OF_ALL_USERS: Final[Mapping[str, Sequence[str]]] = {SEGMENT: [ALL]}
ROOM_LEFT: Final = (
    "Room left is what remains until the gate fails, with the bounds that its confidence asks for: from 0 on "
    "it passes for certain, below 0 it fails for certain."
)
MEANS_SHOWN: Final = (MODEL, "measure", "value", "ci_low", "ci_high", "n", "n_undefined", "mark", "better")


def gates(facts: RunFacts) -> Chapter | None:
    """Return the chapter on gates: a sentence per gate that does not pass, and the table of all."""
    rows = sorted(facts.rows(Table.GATES), key=lambda row: bool(row["passed"]))
    if not rows:
        return None
    statements = [
        Statement(gate_sentence(row), *tone_of(row["decision"] == Decision.UNDECIDED))
        for row in rows
        if not row["passed"]
    ]
    lines = [
        {
            **row,
            "gate": where(row),
            "candidate": row[MODEL],
            "against": in_run(row["against_model"], row["against_run"]),
            "allowed": allowed_drop(row),
            "room left": interval_text(row["bound_low"], row["bound_high"]),
            "decision": str(row["decision"]).replace("_", " "),
            "passed": "yes" if row["passed"] else "NO",
        }
        for row in rows
    ]
    shown = (
        *("gate", "candidate", "against", "passed", "allowed", "baseline_value", "candidate_value"),
        *("difference", "room left", "n_users", "decision"),
    )
    headings = {"baseline_value": "its mean", "candidate_value": "candidate's mean", "n_users": "users"}
    table = View(Form.TABLE, "All gates", Dataset.of("gates", lines, shown, headings), note=ROOM_LEFT)
    return Chapter("Gates", statements, [table])


def tone_of(is_open: bool) -> tuple[Tone, str]:
    """Return tone and word of a gate that does not pass: it is undecided, or has failed."""
    return (Tone.WARNING, UNDECIDED) if is_open else (Tone.BAD, FAILED)


def gate_sentence(row: Row) -> str:
    """Return the decision of a gate with its reason: ``at most .01 worse: certain (95 %)``."""
    if row["mode"] == WATCH:
        return f"{where(row)} of {row['model']}: {row['reason']}."
    gate = f"{where(row)} of {row['model']} against {in_run(row['against_model'], row['against_run'])}"
    if row["decision"] == Decision.NO_BASELINE:
        return f"{gate}: {row['reason']}."
    is_worse = row["decision"] == Decision.WORSE
    drop = allowed_drop(row).replace("at most", "more than") if is_worse else allowed_drop(row)
    if row["mode"] == Mode.OBSERVED:
        certainty = "by the values alone, whatever chance does"
    elif row["decision"] == Decision.UNDECIDED:
        few = undecided_text(row["max_drop"], row["n_users"], row["users_needed"])
        certainty = f"{few}{at_confidence(row)}"
    else:
        certainty = f"certain{at_confidence(row)}"
    means = f"{short(row['baseline_value'])} to {short(row['candidate_value'])}"
    return f"{gate}: {drop}: {certainty}; from {means}, {row['n_users']:,} users."


def at_confidence(row: Row) -> str:
    """Return the confidence of a gate in brackets: `` (95 %)``; empty if unknown."""
    return "" if row["confidence"] is None else f" ({100 * row['confidence']:g} %)"


def allowed_drop(row: Row) -> str:
    """Return the allowed drop of a gate: ``at most .01 worse``, ``at most 2 % worse``."""
    drop = row["max_drop"]
    if row["mode"] == WATCH:
        return "as on the days before"
    if drop is None:
        return "not worse"
    if row["drop"] == Drop.RELATIVE:
        return f"at most {100 * drop:g} % worse"
    return f"at most {f'{drop:g}'.removeprefix('0') or '0'} worse"


def leaderboard(facts: RunFacts) -> Chapter | None:
    """Return the chapter on the best model, with its significance."""
    everybody = facts.everybody
    if not everybody:
        return None
    best = list(best_rows(everybody))
    columns = ("metric", "best", "value", "ci_low", "ci_high", "certain")
    headings = {"value": "mean", "ci_low": "from", "ci_high": "to"}
    table = View(Form.TABLE, "The best in each metric", Dataset.of("best", best, columns, headings))
    views = [
        *([table] if best else []),
        chart(
            Form.INTERVALS,
            "Models with their intervals",
            facts.metrics,
            "Mean of each model with its interval of 95 %, the chosen metric",
            shown=MEANS_SHOWN,
            where=OF_ALL_USERS,
            mark="mark",
        ),
        chart(
            Form.BOARD,
            "All metrics",
            facts.metrics,
            "",
            shown=(),
            where=OF_ALL_USERS,
            rows=[MODEL] if facts.has_predictions else [MODEL, "k"],
        ),
    ]
    statements = list[Statement]()
    if any(row["mark"] for row in everybody):
        statements.append(Statement(f"{EXPLAINED}. The dots of both are full."))
        if facts.rows(Table.COMPARISONS):
            statements.append(Statement("The marks of models that were compared follow that test instead."))
    bad = unusable(entries_of_rows(facts.rows(Table.ACCOUNTING)))
    statements += [warning("Unusable", f"{text}.") for text in bad]
    statements += lists_missing(facts)
    return Chapter("Which model is best", statements, views, ["measure"], terms=facts.definitions)


def lists_missing(facts: RunFacts) -> Iterator[Statement]:
    """Yield warnings on models without lists for some users, with the treatment of these users."""
    entries = [row for row in facts.rows(Table.ACCOUNTING) if row[MODEL] is not None]
    with_truth = Counter[str]()
    for row in entries:
        if row["source"] == USERS and row["reason"] != Reason.NO_TRUTH:
            with_truth[row[MODEL]] += row["users"] if row["outcome"] != Outcome.IN else 0
    for choice, models in models_without_lists(entries, with_truth).items():
        yield warning("No list", f"{models}. {NO_LIST[choice]}")


def best_rows(everybody: Sequence[Row]) -> Iterator[dict[str, Any]]:
    """Yield a row per metric at its largest cutoff: the best model, its mean, and how certain that is.

    If models have values for different users, nobody is best; the row names the models with fewer users.
    """
    metrics: dict[str, list[Row]] = {}
    for row in everybody:
        metrics.setdefault(row["metric"], []).append(row)
    for lines in metrics.values():
        k = max((row["k"] for row in lines), key=as_number)
        rows = [row for row in lines if row["k"] == k and row["value"] is not None]
        most = max((row["n"] or 0 for row in rows), default=0)
        others = [f"{row[MODEL]} ({row['n'] or 0:,})" for row in rows if (row["n"] or 0) < most]
        best = [row for row in rows if row["mark"] == BEST]
        mean = best[0] if best else dict.fromkeys(("value", "ci_low", "ci_high"))
        if others:
            named = ", ".join(others[:MOST_NAMED]) + (" and others" if len(others) > MOST_NAMED else "")
            certainty = f"means of different users do not compare; fewer than {most:,} users: {named}"
        elif best:
            certainty = how_certain(best[0], [row[MODEL] for row in rows if row["mark"] == CLOSE])
        else:
            continue
        names = " and ".join(row[MODEL] or "the model" for row in best)
        shown = {name: mean[name] for name in ("value", "ci_low", "ci_high")}
        yield {"metric": rows[0]["measure"], "best": names or "nobody", **shown, "certain": certainty}


def how_certain(best: Row, close: Sequence[str]) -> str:
    """Return the certainty that a model is best."""
    if best["ci_low"] is None:
        return "unknown: it has no interval"
    return f"no: {', '.join(close)} may be as good" if close else f"yes, at {100 * (1 - CERTAIN):g} %"


def cutoffs(facts: RunFacts) -> Chapter | None:
    """Return a line chart over cutoffs for each metric with several cutoffs."""
    ks: dict[str, dict[str, None]] = {}
    for row in facts.everybody:
        ks.setdefault(row["metric"], {})[row["k"]] = None
    views = [
        chart(
            Form.LINES,
            metric,
            facts.metrics,
            f"{metric} by cutoff, a line for each model",
            note=facts.definition(metric),
            shown=MEANS_SHOWN,
            where={**OF_ALL_USERS, "metric": [metric]},
            is_small=True,
            x="k",
            cutoffs=sorted(of_metric, key=as_number),
        )
        for metric, of_metric in ks.items()
        if len(of_metric) > 1
    ]
    return Chapter("Metrics by cutoff", (), views) if views else None


def differences(facts: RunFacts) -> Chapter | None:
    """Return the chapter on published comparisons: differences with intervals, wins, ties and losses."""
    rows = sorted(facts.rows(Table.COMPARISONS), key=lambda row: row[SEGMENT] != ALL)
    if not rows:
        return None
    lines = [
        {
            **row,
            "measure": measure_of(row),
            "part": part_of(row),
            "better": facts.direction(row["metric"]),
            "against": in_run(row["baseline"], row["baseline_run"]),
        }
        for row in rows[:MOST_COMPARISONS]
    ]
    counts = ("wins", "ties", "losses")
    shown = (
        *("candidate", "against", "measure", "part", "test", "difference", "ci_low", "ci_high"),
        *("p_adjusted", *counts, "n_users", "effect_size", "better"),
    )
    dataset = Dataset.of("comparisons", lines, shown, {"p_adjusted": "p, corrected"})
    counted = "requests" if any(row.get("n_requests") is not None for row in rows) else "users"
    views = [
        chart(
            Form.INTERVALS,
            "Differences with their intervals",
            dataset,
            "Difference of each candidate from the baseline with its interval; a line at 0",
            label="candidate",
            value="difference",
            zero=True,
        ),
        chart(
            Form.STACK,
            f"{counted.capitalize()} won, tied and lost",
            dataset,
            f"For how many {counted} each candidate is better, equal and worse than the baseline",
            shown=("candidate", "against", "measure", "part", "test", *counts),
            label="candidate",
            values=counts,
        ),
    ]
    texts = [*lost_sentences(rows, facts.direction), *sentences(rows, facts.direction)[:MOST_SENTENCES_SHOWN]]
    texts += [*seed_sentences(rows), *meanings_of_segments(row[SEGMENT] for row in rows)]
    texts += [SEEMS_CERTAIN] if any(map(seems_certain, rows)) else []
    statements = [Statement(text) for text in texts]
    statements.append(Statement("A dot is full where its interval leaves 0 out."))
    if len(rows) > MOST_COMPARISONS:
        more = f"{len(rows) - MOST_COMPARISONS:,} more rows, of segments, stand in the table comparisons."
        statements.append(warning("Not all is shown", more))
    return Chapter("Differences from the baseline", statements, views, ["measure", "against", "part", "test"])


def beside_other_run(facts: RunFacts) -> Chapter | None:
    """Return the chapter on changes of means from another run.

    Models are matched by name. Intervals treat the users of the two runs as independent samples.
    """
    other = facts.baseline
    if other is None:
        return None
    before = {(row[MODEL], row["measure"]): row for row in other.everybody}
    rows = [
        {**row, "before": was["value"], **change(row, was)}
        for row in facts.everybody
        if (was := before.get((row[MODEL], row["measure"]))) is not None
    ]
    statements = Statement(
        f"Means of this run beside those of run {other.run_id}, for models of equal names. Intervals of "
        f"{100 * (1 - CERTAIN):g} % are unpaired; spark-eval compare pairs the users."
    )
    notes = [statements, *warnings_of(facts, other)]
    if not rows:
        none = warning("Nothing to compare", "No model and metric is in both runs.")
        return Chapter(f"Beside run {other.run_id}", [*notes, none])
    shown = (MODEL, "measure", "before", "value", "difference", "ci_low", "ci_high", "better", "n")
    view = chart(
        Form.INTERVALS,
        "Change of each model",
        Dataset.of("other_run", rows, shown),
        "Difference of each model from the other run with its interval; a line at 0",
        value="difference",
        zero=True,
    )
    return Chapter(f"Beside run {other.run_id}", notes, [view], ["measure"])


def change(row: Row, was: Row) -> dict[str, float | None]:
    """Return the difference of two means with its interval by Welch's test."""
    n_before, n_now = was["n"] or 0, row["n"] or 0
    between = unpaired(was["value"], was["std_error"], n_before, row["value"], row["std_error"], n_now)
    tested = t_test(between, 1 - CERTAIN)
    difference = None if between.value is None else float(between.value)
    return {"difference": difference, "ci_low": tested.ci_low, "ci_high": tested.ci_high}


def warnings_of(facts: RunFacts, other: RunFacts) -> Iterator[Statement]:
    """Yield warnings if the numbers of two runs may not be comparable: conventions or truth differ."""
    for key, what in (("conventions", "conventions"), ("truth_digest", "truth")):
        here, there = (
            {str(record[key]) for record in run.records.values() if record.get(key) is not None}
            for run in (facts, other)
        )
        if here and there and here != there:
            yield warning("Differs", f"The two runs have another {what}.")
