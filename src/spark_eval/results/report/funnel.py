"""Chapter on a pipeline: users at each step, losses of relevant items, and values that stages reach."""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from spark_eval.kernels.stages import (
    ADDED_RECALL,
    CONDITIONAL,
    EFFICIENCY,
    ORACLE,
    OVERLAP,
    PROMOTION,
    REPLACED,
    STAGE_RECALL,
    STEP_TRUTH,
    Fate,
)
from spark_eval.results.leaderboard import measure_of
from spark_eval.results.report.chapters import Chapter, Dataset, Form, Statement, View, chart, warning
from spark_eval.results.report.data import RunFacts, part_of
from spark_eval.results.report.models import MOST_SENTENCES_SHOWN
from spark_eval.results.sentences import short
from spark_eval.schema import ALL, FOLDS, MODEL, SEGMENT, Row, Table

MEANINGS: Final = {fate.value: fate.meaning for fate in Fate}
HEADINGS: Final = {
    "n_users": "users",
    "n_requests": "requests",
    "n_pairs": "relevant items",
    "ci_low": "from",
    "ci_high": "to",
}
OF_STAGES: Final = ("stage", "its model", "part")
MEANS: Final = ("value", "ci_low", "ci_high")


def pipeline(facts: RunFacts) -> Chapter | None:
    """Return the chapter on losses of users and relevant items between candidates and the final list."""
    funnel = [{**row, "part": part_of(row)} for row in facts.rows(Table.FUNNEL)]
    stages = [
        {**row, "part": part_of(row), "its model": row[MODEL]}
        for row in facts.rows(Table.STAGES)
        if row[SEGMENT] != FOLDS
    ]
    if not funnel or not stages:
        return None
    reached = list(reached_rows(stages))
    views = [*funnel_charts(funnel), *recall_charts(stages), *(reached_charts(reached) if reached else ())]
    statements = [*lost_items(funnel), *reached_sentences(reached), *change_sentences(stages)]
    return Chapter("Where the pipeline loses", statements, views, ["part", "measure"])


def funnel_charts(funnel: Sequence[Row]) -> Iterator[View]:
    """Yield bar charts of the users at each step, and of the relevant items by fate."""
    steps, fates, counted = [], [], counts_of(funnel)
    [column, *_] = counted
    for part in dict.fromkeys(row["part"] for row in funnel):
        of_part = [row for row in funnel if row["part"] == part]
        for row, share in with_share(of_part, column, is_of_fates=False):
            steps.append({**row, "step": said_of(row["step"]), "share": share})
        for row, share in with_share(of_part, "n_pairs", is_of_fates=True):
            meaning = MEANINGS[row["step"]]
            fates.append({**row, "fate": said_of(row["step"]), "share": share, "is": meaning})
    yield chart(
        Form.BARS,
        f"{HEADINGS[column].capitalize()} at each step",
        Dataset.of("steps", steps, ("step", "part", *counted, "share", "n_pairs"), HEADINGS),
        f"{HEADINGS[column].capitalize()} at each step from truth to the final list, with their share of "
        "those that have truth",
        label="step",
        value=column,
        share="share",
    )
    columns = ("fate", "is", "part", "n_pairs", "share", *counted)
    yield chart(
        Form.BARS,
        "What became of relevant items",
        Dataset.of("fates", fates, columns, HEADINGS),
        "Relevant items by what became of them in the stages, with their share of all",
        label="fate",
        value="n_pairs",
        share="share",
    )


def counts_of(funnel: Sequence[Row]) -> tuple[str, ...]:
    """Return the columns that count what is at a step: users, or requests and their users."""
    is_by_request = any(row.get("n_requests") is not None for row in funnel)
    return ("n_requests", "n_users") if is_by_request else ("n_users",)


def with_share(
    funnel: Sequence[Row], column: str, *, is_of_fates: bool
) -> Iterator[tuple[Row, float | None]]:
    """Yield the steps of a funnel, or the fates of its relevant items, with their shares.

    Shares are of the users, or requests, with truth, or of all relevant items; None if there are none.
    """
    rows = [row for row in funnel if (row["step"] in MEANINGS) is is_of_fates]
    whole = sum(row[column] for row in rows if is_of_fates or row["step"] == STEP_TRUTH)
    for row in rows:
        yield row, row[column] / whole if whole else None


def recall_charts(stages: Sequence[Row]) -> Iterator[View]:
    """Yield the recall of each stage and generator, and the recall that each generator adds to a union."""
    for metric, name, title, alt in (
        (STAGE_RECALL, "recalls", "Recall of each stage", "a stage"),
        (ADDED_RECALL, "added", "What no other generator finds", "a generator alone"),
    ):
        rows = [{**row, "of": list_name(row, stages)} for row in stages if row["metric"] == metric]
        if rows:
            columns = ("of", *OF_STAGES, "k", *MEANS, "n_users")
            dataset = Dataset.of(name, rows, columns, HEADINGS)
            alt = f"Share of the relevant items that {alt} hands on, with its interval of 95 %"
            yield interval_chart(title, dataset, alt, "of")


def interval_chart(title: str, dataset: Dataset, alt: str, label: str) -> View:
    """Return a chart of the means of stages with their intervals, in the order of the stages."""
    return chart(Form.INTERVALS, title, dataset, alt, label=label, look="its model", is_ordered=True)


def list_name(row: Row, stages: Sequence[Row]) -> str:
    """Return a stage with its cutoff, and the generator if the stage is a union."""
    is_union = any(one["stage"] == row["stage"] and one[MODEL] is None for one in stages)
    generator = f": {row[MODEL]}" if is_union and row[MODEL] is not None else ""
    return f"{row['stage']}{generator}, k = {row['k']}"


def reached_charts(reached: Sequence[Row]) -> Iterator[View]:
    """Yield charts of the candidates' oracle, the values of later stages, and their efficiency."""
    shares = ("efficiency", "conditional")
    columns = (*OF_STAGES, "measure", *MEANS, *shares, "n_users")
    yield interval_chart(
        "The oracle, and what stages reach",
        Dataset.of("reached", reached, columns, HEADINGS),
        "What the candidates in perfect order and each later stage reach in the chosen metric",
        "stage",
    )
    later = [row for row in reached if not row["is oracle"]]
    yield chart(
        Form.BARS,
        "Efficiency: the share of the oracle that is reached",
        Dataset.of("efficiency", later, columns, HEADINGS),
        "The share of the oracle's mean that each later stage reaches",
        shown=(*OF_STAGES, "measure", *shares),
        label="stage",
        value="efficiency",
        is_share=True,
    )


def reached_rows(stages: Sequence[Row]) -> Iterator[dict[str, Any]]:
    """Yield a row per metric and stage: the oracle of the candidates, then the values of later stages."""
    values = {(row["stage"], part_of(row), measure_of(row)): row["value"] for row in stages}
    measured = [row["metric"].removeprefix(ORACLE) for row in stages if row["metric"].startswith(ORACLE)]
    first = stages[0]["stage"]
    for row in stages:
        metric = row["metric"].removeprefix(ORACLE)
        is_oracle = row["metric"].startswith(ORACLE)
        if metric not in measured or (row["stage"] == first) is not is_oracle:
            continue
        measure = measure_of({**row, "metric": metric})
        key = (row["stage"], part_of(row))
        yield {
            **row,
            "stage": f"oracle of {row['stage']}" if is_oracle else row["stage"],
            "its model": None if is_oracle else row[MODEL],
            "measure": measure,
            "is oracle": is_oracle,
            "efficiency": values.get((*key, EFFICIENCY + measure)),
            "conditional": values.get((*key, CONDITIONAL + measure)),
        }


def lost_items(funnel: Sequence[Row]) -> list[Statement]:
    """Return statements on the relevant items: the number kept by all stages, and the largest loss.

    A warning follows if later lists have relevant items that are not candidates.
    """
    items = {row["step"]: row["n_pairs"] for row in funnel if row["part"] == ALL and row["step"] in MEANINGS}
    total = sum(items.values())
    if not total:
        return []
    shares = {fate: f"{n:,} ({n / total:.1%})" for fate, n in items.items()}
    worst = max((fate for fate in items if fate.startswith("lost_")), key=items.__getitem__)
    text = (
        f"Of {total:,} relevant items every stage has {shares[Fate.KEPT]}. The largest loss is "
        f"{said_of(worst)} ({MEANINGS[worst]}): {shares[worst]}."
    )
    outside = items[Fate.OUTSIDE_CANDIDATES]
    more = f"Relevant items of later lists that are no candidates: {outside:,}; efficiency may be undefined."
    return [Statement(text), *([warning("Outside", more)] if outside else [])]


def reached_sentences(rows: Sequence[Row]) -> list[Statement]:
    """Return a statement per metric: the candidates' oracle, and the share of it that later stages reach."""
    everybody = [row for row in rows if row["part"] == ALL and row["value"] is not None]
    statements = []
    for oracle in (row for row in everybody if row["is oracle"]):
        reached = [
            f"{row['stage']} reaches {short(row['value'])}"
            + ("" if row["efficiency"] is None else f", {row['efficiency']:.1%} of it")
            for row in everybody
            if row["measure"] == oracle["measure"] and not row["is oracle"]
        ]
        best = f"{oracle['measure']}: these candidates in perfect order would have {short(oracle['value'])}"
        statements.append(Statement(f"{best}; {'; '.join(reached)}."))
    return statements[:MOST_SENTENCES_SHOWN]


def change_sentences(stages: Sequence[Row]) -> list[Statement]:
    """Return a statement per stage that reranks another one: what it changes of that list."""
    means_of: dict[tuple[str, int], dict[str, str]] = {}
    for row in stages:
        if (
            row["metric"] in (OVERLAP, REPLACED, PROMOTION)
            and row["part"] == ALL
            and row["value"] is not None
        ):
            means_of.setdefault((row["stage"], row["k"]), {})[row["metric"]] = short(row["value"])
    names = {
        OVERLAP: "rank-biased overlap",
        REPLACED: "share of items replaced",
        PROMOTION: "largest promotion",
    }
    statements = []
    for (stage, k), values in means_of.items():
        means = "; ".join(f"{names[metric]} {value}" for metric, value in values.items())
        statements.append(
            Statement(f"What {stage} changes of the list that it reranks, at k = {k}: {means}.")
        )
    return statements


def said_of(step: str) -> str:
    """Return the name of a step or fate as text."""
    return step.replace("_", " ")
