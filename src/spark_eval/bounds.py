"""Whether what was written lies within the bounds of the metrics."""

from collections.abc import Mapping
from pathlib import Path

import pyarrow.parquet as pq

from spark_eval.batches.files import statistics_of
from spark_eval.errors import SparkEvalError


def check_statistics(folder: Path, most: Mapping[str, float]) -> None:
    """Look at the least and the greatest value of each of these columns, as far as footers tell them."""
    for file in folder.rglob("*.parquet"):
        footer = pq.read_metadata(file)
        for column, largest in most.items():
            for found in statistics_of(footer, column):
                if found is not None and found.has_min_max:
                    check_bounds(column, found.min, found.max, largest)


def check_bounds(column: str, low: float | None, high: float | None, largest: float) -> None:
    """Raise SparkEvalError STAGED_OTHERWISE where a column's values go below 0 or above the largest."""
    if low is not None and high is not None and not 0 <= low <= high <= largest:
        message = f"per_user: {column} goes from {low} to {high}, it must lie in 0 to {largest}; report it"
        raise SparkEvalError("STAGED_OTHERWISE", message)
