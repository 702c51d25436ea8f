"""Comparison of models with repeats: of these artefacts by their users' means, or of the recipes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from spark_eval.comparison.decisions import ModelPair, PairCell
from spark_eval.comparison.matching import Requested
from spark_eval.comparison.plan import COMPARE, ComparePlan
from spark_eval.comparison.results import ComparedCell, ComparedCells
from spark_eval.comparison.sides import Side
from spark_eval.conventions.comparison import PairTest, Question
from spark_eval.errors import ConfigError, DataError
from spark_eval.kernels.means import WeightedMean
from spark_eval.names import split_repeat
from spark_eval.statistics.differences import PairSums, RatioSums
from spark_eval.statistics.intervals import nearest_double
from spark_eval.statistics.repeats import RecipeSums
from spark_eval.statistics.resampling import Replicates
from spark_eval.users.population import BASELINE, ComparisonTask
from spark_eval.users.products import Match
from spark_eval.users.resampling import repeat_weights

FEWEST: Final = 2
# Tests of recipes; all others are of users alone.
OF_RECIPES: Final = (PairTest.T, PairTest.BOOTSTRAP)


@dataclass(frozen=True)
class ComparedRepeats:
    """Repeats of the compared models.

    ``names`` has the names of the repeats of each of the request's models, and ``question`` what is compared.
    """

    names: Sequence[Sequence[str]]
    question: Question
    is_paired: bool

    @classmethod
    def of(
        cls, baseline: Side, candidate: Side, requested: Requested, plan: ComparePlan
    ) -> "ComparedRepeats":
        """Return the repeats of the models; recipes are compared if all models have several.

        Raises:
            DataError: TOO_FEW_REPEATS for recipes of models with one repeat; REPEATS_DIFFER if repeats that
                belong together have different names.
            ConfigError: NOT_BY_REPEAT for tests and slices that are not of recipes, and for a bootstrap of
                weighted means.
        """
        sides = {BASELINE: baseline}
        names = [sides.get(role, candidate).repeats[model] for role, model in requested.models]
        few = [model for (_, model), own in zip(requested.models, names, strict=True) if len(own) < FEWEST]
        question = plan.question or (Question.ARTEFACT if few else Question.RECIPE)
        if question is Question.RECIPE and few:
            message = f"{', '.join(map(repr, few))} has one repeat, and its recipe at least {FEWEST}"
            hint = f"make it again with other seeds, or take {COMPARE}.question: artefact"
            raise DataError("TOO_FEW_REPEATS", f"{message}; {hint}")
        repeats = cls(names, question, is_paired=plan.paired_repeats)
        repeats.check(requested, plan)
        return repeats

    @property
    def has_any(self) -> bool:
        """True if any model has a named repeat."""
        return any(split_repeat(name)[1] is not None for own in self.names for name in own)

    def check(self, requested: Requested, plan: ComparePlan) -> None:
        """Raise the errors of ``of`` for options and metrics."""
        if not self.has_any:
            return
        chosen, is_recipe = [*plan.tests, plan.interval], self.question is Question.RECIPE
        weighted = [str(value) for value in requested.metrics if isinstance(value, WeightedMean)]
        if weighted and PairTest.BOOTSTRAP in chosen:
            message = f"no bootstrap of the weighted mean {weighted[0]} over repeats"
            raise ConfigError("NOT_BY_REPEAT", f"{message}; take t, or leave it out by {COMPARE}.metrics")
        other = [test for test in dict.fromkeys(chosen) if test not in OF_RECIPES]
        if is_recipe and other:
            message = f"{', '.join(other)} would count seeds as fixed"
            hint = f"take {' or '.join(OF_RECIPES)}, or {COMPARE}.question: artefact"
            raise ConfigError("NOT_BY_REPEAT", f"{message}; {hint}")
        if is_recipe and plan.slices is not None:
            message = "slices of recipes would count seeds as fixed"
            hint = f"compare segments, or take {COMPARE}.question: artefact"
            raise ConfigError("NOT_BY_REPEAT", f"{message}; {hint}")
        if not self.is_paired:
            return
        for index, (a, b) in enumerate(self.ends(requested)):
            ours, theirs = ([split_repeat(name)[1] for name in self.names[end]] for end in (a, b))
            if ours != theirs:
                pair = " against ".join(reversed(requested.pairs[index]))
                message = f"{pair}: repeats {theirs} and {ours} do not belong together"
                raise DataError("REPEATS_DIFFER", f"{message}; leave out those of one, or paired_repeats")

    @staticmethod
    def ends(requested: Requested) -> list[tuple[int, int]]:
        """Return the indices of baseline and candidate in the models of each pair."""
        return ComparisonTask(requested.models, requested.matches, []).pairs

    def task(self, task: ComparisonTask, requested: Requested) -> ComparisonTask:
        """Return the task of the users' means over the repeats of each model."""
        models, groups = list[tuple[str, str]](), list[list[int]]()
        for (role, _), own in zip(requested.models, self.names, strict=True):
            groups.append([*range(len(models), len(models) + len(own))])
            models += [(role, name) for name in own]
        matches = [one_pair(groups[a][0], groups[b][0]) for a, b in self.ends(requested)]
        return replace(task, models=models, matches=matches, repeats=groups, of_repeat_means=True)

    def task_of_pairs(self, task: ComparisonTask, requested: Requested) -> ComparisonTask:
        """Return the task of pairs of repeats, from that of the means."""
        pairs = [
            pair
            for index in range(len(requested.pairs))
            for part in self.parts(task, requested, index)
            for pair in part
        ]
        matches = [one_pair(*pair) for pair in dict.fromkeys(pairs)]
        return replace(task, matches=matches, of_repeat_means=False, has_truth=False, moved=())

    def parts(self, task: ComparisonTask, requested: Requested, index: int) -> list[list[tuple[int, int]]]:
        """Return the pairs of repeats that tell the variance of a pair of models; see ``RecipeSums``."""
        a, b = self.ends(requested)[index]
        baselines, candidates = task.repeats[a], task.repeats[b]
        if self.is_paired:
            return [list(zip(baselines, candidates, strict=True))]
        first = (baselines[0], candidates[0])
        return [[(one, first[1]) for one in baselines], [(first[0], one) for one in candidates]]

    def with_recipes(
        self,
        means: ComparedCells,
        of_pairs: ComparedCells,
        task: ComparisonTask,
        requested: Requested,
        plan: ComparePlan,
    ) -> ComparedCells:
        """Return the cells of the means with the errors, and replicates, of the recipes."""
        parts = {
            pair: [
                [(task.models[one][1], task.models[other][1]) for one, other in part]
                for part in self.parts(task, requested, index)
            ]
            for index, pair in enumerate(requested.pairs)
        }
        cells = {key: with_recipe(cell, parts[cell.models], of_pairs) for key, cell in means.cells.items()}
        drawn = {cell.key: cell.replicates for cell in of_pairs.of_rows}
        of_rows = [
            replace(cells[cell.key], replicates=recipe_replicates(cell, parts[cell.models], drawn, plan))
            for cell in means.of_rows
        ]
        return replace(means, cells=cells, of_rows=of_rows)

    def numbers(self, requested: Requested) -> Mapping[ModelPair, tuple[int, int]]:
        """Return the numbers of repeats of baseline and candidate of each pair."""
        ends = zip(requested.pairs, self.ends(requested), strict=True)
        return {pair: (len(self.names[a]), len(self.names[b])) for pair, (a, b) in ends}


def one_pair(baseline: int, candidate: int) -> Match:
    """Return the match of two models."""
    return slice(baseline, baseline + 1), slice(candidate, candidate + 1)


def with_recipe(
    cell: ComparedCell, parts: Sequence[Sequence[ModelPair]], of_pairs: ComparedCells
) -> ComparedCell:
    """Return a cell of means with the sums of its repeats."""
    repeats = [[of_pairs.cells[pair, *cell.key[1:]].of_users for pair in part] for part in parts]
    means = cell.of_users
    assert isinstance(means, PairSums | RatioSums)
    known = [[one for one in part if isinstance(one, PairSums | RatioSums)] for part in repeats]
    return replace(cell, of_users=RecipeSums(means.n, means, known))


def recipe_replicates(
    cell: ComparedCell,
    parts: Sequence[Sequence[ModelPair]],
    drawn: Mapping[PairCell, Replicates | None],
    plan: ComparePlan,
) -> Replicates | None:
    """Return the replicates of a difference of recipes, whose users and repeats are drawn.

    ``drawn`` are those of pairs of repeats, with users drawn alike. Without pairs of the same name the
    repeats of each model are drawn apart, and the pair that both parts have counts twice: once is taken off.
    """
    of_parts = [[drawn.get((pair, *cell.key[1:])) for pair in part] for part in parts]
    value = cell.estimate.value
    if value is None or any(None in part for part in of_parts):
        return None
    means = [[one.means for one in part if one is not None] for part in of_parts]
    total = -means[0][0] if len(parts) > 1 else np.zeros_like(means[0][0])
    for role, (model, own) in enumerate(zip(cell.models, means, strict=False)):
        weights = repeat_weights(plan.seed + role, model, len(own), plan.resamples)[1 : 1 + len(own[0])]
        total = total + (weights / (len(own) - 1) * np.stack(own, axis=1)).sum(axis=1)
    return Replicates(nearest_double(value), total)
