"""Sampled candidates: the sign in the data is a warning alone; comparisons heed what the user says."""

import logging
from typing import Any

import numpy as np
import pandas as pd
import pytest

from spark_eval import compare, evaluate
from spark_eval.conventions.presets import parse_stamp
from spark_eval.errors import ConfigError, DataError
from spark_eval.evaluation.result import Evaluation
from spark_eval.evaluation.worker.candidates import CandidateSign

N_USERS, N_ITEMS, LENGTH = 150, 400, 20
TRUTH = pd.DataFrame({"user": range(N_USERS), "item": [user * 7 % N_ITEMS for user in range(N_USERS)]})


def lists(seed: int, *, length: int = LENGTH, n_items: int = N_ITEMS, model: str = "als") -> pd.DataFrame:
    """The relevant item of each user at a drawn rank among drawn others."""
    draw = np.random.default_rng(seed)
    rows = []
    for user, relevant in TRUTH.itertuples(index=False):
        others = draw.permutation([item for item in range(n_items) if item != relevant])[: length - 1]
        rows += [
            (model, user, item, rank) for rank, item in enumerate(draw.permutation([*others, relevant]), 1)
        ]
    return pd.DataFrame(rows, columns=["model", "user", "item", "rank"])


def measured(frame: pd.DataFrame, truth: pd.DataFrame = TRUTH, **options: Any) -> Evaluation:
    return evaluate(frame, truth, **{"metrics": ["mrr"], "k": [10], "engine": "local", **options})


def warned_models(caplog: pytest.LogCaptureFixture, frame: pd.DataFrame, **options: Any) -> list[list[str]]:
    """The models that a run warns of; what it guesses from data is never in its conventions."""
    caplog.clear()
    with caplog.at_level(logging.WARNING, "spark_eval"):
        result = measured(frame, **options)
    assert "candidates" not in result.plan.stamp
    assert set(result.metrics["conventions"]) == {result.plan.stamp}
    return [vars(record)["facts"]["models"] for record in caplog.records]


def test_lists_of_equal_length_that_hold_all_their_truth_are_warned_of(
    caplog: pytest.LogCaptureFixture,
) -> None:
    assert warned_models(caplog, lists(1)) == [["als"]]
    message = caplog.records[0].getMessage()
    assert message.startswith("SAMPLED_CANDIDATES: all lists of als have one length")
    assert "say candidates: sampled" in message


def short(frame: pd.DataFrame) -> pd.DataFrame:
    last = frame.index[frame["user"] == 3][-1]
    return frame.drop(index=[last])


def incomplete(frame: pd.DataFrame) -> pd.DataFrame:
    at = frame["user"] == 3
    return frame.assign(item=frame["item"].mask(at & (frame["item"] == 21), N_ITEMS + 1))


def perfect(frame: pd.DataFrame) -> pd.DataFrame:
    is_other = frame["item"] != frame["user"] * 7 % N_ITEMS
    ranked = frame.assign(is_other=is_other).sort_values(["user", "is_other"])
    ranked["rank"] = ranked.groupby("user").cumcount() + 1
    return ranked.drop(columns="is_other")


def few(frame: pd.DataFrame) -> pd.DataFrame:
    return frame[(frame["user"] < 99).to_numpy()]


@pytest.mark.parametrize("change", [short, incomplete, perfect, few])
def test_without_the_whole_sign_nothing_is_said(change: Any, caplog: pytest.LogCaptureFixture) -> None:
    frame = change(lists(1))
    assert warned_models(caplog, frame, truth=TRUTH[TRUTH["user"].isin(frame["user"])]) == []


def test_full_rankings_do_not_look_sampled(caplog: pytest.LogCaptureFixture) -> None:
    assert warned_models(caplog, lists(1, length=N_ITEMS)) == []
    # Nor do those without the items that a user knows, even if all know as many.
    assert warned_models(caplog, lists(1, length=N_ITEMS - 5)) == []


def hand_made() -> pd.DataFrame:
    """Lists of five for each user: one model finds every relevant item, the other every second one."""
    rows = []
    for user, relevant in TRUTH.itertuples(index=False):
        others = [(relevant + step) % N_ITEMS for step in range(1, 6)]
        of_models = {
            "a": others if user % 2 else [relevant, *others],
            "b": [*others[:2], relevant, *others[2:]],
        }
        for model, items in of_models.items():
            rows += [(model, user, item, rank) for rank, item in enumerate(items[:5], 1)]
    return pd.DataFrame(rows, columns=["model", "user", "item", "rank"])


GUESSED = {
    "hand-made": hand_made(),
    "all models": pd.concat([lists(1), lists(2, model="pop")]),
    "one of two": pd.concat([lists(1), lists(2, length=N_ITEMS, model="pop")]),
    "one of two, of other users": pd.concat([lists(1), few(lists(2, length=N_ITEMS, model="pop"))]),
}


@pytest.mark.parametrize("frame", GUESSED.values(), ids=GUESSED.keys())
def test_what_is_guessed_changes_no_stamp_and_no_decision(
    frame: pd.DataFrame, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert warned_models(caplog, frame)
    guessed = all_results(frame)
    monkeypatch.setattr(CandidateSign, "looks_sampled", False)
    assert warned_models(caplog, frame) == []
    assert all_results(frame) == guessed


def all_results(frame: pd.DataFrame) -> list[Any]:
    """Rows of metrics, of a comparison within the run and with another run, and of a gate."""
    models = sorted(set(frame["model"]))
    gate = {"metric": "mrr@10", "model": models[1], "against": {"model": models[0]}, "max_drop": 0.5}
    gate |= {"min_users": 10, "min_common": 0.1}
    run, other = measured(frame), measured(frame[frame["model"] == models[0]])
    within = compare(run, baseline_model=models[0], gates=[gate], engine="local")
    return [*run.metric_rows, *within.rows, *within.gate_rows, *compare(run, other, engine="local").rows]


def test_what_the_user_says_is_compared_with_its_like_alone(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "spark_eval"):
        one, other = (measured(lists(seed), candidates="sampled") for seed in (1, 2))
    assert not caplog.records  # it is known
    assert "; candidates: sampled; " in one.plan.stamp
    assert parse_stamp(one.plan.stamp) == one.plan.conventions
    for table in ("metrics", "sums"):
        assert set(one.to_pandas(table)["conventions"]) == {one.plan.stamp}
    full = measured(lists(1))
    assert [row.value for row in one.metric_rows] == [row.value for row in full.metric_rows]
    assert compare(one, other, metrics=["mrr@10"], engine="local").to_pandas("comparisons")[
        "n_users"
    ].tolist() == [N_USERS]
    message = "candidates are sampled of the candidate, full of the baseline"
    with pytest.raises(DataError, match=message) as refused:
        compare(one, full, metrics=["mrr@10"], engine="local")
    assert refused.value.code == "CONVENTIONS_DIFFER"
    with pytest.raises(ConfigError, match=r"evaluate.candidates.*full, sampled"):
        measured(lists(1), candidates="few")


@pytest.mark.parametrize("options", [{"k": [1]}, {"conventions": {"no_hits": "drop"}}, {"metrics": ["gauc"]}])
def test_the_sign_does_not_depend_on_cutoffs_and_buckets(
    options: dict[str, Any], caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spark_eval.evaluation.exchange.ROWS_PER_BUCKET", 1_000)
    assert warned_models(caplog, lists(1), **options) == [["als"]]
