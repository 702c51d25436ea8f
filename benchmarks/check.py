"""Compare a contender's numbers with those of spark-eval, to 1e-9."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import numpy as np
import pandas as pd
import pyarrow.dataset as ds

from benchmarks.contenders import Contender
from benchmarks.workload import Workload

TOLERANCE: Final = 1e-9
COUNTS: Final = ("n_relevant", "n_recommended")


def read_per_user(folder: Path, workload: Workload) -> pd.DataFrame:
    """Read the table that a repetition wrote, sorted by its key."""
    files = [str(path) for path in sorted(folder.rglob("*.parquet")) if is_per_user(path, folder)]
    table: pd.DataFrame = ds.dataset(files, format="parquet", partitioning="hive").to_table().to_pandas()
    return table.sort_values(workload.key, ignore_index=True)


def is_per_user(path: Path, folder: Path) -> bool:
    """Return True for files of ``per_user``; published output has other tables as well."""
    parts = path.relative_to(folder).parts
    return not path.name.startswith((".", "_")) and parts[0].startswith("per_user")


def expected(reference: pd.DataFrame, contender: Contender, workload: Workload) -> pd.DataFrame:
    """Convert our table to the contender's convention of average precision and its population."""
    table = reference
    if contender.population == "both":
        table = table[table["n_recommended"] > 0]
    if contender.ap == "relevant" and "ap" in workload.metrics:
        relevant = table["n_relevant"].to_numpy()
        table = table.assign(
            **{f"ap_at_{k}": table[f"ap_at_{k}"] * np.minimum(relevant, k) / relevant for k in workload.ks}
        )
    return table


def of_means(means: Mapping[str, float], ours: Mapping[str, float]) -> float | None:
    """Return the largest difference of the means that both have; None if there are none."""
    return max((abs(means[name] - ours[name]) for name in means.keys() & ours.keys()), default=None)


def difference(
    output: Path,
    means: Mapping[str, float] | None,
    reference: pd.DataFrame,
    contender: Contender,
    workload: Workload,
) -> float | None:
    """Return the largest difference from ours, of users' values and of means; None if there are neither.

    It is infinite if users or counts differ.
    """
    table = expected(reference, contender, workload)
    gaps = []
    if contender.per_user:
        theirs = read_per_user(output, workload)
        keys = [*workload.key, *(count for count in COUNTS if count in theirs.columns)]
        if len(theirs) != len(table) or not (theirs[keys].to_numpy() == table[keys].to_numpy()).all():
            return float("inf")
        gaps.append(np.abs(theirs[workload.columns].to_numpy() - table[workload.columns].to_numpy()).max())
    if means is not None and workload.dataset.models == 1:
        gaps += [abs(value - table[name.replace("@", "_at_")].mean()) for name, value in means.items()]
    return float(max(gaps)) if gaps else None
