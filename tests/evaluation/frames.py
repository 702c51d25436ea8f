"""Literal frames, and what a transform makes of them."""

import io
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from typing import Any

from chispa import assert_df_equality
from pyspark.sql import DataFrame, SparkSession


def assert_rows(actual: DataFrame, schema: str, rows: Sequence[tuple[Any, ...]]) -> None:
    """The frame holds these rows in any order, under these names and types."""
    expected = actual.sparkSession.createDataFrame(rows, schema)
    # On one partition, sorting them takes no shuffle.
    assert_df_equality(
        actual.coalesce(1),
        expected.coalesce(1),
        ignore_row_order=True,
        ignore_nullable=True,
        allow_nan_equality=True,
    )


@contextmanager
def settings(spark: SparkSession, values: Mapping[str, str]) -> Iterator[None]:
    """The session with these settings, for a while."""
    before = {name: spark.conf.get(name, None) for name in values}
    for name, value in values.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, old in before.items():
            if old is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, old)


def explained(frame: DataFrame, mode: str = "simple") -> str:
    """The physical plan as Spark prints it."""
    printed = io.StringIO()
    with (
        settings(frame.sparkSession, {"spark.sql.maxMetadataStringLength": "1000"}),
        redirect_stdout(printed),
    ):
        frame.explain(mode=mode)
    return printed.getvalue()
