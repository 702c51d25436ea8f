"""A bucket of users measured: rows of ``per_user``, their sums, and counts of what became of every row."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from spark_eval.engine.bucket import Bucket
from spark_eval.engine.lists import AllLists
from spark_eval.engine.means import sums
from spark_eval.engine.messages import Content
from spark_eval.engine.people import segments_of
from spark_eval.metrics.columns import summed
from spark_eval.metrics.lists import Lists
from spark_eval.schema import FOLD, N_RECOMMENDED, N_RELEVANT, USER
from spark_eval.stats.exact import Floats, Ints

# So many values of ``per_user``, and relevant items, are measured at once; those of one model may be more.
MOST_AT_ONCE: Final = 1_000_000


@dataclass(frozen=True)
class Measured:
    """One model's lists in a bucket.

    ``counts`` are for the accounting, ``folds`` those in which it has a list; ``per_user`` has a row per user
    of the population.
    """

    model: str | None
    counts: Mapping[str, int]
    folds: frozenset[int]
    per_user: pa.Table


class Measuring:
    """Measures a bucket; once all models are, ``sums`` are those of the columns of ``per_user``."""

    def __init__(self, bucket: Bucket) -> None:
        self.bucket, self.question = bucket, bucket.question
        self.ideal = bucket.truth.ideal(self.question.plan.truth_depth)
        about = bucket.rows[Content.SEGMENTS], bucket.rows[Content.TRAINED]
        self.segments = segments_of(self.question.plan.segments, bucket.people, *about, self.question.bounds)
        self.sums: list[pa.Table] = []

    def measured(self) -> Iterator[Measured]:
        """Measure each model's lists; those of several models together as long as they are few."""
        lists, models = self.bucket.lists(), self.bucket.models
        n_columns = sum(len(value.columns) for value in self.question.plan.metrics)
        of_one = len(self.bucket.people) * n_columns + len(self.ideal.row)
        n_together = max(1, MOST_AT_ONCE // max(of_one, 1))
        for first in range(0, len(models), n_together):
            names = models[first : first + n_together]
            yield from self.of_models(names, lists.of_models(first, first + len(names)))

    def of_models(self, models: Sequence[str | None], lists: AllLists) -> Iterator[Measured]:
        """Measure the lists of some models: population, kernels, sums."""
        question, bucket, n_users = self.question, self.bucket, max(len(self.bucket.people), 1)
        chosen = lists.population(question.plan.conventions)
        if lists.truth.largest_relevance > question.most_relevance:
            chosen = chosen[:0]  # no gain of such relevances can be computed: the run is refused
        taken = lists.lists(chosen, self.ideal)
        columns, users, model = self.columns(taken), chosen % n_users, chosen // n_users
        segments = {name: (segment.code[users], segment.names) for name, segment in self.segments.items()}
        names = [name or "" for name in models]
        self.sums.append(sums(columns, summed(question.plan.metrics), (model, names), segments))
        nameless = [bucket.nameless(model) for model in models]
        counts = lists.counts(question.plan.cuts, question.has_scores, bucket.is_odd_user, nameless)
        rows, ends = self.per_user(users, taken, columns), np.searchsorted(model, np.arange(len(models) + 1))
        is_list = lists.by_model(lists.n_recommended > 0)
        for place, name in enumerate(models):
            folds = () if bucket.people.folds is None else bucket.people.folds[is_list[place]].tolist()
            part = rows.slice(ends[place], ends[place + 1] - ends[place])
            yield Measured(name, counts[place], frozenset(folds), part)

    def per_user(self, users: Ints, lists: Lists, columns: Mapping[str, Floats]) -> pa.Table:
        """Return the rows of these users."""
        people = self.bucket.people
        fold = {} if people.folds is None else {FOLD: people.folds[users].astype(np.int32)}
        segments = {name: segment.column(users) for name, segment in self.segments.items() if name != FOLD}
        values = {name: pa.array(values, from_pandas=True) for name, values in columns.items()}
        ids = {USER: people.ids.take(pa.array(users))}
        counts = {N_RELEVANT: lists.n_relevant, N_RECOMMENDED: lists.n_recommended}
        return pa.table(ids | counts | fold | segments | values)

    def columns(self, lists: Lists) -> dict[str, Floats]:
        """Return the values of all metrics, NaN where undefined."""
        columns: dict[str, Floats] = {}
        for value in self.question.plan.metrics:
            columns |= value.measure(lists, self.question.plan.conventions)
        return columns
