"""Evaluation task sent to the executors: metrics, rules and columns."""

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from spark_eval.arrow.messages import Content
from spark_eval.conventions import Checks
from spark_eval.conventions.choice import Need
from spark_eval.evaluation.plan import Plan, RequestTruth
from spark_eval.evaluation.stages.quantities import summed_columns
from spark_eval.evaluation.worker.items.attributes import ItemAttributes
from spark_eval.kernels.beyond.catalog import Catalog
from spark_eval.schema import (
    FAULT,
    FOLD,
    ITEM,
    MODEL,
    N_INTERACTIONS,
    RANK,
    RELEVANCE,
    REQUEST,
    SCORE,
    TIMESTAMP,
    USER,
)


@dataclass(frozen=True)
class EvaluationTask:
    """Plan of an evaluation, and the attributes of its tables that executors need.

    ``user``, ``item`` and ``request`` are the types of the ids, int64 or text; ``request`` is None if users
    have one list. ``model`` is the name of the only model, None if a column has the names. Relevances above
    ``most_relevance`` have no finite gain. ``bounds`` maps each activity decile to its largest number of
    interactions. ``attributes`` are the item attributes, None if there are none; items without training
    interactions in them are cold.
    """

    plan: Plan
    user: pa.DataType
    item: pa.DataType
    model: str | None
    has_scores: bool
    most_relevance: float
    bounds: Mapping[int, int] | None
    attributes: ItemAttributes | None = None
    request: pa.DataType | None = None

    @property
    def item_attributes(self) -> ItemAttributes:
        """Item attributes; empty if there are none."""
        return self.attributes or ItemAttributes(pa.array([], self.item), Catalog(0))

    @property
    def checks_all(self) -> bool:
        """True if duplicates are searched among all items, not only among hits."""
        return self.has_scores or self.plan.checks is Checks.FULL

    @property
    def length_cuts(self) -> tuple[int, ...] | None:
        """Cutoffs for counts of the items present in a list (gaps in ranks skipped); None: not requested."""
        return None if self.has_scores else self.plan.length_cuts

    @property
    def n_stage_columns(self) -> int:
        """Number of values per user that are summed for pipeline stages."""
        return len(summed_columns(self.plan)) if self.plan.stages else 0

    @property
    def schemas(self) -> dict[Content, pa.Schema]:
        """Schema of the rows of each content, for contents without rows."""
        fold = {FOLD: pa.int64()} if self.plan.by_fold else {}
        model = {MODEL: pa.string()} if self.model is None else {}
        user = {USER: self.user}
        request = {} if self.request is None else {REQUEST: self.request}
        of_truth = request if self.plan.request_truth is RequestTruth.REQUESTS else {}
        order = {SCORE: pa.float64()} if self.has_scores else {RANK: pa.int64()}
        columns = {
            Content.LISTS: user | {ITEM: self.item} | order | fold | request | model,
            Content.BAD_LISTS: user | {FAULT: pa.string()} | fold | request | model,
            Content.TRUTH: user
            | {ITEM: self.item, RELEVANCE: pa.float64(), TIMESTAMP: pa.int64()}
            | fold
            | of_truth,
            Content.BAD_TRUTH: user | {FAULT: pa.string()} | fold | of_truth,
            Content.SEGMENTS: user | dict.fromkeys(self.plan.segments, pa.string()),
            Content.TRAINED: user | {N_INTERACTIONS: pa.int64()} | fold,
            Content.MODELS: model,
            **({Content.PROFILE: user | {ITEM: self.item} | fold} if Need.HISTORY in self.plan.needs else {}),
        }
        return {content: pa.schema(names) for content, names in columns.items()}
