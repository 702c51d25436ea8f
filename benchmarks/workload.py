"""What is measured: a dataset, metrics, cutoffs, and settings of Spark; all contenders get the same."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from benchmarks.data import SIZES, TOGETHER, Dataset

# Names of one user's value (as columns have them) -> names of the mean (as configs have them).
RUN_NAMES: Final = {
    "precision": "precision",
    "recall": "recall",
    "ap": "map",
    "rr": "mrr",
    "ndcg": "ndcg",
    "hit_rate": "hit_rate",
}


# Who reads plain Parquet for us: the workers, or Spark, as it does where a table has an option of Spark's.
READERS: Final[Mapping[str, Mapping[str, str]]] = {"files": {}, "spark": {"mergeSchema": "true"}}


@dataclass(frozen=True)
class Workload:
    """One evaluation. ``metrics`` are names of one user's value; ``conventions`` are choices of spark-eval.

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
        """The metric columns of ``per_user``: ``precision_at_1``, ..."""
        return [f"{metric}_at_{k}" for metric in self.metrics for k in self.ks]

    @property
    def run_metrics(self) -> list[str]:
        """Names of the means."""
        return [RUN_NAMES[metric] for metric in self.metrics]

    @property
    def key(self) -> list[str]:
        """What a row of ``per_user`` belongs to."""
        return ["model", "user"] if self.dataset.models > 1 else ["user"]

    @property
    def options(self) -> Mapping[str, str]:
        """Options with which our tables are opened."""
        return READERS[self.read]

    @property
    def place(self) -> str:
        """The column that orders a list."""
        return "score" if self.dataset.scored else "rank"


@dataclass(frozen=True)
class Task:
    """A workload, and where its dataset is: all that a contender's process is told."""

    workload: Workload
    folder: Path

    @property
    def recommendations(self) -> str:
        """Where the recommendations are."""
        return str(self.folder / "recommendations")

    @property
    def truth(self) -> str:
        """Where the truth is."""
        return str(self.folder / "truth")

    @property
    def interactions(self) -> str:
        """Where the log is."""
        return str(self.folder / "interactions")

    @property
    def predictions(self) -> str:
        """Where the predictions are."""
        return str(self.folder / "predictions")

    @property
    def per_user(self) -> str:
        """Where the tables of users are."""
        return str(self.folder / "per_user")

    def to_json(self) -> str:
        """One line of text, for the command line of a process."""
        return json.dumps({"folder": str(self.folder), **asdict(self.workload)})

    @classmethod
    def from_json(cls, text: str) -> "Task":
        """The task again."""
        fields = json.loads(text)
        folder = Path(fields.pop("folder"))
        fields |= {name: tuple(fields[name]) for name in ("ks", "metrics")}
        return cls(Workload(**fields | {"dataset": Dataset(**fields["dataset"])}), folder)


# Changes to the plain workload: lists with ranks, integer ids, binary truth, one model; or another table.
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
    """One of KINDS in one of SIZES; the metrics of graded truth take 2^relevance - 1 as gain."""
    return of_kind(Workload(replace(SIZES[size], layout=layout), **settings), kind)


def of_kind(plain: Workload, kind: str) -> Workload:
    """The same workload of another kind."""
    dataset = replace(plain.dataset, **KINDS[kind])
    conventions = {"gain": "exp2"} if dataset.graded else {}
    return replace(plain, dataset=dataset, conventions=conventions)
