"""The demo of past experiments: its tables, the effects that it makes, and the sentence at the end."""

from pathlib import Path
from typing import Final

import numpy as np
import pandas as pd
import pytest

from spark_eval.cli.commands import main
from spark_eval.demo import programme, simulate
from spark_eval.runs.sections import parse_config

LOG: Final = simulate(0.1, 7)


def test_lists_have_each_film_once_and_the_truth_at_its_rank() -> None:
    users, films, popular = np.array([1, 2, 3]), np.array([11, 50, 10]), np.arange(10, 21)
    found = programme.lists_with(users, films, np.array([2, 1, 99]), popular)
    lists = {user: rows["item"].tolist() for user, rows in found.groupby("user")}
    assert lists[1] == [10, 11, *range(12, 20)]
    assert lists[2] == [50, *range(10, 19)]
    assert lists[3] == [*range(11, 21)]
    assert all(len(set(items)) == 10 for items in lists.values())


def test_same_seed_same_tables_of_thirty_experiments() -> None:
    made, again = (programme.past_programme(LOG, 7) for _ in range(2))
    pd.testing.assert_frame_equal(made.events, again.events)
    pd.testing.assert_frame_equal(made.lists["after"], again.lists["after"])
    assert made.lists["before"]["model"].nunique() == len(made.programme) == 30
    assert made.exposures.groupby("experiment").size().tolist() == [200] * 30
    assert not made.exposures["user"].duplicated().any()
    tree = programme.programme_settings(LOG, "out")
    assert len(parse_config(tree).online.experiments) == 30  # type: ignore[union-attr]


def test_the_treatment_has_the_effect_that_is_made() -> None:
    random = np.random.default_rng(1)
    shown, happened = programme.online_week(1, np.full(4_000, 3.0), 0, 0.5, random)
    variant = shown.set_index("user")["variant"]
    sums = happened.assign(variant=happened["user"].map(variant)).groupby(["variant", "kind"])["value"].sum()
    ctr = sums.unstack()["click"] / sums.unstack()["view"]
    assert ctr["treatment"] / ctr["control"] == pytest.approx(1.5, rel=0.02)


@pytest.mark.slow
def test_the_demo_ends_with_the_correlation_that_was_made(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPARK_EVAL_ENGINE", "local")
    with pytest.raises(SystemExit) as ended:
        main(["demo", "--programme", "--scale", "0.2", "--output", str(tmp_path)])
    assert ended.value.code == 0
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.startswith("ndcg@10 and ctr: of ")
    assert last.endswith("the true effects were made to correlate by .80")
    assert (tmp_path / "report" / "programme.html").is_file()
