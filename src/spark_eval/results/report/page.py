"""Render chapters as one self-contained HTML file: no server, no network, no ``eval``."""

import base64
import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Final

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from spark_eval.results.report.beyond import exposure_of_groups, trade_offs
from spark_eval.results.report.chapters import Chapter
from spark_eval.results.report.data import RunFacts
from spark_eval.results.report.experiments import calibration, experiments, interleaving
from spark_eval.results.report.funnel import pipeline
from spark_eval.results.report.models import beside_other_run, cutoffs, differences, gates, leaderboard
from spark_eval.results.report.origins import accounting, other_tables, provenance, split_in_time
from spark_eval.results.report.predictions import prediction_curves, thresholds
from spark_eval.results.report.slices import where_worse
from spark_eval.results.report.users import chance, folds, requests, segments, spread
from spark_eval.results.report.verdict import verdict
from spark_eval.schema import VERSION, Row

# Chapters from top to bottom; a function returns None if there is no data for its chapter.
CHAPTERS: Final[Mapping[str, Callable[[RunFacts], Chapter | None]]] = {
    "verdict": verdict,
    "slices": where_worse,
    "experiments": experiments,
    "interleaving": interleaving,
    "calibration": calibration,
    "gates": gates,
    "models": leaderboard,
    "chance": chance,
    "requests": requests,
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
    "other_tables": other_tables,
    "accounting": accounting,
    "provenance": provenance,
}
# Verb whose accounting is by experiment instead of model.
ONLINE: Final = "online"
# Number of models that charts show at first: the number of colours.
FIRST_SHOWN: Final = 7
# Characters that JSON leaves unescaped, and that HTML or JavaScript would interpret.
SPELT_OUT: Final = {ord(letter): f"\\u{ord(letter):04x}" for letter in "<>&\u2028\u2029"}


def report_page(facts: RunFacts) -> str:
    """Return the report of a run as HTML; the same run gives the same bytes."""
    return page_of(facts, {name: made for name, make in CHAPTERS.items() if (made := make(facts))})


def page_of(facts: RunFacts, chapters: Mapping[str, Chapter], plot: str | None = None) -> str:
    """Return chapters as HTML: a report, or a single chapter with the title ``plot``."""
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
        # Each text is a file of this package; the policy allows it by its hash.
        library=Markup(library),
        script=Markup(script),
        style=Markup(style),
        policy=policy([library, script], style),
        data=Markup(embedded(facts, chapters)),
        version=VERSION,
    )


def policy(scripts: Sequence[str], style: str) -> str:
    """Return the Content-Security-Policy: only these texts may run; nothing is loaded or sent."""
    allowed = " ".join(map(hash_of, scripts))
    return (
        f"default-src 'none'; script-src {allowed}; style-src {hash_of(style)}; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


def hash_of(text: str) -> str:
    """Return the hash of a script or style, as a Content-Security-Policy writes it."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def embedded(facts: RunFacts, chapters: Mapping[str, Chapter]) -> str:
    """Return all datasets and the views of them as JSON, which cannot end a script element."""
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
    """Return the lines of the page's header: counts, conventions, and time of publication."""
    headings, moments = dict[str, str](), list[str]()
    for verb, record in facts.records.items():
        summary: Row = record.get("summary") or {}
        for name in ("models", "users", "rows_in"):
            if summary.get(name) is not None:
                counted = "experiments" if name == "models" and verb == ONLINE else name
                headings[counted] = counted_text(summary[name], counted.replace("_", " "))
        if record.get("published_at") is not None:
            moments.append(str(record["published_at"]))
        if record.get("conventions") is not None:
            headings["conventions"] = f"conventions: {record['conventions']}"
    return [*headings.values(), *(f"published {moment}" for moment in sorted(moments)[-1:])]


def counted_text(n: int, things: str) -> str:
    """Return a number of things: ``1 model``, ``2,000 users``, ``1 row in``."""
    first, *others = things.split()
    return " ".join([f"{n:,}", first.removesuffix("s") if n == 1 else first, *others])


@cache
def asset(name: str) -> str:
    """Return the text of an asset of this package."""
    return files("spark_eval.results.report").joinpath("assets", name).read_text(encoding="utf-8")
