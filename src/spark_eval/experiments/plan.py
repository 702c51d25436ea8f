"""Metrics, experiments and options of the sections ``online`` and ``interleaving``: records."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Annotated, Any, Final, TypedDict, Unpack

from spark_eval.conventions.comparison import Drop, Mode
from spark_eval.errors import ConfigError
from spark_eval.experiments.kinds import MetricKind
from spark_eval.kernels.parsers import as_tuple
from spark_eval.options import INSIDE_0_AND_1, SHARE, checked, whole_numbers
from spark_eval.schema import LARGEST_EXACT, Direction

SECTION: Final = "online"
INTERLEAVING: Final = "interleaving"
MICROSECONDS: Final = {"m": 60_000_000, "h": 3_600_000_000, "d": 86_400_000_000}
# Longest pre-period, and the largest number of A/A experiments.
MOST_DAYS: Final = 3_660
MOST_SALTS: Final = 1_000_000
# Microseconds of a day since exposure.
DAY: Final = MICROSECONDS["d"]
# Names in `by` that follow from the timestamp of an event; others are columns of the exposures.
HOUR: Final = "hour"
DAY_SLICE: Final = "day"
# Columns of ``user_days`` in addition to those of events: what the rows were summed for, and their number.
USER_DAYS: Final = "user_days"
N_EVENTS: Final = "n_events"
TIMES: Final = (HOUR, DAY_SLICE)


class Test(StrEnum):
    """Test of a difference: Welch's t, or the z-test of two proportions with their pooled variance."""

    WELCH = "welch"
    Z_POOLED = "z_pooled"


class SampleRatioTest(StrEnum):
    """Test of the numbers of units: chi^2 at one look, or the sequential multinomial test at any look."""

    FIXED = "fixed"
    SEQUENTIAL = "sequential"


class TermValue(StrEnum):
    """Value of a user's events of a kind: sum of values, number of events, or 1 if there is any."""

    SUM = "sum"
    COUNT = "count"
    ANY = "any"


class Role(StrEnum):
    """Role of a metric in the decision."""

    GOAL = "goal"
    GUARDRAIL = "guardrail"
    INFO = "info"


class MarginKind(StrEnum):
    """Unit of the margin of a guardrail: the metric's, or a share of the control's value."""

    ABSOLUTE = "absolute"
    RELATIVE = "relative"


class Correction(StrEnum):
    """Correction of the p-values of all goals and treatments of an experiment."""

    HOLM = "holm"
    BH = "bh"


class LiftMethod(StrEnum):
    """Interval of the lift."""

    FIELLER = "fieller"
    DELTA = "delta"
    LOG = "log"


class Preset(StrEnum):
    """Conventions on the lift: the default, or a library's.

    ``gbstats`` divides the adjusted difference by the raw value of the control, and tests the lift instead of
    the difference.
    """

    DEFAULT = "default"
    GBSTATS = "gbstats"
    TEA_TASTING = "tea_tasting"

    @property
    def lift(self) -> LiftMethod:
        """Interval of the lift."""
        methods = {Preset.GBSTATS: LiftMethod.DELTA, Preset.TEA_TASTING: LiftMethod.LOG}
        return methods.get(self, LiftMethod.FIELLER)


class ExperimentOptions(TypedDict, total=False):
    """Options of the analysis of experiments: keys of the config's section ``online``."""

    timezone: Annotated[str, "time zone of days, and of times without an offset.", "UTC"]
    pre_days: Annotated[
        int, "whole days before the day of exposure that are the pre-period.", 14, whole_numbers(1, MOST_DAYS)
    ]
    max_crossover: Annotated[float, "maximum share of users with two variants.", 0.01, SHARE]
    correction: Annotated[
        str, "correction of the p-values of goals and treatments: holm or bh.", "holm", Correction
    ]
    confidence: Annotated[
        float, "confidence of intervals; 1 - confidence is the level of tests.", 0.95, INSIDE_0_AND_1
    ]
    conventions: Annotated[
        str,
        "lifts and their intervals: default (Fieller), or as in gbstats or tea_tasting.",
        "default",
        Preset,
    ]
    cuped: Annotated[
        bool, "rows adjusted by the pre-period, in addition to the raw ones; a metric may have its own.", True
    ]
    by: Annotated[
        Sequence[str],
        "hour, day, or columns of the exposures: a row for each value, and tests over all; an experiment may "
        "have its own.",
        (),
    ]
    slices: Annotated[
        Sequence[str], "columns of the events: a row for each value, and tests over all.", (), as_tuple
    ]
    srm: Annotated[
        str, "test of the numbers of units: fixed, or sequential for daily looks.", "fixed", SampleRatioTest
    ]
    sequential: Annotated[
        Mapping[str, float] | None,
        "{tau} or {tightest_at}, and min_users: p-values and intervals that are valid at every look; an "
        "experiment may have its own.",
    ]
    novelty_days: Annotated[
        int | None, "days since exposure, of users with all of them: late - early, and each day."
    ]
    power: Annotated[float, "probability of detecting the smallest detectable effect.", 0.8, INSIDE_0_AND_1]
    aa_salts: Annotated[
        int | None,
        "random halves of the units, such as 1000: are the p-values of A/A experiments uniform?",
        None,
        whole_numbers(1, MOST_SALTS),
    ]
    bots: Annotated[
        Mapping[str, Any] | None,
        "{ids} and {pre_events}: users left out, by id or by events before exposure.",
    ]


# Value of a condition.
Scalar = bool | int | float | str


@dataclass(frozen=True)
class Condition:
    """Condition on a column of the events; see the filters of sources."""

    column: str
    op: str
    value: Scalar | Sequence[Scalar] | None = None


@dataclass(frozen=True)
class Term:
    """A unit's value of the events of a kind that meet all conditions, at most ``cap``.

    ``winsorise`` caps it at this quantile of all units of the experiment.
    """

    kind: str
    value: TermValue = TermValue.SUM
    where: tuple[Condition, ...] = ()
    cap: float | None = None
    winsorise: float | None = None


@dataclass(frozen=True)
class Metric:
    """A metric; ``denominator`` is None for means, ``margin`` is None unless it is a guardrail.

    Values of events are rounded to ``decimals``, half-even; negative ones are valid if ``signed``. ``day`` is
    that of a retention. ``effect`` is the difference to plan for: ``n_needed`` units detect it.
    ``cuped`` adds the rows that are adjusted by the pre-period.
    """

    name: str
    kind: MetricKind
    numerator: Term
    denominator: Term | None = None
    role: Role = Role.GOAL
    direction: Direction = Direction.HIGHER
    decimals: int = 0
    signed: bool = False
    margin: float | None = None
    margin_kind: MarginKind = MarginKind.ABSOLUTE
    test: Test = Test.WELCH
    day: int | None = None
    effect: float | None = None
    cuped: bool = True

    @property
    def is_share(self) -> bool:
        """True for the share of units that have an event."""
        return self.kind.is_share(is_any=self.numerator.value is TermValue.ANY)

    @property
    def terms(self) -> tuple[Term, ...]:
        """Numerator, then the denominator if there is one."""
        return (self.numerator,) if self.denominator is None else (self.numerator, self.denominator)

    @property
    def sign(self) -> int:
        """1 if higher values are better, otherwise -1."""
        return -1 if self.direction is Direction.LOWER else 1

    def scale(self, term: Term) -> int:
        """Return the number of units in 1: sums are integers in units of the last decimal."""
        return 10**self.decimals if term.value is TermValue.SUM else 1

    @property
    def scales(self) -> tuple[int, int]:
        """Scales of the sums x and y."""
        return self.kind.scales(*map(self.scale, self.terms))


@dataclass(frozen=True)
class Assignment:
    """Assignment by hash: ``ranges`` are half-open and disjoint ranges of the buckets, by variant."""

    salt: str
    ranges: Mapping[str, tuple[int, int]]
    buckets: int = 10_000


@dataclass(frozen=True)
class Stratum:
    """Planned weights of the units that are first exposed from ``start`` on, in microseconds."""

    start: int
    weights: Mapping[str, float]


@dataclass(frozen=True)
class Gate:
    """Gate of an experiment: its decision, and a limit on how far a treatment may fall behind in a metric.

    Without ``max_drop`` only the decision counts.
    """

    experiment: str
    metric: str
    max_drop: float | None = None
    drop: Drop = Drop.ABSOLUTE
    mode: Mode = Mode.NON_INFERIOR
    confidence: float = 0.95


@dataclass(frozen=True)
class Sequential:
    """Mixture of the sequential test: its standard deviation, or the number of units where it is tightest."""

    tau: float | None = None
    tightest_at: float | None = None
    min_users: int = 100


@dataclass(frozen=True)
class Bots:
    """Units left out: by id, or with more events in the pre-period than ``pre_events``."""

    ids: tuple[str, ...] = ()
    pre_events: int | None = None


@dataclass(frozen=True)
class Experiment:
    """An experiment; ``variants`` are planned weights, the control first. Times are in microseconds.

    ``strata`` are the weights over time, oldest first; there is one unless they change. ``by`` has the names
    that all metrics are sliced by: hour, day, columns of the exposures. ``unit`` is None for users, otherwise
    a column of the exposures, and of the events if they have it.
    """

    name: str
    control: str
    variants: Mapping[str, float]
    start: int
    end: int
    window: int | None = None
    assignment: Assignment | None = None
    strata: tuple[Stratum, ...] = ()
    unit: str | None = None
    by: tuple[str, ...] = ()
    sequential: Sequential | None = None

    @property
    def segments(self) -> tuple[str, ...]:
        """Columns of the exposures in ``by``."""
        return tuple(name for name in self.by if name not in TIMES)

    @property
    def times(self) -> tuple[str, ...]:
        """Hour and day in ``by``."""
        return tuple(name for name in self.by if name in TIMES)

    @property
    def arms(self) -> tuple[str, ...]:
        """Names of the variants, the control first."""
        return (self.control, *(name for name in self.variants if name != self.control))


# Experiment, term and scale of a sum.
TermKey = tuple[str, Term, int]


@dataclass(frozen=True)
class ExperimentPlan:
    """Validated metrics, experiments and options; see ExperimentOptions.

    ``caps`` are those of winsorised terms, in units of 1 / scale; they follow from the data.
    """

    metrics: tuple[Metric, ...]
    experiments: tuple[Experiment, ...]
    timezone: str
    pre_days: int
    max_crossover: float
    correction: Correction
    confidence: float
    conventions: Preset
    slices: tuple[str, ...]
    srm: SampleRatioTest
    novelty_days: int | None
    power: float
    bots: Bots
    aa_salts: int | None = None
    gates: tuple[Gate, ...] = ()
    by_unit: bool = False
    caps: Mapping[TermKey, int] = field(default_factory=dict)

    @property
    def winsorised(self) -> tuple[tuple[Term, int], ...]:
        """Winsorised terms with their scale, each once."""
        pairs = [(term, metric.scale(term)) for metric in self.metrics for term in metric.terms]
        return tuple(dict.fromkeys((term, scale) for term, scale in pairs if term.winsorise is not None))

    @property
    def terms(self) -> tuple[Term, ...]:
        """Terms of all metrics."""
        return tuple(term for metric in self.metrics for term in metric.terms)

    @property
    def segments(self) -> tuple[str, ...]:
        """Columns of the exposures that some experiment is sliced by, each once."""
        return tuple(dict.fromkeys(name for one in self.experiments for name in one.segments))

    @property
    def arms(self) -> tuple[str, ...]:
        """Names of the variants of all experiments, each once."""
        return tuple(dict.fromkeys(arm for one in self.experiments for arm in one.arms))

    @property
    def event_columns(self) -> tuple[str, ...]:
        """Columns of the events that conditions and slices read, each once."""
        conditions = [condition.column for term in self.terms for condition in term.where]
        return tuple(dict.fromkeys([*conditions, *self.slices]))

    @property
    def kinds(self) -> tuple[str, ...]:
        """Kinds of events that some metric uses, sorted."""
        return tuple(sorted({term.kind for term in self.terms}))

    @property
    def summed_kinds(self) -> frozenset[str]:
        """Kinds whose values some metric sums; values of others are not read."""
        return frozenset(term.kind for term in self.terms if term.value is TermValue.SUM)

    @property
    def signed_kinds(self) -> frozenset[str]:
        """Kinds whose values may be negative: those that only signed metrics sum."""
        unsigned = [
            term.kind
            for metric in self.metrics
            for term in metric.terms
            if term.value is TermValue.SUM and not metric.signed
        ]
        return self.summed_kinds - set(unsigned)

    @property
    def largest_value(self) -> float:
        """Largest absolute value of an event that is exact at the decimals of all metrics."""
        return float(LARGEST_EXACT // 10 ** max(metric.decimals for metric in self.metrics))

    @property
    def summed_decimals(self) -> tuple[int, ...]:
        """Decimals that values are summed with, sorted; ``user_days`` has a sum for each."""
        summed = {
            metric.decimals for metric in self.metrics for term in metric.terms if term.value is TermValue.SUM
        }
        return tuple(sorted(summed))

    @property
    def has_hours(self) -> bool:
        """True if some experiment is sliced by the hour."""
        return any(HOUR in one.times for one in self.experiments)

    @property
    def day_columns(self) -> tuple[str, ...]:
        """Numbers in the rows of ``user_days``: events, and their sums."""
        return (N_EVENTS, *(f"sum_{decimals}" for decimals in self.summed_decimals))

    @property
    def digest(self) -> str:
        """Hash of what the rows of ``user_days`` depend on; rows of other plans are refused."""
        experiments = tuple(replace(one, by=(), sequential=None) for one in self.experiments)
        parts = (self.kinds, self.event_columns, self.summed_decimals, self.timezone, experiments)
        text = repr((*parts, self.has_hours, self.by_unit))
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    @property
    def stamp(self) -> str:
        """Conventions, as text for every output row."""
        parts = ["welch", "delta method", f"lift={self.conventions.lift}", f"correction={self.correction}"]
        unit = ["unit"] if self.by_unit else []
        if self.conventions is not Preset.DEFAULT:
            parts.insert(0, f"preset={self.conventions}")
        return "; ".join([*parts, f"pre_days={self.pre_days}", f"timezone={self.timezone}", *unit])


def names_of(given: Sequence[Metric] | Sequence[Experiment]) -> str:
    """Return the names of metrics or experiments, for display."""
    return ", ".join(one.name for one in given)


def two_teams(given: Any, where: str) -> tuple[str, str]:
    """Return two different names; raise ConfigError OUT_OF_RANGE for anything else."""
    if isinstance(given, str) or len(given) != 2 or len(set(given)) != 2:
        raise ConfigError("OUT_OF_RANGE", f"{where} is {given!r}; give two different names")
    first, second = given
    if not isinstance(first, str) or not isinstance(second, str):
        raise ConfigError("OUT_OF_RANGE", f"{where} is {given!r}; give two different names")
    return first, second


class InterleavingOptions(TypedDict, total=False):
    """Options of interleaving: keys of the config's section ``interleaving``."""

    teams: Annotated[
        Sequence[str],
        "names of the two teams; differences are those of the first from the second.",
        ("a", "b"),
        two_teams,
    ]
    confidence: Annotated[
        float, "confidence of intervals; 1 - confidence is the level of the decision.", 0.95, INSIDE_0_AND_1
    ]


@dataclass(frozen=True)
class InterleavingPlan:
    """Validated options; see InterleavingOptions."""

    teams: tuple[str, str]
    confidence: float


def make_interleaving_plan(**options: Unpack[InterleavingOptions]) -> InterleavingPlan:
    """Return the validated plan; raise ConfigError OUT_OF_RANGE.

    >>> make_interleaving_plan(teams=["new", "old"]).teams
    ('new', 'old')
    """
    return InterleavingPlan(**checked(InterleavingOptions, options, INTERLEAVING))
