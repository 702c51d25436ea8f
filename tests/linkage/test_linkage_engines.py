"""Linkage on Spark: the same rows, accounting and samples, to the last bit, and the same errors."""

import datetime
import os
import subprocess
import sys
import uuid
from collections.abc import Callable
from contextlib import ExitStack
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from frames import explained
from pyspark.sql import SparkSession

from spark_eval import evaluate_linkage, sample_pairs
from spark_eval.errors import ConfigError, DataError
from spark_eval.linkage.frames import blank_if_invalid, by_record
from spark_eval.runners.spread import SHUFFLE_PARTITIONS, shuffle_by_size
from spark_eval.runtime.any_session import setting

pytestmark = pytest.mark.usefixtures("spark")
Tables = dict[str, pa.Table]
NOT_FINITE = [float("nan"), float("inf"), None]
MANY_EDGES = tuple((np.arange(1000) / 1000).tolist())


def ids(records: Any, kind: str) -> pa.Array:
    """Integers around 0, some beyond 32 bits, or text that sorts in another order than its numbers."""
    numbers = [int(one) * 3 - 50 if one % 7 else int(one) << 40 for one in records]
    return pa.array([f"é{one}" for one in numbers] if kind == "text" else numbers)


def clusters(random: Any, n: int, kind: str) -> pa.Table:
    """Records with a cluster each, one large one; some repeated, some with nulls."""
    records = random.permutation(n)
    labels = [None if one % 31 == 0 else 0 if one < n // 4 else int(one) // 3 for one in records]
    table = pa.table({"record": ids(records, kind), "cluster": pa.array(labels, pa.int32())})
    return pa.concat_tables([table, table.slice(0, n // 5)])


def pairs(random: Any, n: int, kind: str) -> pa.Table:
    """Pairs in either order, some repeated, some of one record, with scores that are not all finite."""
    a = random.integers(0, n, 3 * n)
    b = np.clip(a + random.integers(-3, 4, 3 * n), 0, n + 5)
    scores = [NOT_FINITE[at % 3] if at % 50 == 0 else round(float(random.random()), 2) for at in range(3 * n)]
    return pa.table({"a": ids(a, kind), "b": ids(b, kind), "score": pa.array(scores, pa.float64())})


def differs(random: Any, table: pa.Table) -> pa.Table:
    """The same clusters, some in two parts, and without some records."""
    labels = [one if one is None or one % 5 else one + 1000 for one in table["cluster"].to_pylist()]
    changed = table.set_column(1, "cluster", pa.array(labels, pa.int32()))
    return changed.filter(pa.array(random.random(len(table)) < 0.9))


def made(kind: str, predicted: str, true: str, seed: int = 0, n: int = 60) -> Tables:
    random = np.random.default_rng(seed)
    whole = clusters(random, n, kind)
    links: dict[str, Callable[[], pa.Table]] = {
        "clusters": lambda: differs(random, whole),
        "pairs": lambda: pairs(random, n, kind).drop_columns("score"),
    }
    tables = {"predicted": links[predicted](), "true": whole if true == "clusters" else links[true]()}
    return tables | {"candidates": pairs(random, n, kind)}


def reviewed(candidates: pa.Table, predicted: pa.Table) -> Tables:
    sample = sample_pairs(candidates, predicted, strata=[0.3, 0.8], per_stratum=6, engine="local")
    labels = ["match" if at % 3 else "non_match" for at in range(len(sample))]
    reviewers = pa.repeat("ann", len(sample))
    return {
        "sample": sample,
        "reviews": pa.table([sample["b"], sample["a"], reviewers, labels], ["a", "b", "reviewer", "label"]),
    }


@pytest.mark.parametrize("kind", [pytest.param("integers", marks=pytest.mark.slow), "text"])
@pytest.mark.parametrize(
    "forms", [("clusters", "clusters"), ("pairs", "clusters"), ("clusters", "pairs"), ("pairs", "pairs")]
)
def test_both_engines_find_the_same_bits(kind: str, forms: tuple[str, str]) -> None:
    tables = made(kind, *forms)
    tables |= reviewed(tables["candidates"], tables["predicted"])
    found = []
    for missing in ("singleton", "leave_out"):
        options: Any = {**tables, "missing": missing}
        here, there = (evaluate_linkage(**options, engine=engine) for engine in ("local", "spark"))
        assert there.rows == here.rows
        assert there.entries == here.entries
        assert len({one.reason for one in here.entries}) > 3
        found.append(here.rows)
    assert (found[0] != found[1]) == ("clusters" in forms)


@pytest.mark.parametrize("kind", [pytest.param("integers", marks=pytest.mark.slow), "text"])
@pytest.mark.parametrize("predicted", ["clusters", "pairs"])
def test_both_engines_draw_the_same_sample(kind: str, predicted: str) -> None:
    tables = made(kind, predicted, "clusters", seed=1)
    for strata, per_stratum in (((), 7), ((0.2, 0.6), 5), (MANY_EDGES, 1000)):
        options: Any = {"strata": strata, "per_stratum": per_stratum, "seed": 2**40}
        here, there = (
            sample_pairs(tables["candidates"], tables["predicted"], engine=engine, **options)
            for engine in ("local", "spark")
        )
        assert there.equals(here)
        assert len(here)


def test_nothing_is_the_same_error() -> None:
    tables = {name: table.slice(0, 0) for name, table in made("integers", "clusters", "pairs").items()}
    errors = []
    for engine in ("local", "spark"):
        with pytest.raises(DataError, match="EMPTY_INPUT") as refused:
            evaluate_linkage(**tables, engine=engine)
        errors.append(str(refused.value))
    assert errors[0] == errors[1]


def test_frames_of_spark_are_measured_there(spark: SparkSession) -> None:
    tables = made("integers", "clusters", "clusters")
    frames: dict[str, Any] = {name: spark.createDataFrame(table) for name, table in tables.items()}
    assert evaluate_linkage(**frames).rows == evaluate_linkage(**tables).rows
    with pytest.raises(ConfigError, match="predicted is a Spark frame") as refused:
        evaluate_linkage(**frames, engine="local")
    assert refused.value.code == "NEEDS_SPARK"


def test_clusterings_meet_in_one_shuffle_by_record(spark: SparkSession) -> None:
    valid = {
        name: blank_if_invalid(name, spark.createDataFrame(table))
        for name, table in made("text", "clusters", "clusters").items()
        if name != "candidates"
    }
    records = by_record(valid)
    assert explained(records).count("Exchange hashpartitioning") == 1
    cells = records.groupBy(*valid).count()
    assert explained(cells).count("Exchange hashpartitioning") == 2


@pytest.mark.parametrize("forms", [("clusters", "clusters"), ("pairs", "clusters")])
def test_each_source_is_read_once(spark: SparkSession, tmp_path: Path, forms: tuple[str, str]) -> None:
    tables = made("text", *forms)

    def noted(name: str) -> Any:
        """A frame of one task that leaves a file whenever it is computed."""
        frame = spark.createDataFrame(tables[name]).coalesce(1)

        def note(batches: Any) -> Any:
            (tmp_path / f"{name}-{uuid.uuid4()}").touch()
            yield from batches

        return frame.mapInArrow(note, frame.schema)

    found = evaluate_linkage(**{name: noted(name) for name in tables})
    assert found.rows == evaluate_linkage(**tables).rows
    assert sorted(path.name.partition("-")[0] for path in tmp_path.iterdir()) == sorted(tables)


DIGITS = [f"{at}.{(at * 7919 + 1) ** 8 % 10**28:028d}" for at in range(40)]
SCORES = {
    "booleans": pa.array([at % 3 == 0 if at % 7 else None for at in range(40)]),
    "short decimals": pa.array(
        [Decimal(80 + at) / 100 if at % 7 else None for at in range(40)], pa.decimal128(5, 2)
    ),
    "long decimals": pa.array(list(map(Decimal, DIGITS)), pa.decimal128(38, 28)),
    "dates": pa.array([datetime.date(2024, 1, 1)] * 40),
}


@pytest.mark.parametrize("kind", list(SCORES)[:3])
def test_scores_that_are_decimals_or_booleans_are_the_same_doubles(kind: str, tmp_path: Path) -> None:
    """The edges are the scores and the next doubles, so that a score one bit off is in another band."""
    doubles = [None if one is None else float(one) for one in SCORES[kind].to_pylist()]
    distinct = {one for one in doubles if one is not None}
    edges = sorted(distinct | {float(np.nextafter(one, np.inf)) for one in distinct})
    keys = {"a": range(40), "b": range(1, 41)}
    table, plain = (pa.table(keys | {"score": one}) for one in (SCORES[kind], pa.array(doubles)))
    pq.write_table(table, tmp_path / "pairs.parquet")
    expected = sample_pairs(plain, plain[:9], strata=edges, engine="local")
    assert len(expected) == 40 - SCORES[kind].null_count
    for given in (table, str(tmp_path / "pairs.parquet")):
        for engine in ("local", "spark"):
            assert sample_pairs(given, plain[:9], strata=edges, engine=engine).equals(expected)


@pytest.mark.parametrize("engine", ["local", "spark"])
def test_scores_that_are_no_numbers_are_refused(engine: str) -> None:
    table = pa.table({"a": range(40), "b": range(1, 41), "score": SCORES["dates"]})
    with pytest.raises(DataError) as refused:
        sample_pairs(table, table, engine=engine)
    assert refused.value.code == "UNSUPPORTED_TYPE"


@pytest.mark.parametrize("kind", ["integers", "text"])
def test_one_cluster_of_most_records_is_no_exception(kind: str) -> None:
    check_one_cluster(kind, 2_000)


def check_one_cluster(kind: str, n: int) -> None:
    """All records but one in ten are one true cluster, predicted in pairs; and the other way round."""
    records = np.arange(n)
    large, small = (pa.array(one) for one in (np.where(records < n * 0.9, -1, records), records // 2))
    tables = [pa.table({"record": ids(records, kind), "cluster": one}) for one in (large, small)]
    for predicted, true in (tables, tables[::-1]):
        here, there = (evaluate_linkage(predicted, true, engine=engine) for engine in ("local", "spark"))
        assert (there.rows, there.entries) == (here.rows, here.entries)


@pytest.mark.exhaustive
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("kind", ["integers", "text"])
def test_one_cluster_of_a_million_records_is_no_exception(kind: str) -> None:
    """In a process of its own: the JVM that many tests share has no room for it."""
    program = f"from test_linkage_engines import *; check_one_cluster({kind!r}, 1_000_000)"
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]


TRUE = pa.table({"record": [1, 2, 3], "cluster": [1, 1, 2]})
OTHER = pa.table(
    {"a": [1], "b": [3], "stratum": ["predicted"], "stratum_size": [1], "sampled": [1], "weight": [1.0]}
)
LABELS = pa.table({"a": [1], "b": [3], "reviewer": ["ann"], "label": ["match"]})


@pytest.mark.parametrize("engine", ["local", "spark"])
@pytest.mark.parametrize(
    ("changed", "code"),
    [
        ({"predicted": pa.table({"a": [1], "c": [2]})}, "MISSING_COLUMN"),
        ({"predicted": pa.table({"a": [1.5], "b": [2.5]})}, "ID_IS_FLOAT"),
        ({"predicted": pa.table({"a": [True], "b": [False]})}, "ID_TYPE_UNSUPPORTED"),
        ({"predicted": pa.table({"a": [1], "b": [2], "score": ["x"]})}, "UNSUPPORTED_TYPE"),
        ({"predicted": pa.table({"a": ["1"], "b": ["2"]})}, "ID_TYPE_MISMATCH"),
        ({"predicted": pa.table({"record": [1, 1], "cluster": [1, 2]})}, "RECORD_IN_TWO_CLUSTERS"),
        ({"candidates": TRUE}, "MISSING_COLUMN"),
        ({"sample": OTHER, "reviews": LABELS}, "LINKS_DIFFER"),
        (
            {"sample": OTHER.set_column(0, "a", [["x"]]).set_column(1, "b", [["y"]]), "reviews": LABELS},
            "ID_TYPE_MISMATCH",
        ),
    ],
)
def test_the_same_errors(engine: str, changed: Any, code: str) -> None:
    with pytest.raises(DataError) as refused:
        evaluate_linkage(**({"predicted": TRUE, "true": TRUE} | changed), engine=engine)
    assert refused.value.code == code


def test_shuffles_have_as_many_partitions_as_the_rows_need(spark: SparkSession, tmp_path: Path) -> None:
    """Files of a million links take more partitions than ten links; the session keeps its own number."""
    numbers = {}
    with ExitStack() as set_back:
        set_back.enter_context(setting(spark, SHUFFLE_PARTITIONS, "50"))
        for n_rows in (10, 3_000_000):
            path = tmp_path / f"{n_rows}.parquet"
            records = np.random.default_rng(7).permutation(n_rows)
            pq.write_table(pa.table({"record": records, "cluster": records // 3}), path)
            frame = spark.read.parquet(str(path))
            with ExitStack() as resources:
                shuffle_by_size([frame, frame], resources)
                numbers[n_rows] = int(str(spark.conf.get(SHUFFLE_PARTITIONS)))
                grouped = frame.groupBy("cluster").count()
                assert grouped.rdd.getNumPartitions() == numbers[n_rows]
            assert spark.conf.get(SHUFFLE_PARTITIONS) == "50"
    assert numbers[10] == 1
    assert 4 <= numbers[3_000_000] <= 10
