"""What the documents say is what the program does."""

import ast
import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from tests.reference import (
    beyond_table,
    commands,
    key_tables,
    option_table,
    page_with_tables,
    rule_table,
)

from spark_eval.cli import metric_tables
from spark_eval.comparison.gates import GateOptions
from spark_eval.comparison.plan import CompareOptions
from spark_eval.comparison.rows import COMPARISONS, GATES, SLICES
from spark_eval.conventions.choice import Choice
from spark_eval.conventions.comparison import Correction, Decision, Drop, Mode, PairTest, Zeros
from spark_eval.errors import SparkEvalError
from spark_eval.evaluation.stages.rows import FUNNEL, STAGE_TABLE
from spark_eval.kernels.stages import Fate, StageOptions
from spark_eval.options import declared
from spark_eval.runs.sections import Config, read_config
from spark_eval.runtime.spark_errors import FIXES, REFUSALS
from spark_eval.schema import Fault, Table

REPOSITORY = Path(__file__).parents[1]
README = (REPOSITORY / "README.md").read_text(encoding="utf-8")
ERRORS = (REPOSITORY / "docs" / "errors.md").read_text(encoding="utf-8")
TABLES = (REPOSITORY / "docs" / "tables.md").read_text(encoding="utf-8")
COMMANDS = (REPOSITORY / "docs" / "commands.md").read_text(encoding="utf-8")
CONFIG = (REPOSITORY / "docs" / "config.md").read_text(encoding="utf-8")
STAGES_PAGE = (REPOSITORY / "docs" / "stages.md").read_text(encoding="utf-8")
COMPARISON = (REPOSITORY / "docs" / "comparison.md").read_text(encoding="utf-8")
CODE = re.compile(r"[A-Z]+(_[A-Z]+)*")
# Calls that take a code first, of our errors and of an input's faults.
RAISING = {
    "ConfigError",
    "DataError",
    "BusyError",
    "GateFailure",
    "EnvironmentFault",
    "SetupError",
    "SparkEvalError",
    "cls",
}
NOTING = {"unknown", "fault", "typed", "number"}
# Verbs that make a run, with the same options.
OF_RUNS = ("split", "predictions", "calibrate", "sample", "linkage")


def test_it_begins_with_the_two_commands() -> None:
    first = re.search(r"^```sh(.*?)^```$", README, re.MULTILINE | re.DOTALL)
    assert first is not None
    assert first[1] == "\nmake demo\nmake test\n"


def test_it_is_read_in_a_minute_and_names_nothing_outside_the_project() -> None:
    assert len(README.splitlines()) <= 140
    assert "../" not in README
    assert not re.search(r"(?<![\w.<>…-])/(?:home|root|tmp|work|mnt|Users)\b", README)


def test_its_pictures_are_small_and_have_words() -> None:
    pictures = re.findall(r"!\[([^\]]*)\]\((\S+)\)", README)
    assert pictures
    for words, path in pictures:
        assert len(words) > 20
        assert (REPOSITORY / path).read_bytes().startswith(b"\x89PNG")
        assert (REPOSITORY / path).stat().st_size < 200_000


def test_the_document_of_conventions_is_the_code() -> None:
    assert (REPOSITORY / "docs" / "conventions.md").read_text(encoding="utf-8") == metric_tables.document()


def test_the_metrics_beyond_accuracy_are_the_code() -> None:
    assert beyond_table() in (REPOSITORY / "docs" / "beyond_accuracy.md").read_text(encoding="utf-8")


def test_the_options_of_splits_are_the_code() -> None:
    assert rule_table() in (REPOSITORY / "docs" / "splits.md").read_text(encoding="utf-8")


def test_the_metrics_of_predictions_are_the_code() -> None:
    table = metric_tables.markdown(*metric_tables.prediction_table())
    assert table in (REPOSITORY / "docs" / "predictions.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("header", "choices"),
    [
        (("test", "what is tested"), PairTest),
        (("correction", "what it holds down"), Correction),
        (("zeros of `wilcoxon`", "users without a difference"), Zeros),
        (("decision", "what was found"), Decision),
        (("mode", "a model passes"), Mode),
        (("drop", "`max_drop` is in"), Drop),
    ],
    ids=["tests", "corrections", "zeros", "decisions", "modes", "drops"],
)
def test_the_choices_of_comparisons_are_the_code(header: Sequence[str], choices: type[Choice]) -> None:
    assert metric_tables.markdown(header, [[one, one.meaning] for one in choices]) in COMPARISON


@pytest.mark.parametrize(
    ("first", "options"), [("option of `compare`", CompareOptions), ("key of a gate", GateOptions)]
)
def test_the_options_of_comparisons_are_the_code(first: str, options: type[CompareOptions]) -> None:
    rows = [
        [name, f"`{json.dumps(option.default)}`", option.meaning]
        for name, (_, option) in declared(options).items()
    ]
    assert metric_tables.markdown((first, "default", "meaning"), rows) in COMPARISON


def test_the_keys_and_fates_of_stages_are_the_code() -> None:
    keys = [
        [name, f"`{json.dumps(option.default)}`", option.meaning]
        for name, (_, option) in declared(StageOptions).items()
    ]
    assert metric_tables.markdown(("key of a stage", "default", "meaning"), keys) in STAGES_PAGE
    fates = [[fate, fate.meaning] for fate in Fate]
    assert metric_tables.markdown(("fate", "of a relevant item"), fates) in STAGES_PAGE


@pytest.mark.parametrize(
    ("page", "table", "columns"),
    [
        (COMPARISON, "comparisons", COMPARISONS),
        (COMPARISON, "slices", SLICES),
        (COMPARISON, "gates", GATES),
        (STAGES_PAGE, "stages", STAGE_TABLE),
        (STAGES_PAGE, "funnel", FUNNEL),
    ],
    ids=["comparisons", "slices", "gates", "stages", "funnel"],
)
def test_the_columns_of_tables_are_the_code(page: str, table: str, columns: str) -> None:
    found = re.search(rf"^\| column of `{table}` \|.*?\n\n", page, re.MULTILINE | re.DOTALL)
    assert found is not None
    rows = re.findall(r"^\| (`[^|]*`) \| ([\w<>]+) \|", found[0], re.MULTILINE)
    named = [f"{name} {kind}" for names, kind in rows for name in re.findall(r"`(\w+)`", names)]
    assert named == columns.split(", ")


def test_the_generated_tables_of_pages_are_the_code() -> None:
    for page in (REPOSITORY / "docs").glob("*.md"):
        text = page.read_text(encoding="utf-8")
        assert page_with_tables(text) == text, page.name


def test_the_errors_of_comparisons_are_raised() -> None:
    raised = set[str]()
    for file in (REPOSITORY / "src" / "spark_eval").rglob("*.py"):
        raised |= set(codes_in(ast.parse(file.read_text(encoding="utf-8"))))
    named = set(re.findall(r"`([A-Z]+(?:_[A-Z]+)+)`", COMPARISON))
    assert len(named) > 20
    assert named - raised == set()


def test_pages_name_every_verb_and_table() -> None:
    for page, names in ((COMMANDS, commands()), (TABLES, Table)):
        for name in names:
            assert re.search(rf"^\| `{name}`", page, re.MULTILINE), name


def test_the_keys_of_the_config_are_the_code() -> None:
    assert [table for table in key_tables() if table not in CONFIG] == []


@pytest.mark.parametrize("verb", [name for name in commands() if name not in OF_RUNS])
def test_the_options_of_commands_are_the_code(verb: str) -> None:
    assert option_table(commands()[verb], f"option of `{verb}`") in COMMANDS


def test_verbs_of_runs_have_the_same_options_as_the_code() -> None:
    title = f"option of {', '.join(f'`{verb}`' for verb in OF_RUNS[:-1])} and `{OF_RUNS[-1]}`"
    assert {option_table(commands()[verb], title) in COMMANDS for verb in OF_RUNS} == {True}


def test_the_example_config_is_valid_and_shows_every_section() -> None:
    path = REPOSITORY / "conf" / "example.yaml"
    config = read_config(path)
    text = path.read_text(encoding="utf-8")
    shown = set(re.findall(r"^(?:# )?([a-z]+):", text, re.MULTILINE))
    assert shown == set(Config.model_fields)
    # Segments need the table train or users, which the example leaves out.
    assert config.evaluate.model_fields_set == set(type(config.evaluate).model_fields) - {
        "segments",
        "item_segments",
    }
    assert set(config.split.model_extra or {}) == set(vars(config.split.rule()))


def codes_in(tree: ast.AST) -> Iterator[str]:
    """The codes that a module raises or notes."""
    for node in ast.walk(tree):
        found: list[ast.AST] = []
        if isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            found = [*node.args] if name in RAISING | NOTING else []
            found += [one.value for one in node.keywords if one.arg == "code"]  # of a column of a spec
        elif isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "code":
            found = [*ast.walk(node.value)]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from re.findall(r"error\[([A-Z_]+)\]", node.value)
        for constant in found:
            if isinstance(constant, ast.Constant) and CODE.fullmatch(str(constant.value)):
                yield str(constant.value)


def test_every_named_error_is_in_the_tables_of_errors() -> None:
    raised = set(FIXES) | {code for _, code in REFUSALS.values()} | set(Fault)
    for file in (REPOSITORY / "src" / "spark_eval").rglob("*.py"):
        raised |= set(codes_in(ast.parse(file.read_text(encoding="utf-8"))))
    raised -= {"NAMED_CODE"}
    assert len(raised) > 60
    named = set(re.findall(r"`([A-Z]+(?:_[A-Z]+)*)`", ERRORS)) - {
        "PATH",
        "PYSPARK_PYTHON",
        "PYSPARK_DRIVER_PYTHON",
    }
    assert named - {"SPARK_HOME"} == raised


def test_the_exit_codes_are_the_code() -> None:
    told = {int(code) for code in re.findall(r"^\| (\d) \|", ERRORS, re.MULTILINE)}
    known: set[type[SparkEvalError]] = {SparkEvalError, *SparkEvalError.__subclasses__()}
    assert told == {0} | {error.exit_code for error in known}


def test_a_scheduler_retries_only_what_a_retry_may_mend() -> None:
    """A code comes to this list with a reason why the same command may end otherwise the next time."""
    passing = {"JVM_DIED", "WORKER_CRASHED", "SPARK_FAILED", "OUT_OF_MEMORY", "DISK_FULL", "FILE_SYSTEM"}
    passing |= {"STORE_DOWN", "STORE_FULL"}
    of_this_start = {"NO_WORKING_FOLDER", "INTERRUPTED"}
    ours = {"STAGED_OTHERWISE", "LEDGER_OPEN", "UNEXPECTED"}
    retried = ERRORS.partition("\nExit 1,")[2]
    named = {code for line in retried.splitlines() for code in re.findall(r"^\| `([A-Z_]+)`", line)}
    assert named == passing | of_this_start | ours
