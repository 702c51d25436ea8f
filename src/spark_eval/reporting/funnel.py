"""The chapter on a pipeline: users at each step, what became of relevant items, what each stage reaches."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from spark_eval.comparing.sentences import Row, short
from spark_eval.pipeline.quantities import (
    ADDED_RECALL,
    CONDITIONAL,
    EFFICIENCY,
    ORACLE,
    STAGE_RECALL,
    STEP_TRUTH,
    Fate,
)
from spark_eval.reporting.chapters import Chapter, Dataset, Form, Statement, Tone, View
from spark_eval.reporting.facts import RunFacts, measure_of, part_of
from spark_eval.reporting.models import MOST_SENTENCES_SHOWN
from spark_eval.schema import ALL, FOLDS, MODEL, SEGMENT, Table

MEANINGS: Final = {fate.value: fate.meaning for fate in Fate}
OF_STAGES: Final = ("stage", "its model", "part")


def pipeline(facts: RunFacts) -> Chapter | None:
    """Return where users and relevant items are lost between candidates and the final list."""
    funnel = [{**row, "part": part_of(row)} for row in facts.rows(Table.FUNNEL)]
    stages = [
        {**row, "part": part_of(row), "its model": row[MODEL]}
        for row in facts.rows(Table.STAGES)
        if row[SEGMENT] != FOLDS
    ]
    if not funnel or not stages:
        return None
    found = [funnel_charts(funnel), recall_charts(stages), reached_charts(stages)]
    views = [view for of_kind, _ in found for view in of_kind]
    datasets = [dataset for _, of_kind in found for dataset in of_kind]
    said = [*lost_items(funnel), *reached_sentences(list(reached_rows(stages)))]
    return Chapter("Where the pipeline loses", said, views, datasets, ["part", "measure"])


def funnel_charts(funnel: Sequence[Row]) -> tuple[list[View], list[Dataset]]:
    """Return bars of the users at each step, and of the relevant items by what became of them."""
    users = {row["part"]: row["n_users"] for row in funnel if row["step"] == STEP_TRUTH}
    items: dict[str, int] = {}
    for row in funnel:
        if row["step"] in MEANINGS:
            items[row["part"]] = items.get(row["part"], 0) + row["n_pairs"]
    steps = [
        {**row, "step": said_of(row["step"]), "share": share(row["n_users"], users[row["part"]])}
        for row in funnel
        if row["step"] not in MEANINGS
    ]
    fates = [
        {
            **row,
            "fate": said_of(row["step"]),
            "share": share(row["n_pairs"], items[row["part"]]),
            "is": MEANINGS[row["step"]],
        }
        for row in funnel
        if row["step"] in MEANINGS
    ]
    of_steps = ("step", "part", "n_users", "share", "n_pairs")
    of_fates = ("fate", "is", "part", "n_pairs", "share", "n_users")
    headings = {"n_users": "users", "n_pairs": "relevant items"}
    views = [
        View(
            Form.BARS,
            "Users at each step",
            "steps",
            of_steps,
            "Users at each step from truth to the final list, with their share of those who have truth",
            drawn={"label": "step", "value": "n_users", "share": "share"},
        ),
        View(
            Form.BARS,
            "What became of relevant items",
            "fates",
            of_fates,
            "Relevant items by what became of them in the stages, with their share of all",
            drawn={"label": "fate", "value": "n_pairs", "share": "share"},
        ),
    ]
    named = (("steps", steps, of_steps), ("fates", fates, of_fates))
    return views, [Dataset.of(name, rows, columns, headings) for name, rows, columns in named]


def recall_charts(stages: Sequence[Row]) -> tuple[list[View], list[Dataset]]:
    """Return the recall of each stage and generator, and what each generator of a union adds."""
    shown = ("of", *OF_STAGES, "k", "value", "ci_low", "ci_high", "n_users")
    views, datasets = [], []
    for metric, name, title, alt in (
        (
            STAGE_RECALL,
            "recalls",
            "Recall of each stage",
            "Share of the relevant items that a stage hands on",
        ),
        (
            ADDED_RECALL,
            "added",
            "What no other generator finds",
            "Share of the relevant items that a generator alone hands on",
        ),
    ):
        rows = [{**row, "of": list_name(row, stages)} for row in stages if row["metric"] == metric]
        if not rows:
            continue
        datasets.append(
            Dataset.of(name, rows, shown, {"n_users": "users", "ci_low": "from", "ci_high": "to"})
        )
        views.append(interval_view(title, name, shown, f"{alt}, with its interval of 95 %", "of"))
    return views, datasets


def interval_view(title: str, dataset: str, shown: Sequence[str], alt: str, label: str) -> View:
    """Return a chart of means of stages with their intervals, in the order of the stages."""
    drawn = {"label": label, "value": "value", "low": "ci_low", "high": "ci_high"}
    return View(
        Form.INTERVALS, title, dataset, shown, alt, drawn={**drawn, "look": "its model", "is_ordered": True}
    )


def list_name(row: Row, stages: Sequence[Row]) -> str:
    """Return a stage with its cut; of a union also the generator that is meant."""
    is_union = any(one["stage"] == row["stage"] and one[MODEL] is None for one in stages)
    generator = f": {row[MODEL]}" if is_union and row[MODEL] is not None else ""
    return f"{row['stage']}{generator}, k = {row['k']}"


def reached_charts(stages: Sequence[Row]) -> tuple[list[View], list[Dataset]]:
    """Return what the oracle of the candidates and each later stage reach, and their efficiency."""
    rows = list(reached_rows(stages))
    if not rows:
        return [], []
    shown = (*OF_STAGES, "measure", "value", "ci_low", "ci_high", "efficiency", "conditional", "n_users")
    later = [row for row in rows if not row["is oracle"]]
    headings = {"n_users": "users", "ci_low": "from", "ci_high": "to"}
    datasets = [
        Dataset.of("reached", rows, shown, headings),
        Dataset.of("efficiency", later, shown, headings),
    ]
    alt = "What the candidates in perfect order and each later stage reach in the chosen metric"
    bars = View(
        Form.BARS,
        "Efficiency: the share of the oracle that is reached",
        "efficiency",
        (*OF_STAGES, "measure", "efficiency", "conditional"),
        "The share of the oracle's mean that each later stage reaches",
        drawn={"label": "stage", "value": "efficiency", "is_share": True},
    )
    return [
        interval_view("The oracle, and what stages reach", "reached", shown, alt, "stage"),
        bars,
    ], datasets


def reached_rows(stages: Sequence[Row]) -> Iterator[dict[str, Any]]:
    """Yield a row for each metric and stage: the oracle for the candidates, then what later stages reach."""
    values = {(row["stage"], row["part"], measure_of(row)): row["value"] for row in stages}
    measured = [row["metric"].removeprefix(ORACLE) for row in stages if row["metric"].startswith(ORACLE)]
    first = stages[0]["stage"]
    for row in stages:
        metric = row["metric"].removeprefix(ORACLE)
        is_oracle = row["metric"].startswith(ORACLE)
        if metric not in measured or (row["stage"] == first) is not is_oracle:
            continue
        measure = measure_of({**row, "metric": metric})
        key = (row["stage"], row["part"])
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
    """Return how many relevant items were kept, and where most were lost; a warning of those from outside."""
    items = {row["step"]: row["n_pairs"] for row in funnel if row["part"] == ALL and row["step"] in MEANINGS}
    total = sum(items.values())
    lost = {fate: n for fate, n in items.items() if fate.startswith("lost_")}
    if not total:
        return []
    worst = max(lost, key=lambda fate: lost[fate])
    said = [
        Statement(
            f"Of {total:,} relevant items every stage has {items[Fate.KEPT]:,} "
            f"({percent(items[Fate.KEPT], total)}). The largest loss is {said_of(worst)} "
            f"({MEANINGS[worst]}): {lost[worst]:,} ({percent(lost[worst], total)})."
        )
    ]
    if outside := items[Fate.OUTSIDE_CANDIDATES]:
        text = (
            f"Relevant items of later lists that are no candidates: {outside:,}; efficiency may be undefined."
        )
        said.append(Statement(text, Tone.WARNING, "Outside"))
    return said


def reached_sentences(rows: Sequence[Mapping[str, Any]]) -> list[Statement]:
    """Return what the candidates allow in each metric, and how much of it each later stage makes."""
    everybody = [row for row in rows if row["part"] == ALL and row["value"] is not None]
    said = []
    for oracle in (row for row in everybody if row["is oracle"]):
        reached = [
            f"{row['stage']} reaches {short(row['value'])}"
            + ("" if row["efficiency"] is None else f", {row['efficiency']:.1%} of it")
            for row in everybody
            if row["measure"] == oracle["measure"] and not row["is oracle"]
        ]
        best = f"{oracle['measure']}: these candidates in perfect order would have {short(oracle['value'])}"
        said.append(Statement(f"{best}; {'; '.join(reached)}."))
    return said[:MOST_SENTENCES_SHOWN]


def said_of(step: str) -> str:
    """Return a step or fate as text."""
    return step.replace("_", " ")


def share(part: int, whole: int) -> float | None:
    """Return a part of a whole; None where that is nothing."""
    return part / whole if whole else None


def percent(part: int, whole: int) -> str:
    """Return a part of a whole as text."""
    return f"{part / whole:.1%}"
