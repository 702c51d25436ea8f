"""The config file: one strict YAML document for all verbs, checked before Spark starts.

Config is untrusted data: no tags, no aliases, no repeated or unknown keys, no SQL text.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    ConfigDict,
    Field,
    PrivateAttr,
    ValidationError,
    field_serializer,
    model_serializer,
    model_validator,
)

from spark_eval.config.comparing import CompareSection, GateSection
from spark_eval.config.input_policy import TABLE, check_reading, check_secrets, place
from spark_eval.config.keys import EXTRA_KEY, Section, Several, describe, keyed
from spark_eval.config.strict_yaml import MAX_CHARACTERS, load_yaml, overlay
from spark_eval.engine.segments import check_segments
from spark_eval.errors import ConfigError, nearest
from spark_eval.metrics.options import EvaluateOptions, Plan, make_plan
from spark_eval.metrics.stages import StageOptions, check_stage_models
from spark_eval.metrics.values import canonical
from spark_eval.options import declared
from spark_eval.pointwise.options import PredictionOptions, canonical_names
from spark_eval.pointwise.options import make_prediction_plan as make_prediction_plan
from spark_eval.pointwise.task import PredictionPlan
from spark_eval.schema import SUBSETS
from spark_eval.splits.fold_rule import FoldRule
from spark_eval.splits.methods import GLOBAL_LOCAL_RANKER, known_method, rule_of

Scalar = bool | int | float | str
Place = Annotated[str, Field(min_length=1), AfterValidator(place)]


class Output(Section):
    """Where everything is written; by ``manifest``, tables are published without a rename."""

    path: Place
    manifest: bool = False


class SparkSection(Section):
    """The session in local mode; under spark-submit the submitted session is used as it is."""

    master: str = "local[*]"
    conf: dict[str, Scalar] = {}


class Filter(Section):
    """One typed condition on a column of a source."""

    column: str
    op: Literal["==", "!=", "<", "<=", ">", ">=", "in", "between", "is_null", "is_not_null"]
    value: Scalar | list[Scalar] | None = None

    @model_validator(mode="after")
    def check_value(self) -> Self:
        """Refuse what does not fit: ``in`` and ``between`` take lists, null tests nothing, others a value."""
        values = self.value if isinstance(self.value, list) else None
        match self.op:
            case "in":
                fits = values is not None
            case "between":
                fits = values is not None and len(values) == 2
            case "is_null" | "is_not_null":
                fits = self.value is None
            case _:
                fits = values is None and self.value is not None
        if not fits:
            raise ValueError(f"value {self.value!r} does not fit op {self.op!r}")
        return self


class Source(Section):
    """One input table: a path or a catalog table, its columns (ours: theirs), filters and subset.

    With ``subset`` alone it is that part of this run's own split; with ``fold`` of this fold only.
    """

    path: Place | None = None
    table: str | None = None
    format: str = "parquet"
    options: dict[str, Scalar] = {}
    columns: dict[str, str] = {}
    timestamp_unit: Literal["s", "ms", "us"] | None = None
    where: list[Filter] = []
    subset: str | None = None
    fold: int | None = Field(default=None, ge=0)
    max_quarantined: float = Field(default=1.0, ge=0, le=1)
    _is_of_run: bool = PrivateAttr(default=False)

    @model_validator(mode="after")
    def check_place(self) -> Self:
        """Refuse what is not one path, or one table, or a known subset of this run's split."""
        if (self.path is None) == (self.table is None) and (self.path or self.subset is None):
            raise ValueError("give either a path or a table, or else a subset of this run's split")
        if self.subset is not None and self.subset not in SUBSETS:
            raise ValueError(f"unknown subset {self.subset!r}; {nearest(self.subset, SUBSETS)}")
        if self.table is not None and not TABLE.fullmatch(self.table):
            raise ValueError(f"table {self.table!r} is no name, such as table, db.table or catalog.db.table")
        check_reading(self.path, self.format, self.options)
        if {"path", "paths"} & {name.lower() for name in self.options}:
            raise ValueError("options: the path stands beside the options, not among them")
        return self

    @property
    def is_of_run(self) -> bool:
        """Whether it is a part of this run's own split."""
        return self._is_of_run

    @property
    def place(self) -> str:
        """Where its files are."""
        return self.path or ""

    def at(self, splits: str) -> Self:
        """Return the source with its path: a subset alone is of this run's split, which is there."""
        if self.path is not None or self.table is not None:
            return self
        placed = self.model_copy(update={"path": splits})
        placed._is_of_run = True
        return placed


class Recommendations(Source):
    """A row per user and item, or a row per user with an array; the model's name by column or here."""

    model: str | None = None
    layout: Literal["long", "array"] = "long"


class Relevance(Section):
    """Items of the truth at or above the threshold are relevant; without one, those above 0."""

    threshold: float | None = None


class SplitSection(Section):
    """The rule's name; every other key is an option of the rule, which checks it."""

    model_config = ConfigDict(extra="allow")

    method: Annotated[str, AfterValidator(known_method)] = GLOBAL_LOCAL_RANKER

    def rule(self) -> FoldRule:
        """Return the checked rule; raise ConfigError with the nearest allowed option."""
        return rule_of(self.method, self.model_extra or {})

    @model_serializer
    def whole(self) -> dict[str, Any]:
        """Return the rule with its defaults, cuts in words: what a commit record keeps."""
        options = {
            name: value if isinstance(value, int | float | tuple | None) else str(value)
            for name, value in vars(self.rule()).items()
        }
        return {"method": self.method, **options}


@keyed(EvaluateOptions, but=("threshold", "stages"))
class EvaluateSection(Section):
    """Metrics, cutoffs, conventions and population rules."""

    conventions: str | dict[str, str | float | None] = "default"
    relevance: Relevance = Relevance()

    def checked(self, stages: "Sequence[StageSection]" = ()) -> Plan:
        """Return the checked plan; raise ConfigError with the nearest allowed choice."""
        options: Any = {name: value for name, value in self if name != "relevance"}
        options["stages"] = [stage.model_dump(exclude_unset=True) for stage in stages]
        return make_plan(**options, threshold=self.relevance.threshold)

    @field_serializer("metrics", check_fields=False)
    def named(self, metrics: list[str]) -> list[str]:
        """Return the names that are published: whatever metrics are called, the same work has the same id."""
        return [canonical(metric) for metric in metrics]


@keyed(StageOptions)
class StageSection(Section):
    """A stage of the pipeline whose models are evaluated, candidates first."""


class Costs(Section):
    """What one error of each kind costs."""

    false_positive: float = 1.0
    false_negative: float = 1.0


class ThresholdRules(Section):
    """What thresholds are chosen for."""

    flags: Several[float] = []
    recall: Several[float] = []
    cost: Several[Costs] = []


@keyed(PredictionOptions)
class PredictionsSection(Source):
    """Rows of a label and a score, and what to measure of them."""

    model: str | None = None
    task: str
    choose: ThresholdRules = ThresholdRules()

    def checked(self) -> PredictionPlan:
        """Return the checked plan; raise ConfigError with the nearest allowed choice."""
        options: Any = {name: getattr(self, name) for name in declared(PredictionOptions)}
        return make_prediction_plan(self.task, **options | {"choose": self.choose.model_dump()})

    @field_serializer("metrics", check_fields=False)
    def named(self, metrics: list[str] | None) -> list[str] | None:
        """Return the names that are published."""
        return metrics and canonical_names(metrics)


class Config(Section):
    """The whole file. Each verb asks for the sections it needs."""

    output: Output
    spark: SparkSection = SparkSection()
    interactions: Source | None = None
    split: SplitSection = SplitSection()
    recommendations: Recommendations | None = None
    truth: Source | None = None
    train: Source | None = None
    items: Source | None = None
    users: Source | None = None
    evaluate: EvaluateSection = EvaluateSection()
    stages: list[StageSection] = []
    predictions: PredictionsSection | None = None
    compare: CompareSection = CompareSection()
    gates: list[GateSection] = []
    report: bool = False

    @model_validator(mode="after")
    def check_choices(self) -> Self:
        """Let rules and plans check themselves, whichever verb the config is read for."""
        self.split.rule()
        if self.predictions is not None:
            self.predictions.checked()
        self.compare.checked(self.gates)
        plan = self.plan
        if self.recommendations is not None and (model := self.recommendations.model) is not None:
            check_stage_models(plan.stages, [model])
        check_segments(plan.segments, plan.columns, self.train is not None, self.users is not None)
        plan.check_tables(has_train=self.train is not None, has_items=self.items is not None)
        return self

    @property
    def plan(self) -> Plan:
        """What is measured of recommendations, and by which rules."""
        return self.evaluate.checked(self.stages)


def read_config(path: Path, settings: Sequence[str] = ()) -> Config:
    """Return the checked config of a YAML file, with ``dotted.key=value`` settings laid over it.

    Raises ConfigError: NO_CONFIG, INVALID_YAML, INVALID_SETTING, or what ``parse_config`` finds.
    """
    try:
        with path.open(encoding="utf-8") as file:
            text = file.read(MAX_CHARACTERS + 1)
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError("NO_CONFIG", f"cannot read {str(path)!r}: {error}") from error
    tree = load_yaml(text, str(path))
    for setting in settings:
        name, equals, value = setting.partition("=")
        if not (equals and name):
            raise ConfigError("INVALID_SETTING", f"--set {name!r} is not dotted.key=value")
        overlay(tree, name.split("."), load_yaml(value, f"--set {name}"))
    return parse_config(tree)


def parse_config(tree: Any) -> Config:
    """Return the checked config; raise all that is wrong with it as one ConfigError, a secret first."""
    check_secrets(tree)
    try:
        return Config.model_validate(tree)
    except ValidationError as error:
        faults = sorted(error.errors(include_url=False), key=lambda fault: fault["type"] != EXTRA_KEY)
        code = "UNKNOWN_CONFIG_KEY" if faults[0]["type"] == EXTRA_KEY else "INVALID_CONFIG"
        messages = [describe(Config, fault["loc"], fault["type"], fault["msg"]) for fault in faults]
        raise ConfigError(code, "; ".join(dict.fromkeys(messages))) from None
