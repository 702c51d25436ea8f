"""Made-up tables of users, and the same sums by rational arithmetic, user by user."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
import pyarrow as pa
from tests.statistics.samples import clusters_of_both

from spark_eval.statistics.differences import PairSums, RatioSums
from spark_eval.users.population import AlignedUsers, ComparisonTask


def table_of(users: pd.DataFrame) -> pa.Table:
    """Return users as workers read them."""
    return pa.Table.from_pandas(users, preserve_index=False)


def population_of(task: ComparisonTask, tables: Sequence[pa.Table]) -> AlignedUsers:
    """Return who is compared of these tables, one for each model."""
    return AlignedUsers(task, lambda place, columns: tables[place].select(list(columns)))


def plain_sums(pairs: pd.DataFrame) -> PairSums:
    """Return the sums of the columns a and b, of rows that have both."""
    known = pairs[np.isfinite(pairs["a"]) & np.isfinite(pairs["b"])]
    sums = PairSums.of(known["a"].tolist(), known["b"].tolist())
    q = np.rint((known["b"] - known["a"]) * 2.0**40)
    counts = {"greater": int((q > 0).sum()), "less": int((q < 0).sum())}
    return PairSums(**{**vars(sums), **counts})


def plain_clusters(pairs: pd.DataFrame) -> RatioSums:
    """Return the sums over users of the same rows."""
    known = pairs[np.isfinite(pairs["a"]) & np.isfinite(pairs["b"])]
    return clusters_of_both(known["user"].tolist(), known["a"].tolist(), known["b"].tolist())
