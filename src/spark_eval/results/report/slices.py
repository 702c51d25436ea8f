"""Chapter on the slices of users where a candidate loses."""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from spark_eval.results.leaderboard import measure_of
from spark_eval.results.report.chapters import Chapter, Dataset, Form, Statement, View, chart
from spark_eval.results.report.data import RunFacts
from spark_eval.results.sentences import FEW, in_run, slice_name, slice_sentences, standing
from spark_eval.schema import MODEL, Outcome, Reason, Row, Table

# Number of attributes of a heat table.
SIDES: Final = 2


def where_worse(facts: RunFacts) -> Chapter | None:
    """Return the chapter on slices: those that lose and stand for themselves, and a heat table."""
    rows = facts.rows(Table.SLICES)
    if not rows:
        return None
    statements = [Statement(f"{text}.") for text in slice_sentences(rows)]
    statements += [Statement(text) for text in small_slices(facts)]
    views = []
    lines = [shown_slice(facts, row) for row in standing(rows)]
    if lines:
        columns = (
            *("slice", "candidate", "against", "measure", "difference", "ci_low", "ci_high"),
            *("n_users", "contribution", "p_adjusted", "better"),
        )
        headings = {"p_adjusted": "p, corrected", "n_users": "users"}
        views.append(
            chart(
                Form.INTERVALS,
                "Slices that lose, the largest part of the difference first",
                Dataset.of("slices", lines, columns, headings),
                "Difference of each slice from the baseline with its interval; a line at 0",
                label="slice",
                value="difference",
                zero=True,
            )
        )
    views += heat_tables(facts, rows)
    return Chapter("Where it is worse", statements, views, ["measure", "candidate", "against"])


def shown_slice(facts: RunFacts, row: Row) -> dict[str, Any]:
    """Return a slice with its name, its metric and its baseline as text."""
    return {
        **row,
        "slice": slice_name(row),
        "measure": measure_of(row),
        "against": in_run(row["baseline"], row["baseline_run"]),
        "better": facts.direction(row["metric"]),
    }


def small_slices(facts: RunFacts) -> Iterator[str]:
    """Yield for each pair the number of slices that have too few users to be tested."""
    for row in facts.rows(Table.ACCOUNTING):
        is_small = (row["outcome"], row["reason"]) == (Outcome.DROPPED, Reason.BELOW_MIN_USERS)
        if is_small and row["source"] == "slices":
            yield f"{row[MODEL]}: {row['rows']:,} more slices have too few users to be tested."


def heat_tables(facts: RunFacts, rows: Sequence[Row]) -> Iterator[View]:
    """Yield the table of the first two attributes that are crossed."""
    crossed = [row for row in rows if len(row["attributes"]) == SIDES]
    if not crossed:
        return
    one, other = crossed[0]["attributes"]
    lines = [
        {**shown_slice(facts, row), one: row["values"][0], other: row["values"][1]}
        for row in crossed
        if row["attributes"] == [one, other]
    ]
    shown = (one, other, "candidate", "against", "measure", "difference", "n_users", "verdict", "better")
    yield chart(
        Form.HEAT,
        f"By {one} and {other}",
        Dataset.of("slices_of_two", lines, shown, {"n_users": "users"}),
        f"Difference for each value of {one} and {other}, the chosen metric",
        rows=one,
        columns=other,
        value="difference",
        n="n_users",
        few=FEW,
    )
