"""What the documents say is what the program does."""

import ast
import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from spark_eval.cli import metric_tables
from spark_eval.cli.commands import program
from spark_eval.comparing.decisions import Decision
from spark_eval.comparing.gates import Drop, GateOptions, Mode
from spark_eval.comparing.options import CompareOptions, Correction, PairTest, Zeros
from spark_eval.comparing.rows import COMPARISONS, GATES
from spark_eval.config.sections import Config, read_config
from spark_eval.conventions.choice import Choice
from spark_eval.metrics.stages import StageOptions
from spark_eval.options import declared
from spark_eval.pipeline.quantities import Fate
from spark_eval.pipeline.rows import FUNNEL, STAGE_TABLE
from spark_eval.runtime.spark_errors import MENDS, REFUSALS
from spark_eval.schema import Fault, Table

REPOSITORY = Path(__file__).parents[1]
README = (REPOSITORY / "README.md").read_text(encoding="utf-8")
OPERATIONS = (REPOSITORY / "docs" / "operations.md").read_text(encoding="utf-8")
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
    "SparkEvalError",
    "cls",
}
NOTING = {"unknown", "fault", "typed", "number"}


def test_it_begins_with_the_two_commands() -> None:
    first = re.search(r"^```sh(.*?)^```$", README, re.MULTILINE | re.DOTALL)
    assert first is not None
    assert first[1] == "\nmake demo\nmake test\n"


@pytest.mark.parametrize(
    ("header", "rows"),
    [
        (metric_tables.METRIC_HEADER, metric_tables.ranking_rows()),
        (metric_tables.POINTWISE_METRICS, metric_tables.pointwise_rows()),
        (metric_tables.CONVENTION_TABLE, metric_tables.convention_rows()),
        (metric_tables.PRESET_TABLE, metric_tables.short_preset_rows()),
    ],
    ids=["metrics", "predictions", "conventions", "presets"],
)
def test_its_tables_of_numbers_are_the_code(header: Sequence[str], rows: metric_tables.TextRows) -> None:
    assert metric_tables.markdown(header, rows) in README


def test_the_document_of_conventions_is_the_code() -> None:
    assert (REPOSITORY / "docs" / "conventions.md").read_text(encoding="utf-8") == metric_tables.document()


def test_the_metrics_beyond_accuracy_are_the_code() -> None:
    table = metric_tables.markdown(metric_tables.BEYOND_TABLE, metric_tables.beyond_rows())
    assert table in (REPOSITORY / "docs" / "beyond_accuracy.md").read_text(encoding="utf-8")


def test_the_metrics_of_predictions_are_the_code() -> None:
    table = metric_tables.markdown(metric_tables.POINTWISE_METRICS, metric_tables.pointwise_rows())
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
        (COMPARISON, "gates", GATES),
        (STAGES_PAGE, "stages", STAGE_TABLE),
        (STAGES_PAGE, "funnel", FUNNEL),
    ],
    ids=["comparisons", "gates", "stages", "funnel"],
)
def test_the_columns_of_tables_are_the_code(page: str, table: str, columns: str) -> None:
    found = re.search(rf"^\| column of `{table}` \|.*?\n\n", page, re.MULTILINE | re.DOTALL)
    assert found is not None
    rows = re.findall(r"^\| (`[^|]*`) \| (\w+) \|", found[0], re.MULTILINE)
    named = [f"{name} {kind}" for names, kind in rows for name in re.findall(r"`(\w+)`", names)]
    assert named == columns.split(", ")


def test_the_errors_of_comparisons_are_raised() -> None:
    raised = set[str]()
    for file in (REPOSITORY / "src" / "spark_eval").rglob("*.py"):
        raised |= set(codes_in(ast.parse(file.read_text(encoding="utf-8"))))
    named = set(re.findall(r"`([A-Z]+(?:_[A-Z]+)+)`", COMPARISON))
    assert len(named) > 20
    assert named - raised == set()


def test_its_tables_name_every_verb_and_table() -> None:
    for name in (*program.commands, *Table):
        assert re.search(rf"^\| `{name}`", README, re.MULTILINE), name


def test_the_example_config_is_valid_and_shows_every_section() -> None:
    path = REPOSITORY / "conf" / "example.yaml"
    config = read_config(path)
    text = path.read_text(encoding="utf-8")
    shown = set(re.findall(r"^(?:# )?([a-z]+):", text, re.MULTILINE))
    assert shown == set(Config.model_fields)
    # Segments need the table train or users, which the example leaves out.
    assert config.evaluate.model_fields_set == set(type(config.evaluate).model_fields) - {"segments"}
    assert set(config.split.model_extra or {}) == set(vars(config.split.rule()))


def codes_in(tree: ast.AST) -> Iterator[str]:
    """The codes that a module raises or notes."""
    for node in ast.walk(tree):
        found: list[ast.AST] = []
        if isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            found = [*node.args] if name in RAISING | NOTING else []
        elif isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "code":
            found = [*ast.walk(node.value)]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from re.findall(r"error\[([A-Z_]+)\]", node.value)
        for constant in found:
            if isinstance(constant, ast.Constant) and CODE.fullmatch(str(constant.value)):
                yield str(constant.value)


def test_every_named_error_is_in_the_tables_of_operations() -> None:
    raised = set(MENDS) | set(REFUSALS.values()) | set(Fault)
    for file in (REPOSITORY / "src" / "spark_eval").rglob("*.py"):
        raised |= set(codes_in(ast.parse(file.read_text(encoding="utf-8"))))
    raised -= {"NAMED_CODE"}
    assert len(raised) > 60
    named = set(re.findall(r"`([A-Z]+(?:_[A-Z]+)*)`", OPERATIONS)) - {
        "PATH",
        "PYSPARK_PYTHON",
        "PYSPARK_DRIVER_PYTHON",
    }
    assert named - {"SPARK_HOME"} == raised


def test_operations_repeats_the_exit_codes_of_readme() -> None:
    table = re.compile(r"^\| (?:exit )?code \|.*?\n\n", re.MULTILINE | re.DOTALL)
    ours, theirs = (table.search(text) for text in (README, OPERATIONS))
    assert ours is not None
    assert theirs is not None
    assert ours[0].splitlines()[1:] == theirs[0].splitlines()[1:]
