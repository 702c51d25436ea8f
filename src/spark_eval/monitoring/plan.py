"""Options of windows, histories and watches of days, validated as plans."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from enum import StrEnum
from typing import Annotated, Final, TypedDict, Unpack

from spark_eval.errors import ConfigError
from spark_eval.kernels.aliases import as_list
from spark_eval.options import INSIDE_0_AND_1, checked, whole_numbers
from spark_eval.schema import WATCH

WINDOW: Final = "window"
HISTORY: Final = "history"
# Numbers of days that a day may be judged by.
DAYS_BEFORE: Final = whole_numbers(7, 3_660)


class Unit(StrEnum):
    """Unit of analysis of a window."""

    USER_DAYS = "user_days"
    USERS = "users"


class Errors(StrEnum):
    """Standard errors of a window of user-days."""

    CLUSTERED = "clustered"
    INDEPENDENT = "independent"


def parse_day(given: object, where: str) -> date:
    """Parse an ISO date; raise ConfigError INVALID_WINDOW for other text."""
    try:
        day = date.fromisoformat(str(given))
    except ValueError:
        day = None
    if day is None or day.isoformat() != given:
        message = f"{where} is {given!r}; give a day as in run ids: 2024-03-01"
        raise ConfigError("INVALID_WINDOW", message)
    return day


def as_texts(given: Sequence[str] | str, _where: str) -> tuple[str, ...]:
    """Return one text or several as a tuple."""
    return tuple(as_list(given))


class WindowOptions(TypedDict, total=False):
    """Options of ``window``; also keys of the config's section ``window``."""

    first: Annotated[str | None, "first day of the window, the id of its run: 2024-03-01.", None, parse_day]
    last: Annotated[str | None, "last day of the window.", None, parse_day]
    unit: Annotated[
        str,
        "user_days: each user counts once a day; users: once, with the mean of the user's days.",
        "user_days",
        Unit,
    ]
    errors: Annotated[
        str,
        "standard errors of user-days: clustered by user, from per_user; or independent, from sums.",
        "clustered",
        Errors,
    ]
    allow_missing: Annotated[bool, "merge the days that are published, and state their number.", False]


@dataclass(frozen=True)
class WindowPlan:
    """Validated options of a window; see WindowOptions. The days are None until a command gives them."""

    first: date | None
    last: date | None
    unit: Unit
    errors: Errors
    allow_missing: bool

    @property
    def days(self) -> Sequence[str]:
        """Run ids of the days, both ends included; raises ConfigError INVALID_WINDOW without both ends."""
        if self.first is None or self.last is None:
            raise ConfigError("INVALID_WINDOW", "a window needs both ends; give --from and --to")
        n_days = (self.last - self.first).days + 1
        return [(self.first + timedelta(days=day)).isoformat() for day in range(n_days)]

    @property
    def run_id(self) -> str:
        """Run id of the window: its ends."""
        days = self.days
        return f"{days[0]}_{days[-1]}"


def make_window_plan(**options: Unpack[WindowOptions]) -> WindowPlan:
    """Return the validated options; raise ConfigError for an invalid one.

    >>> make_window_plan(first="2024-02-28", last="2024-03-01").days
    ['2024-02-28', '2024-02-29', '2024-03-01']
    """
    plan = WindowPlan(**checked(WindowOptions, options, WINDOW))
    if plan.first is not None and plan.last is not None and plan.first > plan.last:
        raise ConfigError("INVALID_WINDOW", f"the window from {plan.first} to {plan.last} has no day")
    return plan


class HistoryOptions(TypedDict, total=False):
    """Options of ``history``; also keys of the config's section ``history``."""

    metrics: Annotated[
        Sequence[str] | None, "metrics to show: ndcg@10, or ndcg at each k; None: all.", None, as_texts
    ]
    models: Annotated[Sequence[str] | None, "models to show; None: all.", None, as_texts]
    first: Annotated[
        str | None, "first day, the id of its run: 2024-03-01; None: the oldest.", None, parse_day
    ]
    last: Annotated[str | None, "last day, included; None: the newest.", None, parse_day]
    segments: Annotated[Sequence[str], "segments to show as well as all users.", (), as_texts]
    paired: Annotated[
        bool, "intervals of differences allow for users who are in both runs; reads per_user.", False
    ]


@dataclass(frozen=True)
class HistoryPlan:
    """Validated options of a history; see HistoryOptions."""

    metrics: tuple[str, ...] | None
    models: tuple[str, ...] | None
    first: date | None
    last: date | None
    segments: tuple[str, ...]
    paired: bool

    def has(self, run_id: str) -> bool:
        """Return True if a run is one of its days; a run whose id is not a date is not one."""
        try:
            day = parse_day(run_id, HISTORY)
        except ConfigError:
            return False
        return (self.first is None or self.first <= day) and (self.last is None or day <= self.last)


def make_history_plan(**options: Unpack[HistoryOptions]) -> HistoryPlan:
    """Return the validated options; raise ConfigError for an invalid one.

    >>> plan = make_history_plan(metrics="ndcg@10", first="2024-03-01")
    >>> plan.metrics, plan.has("2024-03-02"), plan.has("2024-02-29"), plan.has("2024-03-02_2024-03-03")
    (('ndcg@10',), True, False, False)
    """
    plan = HistoryPlan(**checked(HistoryOptions, options, HISTORY))
    if plan.first is not None and plan.last is not None and plan.first > plan.last:
        raise ConfigError("INVALID_WINDOW", f"the history from {plan.first} to {plan.last} has no day")
    return plan


class WatchOptions(TypedDict, total=False):
    """Options of ``watch``; also keys of the config's section ``watch``."""

    metrics: Annotated[Sequence[str], "metrics to watch, each with its cutoff: ndcg@10.", (), as_texts]
    models: Annotated[Sequence[str] | None, "models to watch; None: all.", None, as_texts]
    days: Annotated[int, "number of days before that a day is judged by, 7 to 3,660.", 28, DAYS_BEFORE]
    alpha: Annotated[float, "probability of a false alarm of one day.", 0.0005, INSIDE_0_AND_1]
    reference: Annotated[
        str | None, "frozen model, measured on the same truth each day; its difference is watched."
    ]


@dataclass(frozen=True)
class WatchPlan:
    """Validated options of a watch; see WatchOptions."""

    metrics: tuple[str, ...] = ()
    models: tuple[str, ...] | None = None
    days: int = 28
    alpha: float = 0.0005
    reference: str | None = None

    def days_before(self, day: date) -> HistoryPlan:
        """History window for judging a day: 2 x days earlier days, and the day."""
        names = None if self.models is None else (*self.models, *filter(None, [self.reference]))
        first = date.fromordinal(max(day.toordinal() - 2 * self.days, 1))
        return HistoryPlan(self.metrics, names, first, day, segments=(), paired=False)


def make_watch_plan(**options: Unpack[WatchOptions]) -> WatchPlan:
    """Return the validated options; raise ConfigError for an invalid one.

    >>> make_watch_plan(metrics=["ndcg@10"], reference="popularity").days
    28
    """
    return WatchPlan(**checked(WatchOptions, options, WATCH))
