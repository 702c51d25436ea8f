"""Items in a config: their facts reach the metrics that need them, and only these read them."""

from collections.abc import Iterator
from typing import Any

import item_metrics
import pandas as pd
import pytest
from data_b import GROUPS, LISTS, TRAIN, TRUTH, VECTORS
from item_metrics import registered
from pyspark import cloudpickle
from tests.cli.conftest import Desk


@pytest.fixture(autouse=True)
def metrics() -> Iterator[None]:
    # Workers have no folder of tests to import from.
    cloudpickle.register_pickle_by_value(item_metrics)  # type: ignore[no-untyped-call]
    with registered():
        yield
    cloudpickle.unregister_pickle_by_value(item_metrics)  # type: ignore[no-untyped-call]


def with_data_b(desk: Desk, metrics: list[str]) -> None:
    """A config of data B with ids of text."""
    tables: dict[str, Any] = {
        "lists": [(u, f"i{i}", rank) for u, items in LISTS.items() for rank, i in enumerate(items, 1)],
        "truth": [(u, f"i{i}") for u, items in TRUTH.items() for i in items],
        "train": [(u, f"i{i}") for u, items in TRAIN.items() for i in items],
    }
    for name, rows in tables.items():
        desk.write(name, pd.DataFrame(rows, columns=["user", "item", "rank"][: len(rows[0])]))
    movies = [(f"i{i}", "|".join(groups), list(VECTORS[i])) for i, groups in GROUPS.items()]
    desk.write("movies", pd.DataFrame([*movies, (None, "a", None)], columns=["movie", "genres", "vector"]))
    desk.tree = {
        "output": {"path": str(desk.out)},
        "recommendations": {"path": str(desk.home / "lists"), "model": "m"},
        "truth": {"path": str(desk.home / "truth")},
        "train": {"path": str(desk.home / "train")},
        "items": {"path": str(desk.home / "movies"), "columns": {"item": "movie", "groups": "genres"}},
        "evaluate": {"k": [3], "metrics": metrics},
    }


def test_a_run_reads_items_and_publishes_what_follows(desk: Desk) -> None:
    with_data_b(desk, ["t_coverage", "t_popularity", "t_groups", "t_filled"])
    desk.done("validate")
    desk.done("evaluate", "--run-id", "one")
    values = desk.table("metrics").set_index("metric")["value"].to_dict()
    expected = {"t_coverage": 0.625, "t_popularity": 17 / 12, "t_filled": 0.8}
    assert values == pytest.approx(expected | {"t_groups": 1.1 * (10 / 3 + 2.5) / 4})
    entries = desk.table("accounting").query("source == 'items'")
    assert entries[["outcome", "rows"]].to_numpy().tolist() == [["in", 9], ["used", 8], ["quarantined", 1]]
    assert desk.table("quarantine")["source"].tolist() == ["items"]
    assert "t_coverage_at_3" not in desk.table("per_user").columns


def test_items_are_read_for_metrics_that_need_them_alone(desk: Desk) -> None:
    with_data_b(desk, ["ndcg"])
    desk.tree["items"]["path"] = str(desk.home / "nowhere")
    desk.done("evaluate", "--run-id", "two")
    assert "items" not in set(desk.table("accounting")["source"])


def test_a_config_without_what_a_metric_needs_is_refused(desk: Desk) -> None:
    with_data_b(desk, ["t_popularity", "t_seen"])
    del desk.tree["train"]
    code, name, line = desk.refused("evaluate")
    assert (code, name) == (2, "MISSING_TRAIN")
    assert "t_popularity, t_seen" in line
