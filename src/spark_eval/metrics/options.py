"""What to measure, and by which rules: checked choices, as one value."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, Final, TypedDict, Unpack

from spark_eval.conventions import Checks, Conventions
from spark_eval.errors import ConfigError
from spark_eval.metrics import MetricValue, metric_values
from spark_eval.metrics.aliases import several
from spark_eval.metrics.registry import Fact, Kind
from spark_eval.metrics.values import parse_k
from spark_eval.options import Option, completed
from spark_eval.presets import changed, parse_choice, parse_conventions, stamp
from spark_eval.schema import FOLD

DEFAULT_METRICS: Final = ("precision", "recall", "f1", "hit_rate", "map", "mar", "mrr", "arhr", "ndcg")


class EvaluateOptions(TypedDict, total=False):
    """What ``evaluate`` measures, and by which rules: also the keys of the config's section ``evaluate``."""

    segments: Annotated[
        Sequence[str],
        Option((), "columns of users, or known and activity: their users' means stand beside those of all."),
    ]
    metrics: Annotated[
        Sequence[str],
        Option(DEFAULT_METRICS, "names, each perhaps with conventions and k of its own: ndcg(gain=exp2)@10."),
    ]
    k: Annotated[Sequence[int | str] | int | str, Option((1, 5, 10), "cutoffs; all means no cutoff.")]
    conventions: Annotated[
        Conventions | str | Mapping[str, Any],
        Option("default", "a preset's name, or a mapping of it and single choices: {preset: spark, ...}."),
    ]
    threshold: Annotated[
        float | None, Option(None, "relevant is what has this relevance or more; None: more than 0.")
    ]
    no_recommendations: Annotated[
        str | None, Option(None, "users with truth but no list: zero or drop; None: by the conventions.")
    ]
    no_truth: Annotated[
        str | None, Option(None, "users with a list but no truth: drop or zero; None: by the conventions.")
    ]
    checks: Annotated[
        str, Option("hits", "look for repeated items and ranks among the hits, or in full lists: full.")
    ]


@dataclass(frozen=True)
class Plan:
    """The section ``evaluate`` of the config, checked; ``asked`` are all metrics, in their order."""

    asked: Sequence[MetricValue]
    conventions: Conventions
    checks: Checks
    segments: Sequence[str] = ()

    @cached_property
    def metrics(self) -> list[MetricValue]:
        """The metrics of users: each has a value for every one."""
        return [value for value in self.asked if value.metric.is_of_users]

    @cached_property
    def of_run(self) -> list[MetricValue]:
        """The metrics of a whole run, which see how often each item was recommended."""
        return [value for value in self.asked if value.metric.kind is Kind.CATALOG]

    @cached_property
    def of_groups(self) -> list[MetricValue]:
        """The metrics with a value of the run for each group of items."""
        return [value for value in self.asked if value.metric.kind is Kind.GROUPS]

    @cached_property
    def facts(self) -> frozenset[Fact]:
        """What the metrics need to know of items."""
        return frozenset[Fact]().union(*(value.facts(self.conventions) for value in self.asked))

    @property
    def columns(self) -> list[str]:
        """The metric columns of ``per_user``: ``ap_at_1``, ``ap_at_5``, ..."""
        return [column for value in self.metrics for column in value.columns]

    @cached_property
    def cuts(self) -> list[int]:
        """Every cutoff k that a metric is asked for at, ascending."""
        return sorted({value.k for value in self.asked if value.k is not None})

    @cached_property
    def depth(self) -> int | None:
        """The largest rank at which a hit can change a number; None: any."""
        if any(value.sees_whole_list(self.conventions) for value in self.asked):
            return None
        return None if self.drops_users_without_hits else max(self.cuts)

    @cached_property
    def truth_depth(self) -> int | None:
        """How many of a user's relevant items, best first, an ideal list can hold; None: all."""
        return None if any(value.k is None for value in self.asked) else max(self.cuts)

    @cached_property
    def sees_ties(self) -> bool:
        """Whether a metric must know which items have equal scores."""
        return any(value.sees_ties(self.conventions) for value in self.metrics)

    @cached_property
    def held_cuts(self) -> tuple[int, ...] | None:
        """The cutoffs up to which the items of a list are counted; None: no metric asks where items are."""
        values = [value for value in self.metrics if value.sees_pairs]
        return tuple(sorted({value.k for value in values if value.k is not None})) if values else None

    @property
    def by_fold(self) -> bool:
        """Whether ids carry their fold; it is the first segment then."""
        return FOLD in self.segments

    @property
    def drops_users_without_hits(self) -> bool:
        """Whether the population leaves out users whose list holds nothing relevant."""
        return self.conventions.no_hits == "drop"

    @property
    def stamp(self) -> str:
        """Conventions and population rules, as they stand on every output row."""
        return stamp(self.conventions)


def make_plan(**options: Unpack[EvaluateOptions]) -> Plan:
    """Return the checked choices; raise ConfigError with the nearest allowed one.

    A single name or number of ``metrics``, ``k`` and ``segments`` means a list of one.
    ``threshold``, ``no_recommendations`` and ``no_truth`` go before those of the conventions.
    """
    chosen = completed(EvaluateOptions, options)
    cutoffs, names = dict.fromkeys(map(parse_k, several(chosen["k"]))), several(chosen["metrics"])
    if not cutoffs:
        raise ConfigError("INVALID_K", "evaluate.k is empty; give at least one cutoff, or all")
    if not names:
        raise ConfigError("NO_METRICS", "evaluate.metrics is empty; `spark-eval metrics` lists them")
    conventions = parse_conventions(chosen["conventions"])
    first = {name: chosen[name] for name in ("threshold", "no_recommendations", "no_truth")}
    conventions = changed(conventions, {name: one for name, one in first.items() if one is not None})
    values = metric_values(names, sorted(cutoffs, key=lambda cut: (cut is None, cut)), conventions)
    counts_items = any(value.sees_length(conventions) for value in values)
    checks = parse_choice(Checks, chosen["checks"], "evaluate.checks")
    return Plan(
        asked=values,
        conventions=conventions,
        checks=Checks.FULL if counts_items else checks,
        segments=tuple(several(chosen["segments"])),
    )
