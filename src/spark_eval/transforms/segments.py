"""Who users are: their segments, and what their training interactions tell of them and of the items."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_eval.arrow.files import Batches
from spark_eval.engine.items.tally import divided_by_item
from spark_eval.engine.items.training import TrainSummary, count_train
from spark_eval.engine.messages import added_up, by_bucket, packed, unpacked
from spark_eval.names import quoted
from spark_eval.schema import FOLD, ITEM, USER
from spark_eval.transforms.objects import NumberedObject, made, met_by_number


@dataclass(frozen=True)
class CountedTrain:
    """Summaries of buckets, and a part of the items with their counts; ``items`` are None if too many."""

    summaries: Sequence[TrainSummary]
    n_items: int
    items: pa.Table | None


def counted_train(messages: DataFrame, n_buckets: int, most_items: int, *, sees_takers: bool) -> DataFrame:
    """Return objects CountedTrain of the messages of training interactions, by bucket: two small shuffles.

    Users meet in their bucket, items by their hash. Parts with about twice their share of ``most_items`` are
    left out, so that the driver never gets more than it can hold.
    """

    def count(batches: Batches) -> Iterator[NumberedObject]:
        for _, rows in by_bucket(batches):
            summary, items = count_train(rows, sees_takers=sees_takers)
            yield 0, summary
            for part, counts in divided_by_item(items, n_buckets) if items is not None else ():
                yield part, packed(counts).to_pybytes()

    def meet(_: int, parts: list[TrainSummary | bytes]) -> CountedTrain:
        summaries = [one for one in parts if isinstance(one, TrainSummary)]
        tables = [unpacked(pa.py_buffer(one)) for one in parts if isinstance(one, bytes)]
        items = added_up(tables, (ITEM, FOLD)) if tables else None
        n_items = 0 if items is None else len(items)
        return CountedTrain(summaries, n_items, items if n_items <= 2 * most_items // n_buckets + 1 else None)

    return met_by_number(made(messages, count), n_buckets, meet)


def count_users(users: DataFrame, segments: Sequence[str]) -> DataFrame:
    """Return one row: rows, with_id, users (distinct), and each segment's number of values by its place."""
    return users.agg(
        F.count("*").alias("rows"),
        F.count(USER).alias("with_id"),
        F.count_distinct(USER).alias("users"),
        *(F.count_distinct(quoted(name)).alias(f"values_{place}") for place, name in enumerate(segments)),
    )
