"""Pairs, clusters and reviews as Spark reads them, with our columns."""

from collections.abc import Mapping

from pyspark.sql import Column, DataFrame

from spark_eval.linkage.wanted import wanted_names
from spark_eval.schema import LABEL, REVIEWER, SCORE
from spark_eval.tables.inputs import Input, open_input


def conform_links(frame: DataFrame, name: str, names: Mapping[str, str]) -> DataFrame:
    """Return the columns of pairs, of clusters or of reviews, by our names.

    Raises one DataError for missing columns, and for types other than those of ids and scores.
    """
    table = open_input(frame, name, names)
    needed, optional = wanted_names(name, names, frame.columns)
    columns = [*needed, *(one for one in optional if table.has(one))]
    return table.conformed({one: typed(table, one) for one in columns})


def typed(table: Input, column: str) -> Column:
    """Return a column as an id, a number or text."""
    if column == SCORE:
        return table.number(SCORE, "UNSUPPORTED_TYPE")
    return table.text(column) if column in (REVIEWER, LABEL) else table.id(column)
