"""A split displays its decision, its subsets and its warnings."""

from unittest.mock import patch

import pandas as pd

from spark_eval import split
from spark_eval.errors import DataError

DAYS = pd.date_range("2024-05-01", periods=6, tz="UTC")
LOG = pd.DataFrame({"user": [1, 1, 2, 2, 3, 4], "item": [7, 8, 9, 7, 7, 1], "timestamp": DAYS})


def test_a_split_says_whether_rows_leak_and_who_is_cold() -> None:
    parts = split(LOG, method="time", test_cut="2024-05-04")
    title, header, train, test, way, warning, names = repr(parts).splitlines()
    assert title == "Split by time: no row leaks"
    assert " ".join(header.split()) == "subset rows users items trained on cold users cold items"
    assert train.split() == ["train", "3", "2", "3"]
    assert test.split() == ["test", "3", "3", "2", "train", "2", "(67%)", "1", "(50%)"]
    assert way == "train on train (3 rows, 2 users) for test"
    assert warning.startswith("warning: 2 of 3 users of test (67%) have no row in train: ")
    assert names.startswith("subset(NAME) of train, test; ")
    html = parts._repr_html_()
    assert html.index("no row leaks") < html.index("test_cut")


def test_folds_are_named_and_rows_that_cannot_be_counted_are_left_out() -> None:
    folds = split(LOG, method="k_fold", k=2)
    assert "fold 1 test" in repr(folds)
    with patch("spark_eval.splits.split.count_subsets", side_effect=DataError("X", "gone")):
        assert repr(split(LOG, method="time", test_cut="2024-05-04")).startswith(
            "Split by time: train on train for test; subset(NAME) of train, test; "
        )


def test_leaks_are_in_the_first_line() -> None:
    leaking = split(LOG, method="k_fold", k=2)
    leak = leaking.leaks[0][0]._replace(rows=3, leaked=True)
    with patch("spark_eval.splits.split.leakage_rows", return_value=[leak]):
        text = repr(split(LOG, method="k_fold", k=2))
    assert text.startswith("Split by k_fold: LEAK: 3 leaked rows\n")
