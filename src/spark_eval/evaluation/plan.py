"""Options of ``evaluate``: checked, and turned into a ``Plan``."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property
from typing import Annotated, Any, Final, TypedDict, Unpack

from spark_eval.conventions import Checks, Conventions, Gain
from spark_eval.conventions.choice import Choice, Need
from spark_eval.conventions.presets import parse_conventions, stamp, with_choices
from spark_eval.errors import ConfigError
from spark_eval.kernels.aliases import as_list
from spark_eval.kernels.columns import sum_of_columns
from spark_eval.kernels.means import MeanOverRepeats, WeightedMean, means_over_repeats, weighted_means
from spark_eval.kernels.parsers import RESAMPLES, Seed, as_tuple, metric_texts
from spark_eval.kernels.registry import OF_LISTS
from spark_eval.kernels.stages import Stage, make_stages
from spark_eval.kernels.values import METRICS_KEY, UNCUT, MetricValue, canonical_text, metric_values, parse_k
from spark_eval.options import Given, checked
from spark_eval.schema import FEATURES, FOLD, GROUPS, PROPENSITY, VECTOR, BuiltIn, ItemBuiltIn
from spark_eval.statistics.resampling import DEFAULT_RESAMPLES

# The square of 2^512 is still a double.
MAX_EXP2_RELEVANCE: Final = 511
LARGEST_DOUBLE: Final = sys.float_info.max
DEFAULT_METRICS: Final = ("precision", "recall", "f1", "hit_rate", "map", "mar", "mrr", "arhr", "ndcg")

# Needs of training interactions, and of columns of items.
OF_TRAIN: Final = frozenset({Need.HISTORY, Need.POPULARITY, Need.TAKERS})
ITEM_COLUMNS: Final = {
    Need.GROUPS: GROUPS,
    Need.FEATURES: FEATURES,
    Need.VECTORS: VECTOR,
    Need.PROPENSITIES: PROPENSITY,
}
ILD_WITHOUT_VECTORS: Final = "ild(distance=jaccard)"


class MeanInterval(Choice):
    """Confidence interval of a mean over users."""

    NORMAL = "normal", "mean -+ z * std_error; of weighted means by the delta method"
    BOOTSTRAP = "bootstrap", "percentiles of means over resampled users"


class ListWeight(Choice):
    """Weight of a list in a mean, if users have a list per request."""

    REQUESTS = "requests", "each list counts once; standard errors are clustered by user"
    USERS = "users", "each user counts once, with the mean of the user's lists"


class Candidates(Choice):
    """Items that the lists of a run rank."""

    FULL = "full", "all items, or all that a user may be given"
    SAMPLED = "sampled", "the truth among a few sampled items; not compared with full rankings"


class RequestTruth(StrEnum):
    """Owner of a relevant item, if users have a list per request."""

    REQUESTS = "requests"
    USERS = "users"


def ascending_cutoffs(given: Any, where: str) -> list[int | None]:
    """Return the distinct cutoffs, ``all`` as None and last; raise ConfigError INVALID_K."""
    cutoffs = set(map(parse_k, as_list(given)))
    if not cutoffs:
        raise ConfigError("INVALID_K", f"{where} is empty; give at least one cutoff, or all")
    return sorted(cutoffs, key=lambda cut: (cut is None, cut))


class EvaluateOptions(TypedDict, total=False):
    """Options of ``evaluate`` and keys of the config's section ``evaluate``."""

    segments: Annotated[
        Sequence[str],
        "columns of users, or known and activity (deciles of training rows): means per value, too.",
        (),
        as_tuple,
    ]
    item_segments: Annotated[
        Sequence[str],
        "columns of items, or popularity and cold: means over relevant items of each value alone, too.",
        (),
        as_tuple,
    ]
    metrics: Annotated[
        Sequence[str],
        "names, optionally with conventions and k: ndcg(gain=exp2)@10.",
        DEFAULT_METRICS,
        metric_texts,
        canonical_text,
    ]
    k: Annotated[
        Sequence[int | str] | int | str,
        "cutoffs; all means no cutoff.",
        (1, 5, 10),
        ascending_cutoffs,
        None,
        "INVALID_K",
    ]
    conventions: Annotated[
        Conventions | str | Given,
        "name of a preset, or a mapping of a preset and single choices: {preset: spark, ...}.",
        "default",
    ]
    threshold: Annotated[float | None, "smallest relevance of a relevant item; None: any above 0."]
    no_recommendations: Annotated[
        str | None, "users with truth but no list: zero or drop; None: as in the conventions."
    ]
    no_truth: Annotated[
        str | None, "users with a list but no truth: drop or zero; None: as in the conventions."
    ]
    checks: Annotated[
        str, "search for repeated items and ranks among hits, or in full lists: full.", "hits", Checks
    ]
    stages: Annotated[
        Sequence[Given],
        "stages of a pipeline, candidates first, each a mapping of name, model and k.",
        (),
        None,
        None,
        "INVALID_STAGE",
    ]
    interval: Annotated[
        str, "of means: normal, or bootstrap, which needs a second pass.", "normal", MeanInterval
    ]
    resamples: Annotated[int, "number of bootstrap replicates.", DEFAULT_RESAMPLES, RESAMPLES]
    seed: Seed
    weight: Annotated[
        str,
        "of lists in means, with a column request: requests, or users, who count once each.",
        "requests",
        ListWeight,
    ]
    base: Annotated[str | None, "name of the baseline model for unexpectedness."]
    candidates: Annotated[
        str,
        "items that lists rank: full, or sampled: the truth among a few, compared with sampled ones alone.",
        "full",
        Candidates,
    ]
    by_repeat: Annotated[bool, "with a column repeat: rows of metrics for each repeat, too.", False]


@dataclass(frozen=True)
class Plan:
    """Validated options of ``evaluate``; ``requested`` are the requested metrics, in order.

    ``request_truth`` is None if users have one list each; it follows from the tables, and so does
    ``has_repeats``: True if models have lists of several repeats.
    """

    requested: Sequence[MetricValue]
    conventions: Conventions
    checks: Checks
    segments: Sequence[str]
    stages: Sequence[Stage]
    interval: MeanInterval
    resamples: int
    seed: int
    weight: ListWeight
    base: str | None
    candidates: Candidates
    by_repeat: bool = False
    request_truth: RequestTruth | None = None
    item_segments: Sequence[str] = ()
    has_repeats: bool = False

    @cached_property
    def run_cuts(self) -> list[int | None]:
        """Cutoffs of the counts of recommended items and of item groups; None: whole lists."""
        return list(dict.fromkeys(value.k for value in (*self.of_run, *self.of_groups)))

    @cached_property
    def metrics(self) -> list[MetricValue]:
        """Metrics with a value per user."""
        return [value for value in self.requested if value.metric.is_of_users]

    @cached_property
    def weighted(self) -> list[WeightedMean]:
        """Weighted means over users of the metrics."""
        return weighted_means(self.metrics)

    @cached_property
    def over_repeats(self) -> list[MeanOverRepeats]:
        """Means of one value over all repeats of a model; none without repeats."""
        return means_over_repeats(self.metrics) if self.has_repeats else []

    @cached_property
    def of_run(self) -> list[MetricValue]:
        """Metrics of the whole run, computed from the number of lists with each item."""
        return [value for value in self.requested if Need.ITEM_COUNTS in value.metric.needs]

    @cached_property
    def of_groups(self) -> list[MetricValue]:
        """Metrics with a value of the run for each group of items."""
        return [value for value in self.requested if Need.GROUP_WEIGHTS in value.metric.needs]

    @cached_property
    def needs(self) -> frozenset[Need]:
        """All needs of the metrics, under their choices; executors get these inputs alone."""
        return frozenset[Need]().union(*(value.needs(self.conventions) for value in self.requested))

    def values_with(self, *needs: Need) -> list[MetricValue]:
        """Return the metrics that have one of these needs."""
        return [value for value in self.requested if not value.needs(self.conventions).isdisjoint(needs)]

    @property
    def columns(self) -> list[str]:
        """Metric columns of ``per_user``: ``ap_at_1``, ``ap_at_5``, ..."""
        return [column for value in self.metrics for column in value.columns]

    @cached_property
    def summed(self) -> dict[str, tuple[str, ...]]:
        """Sums over users (see ``columns.summed``), and numbers of non-empty lists at ``run_cuts``."""
        filled = map(filled_column, self.run_cuts)
        return sum_of_columns(self.metrics) | {column: (column,) for column in filled}

    @cached_property
    def item_metrics(self) -> list[MetricValue]:
        """Metrics with rows for segments of items: metrics of hits and lengths alone."""
        return [value for value in self.metrics if value.needs(self.conventions) <= OF_LISTS]

    @cached_property
    def attributes(self) -> list[str]:
        """The segments of items that are columns of ``items``."""
        return [name for name in self.item_segments if name not in set(ItemBuiltIn)]

    @property
    def reads_items(self) -> bool:
        """True if metrics or segments need attributes of items."""
        return self.needs_items or bool(self.item_segments)

    @cached_property
    def cuts(self) -> list[int]:
        """All cutoffs k of the metrics, ascending."""
        return sorted({value.k for value in self.requested if value.k is not None})

    @cached_property
    def user_columns(self) -> list[str]:
        """The segments that are columns of ``users``."""
        return [name for name in self.segments if name not in {*BuiltIn, FOLD}]

    @cached_property
    def needs_items(self) -> bool:
        """True if any metric needs more than hits and lengths, so that item attributes are read."""
        return not self.needs <= OF_LISTS

    @cached_property
    def listed_depth(self) -> int | None:
        """Largest rank of the items that a metric needs; None: any."""
        cuts = [value.k for value in self.values_with(Need.ITEMS)]
        return None if None in cuts else max((k for k in cuts if k is not None), default=0)

    @cached_property
    def flags(self) -> list[str]:
        """Boolean columns of ``items`` that metrics need."""
        columns = (value.item_column(self.conventions) for value in self.values_with(Need.FLAGS))
        return list(dict.fromkeys(column for column in columns if column is not None))

    @property
    def item_columns(self) -> dict[str, str]:
        """Required columns of ``items``, with the purpose of each as text."""
        needed = {}
        for need, column in ITEM_COLUMNS.items():
            if names := dict.fromkeys(value.name for value in self.values_with(need)):
                needed[column] = f"for {', '.join(names)}"
        for value in self.values_with(Need.FLAGS):
            needed[value.item_column(self.conventions) or ""] = f"for {value.name}"
        if VECTOR in needed and "ild" in needed[VECTOR]:
            needed[VECTOR] += f" (by features instead: {ILD_WITHOUT_VECTORS})"
        return needed

    def check_tables(self, *, has_train: bool, has_items: bool) -> None:
        """Raise ConfigError for a table, or a baseline model, that a metric needs but that is missing."""
        has_catalog, has_base = has_items or has_train, self.base is not None
        for is_there, needs, fault in (
            (has_train, OF_TRAIN, ConfigError("MISSING_TRAIN", "training interactions; give train")),
            (
                has_items,
                [*ITEM_COLUMNS, Need.FLAGS],
                ConfigError("MISSING_ITEMS", "item attributes; give items"),
            ),
            (has_catalog, [Need.CATALOG], ConfigError("MISSING_CATALOG", "a catalogue; items, or train")),
            (has_base, [Need.BASE], ConfigError("MISSING_BASE", "a baseline model; name it in base")),
        ):
            names = ", ".join(dict.fromkeys(value.name for value in self.values_with(*needs)))
            if names and not is_there:
                columns = [f"{column} {why}" for column, why in self.item_columns.items()]
                more = f", with {', '.join(columns)}" if fault.code == "MISSING_ITEMS" else ""
                raise ConfigError(fault.code, f"{METRICS_KEY}: for {names} we need {fault.message}{more}")

    @cached_property
    def depth(self) -> int | None:
        """Largest rank of the hits that can change a metric; None: any."""
        if Need.WHOLE_LIST in self.needs:
            return None
        return None if self.drops_users_without_hits else max([*self.cuts, *self.stage_cuts])

    @cached_property
    def stage_cuts(self) -> list[int]:
        """Cutoffs of the pipeline's stages, ascending."""
        return sorted({stage.k for stage in self.stages})

    @cached_property
    def handed_on_depth(self) -> int:
        """Largest rank of the items that comparisons of stages need; 0 if no stage reranks another."""
        compared = {one.reranks for one in self.stages} | {one.name for one in self.stages if one.reranks}
        return max((stage.k for stage in self.stages if stage.name in compared), default=0)

    @cached_property
    def truth_depth(self) -> int | None:
        """Maximum number of a user's relevant items in an ideal list, best first; None: all."""
        return None if any(value.k is None for value in self.requested) else max(self.cuts)

    @cached_property
    def length_cuts(self) -> tuple[int, ...] | None:
        """Cutoffs of the lengths by rank; None: no metric needs them."""
        values = self.values_with(Need.LENGTHS_BY_RANK)
        return tuple(sorted({value.k for value in values if value.k is not None})) if values else None

    @cached_property
    def most_relevance(self) -> float:
        """Largest relevance with a finite gain in every metric."""
        gains = {value.conventions(self.conventions).gain for value in self.metrics}
        if Gain.EXP2_PLUS_1 in gains:
            return MAX_EXP2_RELEVANCE - 1
        return MAX_EXP2_RELEVANCE if Gain.EXP2 in gains else LARGEST_DOUBLE

    @property
    def by_request(self) -> bool:
        """True if a list belongs to a user and a request."""
        return self.request_truth is not None

    @property
    def by_fold(self) -> bool:
        """True if ids include their fold; ``fold`` is then the first segment."""
        return FOLD in self.segments

    @property
    def drops_users_without_hits(self) -> bool:
        """True if users without a hit are left out of the mean."""
        return self.conventions.no_hits == "drop"

    @property
    def request_rules(self) -> dict[str, str]:
        """Rules of lists by request; empty if users have one list each."""
        return {} if self.request_truth is None else {"weight": self.weight, "truth": self.request_truth}

    @property
    def stamp(self) -> str:
        """Conventions and population rules, as in every output row."""
        candidates = None if self.candidates is Candidates.FULL else self.candidates
        return stamp(self.conventions, self.request_rules, candidates)


def make_plan(**options: Unpack[EvaluateOptions]) -> Plan:
    """Check the options; raise ConfigError with the nearest allowed value.

    A single name or number of ``metrics``, ``k`` and segments means a list of one. ``threshold``,
    ``no_recommendations`` and ``no_truth`` take precedence over the conventions.
    """
    chosen = checked(EvaluateOptions, options, "evaluate")
    first = {name: chosen.pop(name) for name in ("threshold", "no_recommendations", "no_truth")}
    conventions = parse_conventions(chosen.pop("conventions"))
    conventions = with_choices(conventions, {name: one for name, one in first.items() if one is not None})
    values = metric_values(chosen.pop("metrics"), chosen.pop("k"), conventions)
    chosen["stages"] = make_stages(as_list(chosen["stages"] or ()))
    plan = Plan(values, conventions, **chosen)
    needs_all = Need.LENGTHS in plan.needs or plan.handed_on_depth
    return replace(plan, checks=Checks.FULL) if needs_all else plan


def filled_column(k: int | None) -> str:
    """Return the name of the column that is 1 for lists with an item at a rank up to k."""
    return f"filled_at_{UNCUT if k is None else k}"
