"""Chapters on models of lists and of predictions: gates, who is best, cutoffs, differences, another run."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from spark_eval.comparing.leaderboard import BEST, CERTAIN, CLOSE, EXPLAINED, measure_of
from spark_eval.comparing.sentences import in_run, interval_text, sentences, short, where
from spark_eval.metrics.registry import Kind
from spark_eval.reporting.chapters import Chapter, Dataset, Form, Statement, Tone, View, chart, warning
from spark_eval.reporting.facts import RunFacts, as_number, metric_of, part_of
from spark_eval.schema import ALL, MODEL, SEGMENT, Table
from spark_eval.stats.differences import unpaired
from spark_eval.stats.significance import t_test

MOST_SENTENCES_SHOWN: Final = 12
# Rows of comparisons that a page holds: all users first, then segments.
MOST_COMPARISONS: Final = 10_000
OF_ALL_USERS: Final[Mapping[str, Sequence[str]]] = {SEGMENT: [ALL]}
MEANS_SHOWN: Final = (MODEL, "measure", "value", "ci_low", "ci_high", "n", "n_undefined", "mark", "better")


def gates(facts: RunFacts) -> Chapter | None:
    """Return what the gates decided: each in a sentence, those that failed first."""
    rows = sorted(facts.rows(Table.GATES), key=lambda row: bool(row["passed"]))
    if not rows:
        return None
    failed = sum(not row["passed"] for row in rows)
    counted = f"{failed} of {len(rows)} gates failed." if failed else f"All {len(rows)} gates passed."
    tones = {True: (Tone.GOOD, "PASSED"), False: (Tone.BAD, "FAILED")}
    verdict = Statement(counted, *tones[not failed])
    statements = [Statement(gate_sentence(row), *tones[bool(row["passed"])]) for row in rows]
    lines = [
        {
            **row,
            "gate": where(row),
            "against": in_run(row["against_model"], row["against_run"]),
            "passed": "yes" if row["passed"] else "NO",
        }
        for row in rows
    ]
    shown = (
        *("gate", MODEL, "against", "mode", "drop", "max_drop", "baseline_value", "candidate_value"),
        *("difference", "bound_low", "bound_high", "n_users", "decision", "passed", "reason"),
    )
    table = View(Form.TABLE, "All gates", Dataset.of("gates", lines, shown))
    return Chapter("Gates", [verdict, *statements], [table])


def gate_sentence(row: Mapping[str, Any]) -> str:
    """Return what a gate decided, and why."""
    against = in_run(row["against_model"], row["against_run"])
    return f"{where(row)} of {row['model']} against {against}: {row['decision']}: {row['reason']}"


def leaderboard(facts: RunFacts) -> Chapter | None:
    """Return which model is best, and whether that is certain."""
    everybody = facts.everybody
    if not everybody:
        return None
    views = [
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
            rows=[MODEL] if facts.is_scored else [MODEL, "k"],
        ),
    ]
    said = [Statement(text) for text in best_sentences(everybody)]
    if any(row["mark"] for row in everybody):
        said.append(Statement(f"{EXPLAINED}. The dots of both are full."))
    if of_run := without_interval(everybody):
        said.append(Statement(f"One number for the whole run, so without an interval: {', '.join(of_run)}."))
    return Chapter("Which model is best", said, views, ["measure"])


def without_interval(everybody: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the metrics that belong to no user: their values are those of a run."""
    metrics = {str(row["metric"]): metric_of(row) for row in everybody}
    return [name for name, metric in metrics.items() if metric is not None and metric.kind is Kind.CATALOG]


def best_sentences(everybody: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield who is best in each metric, at its largest cutoff, and who may be as good."""
    metrics = list(dict.fromkeys(row["metric"] for row in everybody))
    for metric in metrics[:MOST_SENTENCES_SHOWN]:
        of_metric = [row for row in everybody if row["metric"] == metric]
        k = max((row["k"] for row in of_metric), key=as_number)
        rows = [row for row in of_metric if row["k"] == k]
        best = [row for row in rows if row["mark"] == BEST]
        close = [row[MODEL] for row in rows if row["mark"] == CLOSE]
        if not best:
            continue
        one = best[0]
        low = one["ci_low"]
        interval = "" if low is None else f" ({interval_text(low, one['ci_high'])})"
        names = " and ".join(row[MODEL] for row in best) + (" are" if len(best) > 1 else " is")
        if low is None:
            certainty = "; it has no interval, so nobody can say how certain that is"
        elif close:
            certainty = f"; not certain: {', '.join(close)} may be as good"
        else:
            certainty = "; certain, at 95 %"
        yield f"{one['measure']}: {names} best with {short(one['value'])}{interval}{certainty}."


def cutoffs(facts: RunFacts) -> Chapter | None:
    """Return a curve over the cutoffs for each metric that was measured at several."""
    ks: dict[str, dict[str, None]] = {}
    for row in facts.everybody:
        ks.setdefault(row["metric"], {})[row["k"]] = None
    views = [
        chart(
            Form.LINES,
            metric,
            facts.metrics,
            f"{metric} by cutoff, a line for each model",
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
    """Return what ``compare`` published: differences with intervals, wins, ties and losses."""
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
            "Users won, tied and lost",
            dataset,
            "For how many users each candidate is better, equal and worse than the baseline",
            shown=("candidate", "against", "measure", "part", "test", *counts),
            label="candidate",
            values=counts,
        ),
    ]
    said = [Statement(text) for text in sentences(rows)[:MOST_SENTENCES_SHOWN]]
    said.append(Statement("A dot is full where its interval leaves 0 out."))
    if len(rows) > MOST_COMPARISONS:
        more = f"{len(rows) - MOST_COMPARISONS:,} more rows, of segments, stand in the table comparisons."
        said.append(warning("Not all is shown", more))
    return Chapter("Differences from the baseline", said, views, ["measure", "against", "part", "test"])


def beside_other_run(facts: RunFacts) -> Chapter | None:
    """Return the means beside those of another run; of equal models, as if users were others."""
    other = facts.baseline
    if other is None:
        return None
    before = {(row[MODEL], row["measure"]): row for row in other.everybody}
    rows = [
        {**row, "before": was["value"], **change(row, was)}
        for row in facts.everybody
        if (was := before.get((row[MODEL], row["measure"]))) is not None
    ]
    said = Statement(
        f"Means of this run beside those of run {other.run_id}, for models of equal names. Intervals of "
        f"{100 * (1 - CERTAIN):g} % are as if both had users of their own; spark-eval compare pairs users."
    )
    notes = [said, *warnings_of(facts, other)]
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


def change(row: Mapping[str, Any], was: Mapping[str, Any]) -> dict[str, float | None]:
    """Return the difference of two means with its interval by Welch."""
    n_before, n_now = was["n"] or 0, row["n"] or 0
    between = unpaired(was["value"], was["std_error"], n_before, row["value"], row["std_error"], n_now)
    tested = t_test(between, 1 - CERTAIN)
    difference = None if between.value is None else float(between.value)
    return {"difference": difference, "ci_low": tested.ci_low, "ci_high": tested.ci_high}


def warnings_of(facts: RunFacts, other: RunFacts) -> Iterator[Statement]:
    """Yield why numbers of two runs may not be comparable: other conventions, another truth."""
    for key, what in (("conventions", "conventions"), ("truth_digest", "truth")):
        here, there = (
            {str(record[key]) for record in run.records.values() if record.get(key) is not None}
            for run in (facts, other)
        )
        if here and there and here != there:
            yield warning("Differs", f"The two runs have another {what}.")
