"""Whatever type a column of an input has: both engines take it, refuse it alike, or leave it to Spark.

The cases follow from the specs of the tables.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from spark_eval.errors import SparkEvalError
from spark_eval.evaluation.plan import make_plan
from spark_eval.evaluation.specs import Described
from spark_eval.evaluation.specs import specs_of as specs_of_evaluation
from spark_eval.experiments.specs import spec_of_impressions
from spark_eval.linkage.specs import spec_of as spec_of_links
from spark_eval.predictions.plan import make_prediction_plan
from spark_eval.predictions.specs import specs_of as specs_of_predictions
from spark_eval.runners.door import open_given
from spark_eval.splits.specs import specs_of as specs_of_log
from spark_eval.tables.spec import Kind, SpecOf, TableSpec

NOON: Final = datetime(2024, 5, 1, 12, tzinfo=UTC)
# A column of two rows of each type.
TYPES: Final[Mapping[str, pa.Array]] = {
    "integers": pa.array([1, 2]),
    "small integers": pa.array([1, 2], pa.int16()),
    "unsigned": pa.array([1, 2], pa.uint64()),
    "floats": pa.array([1.5, 2.5]),
    "small floats": pa.array([1.5, 2.5], pa.float32()),
    "text": pa.array(["a", "b"]),
    "large text": pa.array(["a", "b"], pa.large_string()),
    "codes of text": pa.array(["a", "b"]).dictionary_encode(),
    "booleans": pa.array([True, False]),
    "dates": pa.array([date(2024, 5, 1)] * 2),
    "moments": pa.array([NOON] * 2, pa.timestamp("us", "UTC")),
    "clocks": pa.array([NOON.replace(tzinfo=None)] * 2, pa.timestamp("us")),
    "decimals": pa.array([Decimal("1.50"), Decimal("2.50")]),
    "bytes": pa.array([b"a", b"b"]),
    "lists of integers": pa.array([[1, 2], [3]]),
    "lists of floats": pa.array([[0.5, 0.5], [0.25, 0.75]]),
    "lists of text": pa.array([["a"], ["b", "c"]]),
    "structs": pa.array([{"x": 1}, {"x": 2}]),
    "nothing": pa.nulls(2),
}
VALID: Final = {
    Kind.CLASS_NAME: "text",
    Kind.TEXT: "text",
    Kind.SCALAR: "text",
    Kind.VALUE: "text",
    Kind.INSTANT: "moments",
    Kind.MICROSECONDS: "moments",
    Kind.SET: "lists of text",
    Kind.VECTOR: "lists of floats",
    Kind.EMBEDDING: "lists of floats",
}
PLAN: Final = make_plan(metrics=["map", "alpha_ndcg", "ild"], segments=["country"])
DESCRIBED: Final = {
    "recommendations": Described(),
    **dict.fromkeys(("truth", "train", "users", "items"), Described()),
}
LISTS: Final = specs_of_evaluation(PLAN, DESCRIBED, "UTC")
# Tables by name of the case: name of the table, its specs, and columns that decide which it is.
TABLES: Final[Mapping[str, tuple[str, SpecOf, Sequence[str]]]] = {
    "pairs": ("predicted", spec_of_links, ("a", "b", "score")),
    "clusters": ("true", spec_of_links, ("record", "cluster")),
    "reviews": ("reviews", spec_of_links, ()),
    "log": ("interactions", specs_of_log("s", "UTC"), ("channel",)),
    "predictions": ("predictions", specs_of_predictions(make_prediction_plan("binary"), None), ("fold",)),
    "classes": (
        "predictions",
        specs_of_predictions(make_prediction_plan("multiclass", classes=["a", "b"], segments=["city"]), "m"),
        (),
    ),
    "impressions": ("interleaving", spec_of_impressions, ()),
    "ranked": ("recommendations", LISTS, ("rank",)),
    "scored": ("recommendations", LISTS, ("request",)),
    **{name: (name, LISTS, ()) for name in ("truth", "train", "users", "items")},
}


# Cases of the brief ring.
BRIEF: Final = ("ranked", "log")


def base_of(case: str) -> tuple[str, SpecOf, TableSpec, dict[str, pa.Array]]:
    """A table with all columns of its spec, of valid types."""
    name, spec_of, deciding = TABLES[case]
    spec = spec_of(name, deciding)
    read = [one for one in spec.columns if one.kind is not Kind.ORIGINAL]
    columns = {one.key: TYPES[VALID.get(one.kind, "integers")] for one in read}
    return name, spec_of, spec, columns


def changes(case: str) -> Iterator[tuple[str, dict[str, pa.Array]]]:
    """Tables with one change, and what it is."""
    _, _, spec, columns = base_of(case)
    yield "none", columns
    for key in dict.fromkeys(one.key for one in spec.columns if one.kind is not Kind.ORIGINAL):
        yield f"{key} is missing", {name: one for name, one in columns.items() if name != key}
        yield f"{key} is there twice", {**columns, key.upper(): columns[key]}
        for kind, values in TYPES.items():
            yield f"{key} of {kind}", {**columns, key: values}


def outcome(name: str, spec_of: SpecOf, given: Any, engine: str) -> str:
    """The names of the columns that are opened, or the code of the error."""
    try:
        [rows] = open_given({name: given}, spec_of, engine).values()
        return " ".join(one for one in rows.columns if not one.startswith("original"))
    except SparkEvalError as error:
        return error.code


@pytest.mark.slow
@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("form", ["frame", "file"])
@pytest.mark.parametrize(
    "case", [pytest.param(case, marks=[pytest.mark.brief] * (case in BRIEF)) for case in TABLES]
)
def test_both_engines_say_the_same_of_any_type_of_a_column(tmp_path: Path, case: str, form: str) -> None:
    name, spec_of, _, _ = base_of(case)
    differing, ends = {}, Counter[str]()
    for number, (change, columns) in enumerate(changes(case)):
        given: Any = pa.table(columns)
        if form == "file":
            given = tmp_path / f"{number}.parquet"
            pq.write_table(pa.table(columns), given)
        here, there = (outcome(name, spec_of, given, engine) for engine in ("local", "spark"))
        ends["left to Spark" if here == "NEEDS_SPARK" else "alike"] += 1
        if here not in ("NEEDS_SPARK", there):
            differing[change] = (here, there)
    assert differing == {}
    assert 2 * ends["alike"] > ends["left to Spark"]


def test_valid_tables_need_no_spark(spark: SparkSession) -> None:
    del spark
    for case in TABLES:
        name, spec_of, spec, columns = base_of(case)
        found = outcome(name, spec_of, pa.table(columns), "local")
        assert set(found.split()) >= {one.name for one in spec.columns if one.is_needed}, (case, found)
