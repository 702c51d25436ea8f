"""Intervals of means by the bootstrap: a second pass over the measured users, drawn again by their hash."""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import reduce
from itertools import product

import numpy as np

from spark_eval.engine.summary import Ends, MeanKey
from spark_eval.metrics.options import Plan
from spark_eval.metrics.values import weighted_means
from spark_eval.pairing.drawing import Drawing, Drawn, DrawnSums, check_drawn
from spark_eval.pairing.population import CANDIDATE, PairQuestion
from spark_eval.schema import USER
from spark_eval.stats.exact import Floats
from spark_eval.stats.resampling import SCALE_BITS, Replicates, percentile_interval, scale_of
from spark_eval.transforms.pairs import Buckets, drawn_pairs, largest_amounts
from spark_eval.verbs.evaluation import Evaluation
from spark_eval.verbs.segments import is_text
from spark_eval.verbs.sides import buckets_of_sides, side_of
from spark_eval.verbs.small import collected_or_raised

CONFIDENCE = 0.95


@dataclass(frozen=True)
class DrawnMean:
    """A mean of a model that is drawn: what is summed, ``below`` None where each user counts once.

    ``upper`` is the largest value that there can be, None where nobody knows.
    """

    model: str
    metric: str
    k: int | None
    above: Drawn
    below: Drawn | None
    upper: float | None


def drawn_means(plan: Plan, models: list[str]) -> Iterator[DrawnMean]:
    """Yield all means of all models, weighted ones last."""
    for value, (place, model) in product(plan.metrics, enumerate(models)):
        factor = ((place, value.column),)
        yield DrawnMean(model, value.name, value.k, Drawn(factor, (), factor), None, value.metric.upper)
    for mean, (place, model) in product(weighted_means(plan.metrics), enumerate(models)):
        yield DrawnMean(model, mean.name, mean.k, *Drawn.parts(place, mean.column, mean.weight), None)


def bootstrapped(evaluation: Evaluation) -> dict[MeanKey, Ends]:
    """Return the interval of each mean of an evaluation: the percentiles of its replicates.

    A user is drawn with all rows, and alike for all models and metrics. Raises ConfigError
    TOO_MANY_REPLICATES.
    """
    plan, models = evaluation.plan, list(evaluation.models)
    cells = list(dict.fromkeys((row.segment, row.segment_value) for row in evaluation.sum_rows))
    means = list(drawn_means(plan, models))
    uppers = {drawn: mean.upper for mean in means for drawn in (mean.above, mean.below) if drawn}
    drawn = list(uppers)
    check_drawn(len(cells) * len(drawn), plan.resamples)
    question = PairQuestion(
        models=[(CANDIDATE, model) for model in models],
        matches=(),
        columns=plan.columns,
        segments=plan.segments,
        by_fold=plan.by_fold,
        has_text_ids=is_text(evaluation.per_user, USER),
    )
    with ExitStack() as held:
        buckets = buckets_of_sides(side_of(evaluation, None, CANDIDATE), None, question)
        if buckets.is_sent:
            held.callback(buckets.frame.persist().unpersist)
        largest = largest_sizes(buckets, uppers)
        drawing = Drawing(cells, drawn, largest, plan.seed, plan.resamples)
        sums = reduce(DrawnSums.plus, collected_or_raised(drawn_pairs(buckets, drawing)), drawing.zero())
    place_of = {one: place for place, one in enumerate(drawn)}
    found = {}
    for (number, cell), mean in product(enumerate(cells), means):
        above = number * len(drawn) + place_of[mean.above]
        divisors, scale = sums.weights[above], scale_of(largest[place_of[mean.above]])
        if mean.below is not None:
            below = place_of[mean.below]
            divisors = sums.totals[number * len(drawn) + below]
            scale *= 2.0**SCALE_BITS / scale_of(largest[below])
        replicates = Replicates.of(sums.totals[above].tolist(), divisors.tolist(), scale)
        key = (mean.model, mean.metric, mean.k, *cell)
        found[key] = percentile_interval(replicates, CONFIDENCE)
    return found


def largest_sizes(buckets: Buckets, uppers: dict[Drawn, float | None]) -> Floats:
    """Return the largest size of what is drawn, or what none exceeds; one more pass where it is not known."""
    unknown = [drawn for drawn, upper in uppers.items() if upper is None]
    parts = collected_or_raised(largest_amounts(buckets, unknown)) if unknown else []
    found = dict(zip(unknown, np.max([np.zeros(len(unknown)), *parts], axis=0).tolist(), strict=True))
    return np.array([found[drawn] if upper is None else upper for drawn, upper in uppers.items()])
