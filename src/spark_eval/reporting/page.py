"""Chapters as one HTML file that needs nothing else: no server, no network, no permission to run strings."""

import base64
import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any, Final

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from spark_eval.reporting.beyond import exposure_of_groups, trade_offs
from spark_eval.reporting.chapters import Chapter
from spark_eval.reporting.facts import RunFacts
from spark_eval.reporting.funnel import pipeline
from spark_eval.reporting.models import beside_other_run, cutoffs, differences, gates, leaderboard
from spark_eval.reporting.origins import accounting, provenance, split_in_time
from spark_eval.reporting.people import folds, segments, spread
from spark_eval.reporting.scored import prediction_curves, thresholds
from spark_eval.reporting.verdict import verdict
from spark_eval.schema import VERSION

# From top to bottom. A chapter is there where its function finds data for it.
CHAPTERS: Final[Mapping[str, Callable[[RunFacts], Chapter | None]]] = {
    "verdict": verdict,
    "gates": gates,
    "models": leaderboard,
    "differences": differences,
    "other_run": beside_other_run,
    "stages": pipeline,
    "cutoffs": cutoffs,
    "trade_offs": trade_offs,
    "exposure": exposure_of_groups,
    "segments": segments,
    "spread": spread,
    "curves": prediction_curves,
    "thresholds": thresholds,
    "folds": folds,
    "split": split_in_time,
    "accounting": accounting,
    "provenance": provenance,
}
# The models that charts show until the reader chooses others: as many as there are colours.
FIRST_SHOWN: Final = 7
# What JSON leaves as it is, and HTML or JavaScript would not.
SPELT_OUT: Final = {ord(letter): f"\\u{ord(letter):04x}" for letter in "<>&\u2028\u2029"}


def report_page(facts: RunFacts) -> str:
    """Return the report of a run as HTML; the same run gives the same bytes."""
    return page_of(facts, {name: made for name, make in CHAPTERS.items() if (made := make(facts))})


def page_of(facts: RunFacts, chapters: Mapping[str, Chapter], plot: str | None = None) -> str:
    """Return chapters as HTML: a report, or a single one under the title ``plot``."""
    library, script, style = (asset(name) for name in ("echarts.min.js", "page.js", "page.css"))
    page = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    return page.from_string(asset("page.html.j2")).render(
        title=plot or f"{facts.run_id}, spark-eval report",
        is_report=plot is None,
        run_id=facts.run_id,
        verbs=", ".join(facts.records),
        summary=headings_of(facts),
        chapters=chapters,
        models=facts.models,
        n_shown=FIRST_SHOWN,
        # Each text is a file of this package, and its hash is what the policy allows.
        library=Markup(library),
        script=Markup(script),
        style=Markup(style),
        policy=policy([library, script], style),
        data=Markup(embedded(facts, chapters)),
        version=VERSION,
    )


def policy(scripts: Sequence[str], style: str) -> str:
    """Return the Content-Security-Policy: these very texts may run, nothing is loaded, nothing is sent."""
    allowed = " ".join(map(hash_of, scripts))
    return (
        f"default-src 'none'; script-src {allowed}; style-src {hash_of(style)}; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


def hash_of(text: str) -> str:
    """Return the hash of a script or style as a policy names it."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def embedded(facts: RunFacts, chapters: Mapping[str, Chapter]) -> str:
    """Return all datasets, each once, and what is drawn of them, as JSON that ends no script."""
    datasets = {view.dataset.name: view.dataset for chapter in chapters.values() for view in chapter.views}
    tree = {
        "datasets": {name: one.embedded() for name, one in datasets.items()},
        "chapters": {
            name: {"picks": chapter.picks, "views": [view.embedded() for view in chapter.views]}
            for name, chapter in chapters.items()
        },
        "models": facts.models,
        "shown": FIRST_SHOWN,
        "first": facts.primary,
        "definitions": facts.definitions,
    }
    text = json.dumps(tree, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.translate(SPELT_OUT)


def headings_of(facts: RunFacts) -> list[str]:
    """Return what the head of the page says of the run."""
    found, moments = dict[str, str](), list[str]()
    for record in facts.records.values():
        summary: Mapping[str, Any] = record.get("summary", {})
        for name in ("models", "users", "rows_in"):
            if summary.get(name) is not None:
                found[name] = f"{summary[name]:,} {name.replace('_', ' ')}"
        if "published_at" in record:
            moments.append(str(record["published_at"]))
        if "conventions" in record:
            found["conventions"] = f"conventions: {record['conventions']}"
    return [*found.values(), *(f"published {moment}" for moment in sorted(moments)[-1:])]


@cache
def asset(name: str) -> str:
    """Return the text of a file that comes with this package."""
    return files("spark_eval.reporting").joinpath("assets", name).read_text(encoding="utf-8")
