"""Definitions of the values of pipeline stages: metrics per user, steps of the funnel, fates of pairs.

T is a user's truth, m items; C, R and F are the items that the stages candidates, ranking and final pass on.
With two stages there is no R.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from spark_eval.conventions import NoHits, NoRecommendations, NoTruth
from spark_eval.conventions.presets import stamp
from spark_eval.evaluation.plan import Plan
from spark_eval.kernels.stages import (
    ADDED_RECALL,
    CONDITIONAL,
    ORACLE,
    OVERLAP,
    PROMOTION,
    REPLACED,
    STAGE_RECALL,
    STEP_CANDIDATES,
    STEP_HIT,
    STEP_RELEVANT,
    STEP_TRUTH,
    Fate,
    Stage,
)
from spark_eval.kernels.values import MetricValue

# Fates by number of stages. A binary digit of the index is 1 if a stage has the item; the highest one is C.
CELLS: Final[Mapping[int, Sequence[Fate]]] = {
    2: (Fate.LOST_CANDIDATES, Fate.OUTSIDE_CANDIDATES, Fate.LOST_RANKING, Fate.KEPT),
    3: (
        Fate.LOST_CANDIDATES,
        *(Fate.OUTSIDE_CANDIDATES,) * 3,
        *(Fate.LOST_RANKING, Fate.PROMOTED, Fate.LOST_RERANKING, Fate.KEPT),
    ),
}


@dataclass(frozen=True)
class StageValue:
    """Value of one stage per user: metric name in the table ``stages``, and cutoff.

    ``model`` is None for a union of models.
    """

    stage: str
    model: str | None
    metric: str
    k: int | None

    @property
    def column(self) -> str:
        """Unique name among the summed columns."""
        return f"value {self.stage!r} {self.model!r} {self.metric}@{self.k}"


def staged_metrics(plan: Plan) -> list[MetricValue]:
    """Return the run's metrics that depend on hits only; the others are not computed for stages.

    The others compare hits with misses, and the oracle's list of C∩T has no misses.
    """
    return [value for value in plan.metrics if value.metric.is_of_hits]


def recalls(stage: Stage) -> Iterator[StageValue]:
    """Yield the recall values of a stage; for a union also each model's recall and exclusive recall."""
    yield StageValue(stage.name, stage.model, STAGE_RECALL, stage.k)
    for model in stage.models if stage.model is None else ():
        yield StageValue(stage.name, model, STAGE_RECALL, stage.k)
        yield StageValue(stage.name, model, ADDED_RECALL, stage.k)


def of_stage(stage: Stage, value: MetricValue, before: str = "") -> StageValue:
    """Return a metric of a stage; ``before`` is the prefix of its name, such as ORACLE."""
    return StageValue(stage.name, stage.model, f"{before}{value.name}", value.k)


def reranking(stage: Stage) -> Iterator[StageValue]:
    """Yield the values that compare a stage with the one that it reranks."""
    for metric in (OVERLAP, REPLACED, PROMOTION) if stage.reranks is not None else ():
        yield StageValue(stage.name, stage.model, metric, stage.k)


def stage_values(plan: Plan) -> list[StageValue]:
    """Return all values per user, in the order of the table ``stages``."""
    metrics, values = staged_metrics(plan), list[StageValue]()
    for number, stage in enumerate(plan.stages):
        values += recalls(stage)
        if stage.model is not None:
            values += [of_stage(stage, value) for value in metrics]
        values += [of_stage(stage, value, CONDITIONAL if number else ORACLE) for value in metrics]
        values += reranking(stage)
    return values


def steps(stages: Sequence[Stage]) -> list[str]:
    """Return the rows of the funnel: its steps, then the fates."""
    later = [f"{STEP_HIT}{stage.name}" for stage in stages[1:]]
    cells = [cell.value for cell in Fate if cell in CELLS[len(stages)]]
    return [STEP_TRUTH, STEP_CANDIDATES, STEP_RELEVANT, *later, *cells]


def outside(stage: Stage) -> str:
    """Return the column that counts a stage's hits that are not candidates."""
    return f"outside {stage.name!r}"


def users_at(step: str) -> str:
    """Return the column that counts users at a step of the funnel, or with a pair of a fate."""
    return f"users {step}"


def pairs_at(step: str) -> str:
    """Return the column that counts relevant pairs at a step of the funnel, or of a fate."""
    return f"pairs {step}"


def summed_columns(plan: Plan) -> dict[str, tuple[str, ...]]:
    """Return the columns to sum over users, by name, as ``evaluation.worker.lists.sums`` expects them."""
    names = [value.column for value in stage_values(plan)]
    names += [outside(stage) for stage in plan.stages[1:]]
    names += [column(step) for step in steps(plan.stages) for column in (users_at, pairs_at)]
    return {name: (name,) for name in names}


def user_means(plan: Plan) -> dict[str, tuple[str, ...]]:
    """Return the columns to sum by user if users have a list per request: values, and users at each step."""
    names = [value.column for value in stage_values(plan)]
    return {name: (name,) for name in [*names, *map(users_at, steps(plan.stages))]}


def population_stamp(plan: Plan) -> str:
    """Return the conventions of all rows: every list with truth counts, at every stage."""
    everybody = {
        "no_recommendations": NoRecommendations.ZERO,
        "no_truth": NoTruth.DROP,
        "no_hits": NoHits.ZERO,
    }
    return stamp(plan.conventions.changed(everybody), plan.request_rules)
