"""Config file: one strict YAML document for all verbs, validated before Spark starts.

A config is untrusted data: no tags, no aliases, no duplicate or unknown keys, no SQL text.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    field_validator,
    model_serializer,
    model_validator,
)

from spark_eval.comparison.gates import GateOptions, with_baseline
from spark_eval.comparison.plan import CompareOptions, ComparePlan, make_compare_plan
from spark_eval.config.calibrate import CalibrateSection
from spark_eval.config.experiments import ExperimentSection, MetricSection
from spark_eval.config.input_policy import check_secrets
from spark_eval.config.inputs import InputPath, Output, Recommendations, RunId, Scalar, Source
from spark_eval.config.keys import EXTRA_KEY, Section, Several, describe, given_to, keyed, setting_keys
from spark_eval.config.strict_yaml import MAX_CHARACTERS, load_yaml, overlay
from spark_eval.errors import ConfigError
from spark_eval.evaluation.plan import EvaluateOptions, Plan, make_plan
from spark_eval.evaluation.segments import check_given
from spark_eval.experiments.parse import make_experiment_plan
from spark_eval.experiments.plan import (
    ExperimentOptions,
    ExperimentPlan,
    InterleavingOptions,
    InterleavingPlan,
    make_interleaving_plan,
)
from spark_eval.kernels.stages import StageOptions
from spark_eval.kernels.values import parse_metric
from spark_eval.linkage.plan import (
    LinkageOptions,
    LinkagePlan,
    SampleOptions,
    SamplePlan,
    make_linkage_plan,
    make_sample_plan,
)
from spark_eval.monitoring.plan import (
    HistoryOptions,
    HistoryPlan,
    WatchOptions,
    WatchPlan,
    WindowOptions,
    WindowPlan,
    make_history_plan,
    make_watch_plan,
    make_window_plan,
)
from spark_eval.options import check_keys
from spark_eval.predictions import PREDICTION_METRICS
from spark_eval.predictions.plan import MOST_QUARANTINED, PredictionOptions, make_prediction_plan
from spark_eval.predictions.task import PredictionPlan
from spark_eval.results.mlflow_runs import parse_model_version
from spark_eval.splits.rules.fold_rule import FoldRule
from spark_eval.splits.rules.methods import GLOBAL_LOCAL_RANKER, known_method, rule_of


class SparkSection(Section):
    """Spark session in local mode; under spark-submit the submitted session is used unchanged."""

    master: str = Field(default="local[*]", description="Spark master of the session in local mode")
    conf: dict[str, Scalar] = Field(default={}, description="settings of the session")


class Relevance(Section):
    """Threshold of relevance: items at or above it are relevant; without one, items above 0."""

    threshold: float | None = Field(default=None, description="null: above 0")


class SplitSection(Section):
    """Split rule: ``method`` is its name; all other keys are options, which the rule validates."""

    model_config = ConfigDict(extra="allow")

    method: Annotated[str, AfterValidator(known_method)] = Field(
        default=GLOBAL_LOCAL_RANKER, description="the rule, whose options are the other keys"
    )

    def rule(self) -> FoldRule:
        """Return the validated rule; raise ConfigError with the nearest allowed option."""
        return rule_of(self.method, self.model_extra or {})

    @model_serializer
    def whole(self) -> dict[str, Any]:
        """Return the rule with all its options, cuts as text, for the commit record."""
        options = {
            name: value if isinstance(value, int | float | tuple | None) else str(value)
            for name, value in vars(self.rule()).items()
        }
        return {"method": self.method, **options}


@keyed(EvaluateOptions, but=("threshold", "stages"))
class EvaluateSection(Section):
    """Metrics, cutoffs, conventions and population rules."""

    conventions: str | dict[str, str | float | None] = Field(
        default="default", description="a preset, or a mapping of single choices: {preset: spark, gain: exp2}"
    )
    relevance: Relevance = Field(
        default=Relevance(), description="threshold: relevance at or above it is relevant; null: above 0"
    )

    def checked(self, stages: "Sequence[StageSection]" = ()) -> Plan:
        """Return the validated plan; raise ConfigError with the nearest allowed choice."""
        options: Any = {name: value for name, value in self if name != "relevance"}
        options["stages"] = [stage.model_dump(exclude_unset=True) for stage in stages]
        return make_plan(**options, threshold=self.relevance.threshold)


@keyed(StageOptions)
class StageSection(Section):
    """A pipeline stage and its evaluated models; the first stage has the candidates."""


class Costs(Section):
    """Costs of errors of each kind."""

    false_positive: float = Field(default=1.0, description="cost of a wrong flag")
    false_negative: float = Field(default=1.0, description="cost of a positive that is not flagged")


class ThresholdRules(Section):
    """Rules for choosing thresholds."""

    flags: Several[float] = Field(default=[], description="budgets: shares of rows that may be flagged")
    recall: Several[float] = Field(default=[], description="recalls that must be reached")
    cost: Several[Costs] = Field(default=[], description="costs of errors: false_positive, false_negative")


@keyed(PredictionOptions)
class PredictionsSection(Source):
    """Predictions (rows of a label and a score), and the metrics to compute."""

    max_quarantined: float = Field(
        default=MOST_QUARANTINED,
        ge=0,
        le=1,
        description="a larger share of a model's rows that cannot be used is a failure",
    )
    model: str | None = Field(default=None, description="name of the only model, if no column has it")
    task: str = Field(description="binary, multiclass or regression")
    choose: ThresholdRules = Field(
        default=ThresholdRules(), description="thresholds to choose: by flags, recall or cost"
    )

    @property
    def own_columns(self) -> list[str]:
        """Columns of the probabilities of classes."""
        return list(self.checked().probabilities)

    def checked(self) -> PredictionPlan:
        """Return the validated plan; raise ConfigError with the nearest allowed choice."""
        options = given_to(self, PredictionOptions)
        return make_prediction_plan(self.task, **options | {"choose": self.choose.model_dump()})


class Baseline(Section):
    """Run and model of the baseline; by default the candidate's run, and the model of the same name."""

    run: RunId | None = Field(default=None, description="a published run; null: the candidate's own")
    model: str | None = Field(default=None, description="one of its models; null: that of the same name")


@keyed(GateOptions)
class GateSection(Section):
    """A model may not fall behind its baseline in a metric by more than ``max_drop``.

    With ``experiment``, a treatment may not fall behind the control.
    """

    experiment: str | None = Field(
        default=None,
        description="experiment of online, by metric, max_drop, drop, mode and confidence; null: models",
    )
    metric: str = Field(description="a metric that both runs have, or of online")
    max_drop: float | None = Field(
        default=None, description="how far the model may fall behind; of models required"
    )
    against: Baseline = Field(default=Baseline(), description="run and model; null: the baseline of compare")


@keyed(CompareOptions)
class CompareSection(Section):
    """The baseline, and options of the comparison with it."""

    baseline: Baseline = Field(default=Baseline(), description="what models are compared with: run and model")
    calibration: InputPath | None = Field(
        default=None, description="path of a published table calibration: what past experiments say"
    )

    def checked(self, gates: Sequence[GateSection] = ()) -> ComparePlan:
        """Return the validated plan; raise ConfigError with the nearest allowed choice.

        Gates without a baseline get the baseline of this section.
        """
        options = given_to(self, CompareOptions)
        of_runs = [gate.model_dump(exclude_unset=True) for gate in gates if gate.experiment is None]
        plan = make_compare_plan(of_runs, **options)
        baseline = self.baseline
        gates_of_plan = (with_baseline(gate, baseline.run, baseline.model) for gate in plan.gates)
        return replace(plan, gates=tuple(gates_of_plan))


@keyed(WindowOptions)
class WindowSection(Section):
    """Days to merge, and how."""

    def checked(self) -> WindowPlan:
        """Return the validated plan; raise ConfigError for an invalid option."""
        return make_window_plan(**given_to(self, WindowOptions))


@keyed(HistoryOptions)
class HistorySection(Section):
    """Metrics, models and days of a history."""

    def checked(self) -> HistoryPlan:
        """Return the validated plan; raise ConfigError for an invalid option."""
        return make_history_plan(**given_to(self, HistoryOptions))


@keyed(WatchOptions)
class WatchSection(Section):
    """Metrics that are judged by the days before."""

    def checked(self) -> WatchPlan:
        """Return the validated plan; raise ConfigError for an invalid option."""
        return make_watch_plan(**given_to(self, WatchOptions))


@keyed(ExperimentOptions)
class OnlineSection(Section):
    """Experiments, their metrics, and options of the analysis."""

    metrics: list[MetricSection] = Field(description="what is compared")
    experiments: Several[ExperimentSection] = Field(description="one, or a list")
    day: str | None = Field(
        default=None, description="publish user_days of this day alone, which later runs read as events"
    )
    first: str | None = Field(
        default=None, description="first day whose published user_days are read instead of the events"
    )
    last: str | None = Field(default=None, description="last of these days")

    def checked(self, gates: Sequence[GateSection] = ()) -> ExperimentPlan:
        """Return the validated plan with the gates of experiments; raise ConfigError for a wrong key."""
        options = given_to(self, ExperimentOptions)
        metrics, experiments = (
            [one.model_dump(exclude_unset=True) for one in several]
            for several in (self.metrics, self.experiments)
        )
        of_experiments = [
            gate.model_dump(exclude_unset=True) for gate in gates if gate.experiment is not None
        ]
        return make_experiment_plan(metrics, experiments, of_experiments, **options)


@keyed(InterleavingOptions)
class InterleavingSection(Source):
    """Interleaved lists, a row per shown item, and the two teams that drafted them."""

    def checked(self) -> InterleavingPlan:
        """Return the validated plan; raise ConfigError for an invalid option."""
        return make_interleaving_plan(**given_to(self, InterleavingOptions))


class ReviewsSection(Source):
    """Labels of reviewed pairs, and the sample that they are of."""

    run: RunId | None = Field(
        default=None, description="published run of sample; null: that of this id, or of this config"
    )


@keyed(LinkageOptions)
class LinkageSection(Section):
    """Options of the evaluation of links."""

    def checked(self) -> LinkagePlan:
        """Return the validated plan; raise ConfigError for an invalid option."""
        return make_linkage_plan(**given_to(self, LinkageOptions))


@keyed(SampleOptions)
class SampleSection(Section):
    """Strata and size of a sample for review."""

    def checked(self) -> SamplePlan:
        """Return the validated plan; raise ConfigError for an invalid option."""
        return make_sample_plan(**given_to(self, SampleOptions))


class ReportSection(Section):
    """Options of reports; the section alone enables them."""

    primary: str | None = Field(
        default=None,
        description="the metric of the verdict, which also orders models: ndcg@10; null: nDCG at its "
        "largest k, else MAP, else the first metric",
    )

    @field_validator("primary")
    @classmethod
    def check_primary(cls, name: str | None) -> str | None:
        """Validate the name of a list metric; names of prediction metrics are accepted as they are."""
        if name is not None and name.partition("(")[0] not in PREDICTION_METRICS:
            parse_metric(name, [None], "report.primary")
        return name


class MlflowSection(Section):
    """Registered model version that gates mark; ``MLFLOW_TRACKING_URI`` says where it is."""

    model_version: str = Field(description="the model and its version, ctr/7: it gets tags")
    alias: str | None = Field(default=None, description="moves to the version where all gates passed")

    @field_validator("model_version")
    @classmethod
    def check_version(cls, text: str) -> str:
        """Validate the form of the model version."""
        parse_model_version(text, "mlflow.model_version")
        return text


def check_report(given: object) -> object:
    """Check that ``report`` is a boolean or a valid section, so that only one error is raised."""
    if isinstance(given, Mapping):
        check_keys(given, list(ReportSection.model_fields), "report")
    elif not isinstance(given, bool | ReportSection):
        raise ValueError(f"is {given!r}; give true, false or {{primary: ndcg@10}}")
    return given


class Config(Section):
    """The whole file; each verb requires its own sections."""

    output: Output = Field(description="where everything is written")
    engine: Literal["auto", "local", "spark"] | None = Field(
        default=None,
        description="local: this process; spark; auto: this process for plain Parquet files of this machine, "
        "else Spark; null: that of SPARK_EVAL_ENGINE, else auto",
    )
    spark: SparkSection = Field(default=SparkSection(), description="the session, in local mode alone")
    interactions: Source | None = Field(default=None, description="the log that split reads")
    split: SplitSection = Field(default=SplitSection(), description="how the log is held out")
    recommendations: Recommendations | None = Field(default=None, description="the lists of evaluate")
    truth: Source | None = Field(
        default=None,
        description="relevant items of each user; by default the test subset of this run's split",
    )
    train: Source | None = Field(default=None, description="training interactions, for segments and metrics")
    items: Source | None = Field(default=None, description="the catalogue, and what is known of items")
    users: Source | None = Field(
        default=None, description="a row per user, or per user and request, for segments"
    )
    evaluate: EvaluateSection = Field(
        default=EvaluateSection(), description="what is measured, and by which rules"
    )
    stages: list[StageSection] = Field(default=[], description="stages of a pipeline, candidates first")
    predictions: PredictionsSection | None = Field(
        default=None, description="rows of a label and a score, and what is measured of them"
    )
    exposures: Source | None = Field(default=None, description="users and the variants that they were shown")
    events: Source | None = Field(default=None, description="what users did: kind and value")
    online: OnlineSection | None = Field(default=None, description="experiments, and what is compared")
    interleaving: InterleavingSection | None = Field(
        default=None, description="interleaved lists of two rankers, which online compares by clicks"
    )
    compare: CompareSection = Field(
        default=CompareSection(), description="models of published runs, user by user"
    )
    gates: list[GateSection] = Field(default=[], description="how far models may fall behind a baseline")
    window: WindowSection = Field(default=WindowSection(), description="days merged into a run of their own")
    history: HistorySection = Field(
        default=HistorySection(), description="what the history of published days shows"
    )
    watch: WatchSection = Field(
        default=WatchSection(), description="metrics of a day that are judged by the days before"
    )
    predicted: Source | None = Field(default=None, description="predicted links: pairs or clusters")
    true: Source | None = Field(default=None, description="true links: pairs or clusters")
    candidates: Source | None = Field(default=None, description="pairs that blocking lets through")
    reviews: ReviewsSection | None = Field(default=None, description="labels of the pairs of a sample")
    linkage: LinkageSection = Field(default=LinkageSection(), description="how links are evaluated")
    sample: SampleSection = Field(
        default=SampleSection(), description="pairs that are drawn from the candidates for review"
    )
    calibrate: CalibrateSection | None = Field(
        default=None, description="past experiments: which offline metric has predicted them"
    )
    mlflow: MlflowSection | None = Field(
        default=None, description="a registered model version: tags, and an alias where all gates passed"
    )
    report: Annotated[bool | ReportSection, BeforeValidator(check_report)] = Field(
        default=False, description="true, or a mapping: each verb also writes report/RUN_ID.html"
    )

    @model_validator(mode="after")
    def check_choices(self) -> Self:
        """Validate rules and plans of all verbs, not only of the current one."""
        self.split.rule()
        if self.report and self.output.table is not None:
            raise ConfigError("UNSUPPORTED_OUTPUT", "a catalog has no place for pages; use report --to FILE")
        if self.predictions is not None:
            self.predictions.checked()
        if self.online is not None:
            self.online.checked(self.gates)
        elif len(self.gates_of_models) < len(self.gates):
            raise ConfigError(
                "INVALID_GATE", "a gate has an experiment, but the config has no section online"
            )
        if self.interleaving is not None:
            self.interleaving.checked()
        self.compare.checked(self.gates)
        self.window.checked()
        self.history.checked()
        self.watch.checked()
        self.linkage.checked()
        self.sample.checked()
        given = [name for name in ("train", "users", "items") if getattr(self, name) is not None]
        check_given(self.plan, given, None if self.recommendations is None else self.recommendations.model)
        return self

    @property
    def primary(self) -> str | None:
        """Primary metric of reports; None if the config does not name one."""
        return self.report.primary if isinstance(self.report, ReportSection) else None

    @property
    def gates_of_models(self) -> list[GateSection]:
        """Gates of models of runs; all others are of experiments."""
        return [gate for gate in self.gates if gate.experiment is None]

    @property
    def plan(self) -> Plan:
        """Validated plan of ``evaluate``: metrics, cutoffs and conventions."""
        return self.evaluate.checked(self.stages)


def read_config(path: Path, settings: Sequence[str] = ()) -> Config:
    """Return the validated config of a YAML file.

    Args:
        path: Path of the file.
        settings: Texts ``dotted.key=value``, which override values of the file.

    Raises:
        ConfigError: NO_CONFIG, INVALID_YAML, INVALID_SETTING, or the errors of ``parse_config``.
    """
    try:
        with path.open(encoding="utf-8") as file:
            text = file.read(MAX_CHARACTERS + 1)
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError("NO_CONFIG", f"cannot read {str(path)!r}: {error}") from error
    tree = load_yaml(text, str(path))
    for setting in settings:
        name, equals, value = setting.partition("=")
        keys = setting_keys(Config, name)
        if not (equals and all(keys)):
            raise ConfigError("INVALID_SETTING", f"--set {name!r} is not dotted.key=value")
        overlay(tree, keys, load_yaml(value, f"--set {name}"))
    return parse_config(tree)


def parse_config(tree: Any) -> Config:
    """Return the validated config of a parsed YAML document.

    Raises:
        ConfigError: SECRET_IN_CONFIG first; else UNKNOWN_CONFIG_KEY or INVALID_CONFIG, one error with all
            problems; or the error of a rule or plan.
    """
    check_secrets(tree)
    try:
        return Config.model_validate(tree)
    except ValidationError as error:
        faults = sorted(error.errors(include_url=False), key=lambda fault: fault["type"] != EXTRA_KEY)
        code = "UNKNOWN_CONFIG_KEY" if faults[0]["type"] == EXTRA_KEY else "INVALID_CONFIG"
        messages = [describe(Config, fault["loc"], fault["type"], fault["msg"]) for fault in faults]
        raise ConfigError(code, "; ".join(dict.fromkeys(messages))) from None
