"""Segments of items in comparisons: a value's numbers are those of its rows alone; slices, gates, errors."""

from typing import Any, Final

import numpy as np
import pandas as pd
import pytest
from item_tables import tables_of
from scipy import stats

from spark_eval import compare, evaluate
from spark_eval.comparison.compare import Comparison
from spark_eval.errors import ConfigError, DataError
from spark_eval.evaluation.result import Evaluation

pytestmark = pytest.mark.usefixtures("engine_of_users")

METRICS: Final = ["ndcg", "recall"]
TESTS: Final = ["t", "sign", "wilcoxon", "randomization", "bootstrap"]
USERS: Final = pd.DataFrame({"user": range(40), "country": [["SE", "NO", None][n % 3] for n in range(40)]})


def evaluated(case: str = "users", seed: int = 5, **options: Any) -> Evaluation:
    """Two models, with genres of items and countries of users."""
    tables = tables_of(seed, by_request=case in ("requests", "means"), by_fold=case == "folds")
    asked: dict[str, Any] = {"metrics": METRICS, "k": 3, "item_segments": ["genre"], "segments": ["country"]}
    if case == "means":
        asked["weight"] = "users"
    lists, truth = tables["lists"], tables["truth"]
    return evaluate(lists, truth, items=tables["items"], users=USERS, **{**asked, **options})


def rows_of(found: Comparison, segment: str) -> list[dict[str, Any]]:
    """Rows of a segment, without what depends on the other rows."""
    of_family = ("family_size", "p_adjusted", "segment", "segment_value", "baseline_run", "conventions")
    return [
        {"value": row.segment_value}
        | {name: of for name, of in row._asdict().items() if name not in of_family}
        for row in found.rows
        if row.segment == segment
    ]


@pytest.mark.parametrize("case", ["users", "weighted", "requests", "means", "folds"])
def test_numbers_of_a_value_are_those_of_its_rows_alone(case: str) -> None:
    result = evaluated(case, metrics="gauc" if case == "weighted" else METRICS)
    tests = {"folds": ["t", "randomization", "bootstrap"], "weighted": ["t", "bootstrap"]}.get(case, TESTS)
    options: dict[str, Any] = {"tests": tests, "resamples": 200, "seed": 3, "interval": "bootstrap"}
    options["weight"] = {"requests": "requests", "means": "users"}.get(case)
    found = compare(result, segments=["item:genre", "country"], **options)
    rows, by_user = rows_of(found, "item:genre"), result.to_pandas("item_segments")
    values = sorted({row["value"] for row in rows})
    assert values == ["(missing)", "action", "drama", "horror"]
    for value in values:
        own = by_user.query("segment_value == @value").drop(columns=["segment", "segment_value", "country"])
        expected = rows_of(compare(own, **options), "all")
        own_rows = [row | {"value": "all"} for row in rows if row["value"] == value]
        assert len(own_rows) == len(expected)
        for row, of_alone in zip(own_rows, expected, strict=True):
            # Resampled sums are scaled by the largest difference: of all values, or of this one.
            ends, own_ends = (
                np.array([of.pop(name) for name in ("ci_low", "ci_high")], dtype=float)
                for of in (of_alone, row)
            )
            assert row == of_alone
            np.testing.assert_allclose(own_ends, ends, rtol=1e-6, atol=1e-9)
    assert rows_of(found, "country") == rows_of(compare(result, segments="country", **options), "country")
    sources = {entry.source: entry for entry in found.entries if entry.outcome == "used"}
    n_rows = by_user.groupby("model").size()
    assert sources["candidate by item:genre"].rows <= n_rows.min()


def test_rows_stay_in_the_order_of_metrics() -> None:
    found = compare(evaluated(), segments=["item:genre"])
    order = [row.metric for row in found.rows]
    assert order == [name for name in METRICS for _ in range(5)]


def plain_slices(result: Evaluation, column: str) -> pd.DataFrame:
    """Differences of each user and value, with the country."""
    rows = result.to_pandas("item_segments")
    keys = ["user", "segment_value"]
    als, bpr = (rows[rows["model"] == name].set_index(keys) for name in ("als", "bpr"))
    both = als.join(bpr[[column]], rsuffix="_b", how="inner").reset_index()
    both["d"] = both[f"{column}_b"] - both[column]
    return both.dropna(subset=["d"])


@pytest.mark.parametrize("cross", [1, 2])
def test_each_slice_is_tested_as_a_loop_over_slices_does(cross: int) -> None:
    result = evaluated()
    slices = {"of": ["country", "item:genre"], "cross": cross, "min_users": 3}
    found = compare(result, metrics=["ndcg@3"], slices=slices)
    rows = {tuple(zip(row.attributes, row.values, strict=True)): row for row in found.slice_rows}
    both = plain_slices(result, "ndcg_at_3")
    texts = both["country"].fillna("(missing)")
    n_users = result.to_pandas("per_user").groupby("user").size().eq(2).sum()
    n_cells = 0
    for value in sorted(set(both["segment_value"])):
        for country in (None, "NO", "SE"):
            is_in = both["segment_value"].eq(value)
            cell: tuple[tuple[str, str], ...] = (("item:genre", value),)
            if country is not None:
                is_in, cell = is_in & texts.eq(country), (("country", country), *cell)
            d = both["d"][is_in]
            if len(d) < 3 or (country is not None and (cross == 1 or value == "(missing)")):
                assert cell not in rows
                continue
            row, rest = rows.pop(cell), both[~is_in].groupby("user")["d"].mean()
            t = stats.ttest_1samp(d, 0)
            assert row.n_users == len(d)
            assert [row.difference, row.p_value] == pytest.approx([d.mean(), t.pvalue], rel=1e-9)
            assert row.contribution == pytest.approx(d.sum() / n_users, rel=1e-11)
            assert row.rest_difference == pytest.approx(d.mean() - rest.mean(), rel=1e-11)
            p_rest = stats.ttest_ind(d, rest, equal_var=False).pvalue
            assert row.p_rest == pytest.approx(p_rest, rel=1e-9)
            n_cells += 1
    assert n_cells >= 4
    assert {name for cell in rows for name, _ in cell} == {"country"}
    alone = compare(result, metrics=["ndcg@3"], slices={"of": "country", "min_users": 3})
    own = {row.values[0]: row[:16] for row in alone.slice_rows}
    assert {cell[0][1]: row[:16] for cell, row in rows.items()}.keys() == own.keys()
    for cell, row in rows.items():
        expected = next(one for one in alone.slice_rows if one.values == [cell[0][1]])
        assert (row.difference, row.p_value, row.contribution, row.rest_difference) == (
            *(expected.difference, expected.p_value, expected.contribution, expected.rest_difference),
        )


@pytest.fixture(scope="module")
def planted() -> Evaluation:
    """Two models in random order; the new one recommends no horror in SE."""
    draw, n = np.random.default_rng(7), 120
    users = pd.DataFrame({"user": range(n), "country": ["SE" if one % 2 else "NO" for one in range(n)]})
    items = pd.DataFrame({"item": ["h", "d", "x", "y"], "genre": ["horror", "drama", None, None]})
    truth = pd.DataFrame({"user": np.repeat(users["user"], 2), "item": ["h", "d"] * n})
    lists = [
        (model, user, item, rank + 1)
        for model in ("old", "new")
        for user in range(n)
        for rank, item in enumerate(draw.permutation(["h", "d", "x", "y"]))
        if not (model == "new" and user % 2 and item == "h")
    ]
    recommended = pd.DataFrame(lists, columns=["model", "user", "item", "rank"])
    recommended["rank"] = recommended.groupby(["model", "user"]).cumcount() + 1
    asked: dict[str, Any] = {"metrics": ["ndcg"], "k": 5, "items": items, "users": users}
    return evaluate(recommended, truth, segments=["country"], item_segments=["genre"], **asked)


def test_a_loss_among_items_is_told_apart(planted: Evaluation) -> None:
    slices = {"of": ["country", "item:genre"], "min_users": 20}
    found = compare(planted, baseline_model="old", slices=slices)
    roles = {" ".join(row.values): (row.role, row.by) for row in found.slice_rows if row.verdict == "loses"}
    explained = ("explained_by", "country=SE, item:genre=horror")
    assert roles == {"SE": explained, "horror": explained, "SE horror": ("own", None)}
    text = "\n".join(map(str, found.shown()))
    assert "country=SE, item:genre=horror" in text
    assert "a user is in the slice of each of their items" in text


def gate_of(result: Evaluation, **gate: Any) -> list[Any]:
    """Rows of a gate."""
    slices = {"of": ["country", "item:genre"], "min_users": 2} if gate.get("every_slice") else None
    gates = [{"metric": "ndcg@5", "max_drop": 0.15, "min_users": 10, **gate}]
    found = compare(result, baseline_model="old", gates=gates, slices=slices)
    return list(found.gate_rows)


def test_gates_take_segments_and_slices_of_items(planted: Evaluation) -> None:
    rows = gate_of(planted, segment="item:genre")
    assert {row.segment_value: row.passed for row in rows} == {"drama": True, "horror": False}
    [row] = gate_of(planted, segment="item:genre", segment_value="drama")
    assert (row.passed, row.n_users) == (True, 120)
    [row] = gate_of(planted, every_slice=True)
    assert (row.segment_value, row.passed) == ("country=SE, item:genre=horror", False)


def test_attributes_of_items_are_not_crossed_with_each_other(caplog: pytest.LogCaptureFixture) -> None:
    tables = tables_of(5)
    asked: dict[str, Any] = {"metrics": "ndcg", "k": 3, "item_segments": ["genre", "popularity"]}
    result = evaluate(tables["lists"], tables["truth"], items=tables["items"], train=tables["train"], **asked)
    with caplog.at_level("WARNING"):
        found = compare(result, slices={"of": ["item:genre", "item:popularity"], "min_users": 2})
    assert {tuple(row.attributes) for row in found.slice_rows} == {("item:genre",), ("item:popularity",)}
    assert "item:genre and item:popularity are not crossed with each other" in caplog.text
    tested = [entry for entry in found.entries if entry.source == "slices" and entry.outcome == "used"]
    assert tested[0].rows == len(found.slice_rows)


def test_items_with_no_attribute_are_one_slice() -> None:
    tables = tables_of(5)
    items = tables["items"].assign(genre=None)
    result = evaluate(
        tables["lists"], tables["truth"], items=items, metrics="ndcg", k=3, item_segments=["genre"]
    )
    [row] = compare(result, slices={"of": ["item:genre"], "min_users": 2}).slice_rows
    [whole] = compare(result).rows
    assert (row.values, row.p_rest) == (["(missing)"], None)
    assert (row.difference, row.p_value) == (whole.difference, whole.p_value)


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"segments": ["item:director"]}, "UNKNOWN_SEGMENT"),
        ({"slices": {"of": ["item:director"]}}, "UNKNOWN_SEGMENT"),
        ({"segments": ["item:genre"], "metrics": ["catalog_coverage@3"]}, "NOT_PER_USER"),
    ],
)
def test_segments_of_items_that_were_not_evaluated_are_refused(options: dict[str, Any], code: str) -> None:
    with pytest.raises(ConfigError, match=code):
        compare(evaluated(metrics=["ndcg", "catalog_coverage"]), **options)


def test_a_metric_that_is_not_of_hits_has_no_segments_of_items() -> None:
    tables = tables_of(5)
    result = evaluate(
        *(tables["lists"], tables["truth"]),
        items=tables["items"],
        train=tables["train"],
        metrics=["ndcg", "novelty"],
        k=3,
        item_segments=["genre"],
    )
    found = compare(result, segments="item:genre", slices={"of": "item:genre", "min_users": 2})
    assert {row.metric for row in found.rows if row.segment == "item:genre"} == {"ndcg"}
    assert {row.metric for row in found.slice_rows} == {"ndcg"}
    gates = [{"metric": "novelty@3", "max_drop": 1, "segment": "item:genre"}]
    for asked in ({"gates": gates}, {"segments": "item:genre", "metrics": "novelty@3"}):
        options: dict[str, Any] = {"baseline_model": "als", **asked}
        with pytest.raises(ConfigError, match="METRIC_NOT_MEASURED"):
            compare(result, **options)


def test_both_sides_need_the_segment_and_its_items() -> None:
    first, plain = evaluated(), evaluated(item_segments=[])
    options: dict[str, Any] = {"segments": "item:genre"}
    with pytest.raises(ConfigError, match=r"UNKNOWN_SEGMENT.*baseline"):
        compare(first, plain, **options)
    with pytest.raises(ConfigError, match="UNKNOWN_SEGMENT"):
        compare(first.to_pandas("per_user"), **options)
    tables = tables_of(5)
    items = tables["items"].assign(
        genre=tables["items"]["genre"].map({"drama": "horror"}, na_action="ignore")
    )
    other = evaluate(
        *(tables["lists"], tables["truth"]), items=items, metrics="ndcg", k=3, item_segments=["genre"]
    )
    with pytest.raises(DataError, match=r"TRUTH_DIFFERS.*item:genre"):
        compare(first, other, metrics="ndcg@3", **options)


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("case", ["users", "requests"])
def test_both_engines_have_the_same_bits(case: str) -> None:
    first, second = evaluated(case), evaluated(case, seed=5)
    slices = {"of": ["country", "item:genre"], "cross": 2, "min_users": 3}
    gates = [{"metric": "ndcg@3", "max_drop": 0.1, "min_users": 1, "segment": "item:genre"}]
    options: dict[str, Any] = {"segments": "item:genre", "slices": slices, "tests": TESTS, "resamples": 50}
    options |= {"baseline_model": "als", "gates": gates}
    here, there = (compare(first, second, engine=name, **options) for name in ("local", "spark"))
    assert here.rows == there.rows
    assert here.slice_rows == there.slice_rows
    assert here.gate_rows == there.gate_rows
    assert sorted(map(str, here.entries)) == sorted(map(str, there.entries))
    assert len(here.slice_rows) >= 10
