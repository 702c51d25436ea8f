"""The examples in the docstrings are true."""

import doctest
from types import ModuleType

import pytest

from spark_eval.metrics import lists, ranking, registry
from spark_eval.stats import intervals


@pytest.mark.parametrize("module", [lists, ranking, registry, intervals], ids=lambda module: module.__name__)
def test_examples_of_docstrings(module: ModuleType) -> None:
    assert doctest.testmod(module).failed == 0
