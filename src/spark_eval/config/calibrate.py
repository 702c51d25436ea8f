"""Section ``calibrate`` of the config."""

from typing import Literal

from pydantic import Field

from spark_eval.config.inputs import InputPath
from spark_eval.config.keys import Section, Several
from spark_eval.schema import LARGEST_EFFECT


class PredictSection(Section):
    """A new candidate, whose online effect is to be predicted."""

    difference: float = Field(
        ge=-LARGEST_EFFECT, le=LARGEST_EFFECT, description="offline difference; more is better"
    )
    std_error: float = Field(ge=0, le=LARGEST_EFFECT, description="its standard error")
    metric: str | None = Field(default=None, description="offline metric, ndcg@10; null: the only one")
    goal: str | None = Field(default=None, description="online metric; null: the only one")


class CalibrateSection(Section):
    """Past experiments, and which offline metric has predicted them."""

    programme: InputPath = Field(
        description="CSV or Parquet file, a row per past experiment: experiment, online_run, offline_run; "
        "candidate and baseline where a run compares several pairs, treatment where an experiment has several"
    )
    if_missing: Literal["refuse", "leave_out"] = Field(
        default="refuse", description="experiments whose runs are not published: an error, or counted"
    )
    metrics: Several[str] | None = Field(
        default=None, description="offline metrics, with their k: ndcg@10; null: all"
    )
    goals: Several[str] | None = Field(default=None, description="online metrics; null: all")
    lower: Several[str] = Field(
        default=[],
        description="metrics and goals whose lower values are better; our own metrics, and runs of online, "
        "say so themselves",
    )
    predict: Several[PredictSection] = Field(default=[], description="new candidates")
