"""The config file: one strict YAML document for all verbs, checked before Spark starts.

Config is untrusted data: no tags, no aliases, no repeated or unknown keys, no SQL text.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, get_args

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    field_serializer,
    model_serializer,
    model_validator,
)

from spark_eval.config.input_policy import TABLE, check_reading, check_secrets, place
from spark_eval.config.strict_yaml import MAX_CHARACTERS, load_yaml, overlay
from spark_eval.engine.segments import check_segments
from spark_eval.errors import ConfigError, nearest
from spark_eval.metrics.aliases import several
from spark_eval.metrics.options import DEFAULT_K, DEFAULT_METRICS, Plan, make_plan
from spark_eval.metrics.values import canonical
from spark_eval.pointwise import options
from spark_eval.pointwise.task import DEFAULT_BINS, DEFAULT_CURVE_POINTS
from spark_eval.pointwise.task import Plan as PointwisePlan
from spark_eval.schema import SUBSETS
from spark_eval.splits.fold_rule import FoldRule
from spark_eval.splits.methods import GLOBAL_LOCAL_RANKER, known_method, rule_of

Scalar = bool | int | float | str
Item = TypeVar("Item")
# A list of the config, for which a single value may stand.
Several = Annotated[list[Item], BeforeValidator(lambda given: None if given is None else several(given))]
Place = Annotated[str, Field(min_length=1), AfterValidator(place)]


class Section(BaseModel):
    """A mapping of known keys; an unknown one is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


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
    def value_fits(self) -> "Filter":
        """``in`` and ``between`` take lists, the null tests nothing, all others a single value."""
        is_list = isinstance(self.value, list)
        fits = {
            "in": is_list,
            "between": isinstance(self.value, list) and len(self.value) == 2,
            "is_null": self.value is None,
            "is_not_null": self.value is None,
        }
        if not fits.get(self.op, not is_list and self.value is not None):
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

    @model_validator(mode="after")
    def one_place(self) -> "Source":
        """A source is a path, a table, or a subset of this run's split; and its subset is a known one."""
        if (self.path is None) == (self.table is None) and (self.path or self.subset is None):
            raise ValueError("give either a path or a table, or else a subset of this run's split")
        if self.subset is not None and self.subset not in SUBSETS:
            raise ValueError(f"unknown subset {self.subset!r}; {nearest(self.subset, SUBSETS)}")
        if self.table is not None and not TABLE.fullmatch(self.table):
            raise ValueError(f"table {self.table!r} is no name, such as table, db.table or catalog.db.table")
        return self

    @model_validator(mode="after")
    def only_reads(self) -> "Source":
        """Nothing is run or asked for on the way."""
        check_reading(self.path, self.format, self.options)
        if {"path", "paths"} & {name.lower() for name in self.options}:
            raise ValueError("options: the path stands beside the options, not among them")
        return self


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
        """The checked rule; raises ConfigError with the nearest allowed option."""
        return rule_of(self.method, self.model_extra or {})

    @model_serializer
    def whole(self) -> dict[str, Any]:
        """The rule with its defaults, cuts in words: what a commit record keeps."""
        options = vars(self.rule()).items()
        return {"method": self.method} | {
            name: value if isinstance(value, int | float | tuple | None) else str(value)
            for name, value in options
        }


class EvaluateSection(Section):
    """Metrics, cutoffs, conventions and population rules."""

    k: Several[int | str] = list(DEFAULT_K)
    metrics: Several[str] = list(DEFAULT_METRICS)
    conventions: str | dict[str, str | float | None] = "default"
    relevance: Relevance = Relevance()
    no_recommendations: str | None = None
    no_truth: str | None = None
    checks: str = "hits"
    segments: Several[str] = []

    def checked(self) -> Plan:
        """The checked plan; raises ConfigError with the nearest allowed choice."""
        options = {name: value for name, value in self if name != "relevance"}
        return make_plan(**options, threshold=self.relevance.threshold)

    @field_serializer("metrics")
    def named(self, metrics: list[str]) -> list[str]:
        """The names that are published: the same work has the same id, whatever metrics are called."""
        return [canonical(metric) for metric in metrics]


class Costs(Section):
    """What one error of each kind costs."""

    false_positive: float = 1.0
    false_negative: float = 1.0


class Choose(Section):
    """What thresholds are chosen for."""

    flags: Several[float] = []
    recall: Several[float] = []
    cost: Several[Costs] = []


class PredictionsSection(Source):
    """Rows of a label and a score, and what to measure of them."""

    model: str | None = None
    task: str
    scores: str | None = None
    positive: Scalar = 1
    negative: Scalar = 0
    classes: list[Scalar] = []
    probabilities: list[str] = []
    metrics: Several[str] | None = None
    thresholds: Several[float] | None = None
    choose: Choose = Choose()
    segments: Several[str] = []
    sampling_rate: float | None = None
    bins: int = DEFAULT_BINS
    curves: bool = False
    curve_points: int = DEFAULT_CURVE_POINTS
    conventions: str = "default"

    def checked(self) -> PointwisePlan:
        """The checked plan; raises ConfigError with the nearest allowed choice."""
        chosen = self.model_dump(exclude={*Source.model_fields, "model", "metrics"})
        return options.make_plan(**chosen, metrics=self.metrics)

    @field_serializer("metrics")
    def named(self, metrics: list[str] | None) -> list[str] | None:
        """The names that are published."""
        return metrics and [options.pointwise_named(metric).name for metric in metrics]


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
    predictions: PredictionsSection | None = None

    @model_validator(mode="after")
    def choices_fit(self) -> "Config":
        """Rules and plans check themselves, whichever verb the config is read for."""
        self.split.rule()
        if self.predictions is not None:
            self.predictions.checked()
        plan = self.evaluate.checked()
        check_segments(plan.segments, plan.columns, self.train is not None, self.users is not None)
        return self


def read_config(path: Path, settings: Sequence[str] = ()) -> Config:
    """The checked config of a YAML file, with ``dotted.key=value`` settings laid over it.

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
    """The checked config; all that is wrong with it in one ConfigError, a secret before all else."""
    check_secrets(tree)
    try:
        return Config.model_validate(tree)
    except ValidationError as error:
        found = error.errors(include_url=False)
        unknown = [fault for fault in found if fault["type"] == "extra_forbidden"]
        code = "UNKNOWN_CONFIG_KEY" if unknown else "INVALID_CONFIG"
        faults = [describe(fault["loc"], fault["type"], fault["msg"]) for fault in [*unknown, *found]]
        raise ConfigError(code, "; ".join(dict.fromkeys(faults))) from None


def describe(place: tuple[int | str, ...], kind: str, message: str) -> str:
    """One fault of the config in words."""
    where = ".".join(str(part) for part in place) or "the config"
    if kind != "extra_forbidden":
        return f"{where}: {message.removeprefix('Value error, ')}"
    *path, key = place
    return f"unknown key {where!r}; {nearest(str(key), known_keys(path))}"


def known_keys(path: Sequence[int | str]) -> list[str]:
    """The keys that a section of the config may have."""
    section: Any = Config
    for part in path:
        if isinstance(part, str) and part in section.model_fields:
            kind = section.model_fields[part].annotation
            kinds = [inner for outer in (kind, *get_args(kind)) for inner in (outer, *get_args(outer))]
            section = next((k for k in kinds if isinstance(k, type) and issubclass(k, Section)), section)
    return list(section.model_fields)
