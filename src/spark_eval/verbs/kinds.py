"""Kinds of jobs whose runs other verbs read, which must know their ids."""

from collections.abc import Mapping
from typing import Final

from spark_eval.config.inputs import Source
from spark_eval.runs.job import JobKind
from spark_eval.runs.sections import Config


def truth_of_split(config: Config, splits: str) -> Mapping[str, Source]:
    """Return the truth by default: the test subset of this run's own split."""
    return {"truth": Source(subset=config.split.rule().final_test).at(splits)}


EVALUATE: Final = JobKind(
    name="evaluate",
    sections=("recommendations", "truth", "train", "users", "items", "evaluate", "stages"),
    sources=truth_of_split,
)
PREDICTIONS: Final = JobKind(name="predictions", sections=("predictions",))
SAMPLE: Final = JobKind(name="sample", sections=("candidates", "predicted", "sample"))
# Verbs whose runs are compared and merged; a run is of one of them.
MEASURING: Final = (EVALUATE.name, PREDICTIONS.name)
# A calibration reads runs of the two other verbs.
COMPARE: Final = "compare"
ONLINE: Final = "online"
CALIBRATE: Final = "calibrate"
