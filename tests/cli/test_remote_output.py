"""The program where output is published by manifest."""

import json
from typing import TYPE_CHECKING

import pytest

from spark_eval import read_published

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from tests.cli.conftest import Desk


@pytest.mark.slow
def test_runs_by_manifest_are_those_of_a_folder(desk: "Desk", spark: "SparkSession") -> None:
    there = desk.twin(desk.home / "there")
    there.home.mkdir()
    there.change("output", manifest=True)
    for one in (desk, there):
        one.done("split", "--run-id", "a")
        one.done("evaluate", "--run-id", "a")
        assert "already published" in one.done("evaluate", "--run-id", "a").out
    for table in ("splits", "leakage", "per_user", "metrics", "accounting"):
        here, by_manifest = (read_published(spark, str(one.out), table) for one in (desk, there))
        assert here.schema == by_manifest.schema
        assert sorted(map(str, here.collect())) == sorted(map(str, by_manifest.collect()))
        assert not (there.out / table).exists()

    code, name, _ = there.refused("evaluate", "--run-id", "a", "--set", "evaluate.k=2")
    assert (code, name) == (2, "RUN_EXISTS")
    said = there.done("evaluate", "--run-id", "a", "--set", "evaluate.k=2", "--replace").out
    assert "_runs/a-evaluate-" in said
    assert {row["k"] for row in read_published(spark, str(there.out), "metrics").collect()} == {2}

    said = there.done("status").out
    assert "1 run published under file://" in said
    assert "│ a   │ split " in said
    assert "1 attempt unfinished" in said  # what was replaced, until nobody can be reading it

    # What is said of a session that exists already is no part of the object.
    there.change("spark", conf={"spark.sql.session.timeZone": "Asia/Tokyo"})
    done = there.run("status", "--json")
    assert [run["run_id"] for run in json.loads(done.out)["runs"]] == ["a", "a"]
    assert "settings_ignored" in done.err
