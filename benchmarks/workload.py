"""Workload of a benchmark: dataset, metrics, cutoffs and Spark settings, equal for all contenders."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from benchmarks.data import SIZES, TOGETHER, Dataset

# Name of a user's value (in columns) -> name of the mean (in configs).
RUN_NAMES: Final = {
    "precision": "precision",
    "recall": "recall",
    "ap": "map",
    "rr": "mrr",
    "ndcg": "ndcg",
    "hit_rate": "hit_rate",
}


# Readers of our Parquet files: the workers, or Spark, which reads tables with options of Spark.
READERS: Final[Mapping[str, Mapping[str, str]]] = {"files": {}, "spark": {"mergeSchema": "true"}}


@dataclass(frozen=True)
class Workload:
    """One evaluation; ``metrics`` are names of values per user, ``conventions`` are those of spark-eval.

    ``read`` is one of READERS.
    """

    dataset: Dataset
    ks: tuple[int, ...] = (1, 5, 10, 20, 50)
    metrics: tuple[str, ...] = tuple(RUN_NAMES)
    conventions: Mapping[str, str] = field(default_factory=dict)
    partitions: int = 4
    memory: str = "2g"
    read: str = "files"

    @property
    def columns(self) -> list[str]:
        """Metric columns of ``per_user``: ``precision_at_1``, ..."""
        return [f"{metric}_at_{k}" for metric in self.metrics for k in self.ks]

    @property
    def run_metrics(self) -> list[str]:
        """Names of the means."""
        return [RUN_NAMES[metric] for metric in self.metrics]

    @property
    def key(self) -> list[str]:
        """Key columns of ``per_user``."""
        return ["model", "user"] if self.dataset.models > 1 else ["user"]

    @property
    def options(self) -> Mapping[str, str]:
        """Reader options of our tables."""
        return READERS[self.read]

    @property
    def place(self) -> str:
        """Column that orders a list."""
        return "score" if self.dataset.scored else "rank"


@dataclass(frozen=True)
class Task:
    """Workload and folder of its dataset: the task of a contender's process."""

    workload: Workload
    folder: Path

    @property
    def recommendations(self) -> str:
        """Path of the recommendations."""
        return str(self.folder / "recommendations")

    @property
    def truth(self) -> str:
        """Path of the truth."""
        return str(self.folder / "truth")

    @property
    def interactions(self) -> str:
        """Path of the log."""
        return str(self.folder / "interactions")

    @property
    def predictions(self) -> str:
        """Path of the predictions."""
        return str(self.folder / "predictions")

    @property
    def per_user(self) -> str:
        """Path of the tables of users."""
        return str(self.folder / "per_user")

    def to_json(self) -> str:
        """Serialize the task to one line, for the command line of a process."""
        return json.dumps({"folder": str(self.folder), **asdict(self.workload)})

    @classmethod
    def from_json(cls, text: str) -> "Task":
        """Parse the output of ``to_json``."""
        fields = json.loads(text)
        folder = Path(fields.pop("folder"))
        fields |= {name: tuple(fields[name]) for name in ("ks", "metrics")}
        return cls(Workload(**fields | {"dataset": Dataset(**fields["dataset"])}), folder)


# Kinds of workloads, as changes of the default dataset: ranked lists, integer ids, binary truth, one model.
LISTS: Final = ("ranked", "text", "graded", "scored", "models", "folds", "messy")
KINDS: Final[Mapping[str, Mapping[str, Any]]] = {
    "ranked": {},
    "text": {"ids": "string"},
    "graded": {"ids": "string", "graded": True},
    "scored": {"scored": True, "ties": True},
    "models": {"models": 4},
    "folds": {"folds": 5},
    "messy": {"scored": True, "ties": True, "repeats": 0.01},
    "split": {"holds": "log"},
    "predictions": {"holds": "predictions"},
    "compare": {"holds": "users"},
    "beyond": {"holds": "facts"},
}


def workload(kind: str, size: str, layout: str = TOGETHER, **settings: Any) -> Workload:
    """Return one of KINDS in one of SIZES; graded truth has the gain 2^relevance - 1."""
    return of_kind(Workload(replace(SIZES[size], layout=layout), **settings), kind)


def of_kind(plain: Workload, kind: str) -> Workload:
    """Return the same workload for another kind."""
    dataset = replace(plain.dataset, **KINDS[kind])
    conventions = {"gain": "exp2"} if dataset.graded else {}
    return replace(plain, dataset=dataset, conventions=conventions)
