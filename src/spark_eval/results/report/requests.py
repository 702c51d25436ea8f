"""Chapter on lists by request: how many, of how many users, and what that means for means and intervals."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from spark_eval.accounting import REQUESTS
from spark_eval.conventions.presets import request_rules
from spark_eval.results.report.chapters import Chapter, Dataset, Form, Statement, View
from spark_eval.results.report.data import RunFacts
from spark_eval.schema import ALL, MODEL, SEGMENT, Reason, Table

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
