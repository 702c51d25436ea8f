"""What is asked of the workers: which metrics, by which rules, of which columns."""

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from spark_eval.conventions import Checks
from spark_eval.engine.items.facts import ItemFacts
from spark_eval.engine.messages import Content
from spark_eval.metrics.beyond.catalog import Catalog
from spark_eval.metrics.options import Plan
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
    """What is measured of lists: the plan, and the facts of the tables that workers need.

    ``user`` and ``item`` are the types of the ids, int64 or text. ``model`` is the name of the only model,
    None where a column holds names. No gain is computed of a relevance above ``most_relevance``. ``bounds``
    are the most interactions of each activity decile. Items without training interactions by ``facts`` are
    cold; None: nothing is known of items.
    """

    plan: Plan
    user: pa.DataType
    item: pa.DataType
    model: str | None
    has_scores: bool
    most_relevance: float
    bounds: Mapping[int, int] | None
    facts: ItemFacts | None = None

    @property
    def known_items(self) -> ItemFacts:
        """The facts of items, which are none where nothing is known of them."""
        return self.facts or ItemFacts(pa.array([], self.item), Catalog(0))

    @property
    def checks_all(self) -> bool:
        """Whether repeats are looked for among all items, not among hits alone."""
        return self.has_scores or self.plan.checks is Checks.FULL

    @property
    def held_cuts(self) -> tuple[int, ...] | None:
        """Ranks up to which the items of lists are counted, beside those of hits; None: nobody asks."""
        return None if self.has_scores else self.plan.held_cuts

    @property
    def schemas(self) -> dict[Content, pa.Schema]:
        """The columns of rows of which none came, for all that is asked about."""
        fold = {FOLD: pa.int64()} if self.plan.by_fold else {}
        model = {MODEL: pa.string()} if self.model is None else {}
        user = {USER: self.user}
        order = {SCORE: pa.float64()} if self.has_scores else {RANK: pa.int64()}
        columns = {
            Content.LISTS: user | {ITEM: self.item} | order | fold | model,
            Content.BAD_LISTS: user | {FAULT: pa.string()} | fold | model,
            Content.TRUTH: user | {ITEM: self.item, RELEVANCE: pa.float64(), TIMESTAMP: pa.int64()} | fold,
            Content.BAD_TRUTH: user | {FAULT: pa.string()} | fold,
            Content.SEGMENTS: user | dict.fromkeys(self.plan.segments, pa.string()),
            Content.TRAINED: user | {N_INTERACTIONS: pa.int64()} | fold,
            Content.MODELS: model,
            **({Content.PROFILE: user | {ITEM: self.item} | fold} if self.plan.sees_profiles else {}),
        }
        return {content: pa.schema(names) for content, names in columns.items()}
