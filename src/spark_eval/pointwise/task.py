"""What to measure of predictions, and by which rules: checked choices, as one value."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from spark_eval.conventions.choice import Choice

# A class of labels, as the config writes it.
Class = bool | int | float | str
DEFAULT_EPS: Final = 2.0**-52
DEFAULT_BINS: Final = 10
DEFAULT_CURVE_POINTS: Final = 100_000
# What a sum of corrected probabilities is called behind its name.
CORRECTED: Final = "'"
# Of one segment: more are ids or measurements, and would be as many rows of every metric.
MOST_SEGMENT_VALUES: Final = 1_000


class Task(Choice):
    """What kind of label there is."""

    BINARY = "binary", "labels are one of two classes, negative and positive"
    MULTICLASS = "multiclass", "labels are one of several classes"
    REGRESSION = "regression", "labels are numbers"


class Scores(Choice):
    """What a score says."""

    PROBABILITY = "probability", "the probability of the positive class, or of each class; in [0, 1]"
    RAW = "raw", "any number, larger for what is more likely positive"
    CLASS = "class", "the class itself that is predicted"


class Auprc(Choice):
    """How the area under the P-R curve is taken."""

    STEP = "step", "average precision: the sum of each step in recall times the precision there"
    TRAPEZOID = "trapezoid", "straight lines between the points, from (0, the first precision)"


class Goal(StrEnum):
    """What a threshold is chosen for."""

    FLAGS = "flags"
    RECALL = "recall"
    COST = "cost"


def text(number: float) -> str:
    """Return a number as it stands in names: 0.5, 300."""
    return repr(float(number)).removesuffix(".0")


@dataclass(frozen=True)
class PredictionPreset:
    """Conventions by name: whose numbers they give, and which."""

    source: str
    auprc: Auprc
    log_loss_eps: float


PREDICTION_PRESETS: Final[Mapping[str, PredictionPreset]] = {
    "default": PredictionPreset("spark-eval, scikit-learn", Auprc.STEP, DEFAULT_EPS),
    "spark": PredictionPreset(
        "Spark's BinaryClassificationMetrics (numBins=0) and evaluators", Auprc.TRAPEZOID, 1e-15
    ),
}


@dataclass(frozen=True)
class ThresholdRule:
    """How to choose a threshold: at most so many flags, the best precision at a recall, or the least cost.

    The costs are those of one false positive and one false negative.
    """

    goal: Goal
    limit: float = 0.0
    false_positive: float = 1.0
    false_negative: float = 1.0

    def __str__(self) -> str:
        match self.goal:
            case Goal.FLAGS:
                return f"flags<={text(self.limit)}"
            case Goal.RECALL:
                return f"recall>={text(self.limit)}"
            case Goal.COST:
                costs = (text(self.false_positive), text(self.false_negative))
                return "cost(false_positive={}, false_negative={})".format(*costs)


@dataclass(frozen=True)
class PredictionPlan:
    """The options of the section ``predictions`` of the config, checked.

    ``classes`` of a binary task are the negative and the positive one; ``probabilities`` name a column per
    class; ``thresholds`` ascend; ``needs`` are the sums that some metric or curve is made of.
    """

    task: Task
    scores: Scores
    metrics: Sequence[str]
    classes: Sequence[Class] = ()
    probabilities: Sequence[str] = ()
    thresholds: Sequence[float] = ()
    rules: Sequence[ThresholdRule] = ()
    segments: Sequence[str] = ()
    sampling_rate: float | None = None
    bins: int = DEFAULT_BINS
    curves: bool = False
    curve_points: int = DEFAULT_CURVE_POINTS
    preset: str = "default"
    needs: frozenset[str] = frozenset()

    @property
    def eps(self) -> float:
        """Probabilities are clipped to [eps, 1 - eps] before their logarithm is taken."""
        return PREDICTION_PRESETS[self.preset].log_loss_eps

    @property
    def auprc(self) -> Auprc:
        """How the area under the P-R curve is taken."""
        return PREDICTION_PRESETS[self.preset].auprc

    @property
    def by_score(self) -> bool:
        """Whether rows have to be sorted by score."""
        return self.curves or bool(self.rules) or "order" in self.needs

    @property
    def by_user(self) -> bool:
        """Whether the rows of each user have to be sorted by score."""
        return "users" in self.needs

    @property
    def variants(self) -> Sequence[float | None]:
        """Scores as they come (None), and corrected for negatives sampled at a rate."""
        return (None,) if self.sampling_rate is None else (None, self.sampling_rate)

    @property
    def stamp(self) -> str:
        """Conventions and rules, as they stand on every output row."""
        parts = [self.preset, f"task={self.task}", f"scores={self.scores}"]
        if self.task is Task.BINARY:
            parts += [f"positive={self.classes[1]}", "flagged=score>=threshold"]
        if self.task is Task.MULTICLASS and self.scores is Scores.PROBABILITY:
            parts.append("predicted=first class of the largest probability")
        if self.needs & {"loss"}:
            parts.append(f"log_loss_eps={text(self.eps)}")
        if self.needs & {"order", "users"}:
            parts += ["auc_ties=half", f"auprc={self.auprc}", "one_class=undefined"]
        if "bins" in self.needs:
            parts.append(f"bins={self.bins} of equal width")
        return "; ".join(parts)
