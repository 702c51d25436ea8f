"""How the users of a table ``per_user`` spread over values: counted from its files, or by Spark."""

from collections.abc import Collection
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_eval.arrow.user_files import dataset_at
from spark_eval.names import quoted
from spark_eval.reporting.spread import (
    N_BINS,
    UserCount,
    spread_of,
    spread_values,
    upper_bound,
    user_counts,
)
from spark_eval.schema import MODEL

BIN: Final = "bin"


def spread_in_folder(folder: str, measures: Collection[str] | None = None) -> tuple[list[UserCount], int]:
    """Return the counts of Parquet files by model, and the number of their rows."""
    return spread_of(dataset_at(folder), measures)


def spread_in_spark(per_user: DataFrame, measures: Collection[str] | None = None) -> list[UserCount]:
    """Return the same counts, by a job of Spark for each metric."""
    found: list[UserCount] = []
    for value in spread_values(per_user.columns, measures):
        upper, column = upper_bound(value), F.col(quoted(value.column))
        place = F.least(F.floor(column * N_BINS / upper), F.lit(N_BINS - 1)) + 1
        binned = F.when(column == 0, 0).otherwise(place).alias(BIN)
        is_defined = column.isNotNull() & ~F.isnan(column)
        counts: dict[str, list[int]] = {}
        for row in per_user.where(is_defined).groupBy(MODEL, binned).count().collect():
            counts.setdefault(row[MODEL], [0] * (N_BINS + 1))[row[BIN]] = row["count"]
        for model in sorted(counts):
            found += user_counts(model, value, counts[model])
    return found
