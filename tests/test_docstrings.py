"""Run the examples of all docstrings; check that every kernel has an example and a source."""

import doctest
from importlib import import_module
from pathlib import Path
from typing import Final

import numpy as np
import pytest

from spark_eval.metrics.registry import RANKING
from spark_eval.predictions import POINTWISE

SOURCE: Final = Path(__file__).parents[1] / "src"
MODULES: Final = sorted(
    ".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__")
    for path in SOURCE.rglob("*.py")
    if ">>> " in path.read_text(encoding="utf-8")
)


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_of_a_module_hold(name: str) -> None:
    assert doctest.testmod(import_module(name), extraglobs={"np": np}).failed == 0


def test_most_modules_with_kernels_have_examples() -> None:
    """Guards the search itself: an empty list of modules would pass."""
    assert {
        "spark_eval.metrics.binary",
        "spark_eval.metrics.stages",
        "spark_eval.conventions.presets",
    } <= set(MODULES)


def test_every_kernel_has_an_example_and_a_source() -> None:
    notes = {metric.name: metric.notes for metric in RANKING.values()}
    notes |= {f"{metric.name} of predictions": metric.notes for metric in POINTWISE.values()}
    for name, text in notes.items():
        assert ">>> " in text, name
        assert "Source: " in text, name
