"""Verdict of a report: the chosen model, its metric, its difference from another, and its worse segments."""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from spark_eval.conventions.comparison import Decision, PairTest
from spark_eval.results.forecasts import forecast_sentence
from spark_eval.results.leaderboard import BEST, CERTAIN, CLOSE, gains_in_words, measure_of
from spark_eval.results.report.chapters import (
    FAILED,
    PASSED,
    UNDECIDED,
    Chapter,
    Span,
    Statement,
    Tile,
    Tone,
)
from spark_eval.results.report.data import RunFacts, part_of
from spark_eval.results.report.models import change
from spark_eval.results.review import Part, commands_of, review_of
from spark_eval.results.sentences import few_marked, in_run, interval_text, short, where
from spark_eval.schema import ALL, FOLD, FOLDS, MODEL, REPEAT, SEGMENT, Direction, Row, Table

MOST_SEGMENTS_NAMED: Final = 5
MOST_FAILED_NAMED: Final = 3
MOST_FORECASTS: Final = 3
UNPAIRED: Final = "unpaired; spark-eval compare pairs the users"


class Difference(NamedTuple):
    """Difference of a model from another for one segment value; ``p`` is adjusted, None if not tested."""

    part: str
    value: float
    low: float | None
    high: float | None
    p: float | None = None
    n: int | None = None

    def turned(self) -> "Difference":
        """Return the difference with the two models swapped."""
        low, high = (None if end is None else -end for end in (self.high, self.low))
        return self._replace(value=-self.value, low=low, high=high)

    def is_lost(self, better: Direction) -> bool:
        """Return True if the model is significantly worse."""
        worst_case = self.high if better is Direction.HIGHER else None if self.low is None else -self.low
        is_certain = self.p is None or self.p < CERTAIN
        return better is not Direction.NONE and worst_case is not None and worst_case < 0 and is_certain

    def __str__(self) -> str:
        interval = "" if self.low is None else f" ({interval_text(self.low, self.high)})"
        return f"{'+' if self.value > 0 else ''}{short(self.value)}{interval}"


def verdict(facts: RunFacts) -> Chapter | None:
    """Return the summary card: model, metric, difference, gates, and segments where the model is worse."""
    measure = facts.primary
    if measure is None or not facts.models:
        return None
    gates = facts.rows(Table.GATES)
    model = chosen_model(facts, gates)
    other, differences, how = compared_with(facts, model, measure)
    everybody = next((one for one in differences if one.part == ALL), None)
    if other is None:
        difference = "there is no other model to compare with"
    elif everybody is None:
        difference = f"{other} has a value for other users, so the two do not compare"
    else:
        p = "" if everybody.p is None else f"; adjusted p {p_text(everybody.p)}"
        difference = f"{everybody} from {other}{p}{how and f' ({how})'}"
    past = past_text(facts, model, measure)
    card = {
        **({"Gates": gates_text(gates)} if any(not row["passed"] for row in gates) else {}),
        **({"Segments that lose": lost} if (lost := lost_text(facts, differences, measure)) else {}),
        "Difference": Statement(difference),
        **({"What the past says": past} if past else {}),
        "Metric": Statement(metric_text(facts, model, measure)),
        **review_lines(facts, model, measure, has_past=bool(past)),
    }
    headline = decision(facts, gates, model, measure)
    tiles = list(tiles_of(facts, model, measure, other, everybody))
    return Chapter("Verdict", card=card, headline=headline, tiles=tiles)


def review_lines(facts: RunFacts, model: str, measure: str, *, has_past: bool) -> dict[str, Statement]:
    """Return the parts of the launch review of a comparison; not the past, if it has a line already."""
    commands = commands_of(facts.run_id, facts.records)
    review = review_of(facts.tables, facts.direction, commands, model, measure)
    left_out = Part.PAST if has_past else ""
    return {part: Statement("; ".join(lines)) for part, lines in review.items() if part != left_out}


def tiles_of(
    facts: RunFacts, model: str, measure: str, other: str | None, difference: Difference | None
) -> Iterator[Tile]:
    """Yield the metric of the model, its change from the other model, and the users with the certainty."""
    rows = [row for row in facts.everybody if row["measure"] == measure and row["value"] is not None]
    means = {row[MODEL]: row for row in rows}
    mean = means.get(model)
    if mean is None:
        return
    interval = "" if mean["ci_low"] is None else interval_text(mean["ci_low"], mean["ci_high"])
    yield Tile(measure, short(mean["value"]), " of ".join(filter(None, [interval, model or "the model"])))
    if difference is not None and other is not None:
        before = means[other]["value"] if other in means else baseline_mean(facts, model, measure)
        yield change_tile(difference, other, before)
    if mean["n"] is not None:
        of = "rows" if facts.has_predictions else "users"
        yield Tile(of, f"{mean['n']:,}", certainty(difference))


def baseline_mean(facts: RunFacts, model: str, measure: str) -> float | None:
    """Return the mean of the model in the other run; None if unknown."""
    rows = [] if facts.baseline is None else facts.baseline.everybody
    means = [row["value"] for row in rows if (row[MODEL], row["measure"]) == (model, measure)]
    return next(iter(means), None)


def change_tile(difference: Difference, other: str, before: float | None) -> Tile:
    """Return the tile of a difference, in percent of the other model's mean if that is known and not 0."""
    low, high = difference.low, difference.high
    span = None if low is None or high is None else Span.of(low, difference.value, high)
    if not before:
        interval = "" if low is None else f"{interval_text(low, high)} "
        return Tile("change", f"{difference.value:+.4f}", f"{interval}from {other}", span)
    shares = [None if end is None else 100 * end / abs(before) for end in (low, difference.value, high)]
    texts = ["" if share is None else f"{share:+.1f}" for share in shares]
    interval = f"{texts[0]} to {texts[2]} % " if low is not None and high is not None else ""
    return Tile("change", f"{texts[1]} %", f"{interval}from {other}", span)


def certainty(difference: Difference | None) -> str:
    """Return the certainty of a difference: its interval excludes 0, and its adjusted p-value is small."""
    if difference is None:
        return "nothing to compare with"
    p = "" if difference.p is None else f", p {p_text(difference.p)}"
    if difference.low is None or difference.high is None:
        return f"without an interval{p}"
    is_certain = not difference.low <= 0 <= difference.high and (
        difference.p is None or difference.p < CERTAIN
    )
    return f"{'the change is certain' if is_certain else 'the change is not certain'}{p}"


def chosen_model(facts: RunFacts, gates: Sequence[Row]) -> str:
    """Return the best model.

    If there are gates, it is the best of the models with gates. Models that passed all of their gates precede
    the others.
    """
    order = {model: index for index, model in enumerate(facts.models)}
    gated = {str(row[MODEL]) for row in gates}
    failed = {str(row[MODEL]) for row in gates if not row["passed"]}
    return min(
        gated or facts.models, key=lambda model: (model in failed, order.get(model, len(order)), model)
    )


def decision(facts: RunFacts, gates: Sequence[Row], model: str, measure: str) -> Statement:
    """Return a statement on shipping the model; without gates, on the significance of its lead."""
    if gates:
        failed = [row["decision"] for row in gates if row[MODEL] == model and not row["passed"]]
        n_undecided = failed.count(Decision.UNDECIDED)
        if n_failed := len(failed) - n_undecided:
            return Statement(f"{model} should not ship: {n_failed} of its gates failed.", Tone.BAD, FAILED)
        if failed:
            text = f"{model} cannot be judged yet: not enough users to tell in {n_undecided} of its gates."
            return Statement(text, Tone.WARNING, UNDECIDED)
        return Statement(f"{model} may ship: it passed all of its gates.", Tone.GOOD, PASSED)
    marks = {row[MODEL]: row["mark"] for row in facts.everybody if row["measure"] == measure}
    if marks.get(model) != BEST:
        return Statement("No model is called best: there is one alone, or each is of users of its own.")
    close = [name for name, mark in marks.items() if mark == CLOSE]
    certainty = f"not certainly: {', '.join(close)} may be as good" if close else "certainly (95 %)"
    return Statement(f"{model} is best in {measure}, {certainty}.")


def metric_text(facts: RunFacts, model: str, measure: str) -> str:
    """Return the metric with the model's mean and the metric's meaning."""
    rows = [row for row in facts.everybody if (row["measure"], row[MODEL]) == (measure, model)]
    mean = "".join(
        f" {short(row['value'])}"
        + ("" if row["ci_low"] is None else f" ({interval_text(row['ci_low'], row['ci_high'])})")
        + ("" if row["n"] is None else f", {row['n']:,} {'rows' if facts.has_predictions else 'users'}")
        for row in rows[:1]
    )
    chosen = "" if facts.asked_primary else " Chosen by default; report.primary names another."
    metric = measure.rpartition("@")[0] or measure
    of_metric = [row for row in facts.rows(Table.METRICS) if row["metric"] == metric]
    gains = [] if facts.has_predictions else gains_in_words(of_metric)
    texts = [f"{measure}{mean}.", facts.definition(metric), *(f"In {text}." for text in gains)]
    return " ".join(filter(None, texts)) + chosen


def compared_with(facts: RunFacts, model: str, measure: str) -> tuple[str | None, list[Difference], str]:
    """Return another model, the differences of the model from it, and a note on the method.

    Published comparisons come first, then the next model of the run, then the same model of the other run.
    The other model is None if there is none of these.
    """
    found: dict[tuple[str, str], list[Difference]] = {}
    tests: dict[tuple[str, str], str] = {}
    for row in facts.rows(Table.COMPARISONS):
        sides = (str(row["candidate"]), in_run(row["baseline"], row["baseline_run"]))
        is_ours = model in sides and measure_of(row) == measure and row["test"] in set(PairTest)
        if not is_ours or row["difference"] is None or row[SEGMENT] in (FOLD, FOLDS):
            continue
        if tests.setdefault(sides, row["test"]) == row["test"]:
            ends = (row["ci_low"], row["ci_high"], row["p_adjusted"], row["n_users"])
            found.setdefault(sides, []).append(Difference(part_of(row), row["difference"], *ends))
    for (candidate, baseline), differences in sorted(found.items(), key=lambda one: one[0][0] != model):
        if candidate == model:
            return baseline, differences, ""
        return candidate, [one.turned() for one in differences], ""
    before = facts.baseline
    others = [name for name in facts.models if name != model]
    rows = [row for row in facts.measured if row["measure"] == measure and row["value"] is not None]
    if others:
        return others[0], list(unpaired_differences(rows, model, rows, others[0])), UNPAIRED
    if before is not None and model in before.models:
        of_other = [row for row in before.measured if row["measure"] == measure and row["value"] is not None]
        differences = list(unpaired_differences(rows, model, of_other, model, is_same_run=False))
        return in_run(model, before.run_id), differences, UNPAIRED
    return None, [], ""


def unpaired_differences(
    rows: Sequence[Row],
    model: str,
    others: Sequence[Row],
    other: str,
    *,
    is_same_run: bool = True,
) -> Iterator[Difference]:
    """Yield the differences of means by segment value, by Welch's test.

    Within a run, segment values with different numbers of users are skipped.
    """
    of_other = {row["part"]: row for row in others if row[MODEL] == other}
    for row in rows:
        was = of_other.get(row["part"])
        if row[MODEL] != model or was is None or row[SEGMENT] in (FOLD, FOLDS, REPEAT):
            continue
        if is_same_run and row["n"] != was["n"]:
            continue
        found = change(row, was)
        if found["difference"] is not None:
            ends = (found["ci_low"], found["ci_high"])
            yield Difference(row["part"], found["difference"], *ends, n=row["n"])


def gates_text(gates: Sequence[Row]) -> Statement:
    """Return the number and the names of the gates that did not pass."""
    failed = [f"{where(row)} of {row[MODEL]}" for row in gates if not row["passed"]]
    named = ", ".join(failed[:MOST_FAILED_NAMED]) + (" and more" if len(failed) > MOST_FAILED_NAMED else "")
    if all(row["passed"] or row["decision"] == Decision.UNDECIDED for row in gates):
        return Statement(f"{len(failed)} of {len(gates)} undecided: {named}", Tone.WARNING, UNDECIDED)
    return Statement(f"{len(failed)} of {len(gates)} failed: {named}", Tone.BAD, FAILED)


def past_text(facts: RunFacts, model: str, measure: str) -> Statement | None:
    """Return the online effect that past experiments let expect of the model; None without a calibration."""
    forecasts = [row for row in facts.rows(Table.FORECASTS) if row["candidate"] == model]
    firsts = [row for row in forecasts if row["metric"] == measure] or forecasts
    texts = [forecast_sentence(row) for row in firsts[:MOST_FORECASTS]]
    return Statement(". ".join(texts)) if texts else None


def lost_text(facts: RunFacts, differences: Sequence[Difference], measure: str) -> Statement | None:
    """Return the segment values where the model is significantly worse, the worst first; None without any."""
    parts = [one for one in differences if one.part != ALL]
    better = facts.direction(measure.rpartition("@")[0] or measure)
    lost = sorted((one for one in parts if one.is_lost(better)), key=lambda one: -abs(one.value))
    if not parts:
        return None
    if not lost:
        return Statement(f"none of {len(parts)} for certain")
    named = "; ".join(f"{one.part} {one}{users_text(one)}" for one in lost[:MOST_SEGMENTS_NAMED])
    more = f"; and {len(lost) - MOST_SEGMENTS_NAMED} more" if len(lost) > MOST_SEGMENTS_NAMED else ""
    return Statement(f"{len(lost)} of {len(parts)}: {named}{more}", Tone.WARNING, "LOSES")


def users_text(difference: Difference) -> str:
    """Return the number of users of a difference: ``, 12 (few) users``; empty if unknown."""
    return "" if difference.n is None else f", {few_marked(difference.n)} users"


def p_text(p: float) -> str:
    """Return a p-value as text, with ``=`` or ``<``.

    >>> p_text(0.0041), p_text(0.00001)
    ('= .004', '< .001')
    """
    return "< .001" if p < 0.0005 else f"= {short(p, 3)}"
