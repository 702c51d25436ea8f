"""Public calls take or refuse, by name, whatever is given to them: never a raw error of Python or Arrow."""

import inspect
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import product
from pathlib import Path
from typing import Any, Final

import pandas as pd
import polars
import pytest

import spark_eval
from spark_eval.errors import ConfigError, SparkEvalError

NOON: Final = pd.Timestamp("2024-05-01T12:00:00Z")
LISTS: Final = pd.DataFrame({"user": [1, 1, 2], "item": [7, 8, 9], "rank": [1, 2, 1]})
TRUTH: Final = pd.DataFrame({"user": [1, 2], "item": [8, 9]})
USERS: Final = pd.DataFrame({"user": [1, 2], "device": ["x", "y"]})
ITEMS: Final = pd.DataFrame({"item": [7, 8, 9], "groups": ["a", "b", "a|b"]})
STAGES: Final = pd.concat([LISTS.assign(model=name) for name in ("als", "top")])
CLICKS: Final = pd.DataFrame({"label": [0, 1, 1, 0], "score": [0.1, 0.9, 0.4, 0.5], "user": [1, 1, 2, 2]})
LOG: Final = TRUTH.assign(timestamp=[NOON, NOON + pd.Timedelta(days=2)])
PAIRS: Final = pd.DataFrame({"a": [1, 2, 4], "b": [2, 3, 5], "score": [0.9, 0.2, 0.7]})
EFFECTS: Final = pd.DataFrame(
    {
        "experiment": list("abcdefgh"),
        "difference": [0.1, -0.2, 0.3, 0.5, -0.1, 0.2, 0.0, 0.4],
        "std_error": 0.1,
    }
)
COVARIANCE: Final = pd.DataFrame(
    {"experiment": ["a"], "metric": "ndcg@10", "goal": "ctr", "covariance": 0.001}
)
PER_USER: Final = pd.DataFrame(
    {"user": [1, 2, 1, 2], "model": list("aabb"), "ndcg_at_10": [0.1, 0.2, 0.3, 0.2]}
)
EXPOSURES: Final = pd.DataFrame({"user": range(8), "variant": list("ct") * 4, "timestamp": NOON})
EVENTS: Final = pd.DataFrame({"user": [1, 2], "kind": "buy", "value": [1.0, 2.0], "timestamp": NOON})
SHOWN: Final = pd.DataFrame(
    {"impression": 1, "user": 7, "item": ["x", "y"], "position": [1, 2], "team": ["a", "b"]}
).assign(first_pick="a", clicked=[1, 0])

WHERE: Final = {"column": "kind", "op": "==", "value": "buy"}
MEAN: Final = {
    "name": "spent",
    "kind": "mean",
    "of": {
        "kind": "buy",
        "value": "sum",
        "where": [{"column": "kind", "op": "==", "value": "buy"}],
        "cap": 9,
    },
    "role": "guardrail",
    "direction": "lower",
    "decimals": 1,
    "signed": False,
    "margin": 0.1,
    "margin_kind": "relative",
    "test": "welch",
    "effect": 0.1,
    "cuped": True,
}
RATIO: Final = {
    "name": "each",
    "kind": "ratio",
    "numerator": {"kind": "buy", "value": "sum", "winsorise": 0.95},
    "denominator": {"kind": "buy", "value": "count"},
}
BACK: Final = {"name": "back", "kind": "retention", "of": {"kind": "buy"}, "day": 1}
HOME: Final = {
    "name": "home",
    "control": "c",
    "variants": {"c": 0.5, "t": 0.5},
    "period": ["2024-05-01", "2024-05-08"],
    "window": "3d",
    "assignment": {"salt": "s", "buckets": 10, "ranges": {"c": [0, 5], "t": [5, 10]}},
    "weights": [{"since": "2024-05-02", "variants": {"c": 0.2, "t": 0.8}}],
    "unit": "user",
    "by": ["day"],
    "sequential": {"tightest_at": 500, "min_users": 10},
}
EARLY: Final = {**HOME, "period": ["0001-01-01", "2024-05-08"]}
LATE: Final = {**HOME, "period": ["2024-05-01", "9999-12-31"]}
UNWEIGHTED: Final = {**HOME, "variants": {"c": 5e-324, "t": 5e-324}}
ONLINE: Final = {
    "exposures": EXPOSURES,
    "events": EVENTS,
    "metrics": [MEAN, RATIO, BACK],
    "experiments": [HOME],
    "exposure_columns": {"user": "user"},
    "event_columns": {"kind": "kind"},
    "bots": {"ids": [7], "pre_events": 10},
    "sequential": {"tau": 0.1},
    "slices": ["kind"],
    "novelty_days": 3,
    "engine": "local",
}
# One valid call of each function, with a value of each nested key; other arguments have their defaults.
CALLS: Final[Mapping[str, Callable[[Path], dict[str, Any]]]] = {
    "segment_gaps": lambda _: {"sums": spark_eval.evaluate(LISTS, TRUTH, model="m", engine="local").sums},
    "add_sums": lambda _: {"sums": spark_eval.evaluate(LISTS, TRUTH, model="m", engine="local").sums},
    "compare": lambda _: {
        "candidate": PER_USER,
        "gates": [
            {
                "metric": "ndcg",
                "k": 10,
                "max_drop": 0.5,
                "model": "b",
                "against": {"run": None, "model": "a"},
                "drop": "absolute",
                "mode": "non_inferior",
                "confidence": 0.9,
                "segment": "all",
                "min_users": 1,
                "min_common": 0.5,
                "if_missing": "refuse",
                "pairing": "user",
                "direction": "higher",
            }
        ],
        "metrics": ["ndcg@10"],
        "engine": "local",
    },
    "evaluate": lambda folder: {
        "recommendations": STAGES,
        "truth": TRUTH,
        "train": TRUTH,
        "users": USERS,
        "items": ITEMS,
        "columns": {"user": "user"},
        "folder": str(folder / "per_user"),
        "segments": ["device"],
        "metrics": ["ndcg", "novelty"],
        "conventions": {"preset": "default", "gain": "exp2", "threshold": 0.5},
        "stages": [
            {"name": "candidates", "models": ["als", "top"], "k": 5},
            {"name": "final", "model": "top", "k": 1},
        ],
        "engine": "local",
    },
    "evaluate_experiments": lambda _: {
        **ONLINE,
        "gates": [
            {
                "experiment": "home",
                "metric": "spent",
                "max_drop": 1,
                "drop": "absolute",
                "mode": "non_inferior",
            }
        ],
    },
    "evaluate_interleaving": lambda _: {"impressions": SHOWN, "columns": {"user": "user"}, "engine": "local"},
    "calibrate": lambda _: {
        "offline": EFFECTS.assign(metric="ndcg@10"),
        "online": EFFECTS.assign(goal="ctr"),
        "covariance": COVARIANCE,
        "metrics": ["ndcg@10"],
        "goals": ["ctr"],
        "lower": ["ctr"],
    },
    "evaluate_linkage": lambda _: {"predicted": PAIRS, "true": PAIRS, "candidates": PAIRS, "engine": "local"},
    "evaluate_predictions": lambda _: {
        "predictions": CLICKS,
        "task": "binary",
        "model": "m",
        "columns": {"label": "label"},
        "choose": {"flags": [1], "recall": [0.5], "cost": [{"false_positive": 1, "false_negative": 2}]},
        "engine": "local",
    },
    "history": lambda folder: {"path": str(folder)},
    "report": lambda folder: {
        "result": spark_eval.evaluate(LISTS, TRUTH, model="m", engine="local"),
        "path": str(folder / "page.html"),
    },
    "sample_pairs": lambda _: {
        "candidates": PAIRS,
        "predicted": PAIRS[:1],
        "strata": [0.5],
        "engine": "local",
    },
    "split": lambda _: {
        "interactions": LOG,
        "method": "time",
        "columns": {"user": "user"},
        "engine": "local",
        "test_cut": "2024-05-02",
        "validation_cut": None,
        "seed": 1,
        "timezone": "UTC",
        "cold_users": "keep",
        "cold_items": "keep",
    },
    "sum_user_days": lambda _: dict(ONLINE, day="2024-05-01"),
    "watch": lambda folder: {"path": str(folder), "day": "2024-05-01", "metrics": ["ndcg@10"]},
    "window": lambda folder: {"path": str(folder), "first": "2024-05-01", "last": "2024-05-02"},
}
# Known as a session by its module.
SESSION: Final = type("SparkSession", (), {"__module__": "pyspark.sql"})()
# These need Spark; what they take is checked at the same door.
ON_SPARK: Final = {
    "get_session": {"app_name": "w", "master": "local[1]", "conf": {"spark.ui.enabled": "false"}},
    "read_published": {"spark": SESSION, "path": "w", "table": "metrics"},
}
WRONG: Final[tuple[Any, ...]] = (
    *(None, True, 3, 0, -1, 2**70, -(2**70), 1.5, math.nan, math.inf, 5e-324, 1e110, "w", "", b"w"),
    *(
        {},
        {"w": 3},
        {3: "w"},
        {"w": None},
        [],
        [None],
        [3],
        ["w"],
        [[]],
        ("w", 3),
        {"w"},
        iter([]),
        object(),
        str,
    ),
)


def functions() -> list[str]:
    """Names of public functions; ``metrics`` takes nothing."""
    offered = {name: getattr(spark_eval, name) for name in spark_eval.__all__}
    return [
        name for name, one in offered.items() if inspect.isfunction(one) and inspect.signature(one).parameters
    ]


def nested(value: Any) -> Iterator[tuple[Any, ...]]:
    """Yield the paths of everything in nested mappings and lists, their own first."""
    yield ()
    keys = value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    for key in keys:
        yield from ((key, *path) for path in nested(value[key]))


def paths(name: str, call: dict[str, Any]) -> list[tuple[Any, ...]]:
    """Paths of all arguments, and of what is nested in those of the call."""
    parameters = inspect.signature(getattr(spark_eval, name)).parameters.values()
    arguments = [one.name for one in parameters if one.kind is not one.VAR_KEYWORD]
    return [(one, *path) for one in {**dict.fromkeys(arguments), **call} for path in nested(call.get(one))]


def with_value(tree: Any, path: tuple[Any, ...], value: Any) -> Any:
    """Return a copy of nested mappings and lists with another value at a path."""
    if not path:
        return value
    copied = tree.copy()
    copied[path[0]] = with_value(
        tree.get(path[0]) if isinstance(tree, dict) else tree[path[0]], path[1:], value
    )
    return copied


def outcome(name: str, call: dict[str, Any]) -> str:
    """Return ``taken``, the named error, or the raw one."""
    try:
        getattr(spark_eval, name)(**call)
    except SparkEvalError as error:
        return f"{type(error).__name__} {error}"
    except Exception as error:
        return f"RAW {type(error).__name__}: {error}"
    return "taken"


@pytest.fixture(autouse=True)
def in_this_process(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Calls that name no engine run here, and write nowhere else."""
    monkeypatch.setenv("SPARK_EVAL_ENGINE", "local")
    monkeypatch.chdir(tmp_path)


def test_every_public_function_has_a_valid_call() -> None:
    assert {*CALLS, *ON_SPARK} == set(functions())


@pytest.mark.parametrize("name", CALLS)
def test_wrong_types_are_refused_with_the_name_of_the_argument(name: str, tmp_path: Path) -> None:
    call = CALLS[name](tmp_path)
    assert not outcome(name, call).startswith("RAW")
    unnamed = {}
    for path in paths(name, call):
        found = outcome(name, with_value(call, path, object()))
        named = next(key for key in reversed(path) if isinstance(key, str))
        # An entry of a list in free text may be named by the list alone, a cut by its forms.
        words = (named, "cut") if named.endswith("_cut") else (named, "where")
        if not (found.startswith("ConfigError") and any(word in found for word in words)):
            unnamed[path] = found
    assert unnamed == {}


def raw_errors(
    name: str, call: dict[str, Any], draws: Iterable[tuple[tuple[Any, ...], Any]]
) -> dict[Any, str]:
    """Return the errors without a name, by path and value."""
    found = {(path, repr(value)): outcome(name, with_value(call, path, value)) for path, value in draws}
    return {key: text for key, text in found.items() if text.startswith("RAW")}


@pytest.mark.parametrize("name", CALLS)
def test_some_wrong_values_of_each_argument_have_named_errors(name: str, tmp_path: Path) -> None:
    call = CALLS[name](tmp_path)
    several = paths(name, call)
    # The values take turns: each is given to some argument, and each argument has two.
    draws = [
        (path, WRONG[(index + turn) % len(WRONG)]) for index, path in enumerate(several) for turn in (0, 5)
    ]
    assert raw_errors(name, call, draws) == {}


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", CALLS)
def test_all_wrong_values_of_each_argument_have_named_errors(name: str, tmp_path: Path) -> None:
    call = CALLS[name](tmp_path)
    assert raw_errors(name, call, product(paths(name, call), WRONG)) == {}


@pytest.mark.parametrize("name", ON_SPARK)
def test_wrong_types_of_calls_on_spark_are_refused_by_name(name: str) -> None:
    for argument in ON_SPARK[name]:
        with pytest.raises(ConfigError, match=rf"INVALID_CONFIG.*\b{name}\.{argument}\b"):
            getattr(spark_eval, name)(
                **{argument: object()},
                **{other: value for other, value in ON_SPARK[name].items() if other != argument},
            )


# Numbers of columns at the ends of what doubles and 64 bits hold.
EXTREME: Final = (5e-324, 1e-221, 1e110, 1.7e308, -1.7e308, math.inf, 2**53 + 1, 2**63 - 1, -(2**63), 10**18)


def with_number(frame: pd.DataFrame, name: str, value: float) -> pd.DataFrame:
    """Return a frame with a value in all rows of a column but the first."""
    column = [frame[name].iloc[0], *[value] * (len(frame) - 1)]
    kind: Any = "float64" if isinstance(value, float) else "int64"
    return frame.assign(**{name: pd.Series(column, index=frame.index).astype(kind)})


@pytest.mark.parametrize("value", EXTREME)
@pytest.mark.parametrize(
    ("name", "argument", "column", "options"),
    [
        ("evaluate_predictions", "predictions", "score", {"task": "regression", "choose": None}),
        ("evaluate_predictions", "predictions", "label", {"task": "regression", "choose": None}),
        ("evaluate_predictions", "predictions", "weight", {"intervals": "row"}),
        ("evaluate_predictions", "predictions", "weight", {"intervals": "user"}),
        ("sample_pairs", "candidates", "score", {}),
        ("evaluate_linkage", "predicted", "score", {}),
        ("calibrate", "offline", "difference", {}),
        ("calibrate", "online", "std_error", {}),
        ("calibrate", "covariance", "covariance", {}),
        ("evaluate_experiments", "events", "value", {}),
    ],
)
def test_extreme_numbers_in_tables_have_named_errors(
    name: str, argument: str, column: str, options: dict[str, Any], value: float, tmp_path: Path
) -> None:
    call = {**CALLS[name](tmp_path), **options}
    frame = call[argument].assign(**({"weight": 1.0} if column == "weight" else {}))
    if column == "label":
        call["intervals"] = "row"
    found = outcome(name, {**call, argument: with_number(frame, column, value)})
    assert not found.startswith("RAW")


@pytest.mark.parametrize(
    ("name", "options", "says"),
    [
        ("watch", {"days": 10**9}, "watch.days is 1000000000; allowed: 7 to 3,660"),
        ("evaluate_linkage", {"n_records": 10**18}, "their pairs do not fit 64 bits"),
        ("evaluate_linkage", {"n_records": [2**32, 2**31]}, "their pairs do not fit 64 bits"),
        ("sample_pairs", {"per_stratum": 2**70}, "sample.per_stratum is 1180591620717411303424"),
        ("evaluate_experiments", {"pre_days": 10**9}, "online.pre_days is 1000000000"),
        ("evaluate_experiments", {"aa_salts": 10**9}, "online.aa_salts is 1000000000"),
        (
            "evaluate_experiments",
            {"experiments": EARLY},
            "1900 to 2199",
        ),
        (
            "evaluate_experiments",
            {"experiments": LATE},
            "1900 to 2199",
        ),
        (
            "evaluate_experiments",
            {"experiments": UNWEIGHTED},
            "weights",
        ),
        ("evaluate_experiments", {"metrics": {**MEAN, "of": {"kind": "buy", "cap": 5e-324}}}, "cap: 5e-324"),
    ],
)
def test_numbers_out_of_range_are_refused_by_name(
    name: str, options: dict[str, Any], says: str, tmp_path: Path
) -> None:
    found = outcome(name, {**CALLS[name](tmp_path), **options})
    assert found.startswith("ConfigError")
    assert says in found


def test_a_watch_of_the_year_one_misses_its_days(tmp_path: Path) -> None:
    assert "MISSING_DAYS" in outcome("watch", {**CALLS["watch"](tmp_path), "day": "0001-01-01"})


def test_a_polars_frame_with_an_odd_column_is_a_frame() -> None:
    odd = polars.DataFrame({"user": [1], "item": [1], "rank": [1]}).with_columns(
        x=polars.lit(1, polars.Int128)
    )
    found = outcome("evaluate", {"recommendations": odd, "truth": TRUTH, "model": "m"})
    assert "UNSUPPORTED_TYPE" in found
    column = outcome("evaluate", {"recommendations": odd["user"], "truth": TRUTH, "model": "m"})
    assert "NOT_A_FRAME" in column
