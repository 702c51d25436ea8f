"""``validate`` of every subset of a config's sections checks all tables that are there, without Spark."""

from collections.abc import Callable, Collection, Mapping
from itertools import combinations
from pathlib import Path
from typing import Any, Final

import pandas as pd
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.cli.conftest import Answer, call
from tests.monitoring.test_window_verb import no_spark

pytestmark = pytest.mark.usefixtures("engine_of_users")

PAIRS: Final = {"user": [1, 1, 2], "item": [1, 2, 1]}
TIMES: Final = pd.to_datetime(["2024-05-01", "2024-05-02", "2024-05-03"], utc=True).astype(
    "datetime64[us, UTC]"
)
# Columns of each table; in the order in which ``validate`` names them.
TABLES: Final[Mapping[str, Mapping[str, Any]]] = {
    "interactions": {**PAIRS, "timestamp": [880_000_000, 880_086_400, 880_172_800]},
    "recommendations": {**PAIRS, "rank": [1, 2, 1]},
    "truth": PAIRS,
    "train": PAIRS,
    "users": {"user": [1, 2], "country": ["nl", "de"]},
    "items": {"item": [1, 2], "groups": ["a", "b"]},
    "predictions": {"label": [0, 1], "score": [0.1, 0.9]},
    "exposures": {"user": [1, 2, 3], "variant": ["a", "b", "a"], "timestamp": TIMES},
    "events": {"user": [1, 2, 3], "kind": ["click"] * 3, "timestamp": TIMES},
    "interleaving": {
        "impression": [1, 1],
        "user": [1, 1],
        "item": [1, 2],
        "position": [1, 2],
        "team": ["x", "y"],
        "first_pick": ["x", "x"],
        "clicked": [True, False],
    },
    "candidates": {"a": [1], "b": [2], "score": [0.5]},
    "predicted": {"a": [1], "b": [2]},
    "true": {"record": [1, 2], "cluster": [1, 1]},
    "reviews": {"a": [1], "b": [2], "reviewer": ["ann"], "label": ["match"]},
}
# Further keys of the sections of tables, and sections that are no tables.
KEYS: Final[Mapping[str, Any]] = {
    "interactions": {"timestamp_unit": "s"},
    "recommendations": {"model": "m"},
    "predictions": {"model": "m", "task": "binary"},
    "interleaving": {"teams": ["x", "y"]},
}
OTHERS: Final[Mapping[str, Any]] = {
    "online": {
        "metrics": [{"name": "clicks", "kind": "mean", "of": {"kind": "click", "value": "count"}}],
        "experiments": [
            {
                "name": "e",
                "control": "a",
                "variants": {"a": 0.5, "b": 0.5},
                "period": ["2024-05-01", "2024-05-08"],
            }
        ],
    },
    "split": {"method": "time", "test_cut": {"share": 0.5}},
    "evaluate": {"k": [1], "metrics": ["recall"]},
    "gates": [{"metric": "recall", "k": 1, "model": "m", "against": {"model": "n"}, "max_drop": 0}],
    "linkage": {},
    "sample": {"per_stratum": 5},
    "compare": {"metrics": ["recall"]},
}
# A column that each table needs.
NEEDED: Final[Mapping[str, str]] = {
    **dict.fromkeys(("interactions", "exposures", "events", "interleaving"), "user"),
    **dict.fromkeys(("recommendations", "truth", "train", "items"), "item"),
    **dict.fromkeys(("candidates", "predicted", "reviews"), "b"),
    "users": "user",
    "predictions": "score",
    "true": "cluster",
}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with all tables, and with each of them without a column that it needs."""
    home = tmp_path_factory.mktemp("home")
    for name, columns in TABLES.items():
        frame = pd.DataFrame(dict(columns))
        frame.to_parquet(home / f"{name}.parquet", index=False)
        frame.drop(columns=NEEDED[name]).to_parquet(home / f"{name}-narrow.parquet", index=False)
    return home


@pytest.fixture(autouse=True)
def without_spark() -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("spark_eval.cli.runner.open_session", lambda *_: no_spark())
        yield


def validate(home: Path, sections: Collection[str], *words: str, **paths: str) -> Answer:
    """Validate a config of these sections; ``paths`` are those of some tables."""
    tree: dict[str, Any] = {"output": {"path": str(home / "out")}}
    tree |= {name: one for name, one in OTHERS.items() if name in sections}
    for name in TABLES:
        if name in sections:
            tree[name] = {"path": str(home / paths.get(name, f"{name}.parquet")), **KEYS.get(name, {})}
    (home / "c.yaml").write_text(yaml.safe_dump(tree))
    return call("validate", "--config", str(home / "c.yaml"), *words)


def check_all_named(home: Path, sections: Collection[str]) -> None:
    answer = validate(home, sections)
    assert (answer.code, answer.err) == (0, ""), sections
    named = ", ".join(name for name in TABLES if name in sections) or "none"
    assert answer.out.endswith(f"c.yaml: config is valid; inputs checked: {named}\n"), sections
    assert not (home / "out").exists()


SECTIONS: Final = (*TABLES, *OTHERS)


@pytest.mark.parametrize("name", SECTIONS)
def test_each_section_alone_is_checked(home: Path, name: str) -> None:
    check_all_named(home, {name})


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", SECTIONS)
def test_each_section_is_checked_with_each_other(home: Path, name: str) -> None:
    for other in SECTIONS:
        check_all_named(home, {name, other})


@given(sections=st.sets(st.sampled_from(SECTIONS)))
@settings(max_examples=20)
def test_every_subset_of_sections_is_checked(home: Path, sections: set[str]) -> None:
    check_all_named(home, sections)


LACKING: Final[Mapping[str, tuple[Callable[[str], str], str]]] = {
    "no file": (lambda name: f"{name}-nowhere.parquet", "MISSING_INPUT"),
    "no such column": (lambda name: f"{name}-narrow.parquet", "MISSING_COLUMN"),
}


@pytest.mark.parametrize("lacking", LACKING.values(), ids=LACKING)
@pytest.mark.parametrize("name", TABLES)
@given(sections=st.sets(st.sampled_from(SECTIONS), max_size=6))
@settings(max_examples=2)
def test_a_table_that_lacks_something_is_named_whatever_else_is_there(
    home: Path, name: str, lacking: tuple[Callable[[str], str], str], sections: set[str]
) -> None:
    path, code = lacking
    answer = validate(home, sections | {name}, **{name: path(name)})
    assert (answer.code, answer.error) == (3, code)
    assert f"] {name}" in answer.err


@pytest.mark.parametrize(("one", "other"), [*combinations(("truth", "events", "true", "predictions"), 2)])
def test_faults_of_tables_of_several_verbs_come_in_one_line(home: Path, one: str, other: str) -> None:
    answer = validate(home, {one, other}, **{name: f"{name}-narrow.parquet" for name in (one, other)})
    assert answer.code == 3
    assert f"] {one}" in answer.err
    assert f"[MISSING_COLUMN] {other}" in answer.err


def test_a_verb_checks_its_own_tables_and_requires_its_section(home: Path) -> None:
    verbs = {
        "split": ("interactions",),
        "predictions": ("predictions",),
        "online": ("exposures", "events", "online"),
        "linkage": ("predicted", "true", "candidates"),
        "sample": ("candidates", "predicted"),
        "evaluate": ("recommendations", "truth", "train", "users", "items"),
    }
    for verb, sections in verbs.items():
        answer = validate(home, sections, "--verb", verb)
        assert (answer.code, answer.err) == (0, ""), verb
        assert all(name in answer.out.splitlines()[-1] for name in sections if name in TABLES), verb
        answer = validate(home, set(TABLES) - {*sections, "interleaving"}, "--verb", verb)
        assert (answer.code, answer.error) == (2, "MISSING_SECTION"), verb
    assert validate(home, ("interleaving",), "--verb", "online").code == 0
