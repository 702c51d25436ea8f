"""The examples in the docstrings are true."""

import doctest
from types import ModuleType

import pytest

from spark_eval.comparing import gates, options, sentences
from spark_eval.metrics import (
    aliases,
    binary,
    columns,
    discounts,
    graded,
    lists,
    pairwise,
    registry,
    values,
)
from spark_eval.metrics import distances as distances_of_vectors
from spark_eval.metrics.beyond import (
    counts,
    discovery,
    diversity,
    exposure,
    history,
    intents,
    popularity,
)
from spark_eval.metrics.registry import RANKING
from spark_eval.pointwise import POINTWISE, classes, distances, rows, totals
from spark_eval.splits import moments
from spark_eval.stats import (
    differences,
    draws,
    exact,
    intervals,
    ranked,
    resampling,
    significance,
)

MODULES = [
    aliases,
    binary,
    classes,
    columns,
    counts,
    differences,
    discounts,
    discovery,
    distances,
    distances_of_vectors,
    diversity,
    draws,
    exact,
    exposure,
    gates,
    graded,
    history,
    intents,
    intervals,
    lists,
    moments,
    options,
    pairwise,
    popularity,
    ranked,
    registry,
    resampling,
    rows,
    sentences,
    significance,
    totals,
    values,
]


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_examples_of_docstrings(module: ModuleType) -> None:
    assert doctest.testmod(module).failed == 0


def test_every_kernel_has_an_example() -> None:
    notes = {metric.name: metric.notes for metric in RANKING.values()}
    notes |= {f"{metric.name} of predictions": metric.notes for metric in POINTWISE.values()}
    for name, text in notes.items():
        assert ">>> " in text, name
        assert "Source: " in text, name
