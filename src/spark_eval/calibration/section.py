"""The config section ``calibrate``."""

from typing import Any, Literal

from pydantic import Field

from spark_eval.calibration.plan import MOST, CalibrateOptions, CalibratePlan, make_calibrate_plan
from spark_eval.config.inputs import InputPath
from spark_eval.config.keys import Section, Several, keyed
from spark_eval.options import declared


class CandidateSection(Section):
    """Offline difference of a new candidate, whose online effect is forecast."""

    difference: float = Field(
        ge=-MOST, le=MOST, description="the offline difference, turned so that more is better"
    )
    std_error: float = Field(ge=0, le=MOST, description="its standard error; 0: without noise")
    metric: str | None = Field(default=None, description="the offline metric; null: the only one")
    goal: str | None = Field(default=None, description="the goal; null: the only one")


@keyed(CalibrateOptions)
class CalibrateSection(Section):
    """Past experiments, and the metrics and goals that are calibrated."""

    programme: InputPath = Field(
        description="CSV or Parquet file of this machine, a row per past experiment: experiment, treatment, "
        "online_run, offline_run, candidate, baseline"
    )
    if_missing: Literal["refuse", "leave_out"] = Field(
        default="refuse", description="if a run is not published: refuse, or leave_out, which counts it"
    )
    predict: Several[CandidateSection] = Field(
        default=[], description="new candidates: difference, std_error, metric, goal; one, or a list"
    )

    def checked(self) -> CalibratePlan:
        """Return the validated plan; raise ConfigError for an invalid option."""
        options: Any = {name: getattr(self, name) for name in declared(CalibrateOptions)}
        return make_calibrate_plan(**options)
