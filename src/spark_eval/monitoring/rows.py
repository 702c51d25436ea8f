"""Rows of a history: the values of metrics in published runs."""

from typing import Final, NamedTuple

from spark_eval.schema import ddl_of

# Line of a history: model, metric, k, segment and its value.
Line = tuple[str, str, int | None, str, str]


class HistoryRow(NamedTuple):
    """Row of HISTORY: the value of a metric of a model in a segment, in one run.

    ``series`` numbers the parts of a line between breaks; ``changed`` names what differs from the run before
    at a break. ``before`` is the previous run of the same part. ``difference`` is the value minus that of
    ``before``; ``week_difference`` is the value minus that of the same weekday a week before.
    """

    run_id: str
    model: str
    metric: str
    k: int | None
    segment: str
    segment_value: str
    value: float | None
    std_error: float | None
    ci_low: float | None
    ci_high: float | None
    n_users: int | None
    conventions: str
    series: int
    changed: str | None
    before: str | None
    difference: float | None
    difference_low: float | None
    difference_high: float | None
    week_difference: float | None
    week_low: float | None
    week_high: float | None
    failed_gates: int
    alarm: str | None

    @property
    def line(self) -> Line:
        """The line that the row belongs to."""
        return (self.model, self.metric, self.k, self.segment, self.segment_value)


HISTORY: Final = ddl_of(HistoryRow)
