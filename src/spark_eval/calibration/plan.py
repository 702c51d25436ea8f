"""Options of a calibration, validated as one plan."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Final, TypedDict, Unpack

from spark_eval.comparison.plan import as_published, chosen_names
from spark_eval.comparison.values import compared_direction
from spark_eval.errors import ConfigError
from spark_eval.kernels.aliases import as_list
from spark_eval.options import checked
from spark_eval.schema import Direction

CALIBRATE: Final = "calibrate"
# Largest effect and error, and the inverse of the smallest error: their products are doubles.
MOST: Final = 1e30


def as_texts(given: Sequence[str] | str, _where: str) -> tuple[str, ...]:
    """Return one text or several as a tuple."""
    return tuple(as_list(given))


class CalibrateOptions(TypedDict, total=False):
    """Options of ``calibrate``; also keys of the config's section ``calibrate``."""

    metrics: Annotated[
        Sequence[str] | None,
        "offline metrics, with their k: ndcg@10; None: all.",
        None,
        chosen_names,
    ]
    goals: Annotated[Sequence[str] | None, "online metrics; None: all.", None, chosen_names]
    lower: Annotated[
        Sequence[str],
        "metrics and goals whose lower values are better; our own metrics, and results, say so themselves.",
        (),
        as_texts,
    ]


@dataclass(frozen=True)
class CalibratePlan:
    """Validated options of a calibration; see CalibrateOptions."""

    metrics: tuple[str, ...] | None
    goals: tuple[str, ...] | None
    lower: tuple[str, ...]

    def sign_of(self, metric: str) -> int:
        """Return -1 for an offline metric whose lower values are better, otherwise 1."""
        name = metric.partition("@")[0]
        is_lower = metric in self.lower or direction_of(name) is Direction.LOWER
        return -1 if is_lower else 1


def direction_of(name: str) -> Direction:
    """Return the direction of one of our metrics; none for another name."""
    try:
        return compared_direction(name)
    except (ConfigError, KeyError):
        return Direction.NONE


def known_name(name: str) -> str:
    """Return the published name of one of our metrics, ``ndcg@10`` for ``nDCG@10``; another name as it is."""
    try:
        return as_published(name)
    except ConfigError:
        return name


def make_calibrate_plan(**options: Unpack[CalibrateOptions]) -> CalibratePlan:
    """Return the validated options; raise ConfigError for an invalid one.

    >>> plan = make_calibrate_plan(metrics="nDCG@10", lower=["hides"])
    >>> plan.metrics, plan.sign_of("ndcg@10"), plan.sign_of("log_loss"), plan.sign_of("hides")
    (('ndcg@10',), 1, -1, -1)
    """
    given = checked(CalibrateOptions, options, CALIBRATE)
    metrics = given["metrics"]
    return CalibratePlan(**given | {"metrics": metrics and tuple(map(known_name, metrics))})
