"""Plan of an evaluation of predictions: task, scores, conventions and threshold rules."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from spark_eval.conventions.choice import Choice
from spark_eval.statistics.resampling import DEFAULT_RESAMPLES

# Class label, as written in the config.
Class = bool | int | float | str
DEFAULT_EPS: Final = 2.0**-52
DEFAULT_BINS: Final = 10
DEFAULT_CURVE_POINTS: Final = 100_000
AUC: Final = "auc"
# Suffix of the names of sums over corrected probabilities.
CORRECTED: Final = "'"
# Sums of the placements of rows: the share of the rows of the other label that a row is on the right side of.
PLACED: Final = "placed"
# Block of a row on the P-R curve, and the hash that a row's draws follow from if rows have no users.
BLOCK: Final = "block"
DRAW: Final = "draw"
# Metrics with intervals by bootstrap: the area under the P-R curve, and the calibration error, as it is and
# without its bias, which follows from the replicates.
AUPRC: Final = "auprc"
ECE: Final = "ece"
ECE_DEBIASED: Final = "ece_debiased"
REPLICATES: Final = "replicates"
# Maximum number of sums of one name that are kept for each user; metrics of more have no standard error.
MOST_SUMS_OF_USERS: Final = 64


class Task(Choice):
    """Kind of label."""

    BINARY = "binary", "labels are one of two classes, negative and positive"
    MULTICLASS = "multiclass", "labels are one of several classes"
    REGRESSION = "regression", "labels are numbers"


class Scores(Choice):
    """Meaning of a score."""

    PROBABILITY = "probability", "the probability of the positive class, or of each class; in [0, 1]"
    RAW = "raw", "any number; larger is more likely positive"
    CLASS = "class", "the predicted class itself"


class Auprc(Choice):
    """Integration rule of the area under the P-R curve."""

    STEP = "step", "average precision: the sum of each step in recall times the precision there"
    TRAPEZOID = "trapezoid", "straight lines between the points, from (0, the first precision)"


class Clusters(Choice):
    """Independent units of standard errors and intervals."""

    USER = "user", "users: rows of one user may resemble each other"
    ROW = "row", "rows: too narrow if a user has several rows"
    NONE = "none", "no standard errors"


class AucInterval(Choice):
    """Scale of a symmetric interval of AUC."""

    NORMAL = "normal", "the area itself: value -+ 1.96 standard errors, which may exceed 1"
    LOGIT = "logit", "its logit: the interval lies within (0, 1)"


class Goal(StrEnum):
    """Criterion of the choice of a threshold."""

    FLAGS = "flags"
    RECALL = "recall"
    COST = "cost"


def text(number: float) -> str:
    """Format a number for names: 0.5, 300."""
    return repr(float(number)).removesuffix(".0")


@dataclass(frozen=True)
class PredictionPreset:
    """Named conventions; ``source`` is the software whose numbers they reproduce."""

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
    """Rule to choose a threshold: at most ``limit`` flags, best precision at recall ``limit``, or least cost.

    ``false_positive`` and ``false_negative`` are the costs of one error.
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
    """Validated options of the section ``predictions`` of the config.

    ``classes`` of a binary task are (negative, positive); ``probabilities`` name a column per class;
    ``thresholds`` are ascending; ``needs`` are the optional sums that some metric or curve uses.
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
    intervals: Clusters = Clusters.NONE
    auc_interval: AucInterval = AucInterval.NORMAL
    resamples: int = DEFAULT_RESAMPLES
    seed: int = 0

    @property
    def eps(self) -> float:
        """Bound of the log loss: probabilities are clipped to [eps, 1 - eps]."""
        return PREDICTION_PRESETS[self.preset].log_loss_eps

    @property
    def auprc(self) -> Auprc:
        """Integration rule of the area under the P-R curve."""
        return PREDICTION_PRESETS[self.preset].auprc

    @property
    def by_score(self) -> bool:
        """True if all rows must be sorted by score."""
        # Equal rows are numbered in the order of their scores, so that each has draws of its own.
        has_own_draws = self.intervals is Clusters.ROW and bool(self.bootstrapped)
        return self.curves or bool(self.rules) or "order" in self.needs or has_own_draws

    @property
    def by_user(self) -> bool:
        """True if the rows of each user must be sorted by score."""
        return "users" in self.needs

    @property
    def has_errors(self) -> bool:
        """True if standard errors are computed, by user or by row."""
        return self.intervals is not Clusters.NONE

    @property
    def bootstrapped(self) -> frozenset[str]:
        """Metrics with intervals by bootstrap; calibration errors of too many bins have none."""
        few_bins = {ECE, ECE_DEBIASED} if self.bins <= MOST_SUMS_OF_USERS else set()
        return frozenset({AUPRC, *few_bins} & set(self.metrics) if self.has_errors else ())

    @property
    def reads_users(self) -> bool:
        """True if the column of users is read."""
        return self.by_user or self.intervals is Clusters.USER

    @property
    def variants(self) -> Sequence[float | None]:
        """Variants of the scores: None for the original ones, then the sampling rate of corrected ones."""
        return (None,) if self.sampling_rate is None else (None, self.sampling_rate)

    @property
    def stamp(self) -> str:
        """Conventions and rules, as text for every output row."""
        parts = [self.preset, f"task={self.task}", f"scores={self.scores}"]
        if self.task is Task.BINARY:
            parts += [f"positive={self.classes[1]}", "flagged=score>=threshold"]
        if self.task is Task.MULTICLASS and self.scores is Scores.PROBABILITY:
            parts.append("predicted=first class of the largest probability")
        if self.needs & {"loss"}:
            parts.append(f"log_loss_eps={text(self.eps)}")
        if self.needs & {"order", "users"}:
            parts += ["auc_ties=half", f"auprc={self.auprc}", "one_class=undefined"]
        if self.auc_interval is not AucInterval.NORMAL:
            parts.append(f"auc_interval={self.auc_interval}")
        if "bins" in self.needs:
            parts.append(f"bins={self.bins} of equal width")
        return "; ".join(parts)
