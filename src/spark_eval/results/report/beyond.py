"""Chapters beyond accuracy: trade-offs with accuracy, and exposure of item groups."""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from spark_eval.conventions.choice import Need
from spark_eval.kernels.registry import RANKING
from spark_eval.results.leaderboard import cutoff_text, list_direction, measure_of
from spark_eval.results.report.chapters import Chapter, Dataset, Form, Statement, chart
from spark_eval.results.report.data import RunFacts, as_number, is_of_hits, metric_of, preferred_metric
from spark_eval.results.report.models import MOST_SENTENCES_SHOWN
from spark_eval.schema import MODEL, SEGMENT_VALUE, Direction, Row

# Maximum number of item groups on a page, the largest of the catalogue first.
MOST_GROUPS: Final = 20
OF_LISTS: Final = "ranks of lists"
OF_CATALOG: Final = "catalogue"


def trade_offs(facts: RunFacts) -> Chapter | None:
    """Return scatter charts of accuracy against each metric beyond accuracy, with the Pareto front."""
    rows = list(trade_off_rows(facts))
    if not rows:
        return None
    shown = (
        *(MODEL, "accuracy", "mean accuracy", "n accuracy"),
        *("beyond accuracy", "value", "n", "better", "front"),
    )
    headings = {"n": "users", "n accuracy": "users of accuracy"}
    view = chart(
        Form.SCATTER,
        "Accuracy against what is beyond",
        Dataset.of("trade_offs", rows, shown, headings),
        "A point for each model: its accuracy upwards, the chosen metric to the right",
        y="mean accuracy",
        x_title="beyond accuracy",
        y_title="accuracy",
    )
    explained = Statement(
        "A model is on the front (a full point) if no other is better in one of both and at least as good in "
        "the other, by the means alone. Where neither direction is better, there is no front."
    )
    sentences = [Statement(text) for text in (*front_sentences(rows), *other_users(rows))]
    return Chapter("Accuracy and beyond", [*sentences, explained], [view], ["beyond accuracy"])


def trade_off_rows(facts: RunFacts) -> Iterator[dict[str, Any]]:
    """Yield a row per metric beyond accuracy and model, if at least two models have both values."""
    everybody = [row for row in facts.everybody if row["value"] is not None]
    accuracies: dict[str, dict[str, dict[str, Any]]] = {}
    accuracy = accuracy_of(everybody)
    for row in everybody:
        if row["metric"] == accuracy:
            accuracies.setdefault(row["k"], {})[row[MODEL]] = row
    if not accuracies:
        return
    largest = max(accuracies, key=as_number)
    order = {model: index for index, model in enumerate(facts.models)}
    beyond: dict[str, list[dict[str, Any]]] = {}
    for row in everybody:
        if is_beyond(row):
            beyond.setdefault(row["measure"], []).append(row)
    # Largest cutoff first: it is the first option that readers see.
    for measure, of_models in sorted(beyond.items(), key=lambda one: -as_number(one[1][0]["k"])):
        hits = accuracies.get(of_models[0]["k"], accuracies[largest])
        of_models.sort(key=lambda row: order[row[MODEL]])
        both = [(row, hits[row[MODEL]]) for row in of_models if row[MODEL] in hits]
        if len(both) < 2:
            continue
        better = Direction.NONE if has_other_users(both) else both[0][0]["better"]
        front = pareto([(hit["value"], row["value"]) for row, hit in both], better)
        for (row, hit), is_best in zip(both, front, strict=True):
            yield {
                **{name: row[name] for name in (MODEL, "metric", "k")},
                "accuracy": hit["measure"],
                "mean accuracy": hit["value"],
                "beyond accuracy": measure,
                "value": row["value"],
                "better": row["better"],
                "front": "yes" if is_best else "",
                "of others": "yes" if has_other_users(both) else "",
                "n": row["n"],
                "n accuracy": hit["n"],
            }


def has_other_users(pairs: Sequence[tuple[Row, Row]]) -> bool:
    """Return True if the values of models, with their accuracies, are means of different users.

    A value of the whole run, such as the coverage of the catalogue, is not a mean of users.
    """
    metric = metric_of(pairs[0][0])
    is_of_run = metric is not None and Need.ITEM_COUNTS in metric.needs
    return len({one["n"] for value, hit in pairs for one in ((hit,) if is_of_run else (value, hit))}) > 1


def accuracy_of(everybody: Sequence[Row]) -> str | None:
    """Return the accuracy metric of the trade-offs, which uses hits alone; None if there is none."""
    metrics = {row["metric"]: metric_of(row) for row in everybody}
    of_hits = [row for row in everybody if (metric := metrics[row["metric"]]) and is_of_hits(metric)]
    return preferred_metric(of_hits, list_direction)


def is_beyond(row: Row) -> bool:
    """Return True if a metric uses more than hits: items, histories or the catalogue."""
    metric = metric_of(row)
    return metric is not None and metric.knows_items


def pareto(points: Sequence[tuple[float, float]], better: str) -> list[bool]:
    """Return True for each point (accuracy, value) on the Pareto front.

    A point is on the front if no other point is better in one coordinate and at least as good in the other.
    ``better`` is the direction of ``value``; if it is ``none``, no point is on the front.

    >>> pareto([(0.5, 0.1), (0.4, 0.3), (0.4, 0.2), (0.5, 0.1)], "higher")
    [True, True, False, True]
    >>> pareto([(0.5, 0.1), (0.4, 0.3)], "lower"), pareto([(0.5, 0.1), (0.4, 0.3)], "none")
    ([True, False], [False, False])
    """
    if better == Direction.NONE:
        return [False] * len(points)
    sign = -1 if better == Direction.LOWER else 1
    turned = [(accuracy, sign * value) for accuracy, value in points]
    return [
        not any(other != one and other[0] >= one[0] and other[1] >= one[1] for other in turned)
        for one in turned
    ]


def front_sentences(rows: Sequence[Row]) -> list[str]:
    """Return sentences that name the models on the Pareto front.

    There is one sentence per metric that has a front, at its largest cutoff.
    """
    best: dict[str, dict[str, list[tuple[str, str]]]] = {}
    for row in rows:
        if row["front"]:
            pair = f"{row['accuracy']} against {row['beyond accuracy']}"
            best.setdefault(row["metric"], {}).setdefault(row["k"], []).append((pair, row[MODEL]))
    statements = []
    for of_metric in best.values():
        front = of_metric[max(of_metric, key=as_number)]
        statements.append(f"{front[0][0]}: on the front {', '.join(model for _, model in front)}.")
    return statements[:MOST_SENTENCES_SHOWN]


def other_users(rows: Sequence[Row]) -> list[str]:
    """Return a sentence per metric without a front because its users, or those of the accuracy, differ."""
    texts = dict[str, str]()
    measures: dict[str, list[Row]] = {}
    for row in rows:
        measures.setdefault(row["beyond accuracy"], []).append(row)
    for measure, lines in measures.items():
        if lines[0]["of others"]:
            users = ", ".join(f"{row[MODEL]} {row['n']:,} of {row['n accuracy']:,}" for row in lines)
            text = f"{measure} has no front: it is a mean of other users than {lines[0]['accuracy']}"
            texts.setdefault(lines[0]["metric"], f"{text} ({users}).")
    return list(texts.values())[:MOST_SENTENCES_SHOWN]


def exposure_of_groups(facts: RunFacts) -> Chapter | None:
    """Return each item group's share of the recommended items and its share of the catalogue."""
    rows = list(exposure_rows(facts))
    if not rows:
        return None
    sizes = {row["group"]: row["share"] or 0.0 for row in rows if row[MODEL] is None}
    groups = sorted(sizes, key=lambda group: (-sizes[group], group))
    shown_groups = groups[:MOST_GROUPS]
    of_groups = (row for row in rows if row["group"] in shown_groups)
    ordered = sorted(of_groups, key=lambda row: shown_groups.index(row["group"]))
    view = chart(
        Form.BARS,
        "Share of each group of items",
        Dataset.of("exposure", ordered, ("group", "of", MODEL, "measure", "share")),
        "Each group's share of the ranks of lists, a bar for each model beside one of the catalogue",
        label="group",
        value="share",
        series=MODEL,
        others=OF_CATALOG,
        is_share=True,
    )
    text = (
        "The grey bar is the group's share of the catalogue. That lists differ from it says nothing of why."
    )
    if len(groups) > MOST_GROUPS:
        text += f" Shown are the {MOST_GROUPS} largest of {len(groups):,} groups; the table metrics has all."
    return Chapter("Exposure of groups", [Statement(text)], [view], ["measure"])


def exposure_rows(facts: RunFacts) -> Iterator[dict[str, Any]]:
    """Yield each group's share of a model's lists, and once its share of the catalogue with model None."""
    of_catalog = {one.catalog_name: one.run_name for one in RANKING.values() if one.catalog_name}
    seen = set()
    # Largest cutoff first: it is the first option that readers see.
    for row in sorted(facts.of_groups, key=lambda row: -as_number(cutoff_text(row["k"]))):
        name, bracket, options = str(row["metric"]).partition("(")
        is_catalog = name in of_catalog
        line = {
            "group": row[SEGMENT_VALUE],
            "of": OF_CATALOG if is_catalog else OF_LISTS,
            MODEL: None if is_catalog else row[MODEL] or "",
            "measure": measure_of({**row, "metric": of_catalog.get(name, name) + bracket + options}),
            "share": row["value"],
        }
        # The rows of the catalogue repeat for each model.
        key = (line["group"], line[MODEL], line["measure"])
        if key not in seen:
            seen.add(key)
            yield line
