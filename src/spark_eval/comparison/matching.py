"""Match models and metrics for comparison, validate them, and account for users."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from spark_eval.accounting import Entry
from spark_eval.comparison.decisions import GatedPair, ModelPair, UserCounts
from spark_eval.comparison.plan import COMPARE, OF_VALUES, OF_WEIGHTED_MEANS, OVER_FOLDS, ComparePlan
from spark_eval.comparison.rows import ComparedValue
from spark_eval.conventions import POPULATION
from spark_eval.conventions.presets import CANDIDATES, parse_stamp, part_of, request_rules
from spark_eval.errors import ConfigError, DataError, nearest
from spark_eval.kernels.means import WeightedMean
from spark_eval.kernels.values import MetricValue, published_name, ranking_names, split_metric_text
from spark_eval.predictions.values import ModelValues, PredictionValue
from spark_eval.schema import ALL, Outcome, Reason
from spark_eval.users.population import BASELINE, CANDIDATE, PairCounts
from spark_eval.users.products import Match, model_indices

# Maximum number of pairs that an error names.
MOST_PAIRS_NAMED: Final = 3
# Conventions that affect all metrics, or the population of a mean.
OF_ALL: Final = (*POPULATION, "threshold", "ties", "truth_duplicates")


@dataclass(frozen=True)
class Requested:
    """Models, metrics and segments to compare; see ``population.ComparisonTask`` for ``matches``.

    ``models`` have their role (BASELINE or CANDIDATE) and name. ``unpaired`` are the models without a
    counterpart in the other table.
    """

    models: Sequence[tuple[str, str]] = ()
    matches: Sequence[Match] = ()
    unpaired: Sequence[tuple[str, str]] = ()
    metrics: Sequence[ComparedValue] = ()
    segments: Sequence[str] = ()

    @property
    def list_metrics(self) -> list[MetricValue]:
        """Metrics of lists."""
        return [value for value in self.metrics if isinstance(value, MetricValue)]

    @property
    def pairs(self) -> list[ModelPair]:
        """Names of baseline and candidate of each pair."""
        names = [name for _, name in self.models]
        indices = zip(*model_indices(self.matches), strict=True)
        return [(names[baseline], names[candidate]) for baseline, candidate in indices]

    def with_gates(
        self,
        gated: Sequence[GatedPair],
        baseline: Sequence[ComparedValue] | None,
        candidate: Sequence[ComparedValue],
    ) -> "Requested":
        """Return the request with what only gates need appended.

        The metrics of the baseline are None within one table; see ``measured_metrics``.
        """
        role = CANDIDATE if baseline is None else BASELINE
        models, matches, known = list(self.models), list(self.matches), set(self.pairs)
        for names in dict.fromkeys(pair.names for pair in gated):
            if names not in known:
                pair = list(zip((role, CANDIDATE), names, strict=True))
                models += [model for model in pair if model not in models]
                of_baseline, of_candidate = map(models.index, pair)
                matches.append((slice(of_baseline, of_baseline + 1), slice(of_candidate, of_candidate + 1)))
        texts = list(dict.fromkeys(str(pair.gate.value) for pair in gated))
        of_gates = measured_metrics(baseline, candidate, texts) if texts else []
        metrics = {str(value): value for value in (*self.metrics, *of_gates)}
        segments = [*self.segments, *(pair.gate.segment for pair in gated if pair.gate.segment != ALL)]
        return Requested(
            models, matches, self.unpaired, list(metrics.values()), list(dict.fromkeys(segments))
        )


def match_models(
    baselines: Sequence[str] | None,
    candidates: Sequence[str],
    baseline_model: str | None,
    plan: ComparePlan,
) -> Requested:
    """Return the models and pairs to compare.

    Within one table (``baselines`` is None) all pairs are compared; the first name is the baseline. Across
    two tables models of the same name are compared. With ``baseline_model``, it is compared with all others,
    or with all candidates of the other table.

    Raises:
        ConfigError: UNKNOWN_MODEL, NOTHING_TO_COMPARE or TOO_MANY_PAIRS.
    """
    for name in plan.models or ():
        check_known("model", name, candidates, f"{COMPARE}.models")
    chosen = sorted(candidates if plan.models is None else plan.models)
    if baseline_model is not None:
        known, role = (candidates, CANDIDATE) if baselines is None else (baselines, BASELINE)
        check_known("model", baseline_model, known, f"{COMPARE}.baseline")
        first = (role, baseline_model)
        models = [first, *(model for name in chosen if (model := (CANDIDATE, name)) != first)]
        matched = Requested(models, [(slice(0, 1), slice(1, len(models)))])
    elif baselines is None:
        matches = [(slice(n, n + 1), slice(n + 1, len(chosen))) for n in range(len(chosen) - 1)]
        matched = Requested([(CANDIDATE, name) for name in chosen], matches)
    else:
        matched = match_names(sorted(baselines), chosen)
    n_pairs = len(matched.pairs)
    if not n_pairs:
        names = f"candidates: {', '.join(chosen)}"
        names += f"; baselines: {', '.join(sorted(baselines))}" if baselines is not None else ""
        message = f"no two models to compare ({names}); name a baseline, or baseline.model"
        raise ConfigError("NOTHING_TO_COMPARE", message)
    if n_pairs > plan.max_pairs:
        message = f"{n_pairs:,} pairs of models, {COMPARE}.max_pairs is {plan.max_pairs:,}"
        hint = f"name a baseline or fewer models, or set max_pairs: {n_pairs}"
        raise ConfigError("TOO_MANY_PAIRS", f"{message}; {hint}")
    return matched


def check_known(kind: str, name: str, known: Sequence[str], where: str) -> None:
    """Raise ConfigError UNKNOWN_MODEL or UNKNOWN_SEGMENT if a name is unknown."""
    if name not in known:
        raise ConfigError.unknown(f"UNKNOWN_{kind.upper()}", kind, name, known, where)


def match_names(baselines: Sequence[str], candidates: Sequence[str]) -> Requested:
    """Return the pairs of models with the same name in two tables."""
    both = [name for name in candidates if name in set(baselines)]
    unpaired = [(CANDIDATE, name) for name in candidates if name not in both]
    unpaired += [(BASELINE, name) for name in baselines if name not in both]
    models = [(role, name) for role in (BASELINE, CANDIDATE) for name in both]
    return Requested(models, [(slice(0, len(both)), slice(len(both), 2 * len(both)))], unpaired)


def match_metrics(
    baseline: Sequence[ComparedValue] | None, candidate: Sequence[ComparedValue], plan: ComparePlan
) -> list[ComparedValue]:
    """Return the metrics to compare; ``baseline`` is None within one table.

    Raises:
        ConfigError: METRIC_NOT_MEASURED if baseline or candidate lacks one; NOT_PER_USER for a metric without
            per-user values; NOT_OF_WEIGHTED_MEANS or NOT_OF_PREDICTIONS for tests that are not defined for a
        weighted mean, or for predictions.
    """
    chosen = measured_metrics(baseline, candidate, plan.metrics)
    undefined = [test for test in (*plan.tests, plan.interval) if test not in OF_WEIGHTED_MEANS]
    weighted = [str(value) for value in chosen if isinstance(value, WeightedMean)]
    if undefined and weighted:
        message = f"{', '.join(dict.fromkeys(undefined))} is not defined for the weighted mean {weighted[0]}"
        hint = f"take {' or '.join(OF_WEIGHTED_MEANS)}, or leave it out by {COMPARE}.metrics"
        raise ConfigError("NOT_OF_WEIGHTED_MEANS", f"{message}; {hint}")
    refused = [test for test in (*plan.tests, plan.interval) if test not in OF_VALUES]
    of_predictions = [str(value) for value in chosen if isinstance(value, PredictionValue)]
    if refused and of_predictions:
        message = f"{', '.join(dict.fromkeys(refused))} is not defined for predictions ({of_predictions[0]})"
        raise ConfigError("NOT_OF_PREDICTIONS", f"{message}; take {' or '.join(OF_VALUES)}")
    return chosen


def measured_metrics(
    baseline: Sequence[ComparedValue] | None, candidate: Sequence[ComparedValue], names: Sequence[str] | None
) -> list[ComparedValue]:
    """Return the metrics of these names, with or without a cutoff; None: all that are measured.

    Raises:
        ConfigError: METRIC_NOT_MEASURED if baseline or candidate lacks one; NOT_PER_USER for a metric without
            per-user values.
    """
    sides = {CANDIDATE: candidate} if baseline is None else {CANDIDATE: candidate, BASELINE: baseline}
    measured = {str(value): value for values in sides.values() for value in values}
    chosen = list(measured.values())
    if names is not None:
        chosen = []
        for name in names:
            named = [value for text, value in measured.items() if name in (text, value.name)]
            if not named and name in ranking_names():  # the AUC of lists is published as gauc
                named = [value for value in measured.values() if published_name(name) == value.name]
            if not named:
                check_per_user(name)
                known = {name for text, value in measured.items() for name in (text, value.name)}
                message = f"{COMPARE}.metrics: {name!r} is not measured; {nearest(name, known)}"
                raise ConfigError("METRIC_NOT_MEASURED", message)
            chosen += [value for value in named if value not in chosen]
    for value in chosen:
        for role, values in sides.items():
            if value not in values:
                texts = map(str, values)
                message = f"{value} is not measured on the side of the {role}; {nearest(str(value), texts)}"
                raise ConfigError("METRIC_NOT_MEASURED", f"{message}; {COMPARE}.metrics can leave it out")
    if not chosen:
        raise ConfigError("METRIC_NOT_MEASURED", "no metric is measured; columns are named as ndcg_at_10")
    return chosen


def check_over_folds(plan: ComparePlan) -> None:
    """Raise ConfigError NOT_OVER_FOLDS for tests that treat a user's rows of folds as several users."""
    refused = [test for test in plan.tests if test not in OVER_FOLDS]
    if refused:
        message = f"{', '.join(refused)} would take a user's rows of several folds for several users"
        hint = f"take {', '.join(OVER_FOLDS)}, or compare runs of one fold"
        raise ConfigError("NOT_OVER_FOLDS", f"{message}; {hint}")


def check_per_user(text: str) -> None:
    """Raise ConfigError NOT_PER_USER for a metric without per-user values."""
    metric = ranking_names().get(split_metric_text(text)["name"])
    if metric is not None and not metric.is_of_users:
        message = (
            f"{COMPARE}.metrics: {text!r} is a value of a run, not of users, and is not compared by them"
        )
        raise ConfigError("NOT_PER_USER", f"{message}; a gate of mode observed has it")


def check_conventions(baseline: str, candidate: str, values: Sequence[ComparedValue]) -> None:
    """Raise DataError CONVENTIONS_DIFFER unless both stamps define the metrics and their population alike."""
    kinds = [part_of(text, CANDIDATES).removeprefix(CANDIDATES) or "full" for text in (baseline, candidate)]
    if kinds[0] != kinds[1] and "" not in (baseline, candidate):
        message = f"candidates are {kinds[1]} of the candidate, {kinds[0]} of the baseline"
        raise DataError("CONVENTIONS_DIFFER", f"{message}; rank the same candidates with both")
    if candidate == baseline:
        return
    of_baseline, of_candidate = request_rules(baseline), request_rules(candidate)
    if of_baseline != of_candidate and "" not in (baseline, candidate):
        message = f"{of_candidate or 'a list per user'} of the candidate, {of_baseline or 'a list per user'}"
        raise DataError("CONVENTIONS_DIFFER", f"{message} of the baseline; evaluate both alike")
    try:
        stamps = [parse_stamp(baseline), parse_stamp(candidate)]
    except (ConfigError, ValueError):
        message = f"conventions are {candidate!r} of the candidate, {baseline!r} of the baseline"
        raise DataError("CONVENTIONS_DIFFER", f"{message}; evaluate both alike") from None
    differing = dict[str, list[str]]()
    for value in (value for value in values if isinstance(value, MetricValue)):
        conventions = [value.conventions(stamp) for stamp in stamps]
        for name in dict.fromkeys((*OF_ALL, *value.metric.conventions)):
            of_baseline, of_candidate = (getattr(choices, name) for choices in conventions)
            if of_candidate != of_baseline:
                choices = f"{name}: {of_candidate} of the candidate, {of_baseline} of the baseline"
                differing.setdefault(choices, []).append(str(value))
    if differing:
        each = [f"{choices} (touches {', '.join(touched[:5])})" for choices, touched in differing.items()]
        raise DataError("CONVENTIONS_DIFFER", f"{'; '.join(each)}; evaluate both alike")


def check_counts(pairs: Sequence[ModelPair], counts: PairCounts, of_items: str | None = None) -> None:
    """Raise DataError NO_COMMON_USERS, or TRUTH_DIFFERS if a user's numbers of relevant items differ.

    They are counted by value of ``of_items``, if it is given.
    """
    if of_items is None and not counts.rows[:, 2].any():
        of_baseline, of_candidate, _ = counts.people.max(axis=0).tolist()
        message = f"{of_baseline} users of the baseline, {of_candidate} of the candidate, none of both"
        raise DataError("NO_COMMON_USERS", f"{message}; are their ids written alike?")
    n_differing = counts.other_truth.tolist()
    differing = [
        f"{n} common users of {pair_text(pair)}" for pair, n in zip(pairs, n_differing, strict=True) if n
    ]
    if differing:
        message = f"{', '.join(differing[:MOST_PAIRS_NAMED])} have another number of relevant items"
        if of_items is not None:
            message = f"{message} by {of_items}; measure both with one table items"
            raise DataError("TRUTH_DIFFERS", message)
        raise DataError("TRUTH_DIFFERS", f"{message}; measure both against one truth")


def check_digests(baseline: str | None, candidate: str | None) -> None:
    """Raise DataError TRUTH_DIFFERS if both digests are known and differ."""
    if candidate is not None and baseline is not None and candidate != baseline:
        message = f"truth_digest is {candidate} of the candidate, {baseline} of the baseline"
        raise DataError("TRUTH_DIFFERS", f"{message}; measure both against one truth")


def check_rows(
    pairs: Sequence[ModelPair],
    baseline: Mapping[str, ModelValues],
    candidate: Mapping[str, ModelValues],
    segments: Collection[str],
) -> None:
    """Raise DataError ROWS_DIFFER for pairs of models of predictions that scored other rows.

    The rows of each value of ``segments`` must be the same, too.
    """
    differing = []
    for pair in pairs:
        of_baseline = baseline[pair[0]].digests(segments)
        of_candidate = candidate[pair[1]].digests(segments)
        known = of_baseline | of_candidate
        other = [cell for cell in known if of_baseline.get(cell) != of_candidate.get(cell)]
        if other:
            segment, value = other[0]
            differing.append(pair_text(pair) + ("" if segment == ALL else f" ({segment} {value!r})"))
    if differing:
        message = f"{', '.join(differing[:MOST_PAIRS_NAMED])} have other rows: users, labels or weights"
        raise DataError("ROWS_DIFFER", f"{message}; let both models score the same rows")


def check_folds(*has_folds: bool) -> None:
    """Raise DataError FOLDS_DIFFER if only one side has folds."""
    if len(set(has_folds)) > 1:
        raise DataError("FOLDS_DIFFER", "one side has folds, the other has none; measure both alike")


def pair_entries(
    pairs: Sequence[ModelPair], counts: PairCounts, segments: Sequence[str], of_items: str | None = None
) -> Iterator[Entry]:
    """Yield the accounting of each pair: compared and dropped rows, and users who changed segment.

    With ``of_items``, the rows belong to a segment of items.
    """
    of = "" if of_items is None else f" by {of_items}"
    rows, people, moved = counts.rows.tolist(), counts.people.tolist(), counts.moved.tolist()
    for index, pair in enumerate(pairs):
        name, used = pair_text(pair), (rows[index][2], people[index][2])
        for role, n_rows, n_people in zip((BASELINE, CANDIDATE), rows[index], people[index], strict=False):
            yield Entry(f"{role}{of}", name, Outcome.IN, None, n_rows, n_people)
            yield Entry(f"{role}{of}", name, Outcome.USED, None, *used)
            if n_rows > used[0]:
                dropped = (n_rows - used[0], n_people - used[1])
                yield Entry(f"{role}{of}", name, Outcome.DROPPED, Reason.ONLY_HERE, *dropped)
        for segment, of_pairs in zip(segments, moved, strict=True):
            if of_pairs[index]:
                yield Entry(CANDIDATE, name, Outcome.MOVED, segment, 0, of_pairs[index])


def model_entries(requested: Requested) -> Iterator[Entry]:
    """Yield the accounting of models if some have no counterpart in the other table."""
    for role in (BASELINE, CANDIDATE):
        n_used = sum(of_role == role for of_role, _ in requested.models)
        n_unpaired = sum(of_role == role for of_role, _ in requested.unpaired)
        if n_unpaired:
            source = f"models of the {role}"
            yield Entry(source, None, Outcome.IN, None, n_used + n_unpaired, None)
            yield Entry(source, None, Outcome.USED, None, n_used, None)
            yield Entry(source, None, Outcome.DROPPED, Reason.UNPAIRED, n_unpaired, None)


def users_of(pairs: Sequence[ModelPair], counts: PairCounts) -> dict[ModelPair, UserCounts]:
    """Return the numbers of users of each pair: of the baseline, of the candidate, and of both."""
    people = counts.people.tolist()
    return {pair: (n[0], n[1], n[2]) for pair, n in zip(pairs, people, strict=True)}


def pair_text(pair: ModelPair) -> str:
    """Return a pair as text: ``candidate against baseline``."""
    baseline, candidate = pair
    return f"{candidate} against {baseline}"
