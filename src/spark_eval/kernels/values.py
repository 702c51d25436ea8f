"""Metrics as values: ``ndcg(gain=exp2)@10``, with one printed form that can be parsed."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from spark_eval.conventions import CONVENTIONS, AverageVariant, Conventions, TieOrder
from spark_eval.conventions.choice import Choice, ColumnName, Need
from spark_eval.errors import ConfigError, parse_choice
from spark_eval.kernels.aliases import find_name, metric_named
from spark_eval.kernels.beyond.catalog import GroupWeights, ItemCounts
from spark_eval.kernels.lists import Lists
from spark_eval.kernels.registry import IMPLIED, RANKING, RankingMetric, Weight
from spark_eval.statistics.exact import Floats

METRICS_KEY: Final = "evaluate.metrics"
MAX_K: Final = 100_000
# The cutoff of a metric over the whole list.
UNCUT: Final = "all"
WHOLE: Final = re.compile(r"[0-9]{1,10}")
FORM: Final = re.compile(r"(?P<name>\w+(-[A-Za-z]\w*)*)(\((?P<options>[^()]*)\))?(@(?P<k>\w+))?")
COLUMN: Final = re.compile(r"[^\W\d]\w*")
# Metrics that can average over the ranks of tied items, as scikit-learn does.
SHARES_PLACES: Final = ("dcg", "ndcg", "ap")


# Pairs of a convention and a choice, or a column of items.
Options = tuple[tuple[str, Choice | ColumnName], ...]


@dataclass(frozen=True)
class MetricValue:
    """A metric at a cutoff (None: the whole list), optionally with its own conventions.

    ``options`` are pairs of a convention and a choice, in the order of the metric's options.
    """

    metric: RankingMetric
    options: Options
    k: int | None

    @property
    def name(self) -> str:
        """Run name with options, as in the table ``metrics``: ``map(denominator=relevant)``."""
        return self.named(self.metric.run_name)

    def named(self, run_name: str) -> str:
        """Return a run name with its options: ``map(denominator=relevant)``, or ``map`` without any."""
        chosen = ", ".join(f"{without_metric(name, self.metric)}={choice}" for name, choice in self.options)
        return f"{run_name}({chosen})" if chosen else run_name

    def __str__(self) -> str:
        return f"{self.name}@{self.cutoff}"

    @property
    def cutoff(self) -> str:
        """Cutoff as text: k, or ``all``."""
        return UNCUT if self.k is None else str(self.k)

    @property
    def column(self) -> str:
        """Column in ``per_user``: ``ap_denominator_relevant_at_5``."""
        return self.column_of(self.metric.name)

    @property
    def columns(self) -> list[str]:
        """Columns in ``per_user``: the value, then the weights of its weighted means.

        Values of a run have no columns.
        """
        if not self.metric.is_of_users:
            return []
        return [self.column, *(self.column_of(weight.name) for weight in self.metric.weights.values())]

    def column_of(self, name: str) -> str:
        """Return the column of a quantity of this value, such as a weight."""
        options = [f"{without_metric(name, self.metric)}_{choice}" for name, choice in self.options]
        return "_".join([name, *options, "at", self.cutoff])

    @property
    def weights(self) -> dict[str, Weight]:
        """Weights of the weighted means, by their names in the table ``metrics``."""
        return {self.named(run_name): weight for run_name, weight in self.metric.weights.items()}

    @property
    def names(self) -> list[str]:
        """Names in the table ``metrics``, in their order."""
        return [self.name, *map(self.named, self.metric.names[1:])]

    @property
    def catalog_name(self) -> str:
        """Name of the catalogue's share, reported with the value of each group of items."""
        return self.named(self.metric.catalog_name or "")

    def conventions(self, run: Conventions) -> Conventions:
        """Return the conventions of the run, changed by this value's options."""
        return run.changed(dict(self.options)) if self.options else run

    def needs(self, run: Conventions) -> frozenset[Need]:
        """Return all its needs: the metric's, its choices' and its cutoff's, and what they imply."""
        own = self.conventions(run)
        needs = self.metric.needs.union(*(getattr(own, name).needs for name in self.metric.conventions))
        if self.k is None:
            needs |= {Need.WHOLE_LIST, Need.LENGTHS}
        return needs.union(*(IMPLIED.get(need, ()) for need in needs))

    def item_column(self, run: Conventions) -> str | None:
        """Return the column of items that it takes as an option; None if it takes none."""
        name = self.metric.column_option
        return None if name is None else getattr(self.conventions(run), name)

    def is_arranged(self, run: Conventions) -> bool:
        """Return True if it reorders equal scores instead of using the ranks.

        Metrics that handle ties themselves, or need more than hits, use the list as ranked.
        """
        has_order = "tie_order" in self.metric.conventions
        return has_order and self.conventions(run).tie_order is not TieOrder.AS_RANKED

    def measure(self, lists: Lists, run: Conventions) -> dict[str, Floats]:
        """Return its values and its weights by column; each of shape (n,)."""
        own = self.conventions(run)
        seen = lists.arranged(own.tie_order) if self.is_arranged(run) else lists
        columns = {self.column: self.metric.kernel(seen, self.k, own)}
        for weight in self.metric.weights.values():
            columns[self.column_of(weight.name)] = weight.kernel(seen, self.k, own)
        return columns

    def of_run(self, counts: ItemCounts, run: Conventions) -> float:
        """Return the value of a metric of item counts, NaN if undefined."""
        return float(self.metric.kernel(counts, self.k, self.conventions(run)))

    def of_groups(self, weights: GroupWeights, run: Conventions) -> dict[str, float]:
        """Return the values of a metric of group weights by group of items, NaN if undefined."""
        shares = self.metric.kernel(weights, self.k, self.conventions(run))
        return dict(zip(weights.names, shares.tolist(), strict=True))


def without_metric(convention: str, metric: RankingMetric) -> str:
    """Strip the metric from a convention's name: ``ap_denominator`` of ap is ``denominator``."""
    return convention.removeprefix(f"{metric.name}_")


def metric_values(
    texts: Sequence[str], ks: Sequence[int | None], conventions: Conventions
) -> list[MetricValue]:
    """Parse metrics, each at its own cutoff or at all of ``ks``; without duplicates, in order.

    Raises ConfigError INVALID_METRIC, UNKNOWN_METRIC, UNKNOWN_OPTION, INVALID_CHOICE or TIE_ORDER.
    """
    values: dict[str, MetricValue] = {}
    for text in texts:
        for value in parse_metric(text, ks):
            values.setdefault(value.column, value)
    check_shared(values.values(), conventions)
    return list(values.values())


def parse_metric(text: str, ks: Sequence[int | None] = (), key: str = METRICS_KEY) -> list[MetricValue]:
    """Parse ``map(denominator=relevant)@5``; without ``@``, or with ``@k``, return one value per ``ks``.

    ``key`` is the config key of the text, for messages.

    Raises:
        ConfigError: INVALID_METRIC, UNKNOWN_METRIC (also for means over repeats, which come with their
            metric), UNKNOWN_OPTION, INVALID_CHOICE or INVALID_K.
    """
    form = split_metric_text(text, key)
    metric = metric_named(form["name"], ranking_names(), key)
    if find_name(form["name"], metric.over_repeats) is not None:
        message = f"{key}: {form['name']} comes with {metric.run_name} of lists with a column repeat"
        raise ConfigError("UNKNOWN_METRIC", f"{message}; ask for {metric.run_name}")
    options = parse_options(form["options"] or "", metric, key)
    cutoffs = [parse_k(form["k"])] if has_cutoff(form) else ks
    return [MetricValue(metric, options, k) for k in cutoffs]


def canonical_text(text: str) -> str:
    """Return the printed form of a metric, without a cutoff if it has none: ``map`` for ``AP@k``."""
    [value] = parse_metric(text, [None])
    return str(value) if has_cutoff(split_metric_text(text)) else value.name


def published_name(text: str, key: str = METRICS_KEY) -> str:
    """Return the name of a metric in the table ``metrics``; weighted means have their own.

    >>> published_name("AP(denominator=relevant)@5"), published_name("fcp_micro")
    ('map(denominator=relevant)', 'fcp_micro')
    """
    form = split_metric_text(text, key)
    metric = metric_named(form["name"], ranking_names(), key)
    value = MetricValue(metric, parse_options(form["options"] or "", metric, key), cutoff_of(form))
    return value.named(find_name(form["name"], {name: name for name in metric.names}) or metric.run_name)


def split_metric_text(text: str, key: str = METRICS_KEY) -> re.Match[str]:
    """Split a metric's text into name, options and k; raise ConfigError INVALID_METRIC."""
    form = FORM.fullmatch(text.strip())
    if form is None:
        raise ConfigError("INVALID_METRIC", f"{key}: {text!r} is not name, name@k or name(option=choice)@k")
    return form


def has_cutoff(form: re.Match[str]) -> bool:
    """Return True if the text has a cutoff; the letter k stands for the cutoffs of the run."""
    return form["k"] not in (None, "k", "K")


def cutoff_of(form: re.Match[str]) -> int | None:
    """Return the cutoff of a text, None without one; raise ConfigError INVALID_K."""
    return parse_k(form["k"]) if has_cutoff(form) else None


def ranking_names() -> dict[str, RankingMetric]:
    """Return the metrics by name: per user, of the mean, of weighted means."""
    return {name: metric for metric in RANKING.values() for name in (metric.name, *metric.names)}


def parse_options(text: str, metric: RankingMetric, key: str) -> Options:
    """Parse ``gain=exp2, ideal=list`` to pairs of convention and choice, in the metric's order."""
    options = {name: one for one in metric.options for name in (one, without_metric(one, metric))}
    chosen: dict[str, Choice | ColumnName] = {}
    for option in filter(None, (part.strip() for part in text.split(","))):
        name, _, choice = (part.strip() for part in option.partition("="))
        where = f"{key}: {metric.run_name}"
        if name not in options:
            raise ConfigError.unknown("UNKNOWN_OPTION", "option", name, options, where)
        if options[name] in chosen:
            raise ConfigError("INVALID_METRIC", f"{where}: the option {name!r} is given twice")
        if options[name] == metric.column_option:
            chosen[options[name]] = parse_column(choice, f"{where}({name})")
        else:
            chosen[options[name]] = parse_choice(CONVENTIONS[options[name]], choice, f"{where}({name})")
    return tuple((one, chosen[one]) for one in metric.options if one in chosen)


def parse_column(text: str, where: str) -> ColumnName:
    """Return a name of a column; raise ConfigError INVALID_METRIC for other texts."""
    if COLUMN.fullmatch(text) is None:
        message = f"{where}: {text!r} is not the name of a column: letters, digits and _, no digit first"
        raise ConfigError("INVALID_METRIC", message)
    return ColumnName(text)


def parse_k(k: object) -> int | None:
    """Parse a cutoff, None for ``all``; raise ConfigError INVALID_K."""
    if k == UNCUT:
        return None
    number = int(k) if isinstance(k, str) and WHOLE.fullmatch(k) else k
    if type(number) is int and 1 <= number <= MAX_K:
        return number
    raise ConfigError("INVALID_K", f"k is {k!r}; give whole numbers from 1 to {MAX_K}, or {UNCUT!r}")


def check_shared(values: Iterable[MetricValue], run: Conventions) -> None:
    """Raise ConfigError TIE_ORDER for metrics that cannot average over the ranks of tied items."""
    refused = {
        value.metric.name: str(value) for value in values if not may_share(value, value.conventions(run))
    }
    if refused:
        means = ", ".join(RANKING[name].run_name for name in SHARES_PLACES)
        raise ConfigError(
            "TIE_ORDER",
            f"{', '.join(refused.values())}: tie_order=shared, as in the preset sklearn, is defined for "
            f"{', '.join(SHARES_PLACES)} (gated); ask for metrics=[{means}] alone, "
            "for best and worst, or for as_ranked",
        )


def may_share(value: MetricValue, own: Conventions) -> bool:
    """Return True if the metric is defined under its choice of ``tie_order``."""
    is_window = value.metric.name == "ap" and own.ap_variant is AverageVariant.WINDOW
    shares = own.tie_order is TieOrder.SHARED and "tie_order" in value.metric.conventions
    return not shares or (value.metric.name in SHARES_PLACES and not is_window)
