"""Every metric under every choice that it declares has a number that a person can check."""

import re

import pytest
from choices import OF_USERS, SHARING
from textbook import BINARY, Row
from textbook_beyond import INTENTS
from textbook_graded import GRADED, PAIRS, WEIGHED
from textbook_lists import DIVERSE, FOUND, POPULAR, WEIGHED_LISTS

from spark_eval.conventions import CONVENTIONS, Conventions, TieOrder
from spark_eval.kernels.registry import RANKING
from spark_eval.kernels.values import parse_metric
from users import batch, for_metric

TABLE = [*BINARY, *GRADED, *PAIRS, *POPULAR, *DIVERSE, *FOUND, *INTENTS]
WEIGHTS = [*WEIGHED, *WEIGHED_LISTS]
VALUES = [value for row in TABLE for value in parse_metric(row.metric)]
WEIGHT_OF = {weight.name: metric for metric in RANKING.values() for weight in metric.weights.values()}


@pytest.mark.parametrize("row", TABLE, ids=lambda row: f"{row.metric}, {row.case}")
def test_textbook(row: Row) -> None:
    [value] = parse_metric(row.metric)
    columns = value.measure(for_metric(batch([row.user]), value.metric), Conventions())
    assert columns[value.column][0] == pytest.approx(row.value, rel=1e-12, abs=0, nan_ok=True)


@pytest.mark.parametrize("row", WEIGHTS, ids=lambda row: f"{row.metric}, {row.case}")
def test_textbook_of_weights(row: Row) -> None:
    weight = re.split("[(@]", row.metric)[0]
    [value] = parse_metric(row.metric.replace(weight, WEIGHT_OF[weight].name))
    columns = value.measure(for_metric(batch([row.user]), value.metric), Conventions())
    assert columns[value.column_of(weight)][0] == pytest.approx(row.value, rel=1e-12, abs=0, nan_ok=True)


@pytest.mark.parametrize("name", OF_USERS)
def test_every_choice_of_every_metric_has_a_row(name: str) -> None:
    chosen = {
        (convention, getattr(value.conventions(Conventions()), convention))
        for value in VALUES
        for convention in value.metric.conventions
        if value.metric.name == name
    }
    declared = {
        (convention, choice) for convention in RANKING[name].conventions for choice in CONVENTIONS[convention]
    }
    if name not in SHARING:
        declared -= {("tie_order", TieOrder.SHARED)}
    assert chosen == declared


@pytest.mark.parametrize("name", OF_USERS)
def test_every_metric_has_a_row_with_a_cutoff_and_one_without(name: str) -> None:
    assert {value.k is None for value in VALUES if value.metric.name == name} == {True, False}


def test_every_weight_has_a_row_with_a_cutoff_and_one_without() -> None:
    rows = {(row.metric.split("@")[0], row.metric.endswith("@all")) for row in WEIGHTS}
    assert rows >= {(name, is_uncut) for name in WEIGHT_OF for is_uncut in (True, False)}
