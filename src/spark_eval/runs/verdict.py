"""Verdicts: gates and launch review of a published run as JSON for machines, or as Markdown for people."""

import html
import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from spark_eval.comparison.decisions import gates_in_words, row_in_words
from spark_eval.comparison.rows import GateRow, compared_direction
from spark_eval.conventions.comparison import Decision, Drop
from spark_eval.errors import ConfigError, escape_control_characters
from spark_eval.experiments.analysis import failure_of
from spark_eval.experiments.tables import DecisionRow
from spark_eval.names import counted
from spark_eval.results.forecasts import forecast_sentence
from spark_eval.results.mlflow_runs import mark_version
from spark_eval.results.review import Tables, commands_of, review_of
from spark_eval.results.sentences import bound_decimals, interval_text, short
from spark_eval.runs.job import Run
from spark_eval.runs.sections import MlflowSection
from spark_eval.runtime.local_files import check_file, is_stream, write_file
from spark_eval.schema import VERSION, WATCH, Row, Table

# Tables that decide exit code 5.
DECIDING: Final = (Table.GATES, Table.DECISIONS)
# Tables that a launch review reads, and its key in JSON.
REVIEWED: Final = (Table.COMPARISONS, Table.SLICES, Table.GATES, Table.ACCOUNTING)
REVIEW: Final = "review"
FORMS: Final = (".json", ".md")
# Characters that Markdown would interpret.
SPECIAL: Final = re.compile(r"([\\`*_{}\[\]()#+\-!|~])")
# Places in a text where GitHub, GitLab and chats would see a link, an email or the name of a person or issue:
# in SCHEME://, www., @NAME and #1. The cutoff of a metric, as in map@10, is none of these.
LIVE: Final = re.compile(
    r"(?<=:)(?=//)|(?i:(?<=www))(?=\.)|(?<=#)(?=\d)|(?<=@)(?=\d*[^\W\d])|(?<!\w@)(?<=@)(?=\w)|(?<=@)(?=\w+\.\w)"
)
# Space of no width: text that has it there is no link, and looks the same.
NO_WIDTH: Final = "\u200b"
NO_WIDTH_ENTITY: Final = "&#8203;"
# A verdict as JSON and as Markdown: its first characters, and the whole of it.
KEYS: Final = {"run_id": str, "verb": str, "passed": bool, "gates": list}
BEGINNINGS: Final = (b'{\n  "run_id": "', b"**PASSED**: ", b"**FAILED**: ", b"**UNDECIDED**: ")
NUMBERS: Final = ("difference", "room left", "limit", "n")
HEADER: Final = (
    f"| gate | passed | decision | reason | {' | '.join(NUMBERS)} |",
    "|---|---|---|---|---|---|---|---|",
)
# Verdicts of earlier versions have the first four columns.
MARKDOWN: Final = re.compile(
    r"\*\*(PASSED|FAILED|UNDECIDED)\*\*: "
    r"(no gates|\d+ gates? passed|\d+ of \d+ gates (failed|undecided)(, \d+ undecided)?), [\w-]+ of run .*\n"
    r"(\n\| gate \| passed \| decision \| reason (\| difference .*)?\|\n(\|---)+\|\n(\| .* \|\n)+)?"
    r"(\n(- .*\n)+)?(\n\*\*[\w ]+\*\*\n\n(- .*\n)+)*"
)


@dataclass(frozen=True)
class Verdict:
    """Gates of a run, or decisions on experiments: their rows, with texts and results.

    ``past`` are sentences on past experiments, ``review`` the lines of each part of the launch review; it is
    empty without a comparison.
    """

    run_id: str
    verb: str
    rows: Sequence[Row]
    lines: Sequence[tuple[str, bool, str, str, Sequence[str]]]
    past: Sequence[str] = ()
    review: Mapping[str, Sequence[str]] = field(default_factory=dict)

    @classmethod
    def of(cls, run: Run, verb: str) -> "Verdict":
        """Return the verdict on a published run; without gates it passes."""
        rows: list[dict[str, Any]] = []
        lines: list[tuple[str, bool, str, str, Sequence[str]]] = []
        for table in DECIDING:
            for row in run.rows(table) if table in run.tables else ():
                lines.append(gate_line(row) if table == Table.GATES else decision_line(row))
                rows.append({**row, "passed": lines[-1][1]})
        forecasts = run.rows(Table.FORECASTS) if Table.FORECASTS in run.tables else ()
        past = list(map(forecast_sentence, forecasts))
        tables: Tables = {str(name): run.rows(name) for name in REVIEWED if name in run.tables}
        commands = commands_of(run.run_id, {verb: run.record.job})
        review = review_of(tables, compared_direction, commands, past=past)
        return cls(run.run_id, verb, rows, lines, past, review)

    @property
    def passed(self) -> bool:
        """True if all gates passed."""
        return all(passed for _, passed, *_ in self.lines)

    def as_json(self) -> str:
        """Return the run, the verdict and all rows as JSON."""
        tree: Row = {"run_id": self.run_id, "verb": self.verb, "passed": self.passed, "gates": self.rows}
        if self.past:
            tree = {**tree, "past": self.past}
        if self.review:
            tree = {**tree, REVIEW: self.review}
        return json.dumps(tree, indent=2, allow_nan=False) + "\n"

    def as_markdown(self) -> str:
        """Return the verdict and a table with a line per gate as Markdown; names are text."""
        failed = [decision for _, passed, decision, *_ in self.lines if not passed]
        outcome = f"{counted(len(self.lines), 'gate')} passed" if self.lines else "no gates"
        word = "PASSED"
        if failed:
            outcome = gates_in_words(failed, len(self.lines))
            word = "UNDECIDED" if set(failed) == {Decision.UNDECIDED} else "FAILED"
        texts = [f"**{word}**: {outcome}, {self.verb} of run {plain_text(self.run_id)}"]
        if self.lines:
            texts += ["", *HEADER]
        for gate, passed, decision, reason, numbers in sorted(self.lines, key=lambda line: line[1]):
            cells = (
                plain_text(gate),
                "yes" if passed else "**NO**",
                plain_text(decision),
                plain_text(reason),
                *map(plain_text, numbers),
            )
            texts.append(f"| {' | '.join(cells)} |")
        if self.past and not self.review:
            texts += ["", *(f"- {plain_text(text)}" for text in self.past)]
        for part, review in self.review.items():
            texts += ["", f"**{part}**", "", *(f"- {plain_text(line)}" for line in review)]
        return "\n".join(texts) + "\n"


class GateResult(StrEnum):
    """Result of a gate in the list of runs, the worst first."""

    FAILED = "failed"
    ALARM = "alarm"
    UNDECIDED = "undecided"
    PASSED = "passed"


def gate_results(tables: Mapping[str, Iterable[Row]]) -> dict[str, int]:
    """Return the number of gates, or of decisions on experiments, by GateResult; empty without any.

    >>> row = DecisionRow("home", "b", "undecided", "ctr +1 %", True, False)._asdict()
    >>> gate_results({"decisions": [row]})
    {'undecided': 1}
    """
    results = Counter[str]()
    for row in tables.get(Table.GATES, ()):
        is_open = row["decision"] == Decision.UNDECIDED
        fails = GateResult.ALARM if row["mode"] == WATCH else GateResult.FAILED
        results[GateResult.PASSED if row["passed"] else GateResult.UNDECIDED if is_open else fails] += 1
    for row in tables.get(Table.DECISIONS, ()):
        is_open = row["decision"] == Decision.UNDECIDED
        passed = GateResult.UNDECIDED if is_open else GateResult.PASSED
        results[passed if decision_line(row)[1] else GateResult.FAILED] += 1
    return {str(one): results[one] for one in GateResult if results[one]}


def gate_line(row: Row) -> tuple[str, bool, str, str, Sequence[str]]:
    """Return the text, the result, the decision, the reason and NUMBERS of a row of ``gates``."""
    gate = GateRow(**row)
    text = row_in_words(gate)
    if gate.mode == WATCH:
        text = f"watch of {text.partition(' against ')[0]}"
    share = " %" if gate.drop == Drop.RELATIVE else ""
    limit = f"{100 * gate.max_drop if share else gate.max_drop:g}{share}"
    room = interval_text(gate.bound_low, gate.bound_high, bound_decimals(row))
    numbers = (short(gate.difference), room, limit, f"{gate.n_users:,}")
    return text, gate.passed, gate.decision, gate.reason, numbers


def decision_line(row: Row) -> tuple[str, bool, str, str, Sequence[str]]:
    """Return the text, the result, the decision and the reason of a row of ``decisions``; no NUMBERS."""
    decision = DecisionRow(*(row[name] for name in DecisionRow._fields))
    text = f"experiment {decision.experiment!r}, {decision.treatment!r}"
    return text, failure_of([decision]) is None, decision.decision, decision.reason, ["-"] * len(NUMBERS)


def plain_text(text: str) -> str:
    r"""Escape a text for a cell of a Markdown table; nothing in it becomes a link or a notice.

    >>> plain_text("a|b <script>")
    'a\\|b &lt;script&gt;'
    >>> plain_text("map@10 of @team, www.example.com")
    'map@10 of @&#8203;team, www&#8203;.example.com'
    """
    inert = LIVE.sub(NO_WIDTH, escape_control_characters(text))
    return html.escape(SPECIAL.sub(r"\\\1", inert), quote=False).replace(NO_WIDTH, NO_WIDTH_ENTITY)


def check_verdict(file: Path, output: Path | None) -> None:
    """Check that a verdict can be written to a file, and that nothing but an earlier verdict is lost by it.

    ``output`` is the local root of the run's tables.

    Raises ConfigError INVALID_PATH unless the name ends in .json or .md and a file can be there, FILE_EXISTS
    for a file that is not a verdict, SetupError NO_PERMISSION if no file can be written there.
    """
    if file.suffix not in FORMS:
        raise ConfigError(
            "INVALID_PATH", f"--verdict {str(file)!r}: give a file that ends in {' or '.join(FORMS)}"
        )
    target = check_file(file, output)
    if target.exists() and not (is_stream(target) or is_verdict(target)):
        message = f"--verdict {str(file)!r} is there and is not a verdict; name another file, or remove it"
        raise ConfigError("FILE_EXISTS", message)


def is_verdict(file: Path) -> bool:
    """Return True if a file is empty, or a whole verdict in one of its forms and nothing else."""
    with file.open("rb") as stream:
        beginning = stream.read(max(map(len, BEGINNINGS)))
        if beginning and not beginning.startswith(BEGINNINGS):
            return False
        content = beginning + stream.read()
    try:
        text = content.decode()
        if not text.startswith("{"):
            return not text or MARKDOWN.fullmatch(text) is not None
        tree = json.loads(text)
    except (ValueError, RecursionError):
        return False
    is_past = isinstance(tree.pop("past", []), list) and isinstance(tree.pop(REVIEW, {}), dict)
    keys = tree.keys() == KEYS.keys()
    return is_past and keys and all(isinstance(tree[key], kind) for key, kind in KEYS.items())


def remove_verdict(file: Path) -> None:
    """Remove an earlier verdict, so that a run that fails leaves none; a link to it stays."""
    if file.is_file() and not is_stream(file):
        file.resolve().unlink()


def write_verdict(run: Run, verb: str, file: Path, output: Path | None) -> None:
    """Write the verdict on a published run to a file; raise the errors of ``check_verdict``."""
    check_verdict(file, output)
    verdict = Verdict.of(run, verb)
    write_file(file, verdict.as_json() if file.suffix == ".json" else verdict.as_markdown())


def mark_model(run: Run, verb: str, section: MlflowSection) -> None:
    """Set the tags of a model version, and its alias if the run has gates and all of them passed."""
    verdict = Verdict.of(run, verb)
    tags = {"spark_eval.run_id": run.run_id, "spark_eval.verb": verb, "spark_eval.version": VERSION}
    passed = verdict.passed if verdict.lines else None
    mark_version(section.model_version, section.alias, tags, passed=passed)
