"""Lists by request in every layout, with every kind of id, in this process and on Spark: the same bits."""

import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import pandas as pd
import pyarrow as pa
import pytest
from request_lists import drawn

from spark_eval import evaluate
from spark_eval.errors import SparkEvalError

KEYS: Final = ["model", "user", "request"]
OPTIONS: Final[dict[str, Any]] = {"metrics": ["ndcg", "map", "fcp", "novelty"], "k": [3, 10]}
TABLES: Final = ("metrics", "sums", "accounting", "per_user")
Frames = dict[str, pd.DataFrame]


def by_rank(frames: Frames) -> Frames:
    """Ranks by score, then by item."""
    lists = frames["recommendations"].sort_values([*KEYS, "score", "item"], ascending=False)
    lists = lists.assign(rank=lists.groupby(KEYS).cumcount() + 1).drop(columns="score")
    return frames | {"recommendations": lists.sample(frac=1, random_state=2)}


def as_arrays(frames: Frames) -> Frames:
    """One row per list, its items best first."""
    lists = by_rank(frames)["recommendations"].sort_values("rank")
    return frames | {"recommendations": lists.groupby(KEYS, sort=False)["item"].agg(list).reset_index()}


def with_texts(frames: Frames) -> Frames:
    """Users, requests and items of text."""
    texts = {"user": "ü{}", "request": "r {}", "item": "{}é"}
    return {
        name: frame.assign(
            **{column: frame[column].map(text.format) for column, text in texts.items() if column in frame}
        )
        for name, frame in frames.items()
    }


def with_numbers(frames: Frames) -> Frames:
    """Requests of integers, which start anew for each user."""
    return {
        name: frame.assign(request=frame["request"].str[0].astype("int32")) if "request" in frame else frame
        for name, frame in frames.items()
    }


# How the tables of lists by score are changed, and the layout.
LAYOUTS: Final[Mapping[str, tuple[tuple[Callable[[Frames], Frames], ...], str]]] = {
    "scores": ((), "long"),
    "ranks": ((by_rank,), "long"),
    "ranks, text ids": ((with_texts, by_rank), "long"),
    "scores, text ids": ((with_texts,), "long"),
    "ranks, numbered requests": ((with_numbers, by_rank), "long"),
    "arrays": ((as_arrays,), "array"),
    "arrays, text ids": ((with_texts, as_arrays), "array"),
}


def frames_of(name: str) -> tuple[Frames, str]:
    changes, layout = LAYOUTS[name]
    frames = drawn()
    frames["train"] = frames["truth"][["user", "item"]][::3]
    for change in changes:
        frames = change(frames)
    return frames, layout


def bits(table: pa.Table) -> list[str]:
    """The rows in one order, doubles by their bits."""
    rows = table.select(sorted(table.column_names)).to_pylist()
    return sorted(str([one.hex() if isinstance(one, float) else one for one in row.values()]) for row in rows)


def found(frames: Mapping[str, Any], engine: str, **options: Any) -> dict[str, list[str]] | str:
    try:
        result = evaluate(**frames, engine=engine, **{**OPTIONS, **options})
    except SparkEvalError as error:
        return error.code if error.code == "NEEDS_SPARK" else str(error)
    tables = {name: bits(result.to_arrow(name)) for name in TABLES}
    result.unpersist()
    return tables


# Both kinds of ids, and arrays; the others are slow.
QUICK: Final = ("scores, text ids", "arrays")


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name in QUICK else pytest.mark.slow) for name in LAYOUTS]
)
def test_requests_have_the_same_bits_in_every_layout(tmp_path: Path, name: str) -> None:
    frames, layout = frames_of(name)
    of_spark = found(frames, "spark", layout=layout)
    assert isinstance(of_spark, dict)
    paths = {}
    for table, frame in frames.items():
        (tmp_path / table).mkdir()
        for part in range(2):
            frame[part::2].to_parquet(tmp_path / table / f"part-{part}.parquet", index=False)
        paths[table] = str(tmp_path / table)
    # Spark alone takes arrays apart.
    of_local: Any = "NEEDS_SPARK" if layout == "array" else of_spark
    assert found(frames, "local", layout=layout) == of_local
    assert found(paths, "local", layout=layout) == of_local
    assert found(paths, "spark", layout=layout) == of_spark


def test_all_layouts_have_the_same_numbers() -> None:
    """Ranks, and scores without ties, order lists alike; ids do not matter."""
    scored, _ = frames_of("scores")
    ranked = by_rank(scored)
    falling = ranked["recommendations"].assign(score=lambda rows: -1.0 * rows["rank"]).drop(columns="rank")
    frames = (ranked, ranked | {"recommendations": falling}, with_texts(ranked), with_numbers(ranked))
    metrics = [evaluate(**{**one, **OPTIONS, "engine": "local"}).metrics for one in frames]
    for other in metrics[1:]:
        pd.testing.assert_frame_equal(other, metrics[0], check_exact=True)


def with_slow(names: Iterable[str], quick: str) -> list[Any]:
    """One of these cases by default, the others in the slow ring."""
    return [pytest.param(name, marks=[] if name == quick else pytest.mark.slow) for name in names]


LISTS: Final = pd.DataFrame(
    {
        "model": "m",
        "user": [1, 1, 2, 2, 3],
        "request": ["x", "y", "x", "z", "q"],
        "item": [1, 2, 1, 2, 3],
        "rank": 1,
    }
)
TRUTH: Final = pd.DataFrame(
    {"user": [1, 1, 2, 2, 4], "request": ["x", "y", "x", "z", "w"], "item": [1, 9, 1, 2, 3]}
)
SECOND_LACKS: Final = pd.Series(["x", None, "x", "z", "q"], dtype=object)
# What comes, what is said of it, and the lines of the accounting that tell.
REFUSED: Final[Mapping[str, tuple[pd.DataFrame, pd.DataFrame, str]]] = {
    "truth alone": (
        LISTS.drop(columns="request"),
        TRUTH,
        r"error\[REQUESTS_DIFFER\] truth has a column request",
    ),
    "two types": (
        LISTS,
        TRUTH.assign(request=range(5)),
        r"error\[ID_TYPE_MISMATCH\] request is string in recommendations and bigint in truth",
    ),
    "no request of the truth": (
        LISTS,
        TRUTH.assign(request=list("abcde")),
        r"error\[NO_ID_OVERLAP\].*no valid row has a user and request of the truth \(5 no_truth\); "
        r"here users are .*, there .*; here requests are .*, there ",
    ),
    "lists without any": (LISTS.assign(request=pd.Series([None] * 5, dtype=object)), TRUTH, "5 NULL_ID"),
    "truth without any": (
        LISTS,
        TRUTH.assign(request=pd.Series([None] * 5, dtype=object)),
        r"error\[EMPTY_TRUTH\].*5 NULL_ID",
    ),
}


def refused(name: str, engine: str) -> str:
    lists, truth, _ = REFUSED[name]
    line = found({"recommendations": lists, "truth": truth}, engine, metrics=["recall"], k=1)
    assert isinstance(line, str)
    return line


@pytest.mark.parametrize("name", REFUSED)
def test_requests_that_do_not_fit_are_an_error(name: str) -> None:
    assert re.search(REFUSED[name][2], refused(name, "local"))


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("name", with_slow(REFUSED, "no request of the truth"))
def test_requests_that_do_not_fit_are_one_error_on_both_engines(name: str) -> None:
    examples = "here .*;"  # any three users and requests
    local, of_spark = (re.sub(examples, "", refused(name, engine)) for engine in ("local", "spark"))
    assert local == of_spark


COUNTED: Final[Mapping[str, tuple[pd.DataFrame, pd.DataFrame, list[tuple[Any, ...]]]]] = {
    # The same id of two users is two requests.
    "one id of two users": (
        LISTS,
        TRUTH,
        [
            ("requests", "in", None, 6, 4),
            ("requests", "used", "no_hits", 1, None),
            ("users", "in", None, 4, 4),
        ],
    ),
    "null in lists": (
        LISTS.assign(request=SECOND_LACKS),
        TRUTH,
        [("recommendations", "quarantined", "NULL_ID", 1, 0), ("requests", "in", None, 6, 4)],
    ),
    "null in truth": (
        LISTS,
        TRUTH.assign(request=SECOND_LACKS.replace("q", "w")),
        [("truth", "quarantined", "NULL_ID", 1, 0), ("requests", "dropped", "no_truth", 2, None)],
    ),
    "an item twice": (
        pd.concat([LISTS, LISTS[:1]]),
        TRUTH,
        [("recommendations", "deduplicated", "repeated_item", 1, 1)],
    ),
    "lists alone": (
        LISTS,
        TRUTH.drop(columns="request"),
        [("requests", "in", None, 6, 4), ("requests", "used", "no_recommendations", 1, None)],
    ),
}


@pytest.mark.parametrize("name", COUNTED)
def test_requests_that_cannot_be_used_are_counted(name: str) -> None:
    lists, truth, expected = COUNTED[name]
    result = evaluate(lists, truth, metrics=["recall"], k=1, engine="local")
    columns = ("source", "outcome", "reason", "rows", "users")
    lines = {tuple(row[column] for column in columns) for row in result.to_arrow("accounting").to_pylist()}
    assert set(expected) <= lines


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("name", with_slow(COUNTED, "null in truth"))
def test_requests_that_cannot_be_used_are_counted_on_both_engines(name: str) -> None:
    lists, truth, _ = COUNTED[name]
    frames = {"recommendations": lists, "truth": truth}
    assert found(frames, "local", metrics=["recall"], k=1) == found(frames, "spark", metrics=["recall"], k=1)
