"""A bucket of users measured: rows of ``per_user``, their sums, and counts of what became of every row."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from spark_eval.arrow.hashes import Ints
from spark_eval.engine.bucket import Bucket
from spark_eval.engine.lists import AllLists
from spark_eval.engine.means import sums
from spark_eval.engine.messages import Content
from spark_eval.engine.people import segments_of
from spark_eval.metrics.lists import Floats, Lists
from spark_eval.metrics.values import summed
from spark_eval.schema import FOLD, N_RECOMMENDED, N_RELEVANT, USER


@dataclass(frozen=True)
class Measured:
    """One model's lists in a bucket.

    ``counts`` are for the accounting, ``folds`` those in which it has a list; ``per_user`` has a row per user
    of the population; ``sums`` are those of its columns.
    """

    model: str | None
    counts: Mapping[str, int]
    folds: frozenset[int]
    per_user: pa.Table
    sums: pa.Table


class Measuring:
    """What is common to the models of a bucket."""

    def __init__(self, bucket: Bucket) -> None:
        self.bucket, self.question = bucket, bucket.question
        self.ideal = bucket.truth.ideal(self.question.truth_depth)
        about = bucket.rows[Content.SEGMENTS], bucket.rows[Content.TRAINED]
        self.segments = segments_of(self.question.segments, bucket.people, *about, self.question.bounds)

    def measured(self) -> Iterator[Measured]:
        """Measure each model's lists."""
        lists = self.bucket.lists()
        for place, model in enumerate(self.bucket.models):
            yield self.of_model(model, lists.of_model(place))

    def of_model(self, model: str | None, lists: AllLists) -> Measured:
        """Measure one model's lists: population, kernels, sums."""
        question, folds = self.question, self.bucket.people.folds
        chosen = lists.population(question.conventions)
        if (lists.truth.relevances(np.arange(len(lists.truth.user))) > question.most_relevance).any():
            chosen = chosen[:0]  # no gain of such relevances can be computed: the run is refused
        taken = lists.lists(chosen, self.ideal)
        columns = self.columns(taken)
        groups = {name: (segment.code[chosen], segment.names) for name, segment in self.segments.items()}
        return Measured(
            model,
            lists.counts(
                question.cuts, question.has_scores, self.bucket.is_odd_user, self.bucket.nameless(model)
            ),
            frozenset() if folds is None else frozenset(folds[lists.n_recommended > 0].tolist()),
            self.per_user(chosen, taken, columns),
            sums(columns, summed(question.values), groups),
        )

    def per_user(self, chosen: Ints, lists: Lists, columns: Mapping[str, Floats]) -> pa.Table:
        """Return the rows of these users."""
        people = self.bucket.people
        fold = {} if people.folds is None else {FOLD: people.folds[chosen].astype(np.int32)}
        segments = {name: segment.column(chosen) for name, segment in self.segments.items() if name != FOLD}
        values = {name: pa.array(values, from_pandas=True) for name, values in columns.items()}
        users = {USER: people.ids.take(pa.array(chosen))}
        counts = {N_RELEVANT: lists.n_relevant, N_RECOMMENDED: lists.n_recommended}
        return pa.table(users | counts | fold | segments | values)

    def columns(self, lists: Lists) -> dict[str, Floats]:
        """Return the values of all metrics, NaN where undefined."""
        columns: dict[str, Floats] = {}
        for value in self.question.values:
            columns |= value.measure(lists, self.question.conventions)
        return columns
