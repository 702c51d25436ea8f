"""P-values of a family of tests, adjusted so that asking much finds nothing by chance alone."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import numpy as np

from spark_eval.stats.exact import Floats


def adjusted(p_values: Sequence[float | None], method: str) -> list[float | None]:
    """Return the adjusted p-value of each test; the family are those that have one.

    ``method`` is a name of CORRECTIONS. As ``statsmodels.stats.multitest.multipletests``.

    >>> adjusted([0.01, None, 0.03, 0.5], "holm")
    [0.03, None, 0.06, 0.5]
    """
    family = np.array([p for p in p_values if p is not None], dtype=np.float64)
    order = np.argsort(family, kind="stable")
    found = np.empty_like(family)
    found[order] = np.minimum(CORRECTIONS[method](family[order]), 1.0)
    values = iter(found.tolist())
    return [None if p is None else next(values) for p in p_values]


def holm(ascending: Floats) -> Floats:
    """Return p times how many are no smaller, and no less than the one before.

    Source: Holm, A simple sequentially rejective multiple test procedure, 1979.
    """
    products: Floats = np.maximum.accumulate(ascending * np.arange(len(ascending), 0, -1))
    return products


def bonferroni(ascending: Floats) -> Floats:
    """Return p times the size of the family."""
    return ascending * len(ascending)


def bh(ascending: Floats) -> Floats:
    """Return p times the size of the family by its rank, and no more than the next one: false discoveries.

    Source: Benjamini, Hochberg, Controlling the false discovery rate, 1995.
    """
    shares = ascending * len(ascending) / np.arange(1, len(ascending) + 1)
    lowest: Floats = np.minimum.accumulate(shares[::-1])[::-1]
    return lowest


CORRECTIONS: Final[Mapping[str, Callable[[Floats], Floats]]] = {
    "holm": holm,
    "bonferroni": bonferroni,
    "bh": bh,
    "none": lambda ascending: ascending,
}
