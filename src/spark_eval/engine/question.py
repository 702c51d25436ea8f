"""What is asked of the workers: which metrics, by which rules, of which columns."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

from spark_eval.conventions import Conventions
from spark_eval.engine.messages import Content
from spark_eval.metrics import parse_metric
from spark_eval.metrics.values import MetricValue
from spark_eval.schema import (
    FAULT,
    FOLD,
    ITEM,
    MODEL,
    N_INTERACTIONS,
    RANK,
    RELEVANCE,
    SCORE,
    TIMESTAMP,
    USER,
)


@dataclass(frozen=True)
class Question:
    """What is measured of lists.

    ``user`` and ``item`` are the types of the ids, int64 or text. ``metrics`` are texts with their k.
    ``model`` is the name of the only model, None where a column holds names. Hits count as far as rank
    ``depth``, ideal lists as far as ``truth_depth``; both None: to their end. ``cuts`` are looked at for
    ties. Items of given ranks are counted up to each hit and each of ``held_cuts``; None: nobody asks. With
    ``checks_all``, repeats are looked for among all items, not among hits alone. No gain is computed of a
    relevance above ``most_relevance``. ``bounds`` are the most interactions of each activity decile. Items
    that are not in ``trained`` (by fold; None, where there are no folds) are cold.
    """

    user: pa.DataType
    item: pa.DataType
    metrics: tuple[tuple[str, int | None], ...]
    conventions: Conventions
    model: str | None
    has_scores: bool
    has_folds: bool
    checks_all: bool
    sees_ties: bool
    cuts: tuple[int, ...]
    held_cuts: tuple[int, ...] | None
    depth: int | None
    truth_depth: int | None
    most_relevance: float
    segments: tuple[str, ...]
    bounds: Mapping[int, int] | None
    trained: Mapping[int | None, pa.Array] | None

    @cached_property
    def values(self) -> list[MetricValue]:
        """The metrics."""
        return [value for text, k in self.metrics for value in parse_metric(text, [k])]

    def schema(self, content: Content) -> pa.Schema:
        """Return the columns of rows of which none came."""
        fold = {FOLD: pa.int64()} if self.has_folds else {}
        model = {MODEL: pa.string()} if self.model is None else {}
        user = {USER: self.user}
        order = {SCORE: pa.float64()} if self.has_scores else {RANK: pa.int64()}
        columns = {
            Content.LISTS: user | {ITEM: self.item} | order | fold | model,
            Content.BAD_LISTS: user | {FAULT: pa.string()} | fold | model,
            Content.TRUTH: user | {ITEM: self.item, RELEVANCE: pa.float64(), TIMESTAMP: pa.int64()} | fold,
            Content.BAD_TRUTH: user | {FAULT: pa.string()} | fold,
            Content.SEGMENTS: user | dict.fromkeys(self.segments, pa.string()),
            Content.TRAINED: user | {N_INTERACTIONS: pa.int64()} | fold,
            Content.MODELS: model,
        }
        return pa.schema(columns[content])
