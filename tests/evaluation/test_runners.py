"""Evaluations in this process and on Spark: the same bits, accounting and errors, whoever runs."""

import gc
import logging
import re
from collections.abc import Callable, Mapping, Sequence
from itertools import product
from pathlib import Path
from shutil import rmtree
from typing import Any, Final

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from spark_eval import compare, evaluate, report
from spark_eval.errors import SparkEvalError
from spark_eval.evaluation.result import Evaluation
from spark_eval.results.driver_tables import is_of_spark
from spark_eval.tables.arrow_frames import as_arrow

N_USERS, N_ITEMS, LENGTH = 24, 40, 12
SMALL: Final = ("metrics", "sums", "accounting", "stages", "funnel")
Frames = Mapping[str, Any]


def inputs(*, by_fold: bool = False, by_request: bool = False) -> dict[str, pd.DataFrame]:
    """Tables in which an order could show: ties, repeats, relevances whose sums depend on their order."""
    draw = np.random.default_rng(11)
    n_rows = 8 * N_USERS

    def pairs(n: int, least: int) -> dict[str, Any]:
        fold = {"fold": draw.integers(0, 2, n)} if by_fold else {}
        fold |= {"request": draw.choice(["am", "pm"], n)} if by_request else {}
        return {"user": draw.integers(least, N_USERS + least, n), "item": draw.integers(0, N_ITEMS, n)} | fold

    lists = [
        pd.DataFrame({"model": model, **pairs(10 * LENGTH, 0), "score": draw.integers(0, 9, 10 * LENGTH) / 3})
        for model in ("als", "knn", "популярное")
    ]
    relevance = draw.random(n_rows) * 10.0 ** draw.integers(-8, 9, n_rows)
    relevance[:3] = np.nan, np.inf, 0.0
    words = ["red|green", "blue", "", "red"]
    return {
        "recommendations": pd.concat(lists, ignore_index=True),
        "truth": pd.DataFrame({**pairs(n_rows, 2), "relevance": relevance}),
        "train": pd.DataFrame(pairs(n_rows, 0)),
        "users": pd.DataFrame(
            {"user": np.arange(N_USERS), "country": draw.choice(["at", "be"], N_USERS), "age": 7}
        ),
        "items": pd.DataFrame(
            {
                "item": np.arange(N_ITEMS),
                "groups": draw.choice(words, N_ITEMS),
                "vector": [list(draw.random(2)) for _ in range(N_ITEMS)],
            }
        ),
    }


def two_tables() -> dict[str, Any]:
    """Recommendations and truth."""
    return {name: inputs()[name] for name in ("recommendations", "truth")}


def bits(table: pa.Table) -> list[str]:
    """The rows in one order, doubles by their bits."""
    rows = table.select(sorted(table.column_names)).to_pylist()
    return sorted(str([one.hex() if isinstance(one, float) else one for one in row.values()]) for row in rows)


def found(frames: Frames, engine: str, **options: Any) -> dict[str, list[str]] | str:
    """All tables of an evaluation, or its error."""
    try:
        result = evaluate(**frames, engine=engine, **options)
    except SparkEvalError as error:
        return re.sub("; here users are .*?;", "", str(error))  # any three users
    tables = {name: bits(result.to_arrow(name)) for name in (*SMALL, "per_user")}
    tables["record"] = [result.truth_digest, str(result.keys), str(result.n_per_user), *result.models]
    result.unpersist()
    return tables


def assert_alike(frames: Frames, **options: Any) -> None:
    """Both runners find the same tables, or the same error."""
    assert found(frames, "local", **options) == found(frames, "spark", **options)


EVERYTHING: Final[Mapping[str, Mapping[str, Any]]] = {
    "at once": {
        "metrics": [
            *(
                "map",
                "dcg",
                "gauc@all",
                "ndcg(tie_order=worst)",
                "novelty",
                "arp",
                "gini",
                "catalog_coverage",
            ),
            *("entropy", "ild", "serendipity", "pop_lift", "calibration_kl", "alpha_ndcg", "exposure"),
            "unexpectedness",
        ],
        "k": [1, 5],
        "segments": ["country", "age", "known", "activity"],
        "base": "knn",
        "interval": "bootstrap",
        "resamples": 50,
    },
    "stages at once": {
        "metrics": ["recall", "map", "dcg"],
        "k": [3, 5],
        "stages": [{"name": "candidates", "model": "knn", "k": 8}, {"name": "final", "model": "als", "k": 3}],
        "no_recommendations": "drop",
        "no_truth": "zero",
        "conventions": {"truth_duplicates": "sum"},
    },
    "accuracy": {"metrics": ["map", "dcg", "gauc@all", "ndcg(tie_order=worst)"], "k": [1, 5]},
    "segments": {"metrics": ["ndcg"], "k": 5, "segments": ["country", "age", "known", "activity"]},
    "bootstrap": {"metrics": ["ndcg", "dcg"], "k": 5, "interval": "bootstrap", "resamples": 50},
    "items": {
        "metrics": ["novelty", "arp", "gini", "catalog_coverage", "entropy", "ild", "serendipity"],
        "k": [3, 5],
    },
    "groups": {"metrics": ["pop_lift", "calibration_kl", "alpha_ndcg", "exposure"], "k": [3, 5]},
    "base": {"metrics": ["unexpectedness"], "k": 3, "base": "knn"},
    "stages": {
        "metrics": ["recall"],
        "k": 5,
        "stages": [{"name": "candidates", "model": "knn", "k": 8}, {"name": "final", "model": "als", "k": 3}],
    },
    "dropped": {"metrics": ["map"], "k": 3, "no_recommendations": "drop", "no_truth": "zero"},
    "summed": {"metrics": ["dcg"], "k": 3, "conventions": {"truth_duplicates": "sum"}},
}
AT_ONCE: Final = {("at once", False), ("stages at once", True)}


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize(
    ("name", "by_fold"),
    [
        # What differs is found at once; which it is, by the others.
        pytest.param(
            name,
            by_fold,
            marks=[] if (name, by_fold) in AT_ONCE else [pytest.mark.exhaustive],
        )
        for name in EVERYTHING
        for by_fold in (False, True)
    ],
)
def test_all_that_an_evaluation_does_has_the_same_bits(name: str, by_fold: bool) -> None:
    frames = inputs(by_fold=by_fold)
    if by_fold:
        frames["truth"] = frames["truth"].fillna({"relevance": 1.0})
    of_local = found(frames, "local", **EVERYTHING[name])
    assert isinstance(of_local, dict), of_local
    assert of_local == found(frames, "spark", **EVERYTHING[name])


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize(("weight", "has_truth"), [("requests", True), ("users", False)])
def test_lists_by_request_have_the_same_bits(weight: str, has_truth: bool) -> None:
    frames = inputs(by_request=True, by_fold=not has_truth)
    frames["truth"] = frames["truth"].fillna({"relevance": 1.0})
    if not has_truth:
        frames["truth"] = frames["truth"].drop(columns="request")
    options = {"metrics": ["map", "gauc", "novelty", "gini"], "k": [1, 5], "segments": ["country", "known"]}
    assert isinstance(found(frames, "local", **options, weight=weight), dict)
    assert_alike(frames, **options, weight=weight)


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("by_request", [False, True])
def test_lists_with_repeats_have_the_same_bits(by_request: bool) -> None:
    frames = inputs(by_request=by_request)
    frames["truth"] = frames["truth"].fillna({"relevance": 1.0})
    lists = frames["recommendations"]
    # The last model has one repeat; some users lack a list of a repeat.
    repeats = np.where(lists["model"] == "knn", lists["item"] % 2, lists["item"] % 3)
    frames["recommendations"] = lists.assign(repeat=np.where(lists["model"] > "z", 0, repeats))
    options: dict[str, Any] = {
        "metrics": [
            "map",
            "dcg",
            "hit_rate",
            "fcp",
            "novelty",
            "ild",
            "gini",
            "catalog_coverage",
            "exposure",
        ],
        "k": [1, 5],
        "segments": ["country", "age", "known", "activity"],
        "by_repeat": True,
        "interval": "bootstrap",
        "resamples": 20,
    }
    of_local = found(frames, "local", **options)
    assert isinstance(of_local, dict), of_local
    assert of_local == found(frames, "spark", **options)


KINDS: Final[Mapping[str, Callable[[pd.DataFrame], Any]]] = {
    "pandas": lambda rows: rows,
    "nullable": lambda rows: rows.replace(np.inf, 1.0).convert_dtypes(),
    "arrow-backed": lambda rows: rows.replace(np.inf, 1.0).convert_dtypes(dtype_backend="pyarrow"),
    "indexed": lambda rows: rows.set_index(["user"]) if "user" in rows else rows.set_index(["item"]),
    "polars": pl.from_pandas,
    "arrow": pa.Table.from_pandas,
    "chunks": lambda rows: pa.concat_tables([pa.Table.from_pandas(part) for part in (rows[:7], rows[7:])]),
}


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("kind", KINDS)
def test_frames_of_all_libraries_have_the_same_bits(kind: str) -> None:
    """Those of pandas, in this process; Spark takes some kinds, the tests of frames all."""
    options: dict[str, Any] = {"metrics": ["map", "ild", "novelty"], "k": [5], "segments": ["country"]}
    rows = inputs()
    rows["truth"] = rows["truth"].replace(np.inf, 1.0)
    frames = {name: KINDS[kind](table) for name, table in rows.items()}
    of_pandas = found(rows, "local", **options)
    assert found(frames, "local", **options) == of_pandas
    if kind == "nullable":
        assert found(frames, "spark", **options) == of_pandas


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("name", ["recommendations", "truth", "train"])
def test_tables_without_rows_are_the_same_error(name: str) -> None:
    frames = {table: rows for table, rows in inputs().items() if table not in ("users", "items")}
    frames[name] = frames[name][:0]
    assert isinstance(found(frames, "local", metrics=["map", "novelty"]), str)
    assert_alike(frames, metrics=["map", "novelty"])


def texts(values: Sequence[Any], kind: str) -> Any:
    """Ids of text as a pandas column, or as an Arrow array of another type."""
    text = pa.array(values, pa.string())
    return text.dictionary_encode() if kind == "coded" else text.cast(getattr(pa, kind)())


def text_of(numbers: st.SearchStrategy[int]) -> st.SearchStrategy[str | None]:
    """Texts of numbers, sometimes none."""
    return st.one_of(st.none(), numbers.map(lambda number: f"{number:03}é"))


# Arrow types of ids.
ID_TYPES: Final = {
    True: ["string", "large_string", "string_view", "coded"],
    False: ["int8", "int16", "int32", "int64"],
}


def chunks(table: pa.Table, n_rows: int) -> pa.Table:
    """The same rows in chunks; a table without rows has no chunk."""
    return pa.Table.from_batches(table.to_batches(n_rows), table.schema)


def nullable(kind: pa.DataType) -> Any:
    """The type of pandas for integers with missing values; None for other types."""
    by_width = {8: pd.Int8Dtype(), 16: pd.Int16Dtype(), 32: pd.Int32Dtype(), 64: pd.Int64Dtype()}
    return by_width[kind.bit_width] if pa.types.is_integer(kind) else None


def categories(table: pa.Table) -> pd.DataFrame:
    """Ids as categories, of integers too."""
    rows: pd.DataFrame = table.to_pandas(types_mapper=nullable)
    return rows.astype({"user": "category", "item": "category"})


def with_index(table: pa.Table) -> pd.DataFrame:
    """Users as the index, which pandas cannot make of string views."""
    if table.schema.field("user").type == pa.string_view():
        table = table.set_column(0, "user", table["user"].cast(pa.string()))
    rows: pd.DataFrame = table.to_pandas(types_mapper=pd.ArrowDtype)
    return rows.set_index("user")


FRAMES_OF: Final[Mapping[str, Callable[[pa.Table], Any]]] = {
    "Arrow": lambda table: table,
    "chunks": lambda table: chunks(table, 3),
    "nullable": lambda table: table.to_pandas(types_mapper=nullable),
    "categories": categories,
    "Arrow in pandas": lambda table: table.to_pandas(types_mapper=pd.ArrowDtype),
    "index": with_index,
    "polars": pl.from_arrow,
}


def drawn_tables(data: st.DataObject, id_types: Mapping[bool, Sequence[str]]) -> dict[str, pa.Table]:
    """Recommendations and truth with ids of some type, some of them missing, perhaps without rows."""
    is_text = data.draw(st.booleans())
    ids = text_of(st.integers(0, 6)) if is_text else st.one_of(st.none(), st.integers(0, 6))
    pairs = data.draw(st.lists(st.tuples(ids, ids, st.integers(0, 4)), max_size=30))
    liked = data.draw(st.lists(st.tuples(ids, ids), max_size=20))
    kind = data.draw(st.sampled_from(id_types[is_text]))

    def column(values: list[Any]) -> Any:
        return texts(values, kind) if is_text else pa.array(values, getattr(pa, kind)())

    lists = {
        "user": column([row[0] for row in pairs]),
        "item": column([row[1] for row in pairs]),
        data.draw(st.sampled_from(["rank", "score"])): pa.array([row[2] for row in pairs], pa.int64()),
    }
    truth = {"user": column([row[0] for row in liked]), "item": column([row[1] for row in liked])}
    return {"recommendations": pa.table(lists), "truth": pa.table(truth)}


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize(
    "n_examples",
    [3, pytest.param(12, marks=pytest.mark.slow), pytest.param(40, marks=pytest.mark.exhaustive)],
)
def test_drawn_frames_have_the_same_bits(n_examples: int) -> None:
    settings(max_examples=n_examples)(given(data=st.data())(check_both_engines))()


def check_both_engines(data: st.DataObject) -> None:
    types = {True: ["string", "large_string", "coded"], False: ID_TYPES[False]}
    make = FRAMES_OF[data.draw(st.sampled_from(["Arrow", "nullable", "Arrow in pandas", "polars"]))]
    frames = {name: make(table) for name, table in drawn_tables(data, types).items()}
    assert_alike(frames, model="m", metrics=["map", "ndcg"], k=[1, 3])


def check_drawn_kinds(data: st.DataObject) -> None:
    """Frames of any library, in this process, have the bits of plain Arrow tables."""
    options: dict[str, Any] = {"model": "m", "metrics": ["map", "ndcg"], "k": [1, 3]}
    tables = drawn_tables(data, ID_TYPES)
    plain = {name: as_arrow(name, table) for name, table in tables.items()}
    kinds = {name: data.draw(st.sampled_from(sorted(FRAMES_OF))) for name in tables}
    frames = {name: FRAMES_OF[kinds[name]](table) for name, table in tables.items()}
    assert found(frames, "local", **options) == found(plain, "local", **options)


@settings(max_examples=30, deadline=None)
@given(data=st.data())
def test_drawn_frames_of_any_library_have_the_same_bits_in_this_process(data: st.DataObject) -> None:
    check_drawn_kinds(data)


@pytest.mark.slow
@pytest.mark.exhaustive
@settings(max_examples=1_000, deadline=None)
@given(data=st.data())
def test_many_drawn_frames_of_any_library_have_the_same_bits_in_this_process(data: st.DataObject) -> None:
    check_drawn_kinds(data)


def write(folder: Path, frames: Mapping[str, pd.DataFrame], *, n_files: int = 2) -> dict[str, str]:
    """Write tables as Parquet, a folder each; vectors are left out, for they are not plain."""
    for name, rows in frames.items():
        (folder / name).mkdir(parents=True)
        flat = rows.drop(columns="vector", errors="ignore")
        for part in range(n_files):
            pq.write_table(pa.Table.from_pandas(flat[part::n_files]), folder / name / f"part-{part}.parquet")
    return {name: str(folder / name) for name in frames}


@pytest.mark.usefixtures("spark")
def test_plain_files_have_the_same_bits(tmp_path: Path) -> None:
    options: dict[str, Any] = {
        "metrics": ["map", "novelty", "gini"],
        "k": [5],
        "segments": ["country", "known"],
    }
    assert_alike(write(tmp_path, inputs()), **options)


@pytest.mark.usefixtures("spark")
def test_written_rows_have_the_same_bits_and_files_by_bucket(tmp_path: Path) -> None:
    options: dict[str, Any] = {"metrics": ["map"], "k": [5], "interval": "bootstrap", "resamples": 20}
    frames = two_tables()
    of_engine = {
        engine: found(frames, engine, folder=str(tmp_path / engine), **options)
        for engine in ("local", "spark")
    }
    assert of_engine["local"] == of_engine["spark"]
    written = [bits(pq.read_table(tmp_path / engine)) for engine in of_engine]
    assert written[0] == written[1]
    assert written[0]


def odd_folder(path: Path, what: str) -> str:
    """A folder that only Spark reads, or refuses."""
    rows = inputs()["truth"][["user", "item"]]
    path.mkdir()
    table = pa.Table.from_pandas(rows)
    match what:
        case "partitions":
            pq.write_to_dataset(table.append_column("day", [[1] * len(rows)]), path, ["day"])
        case "nested":
            pq.write_table(table, path / "a.parquet")
            (path / "more").mkdir()
            pq.write_table(table, path / "more" / "b.parquet")
        case "other columns":
            pq.write_table(table, path / "a.parquet")
            pq.write_table(
                table.select(["user", "item"]).append_column("x", [[1] * len(rows)]), path / "b.parquet"
            )
        case "damaged":
            (path / "a.parquet").write_bytes(b"PAR1 no")
        case "empty folder":
            pass
        case "nothing":
            path.rmdir()
    return str(path)


@pytest.mark.usefixtures("spark")
def test_folders_that_name_columns_are_read_here(tmp_path: Path) -> None:
    frames = {"recommendations": inputs()["recommendations"]}
    folder = odd_folder(tmp_path / "truth", "partitions")
    plain = inputs()["truth"][["user", "item"]]
    read, expected = (found(frames | {"truth": one}, "local", metrics=["map"]) for one in (folder, plain))
    assert not isinstance(read, str)
    assert read == expected


@pytest.mark.spark
@pytest.mark.parametrize(
    ("what", "judged"),
    [
        *[("nested", "UNREAD_FILES"), ("damaged", "CORRUPT_FILE")],
        *[("empty folder", "EMPTY_INPUT"), ("nothing", "MISSING_INPUT")],
        ("other columns", "of Spark"),
    ],
)
def test_what_is_not_plain_needs_spark_which_judges_it(tmp_path: Path, what: str, judged: str) -> None:
    frames = {"recommendations": inputs()["recommendations"], "truth": odd_folder(tmp_path / "truth", what)}
    refused = found(frames, "local", metrics=["map"])
    assert isinstance(refused, str)
    # A damaged footer needs no Spark to be named.
    assert refused.startswith(f"error[{'CORRUPT_FILE' if what == 'damaged' else 'NEEDS_SPARK'}] ")
    by_spark = found(frames, "auto", metrics=["map"])
    if judged == "of Spark":
        assert by_spark == found(frames, "spark", metrics=["map"])
    else:
        assert str(by_spark).startswith(f"error[{judged}] ")


NO_COLUMN: Final[Mapping[str, Callable[[dict[str, pd.DataFrame]], Any]]] = {
    "user": lambda frames: frames["truth"].drop(columns="user", inplace=True),
    "score": lambda frames: frames["recommendations"].drop(columns="score", inplace=True),
    "model": lambda frames: frames["recommendations"].drop(columns="model", inplace=True),
    "segment": lambda frames: frames["users"].drop(columns="country", inplace=True),
    "groups": lambda frames: frames["items"].drop(columns="groups", inplace=True),
}


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("column", NO_COLUMN)
def test_missing_columns_are_the_same_error(column: str) -> None:
    frames = inputs()
    NO_COLUMN[column](frames)
    error = found(frames, "local", metrics=["map", "alpha_ndcg"], segments=["country"])
    assert isinstance(error, str)
    assert "NEEDS_SPARK" not in error
    assert error == found(frames, "spark", metrics=["map", "alpha_ndcg"], segments=["country"])


@pytest.mark.usefixtures("spark")
def test_a_mapped_column_of_models_that_is_missing_is_the_same_error() -> None:
    lists = {"model": "modle"}
    assert "no column 'modle'" in str(found(inputs(), "local", metrics=["map"], columns=lists))
    assert_alike(inputs(), metrics=["map"], columns=lists)


def faulty(name: str) -> dict[str, Any]:
    """Tables with one fault that only their rows show."""
    frames = inputs()
    match name:
        case "ids of two types":
            frames["truth"]["user"] = frames["truth"]["user"].astype(str)
        case "no user in common":
            frames["truth"]["user"] += 1000
        case "users twice":
            frames["users"] = pd.concat([frames["users"]] * 2)
        case "items twice":
            frames["items"] = pd.concat([frames["items"]] * 2)
        case "folds of one table":
            frames["truth"]["fold"] = frames["truth"]["item"] % 2
        case "no train":
            frames["train"] = frames["train"][:0]
        case "name of a model":
            frames["recommendations"]["model"] = ""
        case "negative":
            frames["truth"]["relevance"] = -frames["truth"]["relevance"]
    return frames


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize(
    "name",
    [
        *("ids of two types", "no user in common", "users twice", "items twice", "folds of one table"),
        *("no train", "name of a model", "negative"),
    ],
)
def test_faults_of_rows_are_the_same_error(name: str) -> None:
    options: dict[str, Any] = {"metrics": ["ild", "novelty"], "k": 3, "segments": ["country"]}
    assert isinstance(found(faulty(name), "local", **options), str)
    assert_alike(faulty(name), **options)


def test_the_engine_is_chosen_and_said(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    frames = two_tables()
    of_spark: dict[str, Any] = {name: spark.createDataFrame(rows) for name, rows in frames.items()}
    monkeypatch.delenv("SPARK_EVAL_ENGINE")

    def said(given: Frames, engine: str | None = None) -> str:
        caplog.clear()
        with caplog.at_level(logging.INFO, "spark_eval"):
            result = evaluate(**given, metrics=["map"], engine=engine)
        assert is_of_spark(result.per_user) is (result.spark is not None)
        assert isinstance(result.metrics, pd.DataFrame)
        return next(
            record.getMessage() for record in caplog.records if "engine" in str(record.__dict__["facts"])
        )

    assert said(frames) == "engine: local (frames, 552 rows)"
    assert said(frames, "spark") == "engine: spark (as asked)"
    assert said(frames | {"truth": of_spark["truth"]}) == "engine: spark (truth is a Spark frame)"
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
    assert said(frames, "local") == "engine: local (frames, 552 rows)"
    assert said(frames) == "engine: spark (under spark-submit)"
    with pytest.raises(SparkEvalError, match=r"NEEDS_SPARK.*truth is a Spark frame"):
        evaluate(**(frames | {"truth": of_spark["truth"]}), engine="local")
    with pytest.raises(SparkEvalError, match=r"INVALID_ENGINE.*did you mean 'local'"):
        evaluate(**frames, engine="lokal")


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("by_fold", [False, True])
def test_too_many_trained_items_are_marked_alike(monkeypatch: pytest.MonkeyPatch, by_fold: bool) -> None:
    frames = {name: inputs(by_fold=by_fold)[name] for name in ("recommendations", "truth", "train")}
    frames["truth"] = frames["truth"].fillna({"relevance": 1.0})
    monkeypatch.setattr("spark_eval.evaluation.side_tables.MOST_ITEMS", 3)
    assert_alike(frames, metrics=["map"], k=3)


def test_messages_beyond_a_limit_go_to_files_that_are_removed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    whole = found(inputs(), "local", **EVERYTHING["items"])
    seen = set[str]()

    def removed(folder: Path, **_: Any) -> None:
        seen.update(path.suffix for path in folder.iterdir())
        rmtree(folder)

    monkeypatch.setattr("spark_eval.runners.in_process.MOST_IN_MEMORY", 2_000)
    monkeypatch.setattr("spark_eval.runners.in_process.shutil.rmtree", removed)
    assert found(inputs(), "local", **EVERYTHING["items"]) == whole
    gc.collect()
    assert (seen, list(tmp_path.iterdir())) == ({".arrow", ".lock"}, [])


def test_a_full_disk_has_a_name(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    full = tmp_path / "spark-eval-full"
    full.mkdir()
    for part, number in product(range(40), repeat=2):
        (full / f"{part}-{number}.arrow").symlink_to("/dev/full")
    monkeypatch.setattr("spark_eval.runners.in_process.MOST_IN_MEMORY", 2_000)
    monkeypatch.setattr("spark_eval.runners.in_process.mkdtemp", lambda **_: str(full))
    refused = found(inputs(), "local", **EVERYTHING["items"])
    assert isinstance(refused, str)
    assert refused.startswith("error[DISK_FULL] no space for temporary files in ")
    gc.collect()
    assert not full.exists()


def test_one_core_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    of_all = found(inputs(), "local", **EVERYTHING["items"])
    monkeypatch.setattr("spark_eval.runners.in_process.cores", lambda: 1)
    monkeypatch.setattr("spark_eval.runners.local_rows.cores", lambda: 1)
    assert found(inputs(), "local", **EVERYTHING["items"]) == of_all


def test_rows_by_user_are_of_the_kind_that_came_in() -> None:
    frames = two_tables()

    def of(kind: str) -> Evaluation:
        given: dict[str, Any] = {name: KINDS[kind](rows) for name, rows in frames.items()}
        return evaluate(**given, metrics=["map"], engine="local")

    assert isinstance(of("pandas").per_user, pd.DataFrame)
    assert isinstance(of("polars").per_user, pl.DataFrame)
    assert isinstance(of("arrow").per_user, pa.Table)
    assert isinstance(of("arrow").metrics, pd.DataFrame)
    assert of("polars").plot() is not None


@pytest.mark.usefixtures("spark")
def test_results_of_both_engines_are_compared() -> None:
    frames = two_tables()
    local, of_spark = (evaluate(**frames, metrics=["map"], engine=engine) for engine in ("local", "spark"))
    differences = {row["difference"] for row in compare(local, of_spark).to_pandas().to_dict("records")}
    assert differences == {0.0}


@pytest.mark.usefixtures("spark")
def test_reports_of_both_engines_count_the_same_users(tmp_path: Path) -> None:
    frames: dict[str, Any] = dict(inputs())
    asked: dict[str, Any] = {"metrics": ["map", "ild"], "k": 3}
    local, of_spark = (evaluate(**frames, **asked, engine=engine) for engine in ("local", "spark"))
    users = local.facts_of_run().users
    assert users == of_spark.facts_of_run().users
    assert {row.model for row in users} == set(local.models)
    assert Path(report(local, tmp_path / "report.html")).exists()


WITHOUT_JAVA: Final = """
import sys
import pandas as pd
from spark_eval import evaluate
lists = pd.DataFrame({"user": [1, 2], "item": [7, 8], "rank": [1, 1]})
result = evaluate(lists, pd.DataFrame({"user": [1], "item": [7]}), model="m")
print(len(result.metrics), result.leaderboard().header[0], "pyspark" in sys.modules)
"""


def test_frames_need_neither_java_nor_pyspark(without_java: Callable[[str], list[str]]) -> None:
    assert without_java(WITHOUT_JAVA) == ["27", "model", "False"]
