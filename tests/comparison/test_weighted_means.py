"""Weighted means of pairs: sums in the workers against rational arithmetic, tests, what is refused."""

from collections import defaultdict
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from tests.comparison.plain_pairs import population_of, table_of

from spark_eval.comparison.matching import match_metrics
from spark_eval.comparison.plan import make_compare_plan
from spark_eval.comparison.worker.sums import ratio_sums, sum_bucket
from spark_eval.errors import ConfigError
from spark_eval.kernels.columns import value_of_column
from spark_eval.kernels.means import means_of_users
from spark_eval.kernels.values import MetricValue
from spark_eval.users.population import CANDIDATE, ComparisonTask

COLUMNS = ("auc_at_5", "fcp_at_5")
WEIGHTED = (
    ("auc_at_5", "auc_positives_at_5"),
    ("auc_at_5", "auc_impressions_at_5"),
    ("fcp_at_5", "fcp_pairs_at_5"),
)
PAIRS = ((0, 1), (0, 2), (1, 2))
MATCHES = [(slice(0, 1), slice(1, 3)), (slice(1, 2), slice(2, 3))]


def made_up(seed: int, *, folds: int) -> pd.DataFrame:
    generator = np.random.default_rng(seed)
    users = pd.DataFrame({"user": np.sort(generator.choice(80, 60, replace=False))})
    if folds:
        users = users.loc[np.repeat(users.index, folds)].reset_index(drop=True)
        users["fold"] = np.tile(np.arange(folds), 60).astype(np.int32)
        users = users[generator.random(len(users)) < 0.8].reset_index(drop=True)
    size = len(users)
    for column in COLUMNS:
        users[column] = generator.random(size)
        for _, weight in (one for one in WEIGHTED if one[0] == column):
            users[weight] = generator.integers(1, 9, size).astype(np.float64)
        is_undefined = generator.random(size) < 0.2
        for name in (column, *(weight for one, weight in WEIGHTED if one == column)):
            users.loc[is_undefined, name] = np.nan
    users["country"] = users["user"].map(lambda user: ["at", "be"][user % 2])
    return users


@pytest.mark.parametrize("folds", [0, 3])
def test_sums_are_those_of_rational_arithmetic(folds: int) -> None:
    models = [made_up(seed, folds=folds) for seed in range(3)]
    segments = ("country", "fold") if folds else ("country",)
    task = ComparisonTask(
        [(CANDIDATE, name) for name in "abc"],
        MATCHES,
        COLUMNS,
        segments,
        by_fold=folds > 0,
        weighted=WEIGHTED,
    )
    parts = [
        sum_bucket(population_of(task, [table_of(one[one["user"] % 3 == part]) for one in models]))
        for part in range(3)
    ]
    found = parts[0]
    for part in parts[1:]:
        found += part
    assert len(found.ratios.cells) == 3 + folds
    keys = task.keys
    for at, (segment, value) in enumerate(found.ratios.cells):
        for pair, (baseline, candidate) in enumerate(PAIRS):
            for mean, names in enumerate(WEIGHTED):
                both = models[candidate][[*keys, "country", *names]].merge(
                    models[baseline][[*keys, *names]], on=keys, suffixes=("", "_before")
                )
                both = both.dropna()
                if segment != "all":
                    both = both[both[segment].astype(str) == value]
                sums = ratio_sums(found.ratios, (at, pair, mean))
                columns = [tuple(f"{name}_before" for name in names), names]
                check(both, columns, sums.n, list(sums.totals), [list(own) for own in sums.products], folds)
                largest = [
                    both[one].to_numpy() * both[other].to_numpy() if other else both[one].to_numpy()
                    for values, weights in columns
                    for one, other in ((values, weights), (weights, None))
                ]
                if segment == "all":
                    assert found.largest_parts[pair, mean].tolist() == [own.max() for own in largest]


def check(
    rows: pd.DataFrame,
    columns: list[tuple[str, ...]],
    n: int,
    totals: list[Fraction],
    products: list[list[Fraction]],
    folds: int,
) -> None:
    """Compare with sums over users; over folds a user's are doubles, which round as they are added."""
    of_users: dict[int, list[float]] = defaultdict(lambda: [0.0] * 4)
    for row in rows.sort_values(["user", "fold"] if folds else "user").to_dict("records"):
        for place, (value, weight) in enumerate(columns):
            of_users[row["user"]][2 * place] += row[value] * row[weight]
            of_users[row["user"]][2 * place + 1] += row[weight]
    amounts = [list(map(Fraction, own)) for own in of_users.values()]
    assert n == len(amounts)
    expected = [sum(own[one] for own in amounts) for one in range(4)]
    expected += [sum(own[one] * own[other] for own in amounts) for one in range(4) for other in range(4)]
    found = [*totals, *(one for own in products for one in own)]
    assert found == expected or (
        folds and list(map(float, found)) == pytest.approx(list(map(float, expected)))
    )


def measured(*columns: str) -> list[MetricValue]:
    return means_of_users([value for name in columns if (value := value_of_column(name)) is not None])


def test_weighted_means_are_compared_like_others_and_by_name() -> None:
    values = measured("auc_at_5", "ndcg_at_5")
    assert list(map(str, match_metrics(None, values, make_compare_plan()))) == [
        "gauc@5",
        "ndcg@5",
        "gauc_by_impressions@5",
        "gauc_by_positives@5",
    ]
    plan = make_compare_plan(metrics=["gauc_by_positives"])
    assert list(map(str, match_metrics(None, values, plan))) == ["gauc_by_positives@5"]


@pytest.mark.parametrize("options", [{"tests": ["t", "wilcoxon"]}, {"interval": "bca"}, {"tests": "sign"}])
def test_what_is_not_defined_for_them_is_refused(options: dict[str, str]) -> None:
    plan = make_compare_plan(**options)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=r"NOT_OF_WEIGHTED_MEANS.*gauc_by_impressions@5.*compare.metrics"):
        match_metrics(None, measured("auc_at_5"), plan)
    assert match_metrics(None, measured("ndcg_at_5"), plan)
