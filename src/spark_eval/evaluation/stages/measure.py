"""Measure the pipeline stages of a bucket of users, from the hits of their lists."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from spark_eval.arrow.codes import Booleans, count_by_code
from spark_eval.evaluation.plan import Plan
from spark_eval.evaluation.stages.quantities import (
    CELLS,
    StageValue,
    of_stage,
    outside,
    pairs_at,
    recalls,
    reranking,
    staged_metrics,
    steps,
    summed_columns,
    user_means,
    users_at,
)
from spark_eval.evaluation.stages.reranking import changes_of_lists
from spark_eval.evaluation.worker.lists import BucketLists, Group, SegmentTotals, sums
from spark_eval.evaluation.worker.measure import BucketMeasurer
from spark_eval.evaluation.worker.requests import sums_of_users
from spark_eval.evaluation.worker.truth import Truth
from spark_eval.kernels.beyond.catalog import Entries, require_fact
from spark_eval.kernels.lists import Lists, Ragged
from spark_eval.kernels.stages import (
    ADDED_RECALL,
    CONDITIONAL,
    ORACLE,
    STAGE_RECALL,
    STEP_CANDIDATES,
    STEP_HIT,
    STEP_RELEVANT,
    STEP_TRUTH,
    Stage,
)
from spark_eval.statistics.exact import Floats, Ints


@dataclass(frozen=True)
class StageTotals:
    """Sums of all stage values over the lists with truth, by segment, and over the users of these lists.

    ``users`` is None if users have one list each.
    """

    lists: SegmentTotals
    users: SegmentTotals | None = None

    def plus(self, other: "StageTotals") -> "StageTotals":
        """Return these sums and the sums of other cells."""
        lists = SegmentTotals.together((self.lists, other.lists), self.lists.shape)
        if self.users is None or other.users is None:
            return StageTotals(lists)
        return StageTotals(lists, SegmentTotals.together((self.users, other.users), self.users.shape))


def stage_sums(measuring: BucketMeasurer) -> StageTotals:
    """Return the sums of all stage values over the lists with truth, and over those of segments of items."""
    plan, models = measuring.task.plan, measuring.bucket.models
    truth, lists = measuring.lists.truth, measuring.lists
    summed = summed_columns(plan)
    is_refused = truth.largest_relevance > measuring.task.most_relevance
    if is_refused or not {model for stage in plan.stages for model in stage.models} <= set(models):
        return StageTotals(SegmentTotals([], (len(summed),)))  # nothing is published for such tables
    users = np.flatnonzero(truth.n_relevant)
    segments = {name: (segment.code[users], segment.names) for name, segment in measuring.segments.items()}
    owner = measuring.bucket.owner
    columns = StageMeasurer(plan, models, lists, measuring.ideal, users).columns()
    totals = totals_of(plan, columns, None if owner is None else owner[users], segments)
    for name, population in measuring.item_populations.items():
        everybody, item_lists = np.arange(len(population.user)), population.lists(lists)
        columns = StageMeasurer(plan, models, item_lists, population.ideal, everybody).columns()
        values = {name: (population.segment.code, population.segment.names)}
        owners = None if owner is None else owner[population.user]
        totals = totals.plus(totals_of(plan, columns, owners, values, has_all=False))
    return totals


def totals_of(
    plan: Plan,
    columns: Mapping[str, Floats],
    owner: Ints | None,
    segments: Mapping[str, Group],
    *,
    has_all: bool = True,
) -> StageTotals:
    """Return the sums of stage values over lists, and over the ``owner`` of each, by segment."""
    summed, n = summed_columns(plan), len(next(iter(columns.values())))
    pipeline = np.zeros(n, dtype=np.int64), [""]
    of_lists = sums(columns, summed, pipeline, segments, has_all=has_all, has_squares=owner is None)
    if owner is None:
        return StageTotals(of_lists)
    # A user is at a step if any list is: NaN of all lists leaves the user undefined.
    at_steps = {name: columns[name] for name in map(users_at, steps(plan.stages))}
    of_users = {name: np.where(is_there > 0, 1.0, np.nan) for name, is_there in at_steps.items()}
    own = {**columns, **of_users}, owner, pipeline, segments
    return StageTotals(of_lists, sums_of_users(user_means(plan), plan.weight, *own, has_all=has_all))


class StageMeasurer:
    """The n users of a bucket who have truth, and the lists that each stage passes on for them."""

    def __init__(
        self, plan: Plan, models: Sequence[str | None], lists: BucketLists, ideal: Ragged, users: Ints
    ) -> None:
        self.plan, self.models, self.users = plan, models, users
        self.lists, self.truth, self.ideal = lists, lists.truth, ideal

    @cached_property
    def handed_on(self) -> list[list[BucketLists]]:
        """Lists of each model of each stage, cut at the stage's k."""
        return [[self.cut(model, stage.k) for model in stage.models] for stage in self.plan.stages]

    @cached_property
    def has(self) -> list[Booleans]:
        """Mask (pairs,) of the relevant pairs in the lists of each stage."""
        return [np.logical_or.reduce([self.pairs_in(one) for one in lists]) for lists in self.handed_on]

    @cached_property
    def candidates(self) -> Truth:
        """Relevant pairs that are candidates, C∩T."""
        truth, chosen = self.truth, self.has[0]
        relevance = None if truth.relevance is None else truth.relevance[chosen]
        return Truth(truth.n_users, truth.user[chosen], truth.item[chosen], relevance)

    def cut(self, model: str, k: int) -> BucketLists:
        """Cut the lists of a model at rank k; groups of ties are cut as well."""
        index = self.models.index(model)
        one = self.lists.of_models(index, index + 1)
        hits = one.hits.take(one.hits.rank <= k)
        return replace(
            one,
            n_valid=one.n_within[k],
            n_repeated=np.zeros_like(one.n_repeated),
            length_within=None,
            hits=replace(hits, tie_last=np.minimum(hits.tie_last, k)),
        )

    def pairs_in(self, lists: BucketLists) -> Booleans:
        """Return the mask (pairs,) of the relevant pairs that are hits of these lists."""
        is_hit = np.zeros(len(self.truth.user), dtype=bool)
        is_hit[lists.hits.pair] = True
        return is_hit

    def count(self, chosen: Booleans) -> Ints:
        """Count the chosen pairs (pairs,) of each user; shape (n,)."""
        counts: Ints = count_by_code(self.truth.user[chosen], self.truth.n_users)[self.users]
        return counts

    def columns(self) -> dict[str, Floats]:
        """Return all values of the users by column, NaN if undefined; each of shape (n,)."""
        columns = self.counts()
        for number, stage in enumerate(self.plan.stages):
            columns |= self.recalls(number, stage)
            if stage.model is not None:
                [lists] = self.handed_on[number]
                columns |= self.metrics(stage, lists.lists(self.users, self.ideal))
            columns |= self.changes(stage)
            if number:
                columns |= self.conditional(stage, self.handed_on[number][0])
            else:
                columns |= self.metrics(stage, self.oracle(), ORACLE)
        return columns

    def recalls(self, index: int, stage: Stage) -> dict[str, Floats]:
        """Return the recall of a stage; for a union also each model's recall and its exclusive recall."""
        m = self.truth.n_relevant[self.users]
        of_models = [self.pairs_in(lists) for lists in self.handed_on[index]]
        n_models = np.sum(of_models, axis=0)
        values = {StageValue(stage.name, stage.model, STAGE_RECALL, stage.k): self.has[index]}
        for model, is_hit in zip(stage.models, of_models, strict=True):
            values[StageValue(stage.name, model, STAGE_RECALL, stage.k)] = is_hit
            values[StageValue(stage.name, model, ADDED_RECALL, stage.k)] = is_hit & (n_models == 1)
        return {value.column: self.count(values[value]) / m for value in recalls(stage)}

    def metrics(self, stage: Stage, lists: Lists, before: str = "") -> dict[str, Floats]:
        """Return the metrics of lists of one stage."""
        return {
            of_stage(stage, value, before).column: value.measure(lists, self.plan.conventions)[value.column]
            for value in staged_metrics(self.plan)
        }

    def oracle(self) -> Lists:
        """Return the lists of a perfect ranker of the candidates: C∩T, most relevant first."""
        best = self.candidates.ideal(None).of_rows(self.users)
        return Lists(
            n_relevant=self.truth.n_relevant[self.users],
            n_recommended=self.candidates.n_relevant[self.users],
            hits=best,
            ideal=self.ideal.of_rows(self.users),
            tie_first=best.rank,
            tie_last=best.rank,
        )

    def conditional(self, stage: Stage, lists: BucketLists) -> dict[str, Floats]:
        """Return the metrics of a stage with C∩T as truth; undefined if it is empty."""
        truth, is_candidate = self.candidates, self.has[0]
        hits = lists.hits.take(is_candidate[lists.hits.pair])
        hits = replace(hits, pair=(np.cumsum(is_candidate) - 1)[hits.pair])
        is_defined = truth.n_relevant[self.users] > 0
        ideal = truth.ideal(self.plan.truth_depth)
        seen = replace(lists, truth=truth, hits=hits).lists(self.users[is_defined], ideal)
        columns = {}
        for column, defined in self.metrics(stage, seen, CONDITIONAL).items():
            columns[column] = np.full(len(self.users), np.nan)
            columns[column][is_defined] = defined
        return columns

    def changes(self, stage: Stage) -> dict[str, Floats]:
        """Compare the list of a stage with the one that it reranks, by column; empty if it reranks none."""
        columns = [value.column for value in reranking(stage)]
        if not columns:
            return {}
        [earlier] = [one for one in self.plan.stages if one.name == stage.reranks]
        return dict(
            zip(columns, changes_of_lists(self.items(earlier), self.items(stage), stage.k), strict=True)
        )

    def items(self, stage: Stage) -> Entries:
        """Return all items that a stage of one model hands on."""
        index = self.models.index(stage.models[0])
        entries = require_fact(self.lists.of_models(index, index + 1).handed_on)
        return entries.of_rows(self.users).up_to(stage.k)

    def counts(self) -> dict[str, Floats]:
        """Count each user's pairs at the funnel's steps and by fate, and the hits that are not candidates."""
        stages, m = self.plan.stages, self.truth.n_relevant[self.users]
        has_candidates = np.logical_or.reduce([lists.n_valid > 0 for lists in self.handed_on[0]])[self.users]
        pairs = {STEP_TRUTH: m, STEP_CANDIDATES: m * has_candidates, STEP_RELEVANT: self.count(self.has[0])}
        columns = {}
        for stage, is_hit in zip(stages[1:], self.has[1:], strict=True):
            pairs[f"{STEP_HIT}{stage.name}"] = self.count(is_hit)
            columns[outside(stage)] = self.count(is_hit & ~self.has[0]).astype(np.float64)
        digits = np.array([2**power for power in reversed(range(len(stages)))])
        index = digits @ np.array(self.has)
        for cell in set(CELLS[len(stages)]):
            pairs[cell] = self.count(np.array([one is cell for one in CELLS[len(stages)]])[index])
        for step, n_pairs in pairs.items():
            columns[users_at(step)] = (n_pairs > 0).astype(np.float64)
            columns[pairs_at(step)] = n_pairs.astype(np.float64)
        return columns
