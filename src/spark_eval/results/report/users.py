"""Chapters on users: requests, segments, folds, distribution over metric values, and what repeats add."""

from collections.abc import Iterator, Mapping
from itertools import accumulate, groupby
from typing import Any, Final

from spark_eval.accounting import REQUESTS
from spark_eval.conventions.presets import request_rules
from spark_eval.results.report.chapters import Chapter, Dataset, Form, Statement, View, chart, rounded
from spark_eval.results.report.data import RunFacts
from spark_eval.results.report.spread import MOST_SPREAD
from spark_eval.results.sentences import FEW, meanings_of_segments
from spark_eval.schema import ALL, FOLD, FOLDS, MODEL, REPEAT, SEGMENT, SEGMENT_VALUE, Reason, Row, Table

# Rule of ``conventions``, and what it says.
RULES: Final[Mapping[str, str]] = {
    "weight=requests": "Each request counts once in a mean: who asks more often weighs more.",
    "weight=users": "Each user counts once in a mean, with the mean over the user's requests.",
    "truth=requests": "A relevant item belongs to one request.",
    "truth=users": "A relevant item belongs to a user, and is relevant in each of the user's requests.",
}
CLUSTERED: Final = (
    "Standard errors, intervals and tests are clustered by user: the requests of one person are alike, and "
    "are not counted as independent people."
)


def requests(facts: RunFacts) -> Chapter | None:
    """Return the chapter on lists by request; None if users have one list each."""
    if not facts.by_request:
        return None
    stamp = next(row["conventions"] for row in facts.of_users if row.get("n_requests") is not None)
    rules = request_rules(stamp).partition(": ")[2].split(", ")
    texts = [RULES[rule] for rule in rules if rule in RULES]
    lines = list(lines_of(facts))
    columns = (MODEL, "n_requests", "n_users", "per user", "without a list")
    headings = {"n_requests": "requests", "n_users": "users", "per user": "requests per user"}
    view = View(Form.TABLE, "Requests of each model", Dataset.of("requests", lines, columns, headings))
    return Chapter("Lists by request", [Statement(text) for text in (*texts, CLUSTERED)], [view])


def lines_of(facts: RunFacts) -> Iterator[dict[str, Any]]:
    """Yield for each model the requests that have a value in some metric, their users, and empty lists."""
    without = {
        row[MODEL]: row["rows"]
        for row in facts.rows(Table.ACCOUNTING)
        if (row["source"], row["reason"]) == (REQUESTS, Reason.NO_RECOMMENDATIONS)
    }
    everybody = [row for row in facts.of_users if row[SEGMENT] == ALL and row["n_users"]]
    for model in facts.models:
        of_model = [row for row in everybody if row[MODEL] == model and row.get("n_requests")]
        if of_model:
            n_requests, n_users = max((row["n_requests"], row["n_users"]) for row in of_model)
            yield {
                MODEL: model,
                "n_requests": n_requests,
                "n_users": n_users,
                "per user": round(n_requests / n_users, 2),
                "without a list": without.get(model, 0),
            }


def chance(facts: RunFacts) -> Chapter | None:
    """Return the chapter on repeats: their values, and the parts of the variance of the mean over them."""
    rows = [row for row in facts.of_users if row[SEGMENT] == ALL and row.get("std_repeat") is not None]
    lines = [line_of_repeats(facts, row) for row in rows if facts.is_shown(row["metric"])]
    if not lines:
        return None
    has_dots = any(line["dots"] for line in lines)
    shown = (MODEL, "measure", "value", "ci_low", "ci_high", "n_repeats", "std_repeat", "std_error", "better")
    headings = {"ci_low": "from", "ci_high": "to", "n_repeats": "repeats", "std_error": "standard error"}
    headings |= {"std_repeat": "deviation of repeats", "users": "other users", "repeats": "other repeats"}
    dataset = Dataset.of("repeats", lines, (*shown, "users", "repeats", "dots"), headings)
    views = [
        chart(
            Form.INTERVALS,
            "The mean over users and repeats, and each repeat"
            if has_dots
            else "The mean over users and repeats",
            dataset,
            "Mean of each model over its repeats with its interval of 95 %; a small circle is one repeat",
            shown=shown,
            dots="dots",
        ),
        chart(
            Form.STACK,
            "Where the variance comes from",
            dataset,
            "Shares of the variance of each model's mean that other users and other repeats would change",
            shown=(MODEL, "measure", "users", "repeats"),
            values=["users", "repeats"],
            is_share=True,
        ),
    ]
    return Chapter("How much is chance", chance_sentences(facts, lines, has_dots), views, ["measure"])


def line_of_repeats(facts: RunFacts, row: Row) -> dict[str, Any]:
    """Return a mean over repeats with the shares of its variance, and the published values of the repeats."""
    key = (row[MODEL], row["metric"], row["k"])
    repeat_rows = [line for line in facts.of_users if line[SEGMENT] == REPEAT]
    alike = [line for line in repeat_rows if (line[MODEL], line["metric"], line["k"]) == key]
    share = row["repeat_share"] or 0.0
    return {
        **row,
        "measure": facts.measure(row),
        "better": facts.direction(row["metric"]).value,
        "users": 1 - share,
        "repeats": share,
        "dots": [rounded(line["value"]) for line in alike if line["value"] is not None],
    }


def chance_sentences(facts: RunFacts, lines: list[dict[str, Any]], has_dots: bool) -> list[Statement]:
    """Return sentences on what a repeat is, and on the share of the repeats in the first metric."""
    texts = ["Each model was made several times, with other seeds, samples or days: its repeats."]
    if has_dots:
        texts[0] += " A small circle is one of them."
    texts.append("The interval is that of the mean over users and repeats: few repeats make it wide.")
    for line in lines:
        if line["measure"] == facts.primary:
            shares = f"other repeats make {line['repeats']:.0%}, other users {line['users']:.0%}"
            texts.append(f"{line[MODEL]}: {shares} of the variance of {facts.primary}.")
    if not has_dots:
        texts.append("evaluate.by_repeat: true also draws each repeat.")
    return [Statement(text) for text in texts]


def segments(facts: RunFacts) -> Chapter | None:
    """Return the means of segments as heat tables, with warnings for small segments."""
    rows = [row for row in facts.measured if row[SEGMENT] not in (ALL, FOLD, FOLDS, REPEAT)]
    if not rows:
        return None
    names = list(dict.fromkeys(row[SEGMENT] for row in rows))
    unit = "rows" if facts.has_predictions else "users"
    text = f"The stronger the colour, the higher the value; a cell with ⚠ has fewer than {FEW} {unit}."
    statements = [Statement(text), *(Statement(f"{meaning}.") for meaning in meanings_of_segments(names))]
    views = [
        chart(
            Form.HEAT,
            f"By {name}",
            facts.metrics,
            f"Mean of each model for each value of {name}, the chosen metric",
            shown=(MODEL, "measure", "part", "value", "ci_low", "ci_high", "n", "n_undefined"),
            where={SEGMENT: [name]},
            few=FEW,
        )
        for name in names
    ]
    return Chapter("Segments", statements, views, ["measure"])


def folds(facts: RunFacts) -> Chapter | None:
    """Return the values of folds or windows in order, with their mean and standard deviation."""
    rows = [row for row in facts.measured if row[SEGMENT] == FOLD]
    if not rows:
        return None
    places = sorted({str(row[SEGMENT_VALUE]) for row in rows}, key=lambda text: (len(text), text))
    views = [
        chart(
            Form.LINES,
            "Each fold",
            facts.metrics,
            "The chosen metric in each fold, a line for each model",
            shown=(MODEL, "measure", SEGMENT_VALUE, "value", "ci_low", "ci_high", "n"),
            where={SEGMENT: [FOLD]},
            x=SEGMENT_VALUE,
            categories=places,
            x_title=FOLD,
        ),
        View(
            Form.TABLE,
            "Over all folds",
            facts.metrics,
            shown=(MODEL, "measure", SEGMENT_VALUE, "value", "n"),
            where={SEGMENT: [FOLDS]},
        ),
    ]
    statements = [Statement(f"{len(places)} folds; fold 0 is the oldest where folds are windows of time.")]
    return Chapter("Folds and windows", statements, views, ["measure"])


def spread(facts: RunFacts) -> Chapter | None:
    """Return the distribution of users over the values of a metric: shares in bins and cumulative shares."""
    if not facts.users:
        return None
    rows = list(with_shares(facts))
    headings = {"low": "from", "high": "to", "below": "share below 'to'"}
    shown = (MODEL, "measure", "low", "high", "users", "share", "below")
    zeros = [
        {**row, "zero": row["users"], "above": row["total"] - row["users"]} for row in rows if not row["high"]
    ]
    of_zeros = {"zero": "users with 0", "above": "users with more"}
    dataset = Dataset.of("spread", rows, (*shown, "is_zero"), headings)
    name = "value of the metric"
    views = [
        chart(
            Form.LINES,
            "Share of users by value, above 0",
            dataset,
            "Share of the users in each bin of values above 0, a line for each model",
            shown=shown,
            where={"is_zero": ["no"]},
            x_title=name,
            x="low",
            y="share",
            steps=True,
            bins="high",
        ),
        chart(
            Form.LINES,
            "Share of users below a value",
            dataset,
            "Share of the users whose value is lower, a line for each model",
            shown=shown,
            x_title=name,
            x="high",
            y="below",
            to_one=True,
        ),
        chart(
            Form.STACK,
            "Users with 0, and with more",
            Dataset.of("zeros", zeros, (MODEL, "measure", *of_zeros), of_zeros),
            "Which share of each model's users has exactly 0",
            values=["above", "zero"],
            is_share=True,
        ),
    ]
    statements = Statement(
        f"Of each of the first {MOST_SPREAD} metrics with an upper bound, at its largest cutoff; users "
        "without a value are left out."
    )
    counted = [Statement("Each request is counted like a user here.")] if facts.by_request else []
    return Chapter("How users spread", [statements, *counted], views, ["measure"])


def with_shares(facts: RunFacts) -> Iterator[dict[str, Any]]:
    """Yield the counts with their share of the model's users, and the share of users below ``high``.

    Bins are half open, so the share below ``high`` is that of this bin and all earlier ones. Users with the
    largest value are in the last bin.
    """
    for _, group in groupby(facts.users, key=lambda row: (row.model, row.measure)):
        rows = list(group)
        total = sum(row.users for row in rows) or 1
        for row, so_far in zip(rows, accumulate(row.users for row in rows), strict=True):
            shares = {"share": row.users / total, "below": so_far / total}
            yield {**row._asdict(), **shares, "total": total, "is_zero": "no" if row.high else "yes"}
