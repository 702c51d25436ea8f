"""The keys of ``per_user`` as one number, as Spark adds them up."""

from pyspark.sql import Column
from pyspark.sql import functions as F

from spark_eval.schema import MODEL, N_RECOMMENDED, N_RELEVANT, USER


def sum_of_keys() -> Column:
    """As ``batches.keys.key_sum``, over the rows of all models."""
    keys = F.xxhash64(F.col(MODEL).cast("string"), F.col(USER).cast("string"), N_RELEVANT, N_RECOMMENDED)
    return F.sum(keys.cast("decimal(20,0)"))
