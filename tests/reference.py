"""Options of the commands, keys of the config and metrics beyond accuracy, as the documents have them."""

import json
import re
from collections.abc import Collection, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

import click

from spark_eval.cli.commands import program
from spark_eval.cli.metric_tables import TextRows, document, markdown
from spark_eval.config.calibrate import CalibrateSection, PredictSection
from spark_eval.config.experiments import (
    AssignmentSection,
    ExperimentSection,
    MetricSection,
    TermSection,
    WeightsSection,
)
from spark_eval.config.inputs import Filter, Output, Recommendations, Source
from spark_eval.config.keys import Section
from spark_eval.conventions import CONVENTIONS
from spark_eval.conventions.choice import Need
from spark_eval.kernels.registry import RANKING
from spark_eval.kernels.values import without_metric
from spark_eval.runs.sections import (
    Baseline,
    CompareSection,
    Config,
    EvaluateSection,
    GateSection,
    InterleavingSection,
    LinkageSection,
    OnlineSection,
    PredictionsSection,
    ReportSection,
    ReviewsSection,
    SampleSection,
    SparkSection,
    SplitSection,
    StageSection,
    ThresholdRules,
)
from spark_eval.splits.rules.methods import options_in_words

DOCS: Final = Path(__file__).parents[1] / "docs"
KEY_HEADER: Final = ("type", "default", "meaning")
# Whatever YAML has that is no list and no mapping.
SCALAR: Final = "boolean or integer or number or string"
# Kinds of sections by where they stand; one that extends another has rows for its own keys alone.
SHOWN_SECTIONS: Final[Mapping[str, type[Section]]] = {
    "the config": Config,
    "output": Output,
    "spark": SparkSection,
    "a table": Source,
    "a condition of where": Filter,
    "recommendations": Recommendations,
    "split": SplitSection,
    "evaluate": EvaluateSection,
    "stages": StageSection,
    "predictions": PredictionsSection,
    "predictions.choose": ThresholdRules,
    "online": OnlineSection,
    "online.metrics": MetricSection,
    "of, numerator and denominator of online.metrics": TermSection,
    "online.experiments": ExperimentSection,
    "online.experiments.assignment": AssignmentSection,
    "online.experiments.weights": WeightsSection,
    "reviews": ReviewsSection,
    "calibrate": CalibrateSection,
    "calibrate.predict": PredictSection,
    "linkage": LinkageSection,
    "sample": SampleSection,
    "interleaving": InterleavingSection,
    "compare": CompareSection,
    "compare.baseline, gates.against": Baseline,
    "gates": GateSection,
    "report": ReportSection,
}

BEYOND_HEADER = ("metric", "what it sees", "needs", "with some options", "better", "options")
# What metrics see, the first that they need; and what must be given for their needs beyond lists and truth.
SEEN: Final = {
    Need.GROUP_WEIGHTS: "places per group",
    Need.ITEM_COUNTS: "lists per item",
    Need.HISTORY: "whole lists and histories",
    Need.ITEMS: "whole lists",
    Need.LENGTHS_BY_RANK: "hits, and the length of lists",
    Need.HITS: "hits",
}
GIVEN_BY: Final = {
    Need.CATALOG: "items or train",
    Need.POPULARITY: "train",
    Need.TAKERS: "train",
    Need.GROUPS: "groups",
    Need.FEATURES: "features",
    Need.VECTORS: "vectors",
    Need.FLAGS: "a boolean column",
    Need.PROPENSITIES: "propensity",
    Need.BASE: "base",
}


def commands() -> dict[str, click.Command]:
    """Return the commands of the program; the records of all verbs are loaded."""
    found = {
        name: program.get_command(click.Context(program), name)
        for name in program.list_commands(click.Context(program))
    }
    return {name: command for name, command in found.items() if command is not None}


def option_table(command: click.Command, title: str) -> str:
    """Return the options of a command, with what its help says of them."""
    options = [one for one in command.params if isinstance(one, click.Option)]
    rows = [[option_in_words(one), " ".join(filter(None, [one.help, choices_of(one)]))] for one in options]
    return markdown((title, "does"), rows)


def option_in_words(option: click.Option) -> str:
    """Return an option with a word for its value."""
    value = [] if option.is_flag else [option.metavar or str(option.name).upper()]
    return " ".join([*option.opts, *value])


def choices_of(option: click.Option) -> str:
    """Return what may be chosen, if it is a choice."""
    return f"One of {', '.join(option.type.choices)}." if isinstance(option.type, click.Choice) else ""


def key_tables() -> Iterator[str]:
    """Yield the table of each kind of section."""
    for place, section in SHOWN_SECTIONS.items():
        is_more = issubclass(section, Source) and section is not Source
        own = set(section.model_fields) - (set(Source.model_fields) if is_more else set())
        yield markdown((f"key of {place}", *KEY_HEADER), key_rows(section, own))


def key_rows(section: type[Section], own: Collection[str]) -> TextRows:
    """Return a row for each of some keys of a section: type, default, meaning."""
    schema = section.model_json_schema()
    needed = schema.get("required", ())
    return [
        [key, type_in_words(node), default_in_words(node, key in needed), meaning_of(node)]
        for key, node in schema["properties"].items()
        if key in own
    ]


def meaning_of(node: Mapping[str, Any]) -> str:
    """Return what a key is for, in the words of YAML."""
    meaning: str = node["description"]
    return meaning.removesuffix(".").replace("None:", "null:")


def type_in_words(node: Mapping[str, Any]) -> str:
    """Return the type of a key: what may stand in YAML beside null."""
    parts = [part for part in node.get("anyOf", [node]) if part.get("type") != "null"]
    return " or ".join(dict.fromkeys(map(one_type, parts))).replace(SCALAR, "scalar")


def one_type(node: Mapping[str, Any]) -> str:
    """Return a type in words; sections are mappings."""
    if "enum" in node:
        return ", ".join(f"`{choice}`" for choice in node["enum"])
    kind = {"array": "list", "object": "mapping"}.get(node.get("type", "object"), str(node.get("type")))
    inner = node.get("items")
    return f"{kind} of {type_in_words(inner)}" if isinstance(inner, dict) and inner else kind


def default_in_words(node: Mapping[str, Any], is_needed: bool) -> str:
    """Return the default as YAML may have it; of sections, whose keys have their own, nothing."""
    default = node.get("default")
    if is_needed:
        return "none: it must be given"
    return "" if isinstance(default, dict) and default else f"`{json.dumps(default)}`"


def rule_table() -> str:
    """Return a row per option of the methods of split."""
    rows = [[name, of, f"`{default}`", meaning] for name, of, default, meaning in options_in_words()]
    return markdown(("option of split", "methods", "default", "meaning"), rows)


def beyond_table() -> str:
    """Return a row per metric that knows more of items than who finds them relevant."""
    rows = []
    for metric in RANKING.values():
        if metric.knows_items:
            chosen = [choice.needs for name in metric.conventions for choice in CONVENTIONS[name]]
            more = frozenset[Need]().union(*chosen) - metric.needs
            names = [without_metric(name, metric) for name in metric.options]
            cells = [
                next(text for need, text in SEEN.items() if need in metric.needs),
                given_by(metric.needs),
                given_by(more),
                metric.direction,
                ", ".join(names),
            ]
            rows.append([metric.name, *cells])
    return markdown(BEYOND_HEADER, rows)


def given_by(needs: Collection[Need]) -> str:
    """Return what must be given for these needs."""
    return ", ".join(dict.fromkeys(given for need, given in GIVEN_BY.items() if need in needs))


@cache
def tables() -> tuple[str, ...]:
    """Return the tables that follow from the code."""
    return (rule_table(), beyond_table(), *key_tables())


def page_with_tables(page: str) -> str:
    """Return the text of a page with the tables of the code in the place of those with the same header."""
    for table in tables():
        header = re.escape(table.partition("\n")[0])
        if found := re.search(rf"^{header}(\n\|.*)*", page, re.MULTILINE):
            page = page.replace(found[0], table)
    return page


def write_pages() -> None:
    """Write the tables and pages that follow from the code."""
    for path in DOCS.glob("*.md"):
        path.write_text(page_with_tables(path.read_text(encoding="utf-8")), encoding="utf-8")
    (DOCS / "conventions.md").write_text(document(), encoding="utf-8")


if __name__ == "__main__":
    write_pages()
