"""Sections of the config on experiments and their metrics; ``experiments.parse`` validates them."""

from pydantic import Field

from spark_eval.config.inputs import Filter
from spark_eval.config.keys import Section


class TermSection(Section):
    """Events of a kind, and the value of a user's events."""

    kind: str = Field(description="kind of the events")
    value: str = Field(default="sum", description="sum of values, count of events, or any: 1 or 0")
    where: list[Filter] = Field(default=[], description="conditions on columns of the events, all of them")
    cap: float | int | None = Field(default=None, description="a user's value is at most this")
    winsorise: float | None = Field(
        default=None, description="a user's value is at most this quantile of all users, such as 0.999"
    )


class MetricSection(Section):
    """A metric of experiments: the sums of each user, and their role in the decision."""

    name: str = Field(description="name in the tables")
    kind: str = Field(description="mean, ratio (of sums), mean_of_ratios (of users) or retention")
    of: TermSection | None = Field(default=None, description="what a mean or a retention counts")
    numerator: TermSection | None = Field(default=None, description="numerator of a ratio")
    denominator: TermSection | None = Field(default=None, description="denominator of a ratio")
    role: str = Field(default="goal", description="goal, guardrail or info")
    direction: str = Field(default="higher", description="higher or lower is better")
    decimals: int = Field(default=0, description="that values of events are rounded to, half-even")
    signed: bool = Field(default=False, description="true: values may be negative")
    margin: float | None = Field(default=None, description="how much worse a guardrail may be")
    margin_kind: str = Field(default="absolute", description="absolute, or relative to the control's value")
    test: str = Field(default="welch", description="welch, or z_pooled for shares of users")
    day: int | None = Field(default=None, description="day since exposure of a retention, from 0")
    effect: float | None = Field(default=None, description="difference to plan for, in n_needed")
    cuped: bool | None = Field(
        default=None, description="a row adjusted by the pre-period; null: as online.cuped"
    )


class AssignmentSection(Section):
    """Assignment by the hash of a salt and the user."""

    salt: str = Field(description="salt of the hash; each layer has its own")
    buckets: int = Field(default=10_000, ge=1, description="number of buckets of the hash")
    ranges: dict[str, list[int]] = Field(description="buckets of each variant: [start, end)")


class WeightsSection(Section):
    """Planned weights of users who are first exposed from a time on."""

    since: str = Field(description="day of the time zone, or instant")
    variants: dict[str, float | int] = Field(description="planned weight of each variant")


class ExperimentSection(Section):
    """An experiment: variants, period, and who is assigned."""

    name: str = Field(description="name in the tables")
    control: str = Field(description="the variant that the others are compared with")
    variants: dict[str, float | int] = Field(description="planned weight of each variant")
    period: list[str] = Field(description="[start, end): days of the time zone, or instants")
    window: str | None = Field(default=None, description="after exposure: 30m, 12h, 7d; null: to the end")
    assignment: AssignmentSection | None = Field(default=None, description="by hash; null: as logged")
    weights: list[WeightsSection] = Field(default=[], description="changes of the planned weights")
    unit: str = Field(default="user", description="unit of the analysis: user, or a column of the exposures")
    by: list[str] | None = Field(
        default=None, description="hour, day, columns of the exposures; null: as online.by"
    )
    sequential: dict[str, float] | None = Field(default=None, description="as online.sequential, of this one")
