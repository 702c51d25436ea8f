"""Exact, order-independent sums over users: the same bits whatever the partitioning."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from spark_eval.batches.ids import Ints, numbers
from spark_eval.batches.sums import AMOUNT, COLUMN, KIND, LIMB, SUMS, merged_sums, sums
from spark_eval.schema import MISSING, MODEL, N_RECOMMENDED, N_RELEVANT, SEGMENT, SEGMENT_VALUE, USER
from spark_eval.transforms.inputs import quoted

# Rows of sums as a frame holds them.
SUMS_OF_MODELS: Final = pa.schema(
    [
        *((name, pa.string()) for name in (MODEL, SEGMENT, SEGMENT_VALUE)),
        *(SUMS.field(name) for name in (COLUMN, KIND, LIMB, AMOUNT)),
    ]
)


def sum_of_keys() -> Column:
    """As ``batches.keys.key_sum``, over the rows of all models."""
    keys = F.xxhash64(F.col(MODEL).cast("string"), F.col(USER).cast("string"), N_RELEVANT, N_RECOMMENDED)
    return F.sum(keys.cast("decimal(20,0)"))


def sums_of_users(
    per_user: DataFrame, summed: Mapping[str, Sequence[str]], segments: Sequence[str] = ()
) -> DataFrame:
    """The sums of each model's users, as rows of ``batches.sums`` behind the model; each task has its own.

    ``summed`` names products of columns.
    """
    columns = list(dict.fromkeys(factor for factors in summed.values() for factor in factors))
    # Under names of our own: a segment may be called as a metric is.
    texts = {name: f"segment_{place}" for place, name in enumerate(segments)}
    rows = per_user.select(
        MODEL,
        *(
            F.coalesce(F.col(quoted(n)).cast("string"), F.lit(MISSING)).alias(text)
            for n, text in texts.items()
        ),
        *columns,
    )

    def sums_of_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        found: dict[str, pa.Table] = {}
        for batch in batches:
            for model in batch[MODEL].unique().to_pylist():
                users = batch.filter(pc.equal(batch[MODEL], model))
                measured = {name: numbers(users[name]) for name in columns}  # NaN for null
                part = sums(
                    measured, summed, {name: segment_codes(users[text]) for name, text in texts.items()}
                )
                found[model] = merged_sums([found[model], part]) if model in found else part
        for model, table in found.items():
            of_model = table.add_column(0, MODEL, pa.repeat(model, table.num_rows))
            yield from of_model.cast(SUMS_OF_MODELS).to_batches()

    return rows.mapInArrow(sums_of_batches, from_arrow_schema(SUMS_OF_MODELS))


def segment_codes(texts: pa.Array) -> tuple[Ints, list[str]]:
    """The place of each text among the distinct ones, and these."""
    found = texts.dictionary_encode()
    return numbers(found.indices), found.dictionary.to_pylist()
