"""Section ``calibrate`` of the config."""

from typing import Literal

from pydantic import Field

from spark_eval.calibration.effects import MOST
from spark_eval.calibration.plan import CalibrateOptions, CalibratePlan, make_calibrate_plan
from spark_eval.config.keys import Section, Several, given_to, keyed


class PredictSection(Section):
    """A new candidate, whose online effect is to be predicted."""

    difference: float = Field(ge=-MOST, le=MOST, description="offline difference; more is better")
    std_error: float = Field(ge=0, le=MOST, description="its standard error")
    metric: str | None = Field(default=None, description="offline metric, ndcg@10; null: the only one")
    goal: str | None = Field(default=None, description="online metric; null: the only one")


@keyed(CalibrateOptions)
class CalibrateSection(Section):
    """Past experiments, and which offline metric has predicted them."""

    programme: str = Field(
        description="CSV or Parquet file of this machine, a row per past experiment: experiment, online_run, "
        "offline_run, candidate, baseline, and treatment where an experiment has several"
    )
    if_missing: Literal["refuse", "leave_out"] = Field(
        default="refuse", description="experiments whose runs are not published: an error, or counted"
    )
    predict: Several[PredictSection] = Field(default=[], description="new candidates")

    def checked(self) -> CalibratePlan:
        """Return the validated plan; raise ConfigError for an invalid option."""
        return make_calibrate_plan(**given_to(self, CalibrateOptions))
