"""Rows, users and items of the subsets of a split, counted by Spark in one action."""

from functools import reduce
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_eval.names import literal
from spark_eval.schema import FOLD, ITEM, SUBSET, USER, Subset
from spark_eval.splits.fold_rule import FoldRule
from spark_eval.splits.subsets import SubsetRow, subset_rows

ROWS: Final = "rows"
# A bit for each subset that a row, a user or an item is in.
IN_SUBSETS: Final = "spark_eval_in_subsets"


def count_subsets(
    rows: DataFrame, rule: FoldRule, n_folds: int, folder: str | None = None
) -> list[SubsetRow]:
    """Count the rows, users and items of each subset, and the users and items that are cold in it.

    Args:
        rows: The labelled rows, with user, item, fold and subset.
        rule: The rule of the split.
        n_folds: The number of folds.
        folder: Where the rows are written as Parquet by subset, to be read there.

    Returns:
        The rows of the table ``subsets``.
    """
    if folder is not None:
        rows = rows.sparkSession.read.schema(rows.schema).parquet(literal(folder))
    bits = [F.when(F.col(SUBSET) == part.value, 1 << place) for place, part in enumerate(rule.subsets)]
    rows = rows.select(USER, ITEM, FOLD, F.coalesce(*bits, F.lit(0)).alias(IN_SUBSETS))
    tables = {ROWS: rows}
    for key in (USER, ITEM):
        tables[key] = rows.groupBy(FOLD, key).agg(F.bit_or(IN_SUBSETS).alias(IN_SUBSETS))
    counts = [
        table.groupBy(F.lit(kind).alias("kind"), FOLD, IN_SUBSETS).agg(F.count("*").alias("n"))
        for kind, table in tables.items()
    ]
    found: dict[str, list[tuple[int, frozenset[Subset], int]]] = {kind: [] for kind in tables}
    for kind, fold, in_subsets, n in reduce(DataFrame.unionAll, counts).collect():
        subsets = frozenset(part for place, part in enumerate(rule.subsets) if in_subsets >> place & 1)
        found[kind].append((fold, subsets, n))
    return subset_rows(rule, n_folds, *(found[kind] for kind in (ROWS, USER, ITEM)))
