"""Means of metric values over the repeats of a model, and over groups of users."""

from collections.abc import Sequence

import numpy as np

from spark_eval.statistics.exact import Floats, Ints, sums_by_group


def leave_out_undefined(values: Floats, groups: Sequence[Sequence[int]]) -> None:
    """Set the values of some models to NaN in the rows where any has none; shape (models, columns, n)."""
    for group in groups:
        together = values[list(group)]
        values[list(group)] = np.where(np.isfinite(together).all(axis=0), together, np.nan)


def means_of_repeats(values: Floats, repeats: Sequence[Sequence[int]]) -> Floats:
    """Return the means over the repeats of each model, added in their order; shape (models, columns, n)."""
    means = np.empty((len(repeats), *values.shape[1:]))
    for mean, rows in zip(means, repeats, strict=True):
        mean[:] = values[rows[0]]
        for index in rows[1:]:
            mean += values[index]
        mean /= len(rows)
    return means


def means_by_group(values: Floats, groups: Ints, n_groups: int) -> Floats:
    """Return the means of defined values (models, columns, n) by group; NaN without any.

    Sums are exact, and rounded once: the order of the values does not matter.

    >>> means_by_group(np.array([[[1.0, 2.0, np.nan]]]), np.array([0, 0, 1]), 2).tolist()
    [[[1.5, nan]]]
    """
    means = np.empty((*values.shape[:2], n_groups))
    for model_values, model_means in zip(values, means, strict=True):
        for column, column_means in zip(model_values, model_means, strict=True):
            is_defined = np.isfinite(column)
            total = sums_by_group(np.where(is_defined, column, 0.0), groups, n_groups)
            number = np.bincount(groups[is_defined], minlength=n_groups)
            column_means[:] = np.where(number > 0, total / np.maximum(number, 1), np.nan)
    return means
