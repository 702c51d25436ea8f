"""Sampled candidates: the sign, the warning, the stamp, and comparisons that are refused."""

import logging
from typing import Any

import numpy as np
import pandas as pd
import pytest

from spark_eval import compare, evaluate
from spark_eval.conventions.presets import parse_stamp
from spark_eval.errors import DataError
from spark_eval.evaluation.result import Evaluation

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


def is_stamped(result: Evaluation) -> bool:
    [stamp] = set(result.metrics["conventions"])
    return "; candidates: sampled; " in stamp


def test_lists_of_one_length_with_all_of_their_truth_are_stamped(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "spark_eval"):
        result = measured(lists(1))
    assert is_stamped(result)
    [warning] = caplog.records
    assert warning.getMessage().startswith("SAMPLED_CANDIDATES: all lists of als have one length")
    assert parse_stamp(result.plan.stamp) == result.plan.conventions
    assert set(result.to_pandas("sums")["conventions"]) == {result.plan.stamp}


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
    truth = TRUTH[TRUTH["user"].isin(frame["user"])]
    with caplog.at_level(logging.WARNING, "spark_eval"):
        assert not is_stamped(measured(frame, truth))
    assert not caplog.records


def test_full_rankings_are_not_sampled() -> None:
    everything = lists(1, length=N_ITEMS)
    assert not is_stamped(measured(everything))
    # Nor are those without the items that a user knows, even if all know as many.
    unseen = lists(1, length=N_ITEMS - 5)
    assert not is_stamped(measured(unseen))


def test_sampled_values_are_compared_with_sampled_ones_alone() -> None:
    one, other = measured(lists(1)), measured(lists(2))
    assert compare(one, other, metrics=["mrr@10"]).to_pandas("comparisons")["n_users"].tolist() == [N_USERS]
    full = measured(lists(1, length=N_ITEMS))
    with pytest.raises(
        DataError, match="candidates are sampled of the candidate, full of the baseline"
    ) as refused:
        compare(one, full, metrics=["mrr@10"])
    assert refused.value.code == "CONVENTIONS_DIFFER"


def test_models_with_other_candidates_are_named_and_never_compared(caplog: pytest.LogCaptureFixture) -> None:
    both = pd.concat([lists(1), lists(2, length=N_ITEMS, model="pop")])
    with caplog.at_level(logging.WARNING, "spark_eval"):
        result = measured(both)
    assert "; candidates: mixed; " in result.metrics["conventions"][0]
    assert "all lists of als have" in caplog.records[0].getMessage()
    with pytest.raises(DataError, match="candidates are mixed"):
        compare(result, baseline_model="pop", metrics=["mrr@10"])


@pytest.mark.parametrize("options", [{"k": [1]}, {"conventions": {"no_hits": "drop"}}, {"metrics": ["gauc"]}])
def test_the_sign_does_not_depend_on_cutoffs_and_buckets(
    options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spark_eval.evaluation.exchange.ROWS_PER_BUCKET", 1_000)
    assert is_stamped(measured(lists(1), **options))
