"""Chapters on a pipeline and beyond accuracy, without a browser: what they say and what they leave out."""

from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import repeated_lists
from request_lists import worked
from tests.calibration.test_calibrate import OFFLINE, ONLINE
from tests.results.report.test_report_page import column, data_of, statements

from spark_eval import Calibration, calibrate, compare, evaluate, report
from spark_eval.publishing.local import LocalStore
from spark_eval.results.report import beyond, experiments, funnel, page
from spark_eval.results.report.data import RunFacts
from spark_eval.results.report.users import segments
from spark_eval.results.shown import UNPUBLISHED
from spark_eval.schema import Table
from spark_eval.verbs.report import facts_of


@pytest.fixture(scope="module")
def facts(output: Path) -> RunFacts:
    return facts_of(LocalStore(output), "stages")


def rows_of(text: str, dataset: str) -> list[dict[str, Any]]:
    names = list(data_of(text)["datasets"][dataset]["columns"])
    columns = [column(text, dataset, name) for name in names]
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def test_users_and_items_of_the_funnel_stand_with_their_shares(pages: dict[str, Path]) -> None:
    text = pages["stages"].read_text()
    steps = [row for row in rows_of(text, "steps") if row["part"] == "all"]
    assert [(row["step"], row["n_users"]) for row in steps] == [
        ("with truth", 646),
        ("with candidates", 646),
        ("with relevant candidate", 550),
        ("with hit in ranking", 401),
        ("with hit in final", 199),
    ]
    assert steps[-1]["share"] == pytest.approx(199 / 646)
    fates = [row for row in rows_of(text, "fates") if row["part"] == "all"]
    assert sum(row["share"] for row in fates) == pytest.approx(1)
    assert fates[0]["fate"] == "kept"
    assert {row["part"] for row in rows_of(text, "fates")} == {"all", "country: DE"}


def test_recalls_name_the_generators_of_a_union(pages: dict[str, Path]) -> None:
    text = pages["stages"].read_text()
    recalls = [row for row in rows_of(text, "recalls") if row["part"] == "all"]
    assert [(row["of"], row["value"]) for row in recalls] == [
        ("candidates, k = 200", 0.491),
        ("candidates: popular, k = 200", 0.336),
        ("candidates: similar, k = 200", 0.438),
        ("ranking, k = 50", 0.253),
        ("final, k = 10", 0.073),
    ]
    assert [row["value"] for row in rows_of(text, "added")][:2] == [0.053, 0.154]


def test_each_metric_has_its_oracle_and_what_stages_make_of_it(pages: dict[str, Path]) -> None:
    text = pages["stages"].read_text()
    reached = [row for row in rows_of(text, "reached") if (row["part"], row["measure"]) == ("all", "ndcg@10")]
    names = ("stage", "its model", "value", "efficiency", "conditional")
    assert [tuple(row[name] for name in names) for row in reached] == [
        ("oracle of candidates", None, 0.581, None, None),
        ("ranking", "taste", 0.07, 0.121, 0.106),
        ("final", "ruled", 0.066, None, 0.1),
    ]
    said = statements(text)
    assert (
        "plain |  | ndcg@10: these candidates in perfect order would have .5810; ranking reaches .0700, "
        "12.1% of it; final reaches .0660."
    ) in said
    loss = "The largest loss is lost candidates (no stage has it): 1,902 (49.8%)."
    assert f"plain |  | Of 3,816 relevant items every stage has 295 (7.7%). {loss}" in said
    assert any(
        one.startswith("warning | Outside | Relevant items of later lists that are no candidates: 1;")
        for one in said
    )


def test_candidates_of_one_model_stand_with_their_oracle_and_folds_with_no_deviation(facts: RunFacts) -> None:
    first = facts.rows(Table.STAGES)[0]
    own = {**first, "model": "popular", "metric": "ndcg", "k": 10, "value": 0.05}
    of_folds = {**own, "segment": "folds", "segment_value": "sd"}
    stages = [*facts.rows(Table.STAGES), own, of_folds]
    rows = funnel.reached_rows([{**row, "part": row["segment_value"]} for row in stages])
    assert {(row["stage"], row["value"]) for row in rows if row["measure"] == "ndcg@10"} == {
        ("oracle of candidates", 0.581),
        ("ranking", 0.07),
        ("final", 0.066),
    }
    added = {**first, "metric": "added_recall", "segment": "folds", "segment_value": "sd"}
    tables = {**facts.tables, Table.STAGES: [*stages, added]}
    chapter = funnel.pipeline(RunFacts("r", {}, tables))
    assert chapter is not None
    parts = {part for view in chapter.views for part in view.dataset.columns["part"]}
    assert parts == {"all", "country: DE"}


def test_a_front_holds_whom_nobody_beats_in_both(pages: dict[str, Path]) -> None:
    rows = rows_of(pages["stages"].read_text(), "trade_offs")
    fronts: dict[str, list[str]] = {}
    for row in rows:
        fronts.setdefault(row["beyond accuracy"], []).extend([row["model"]] if row["front"] else [])
    # popular is beaten by all; of gini_catalog neither direction is better; less of calibration_kl is.
    assert {name: sorted(models) for name, models in fronts.items() if name.endswith("@10")} == {
        "catalog_coverage@10": ["ruled", "similar", "taste"],
        "personalization@10": ["ruled", "similar", "taste"],
        "gini_catalog@10": [],
        "novelty@10": ["ruled", "similar", "taste"],
        "calibration_kl@10": ["taste"],
    }
    said = [one for one in statements(pages["stages"].read_text()) if "@10: on the front " in one]
    assert said[0] == "plain |  | ndcg@10 against novelty@10: on the front taste, ruled, similar."
    assert len(said) == 4
    assert {(row["accuracy"], row["beyond accuracy"]) for row in rows} >= {("ndcg@5", "novelty@5")}


def test_an_accuracy_over_other_users_than_the_metric_has_no_front(pages: dict[str, Path]) -> None:
    """The model with lists for 19 of 81 users has its novelty of these 19."""
    text = pages["others"].read_text()
    assert set(column(text, "trade_offs", "front")) == {""}
    said = [one for one in statements(text) if "has no front" in one]
    users = "a 81 of 81, b 81 of 81, few 19 of 81"
    assert said == [
        f"plain |  | novelty@100 has no front: it is a mean of other users than ndcg@100 ({users})."
    ]


def test_one_model_alone_or_no_accuracy_has_no_front(facts: RunFacts) -> None:
    metrics = facts.rows(Table.METRICS)
    alone = [row for row in metrics if row["model"] == "taste"]
    without = [row for row in metrics if row["metric"] not in ("ndcg", "recall")]
    for rows in (alone, without):
        assert beyond.trade_offs(RunFacts("r", {}, {Table.METRICS: rows})) is None
    assert beyond.accuracy_of([row for row in facts.measured if row["metric"] != "ndcg"]) == "recall"


def test_groups_of_items_are_no_segment_of_users(facts: RunFacts, pages: dict[str, Path]) -> None:
    chapter = segments(facts)
    assert chapter is not None
    assert [view.title for view in chapter.views] == ["By country"]
    assert not any("group" in said.text for said in chapter.statements)
    text = pages["stages"].read_text()
    assert "group" not in column(text, "metrics", "segment")
    assert set(column(text, "exposure", "measure")) == {
        "exposure(weights=log2)@5",
        "exposure(weights=log2)@10",
    }
    of_comedy = [
        (row["model"], row["of"], row["share"])
        for row in rows_of(text, "exposure")
        if row["group"] == "Comedy" and row["measure"].endswith("@10")
    ]
    assert sorted(of_comedy, key=str) == [
        ("popular", "ranks of lists", 0.4),
        ("ruled", "ranks of lists", 0.7),
        ("similar", "ranks of lists", 0.5),
        ("taste", "ranks of lists", 0.6),
        (None, "catalogue", 0.5),
    ]


def test_values_of_a_run_are_said_to_have_no_interval(pages: dict[str, Path]) -> None:
    text = pages["stages"].read_text()
    certain = dict(zip(column(text, "best", "metric"), column(text, "best", "certain"), strict=True))
    assert certain["catalog_coverage@10"] == "unknown: it has no interval"
    assert "gini_catalog@10" not in certain


def test_results_that_are_not_published_say_so(facts: RunFacts) -> None:
    text = page.report_page(RunFacts(UNPUBLISHED, {}, facts.tables))
    assert "<h1>Run not published</h1>" in text
    assert "Where the pipeline loses" in text


@pytest.mark.parametrize(
    ("weight", "said"),
    [("requests", "Each request counts once in a mean"), ("users", "Each user counts once in a mean")],
)
def test_lists_by_request_are_counted_and_their_errors_explained(weight: str, said: str) -> None:
    lists, truth = worked()
    result = evaluate(lists, truth, metrics="precision", k=10, weight=weight, engine="local")
    tables = {
        name: of.to_arrow(name).to_pylist()
        for of, names in ((result, ("metrics", "accounting")), (compare(result), ("comparisons",)))
        for name in names
    }
    text = page.report_page(RunFacts("r", {}, tables))
    of_texts = statements(text)
    assert any(said in one for one in of_texts)
    assert any("A relevant item belongs to one request." in one for one in of_texts)
    assert any("clustered by user" in one for one in of_texts)
    columns = ("model", "n_requests", "n_users", "per user", "without a list")
    assert {tuple(row[name] for name in columns) for row in rows_of(text, "requests")} == {
        ("a", 10, 4, 2.5, 0),
        ("b", 10, 4, 2.5, 0),
    }
    assert "Requests won, tied and lost" in text


def test_a_pipeline_by_request_counts_requests_at_each_step(facts: RunFacts) -> None:
    funnel_rows = [{**row, "n_requests": 2 * row["n_users"]} for row in facts.rows(Table.FUNNEL)]
    chapter = funnel.pipeline(RunFacts("r", {}, {**facts.tables, Table.FUNNEL: funnel_rows}))
    assert chapter is not None
    steps = next(view for view in chapter.views if view.title == "Requests at each step")
    assert steps.dataset.columns["n_requests"][:3] == [1292, 1292, 1100]
    assert steps.dataset.columns["n_users"][:3] == [646, 646, 550]
    assert steps.dataset.columns["share"][2] == pytest.approx(550 / 646)


def test_a_run_of_users_has_no_chapter_on_requests(pages: dict[str, Path]) -> None:
    assert "Lists by request" not in pages["stages"].read_text()


def test_repeats_are_drawn_with_the_parts_of_the_variance() -> None:
    lists, truth = repeated_lists.worked()
    lists = lists.query("model == 'A' or repeat == '1'")
    result = evaluate(lists, truth, metrics="precision", k=10, by_repeat=True, engine="local")
    facts = RunFacts("r", {}, {"metrics": result.to_arrow("metrics").to_pylist()})
    text = page.report_page(facts)
    [row] = rows_of(text, "repeats")
    [of_a] = [row for row in facts.everybody if row["model"] == "A"]
    assert (row["model"], row["dots"]) == ("A", [0.35, 0.4, 0.45])
    assert row["ci_low"] == pytest.approx(of_a["ci_low"])
    assert row["users"] + row["repeats"] == pytest.approx(1)
    shares = f"A: other repeats make {row['repeats']:.0%}, other users {row['users']:.0%}"
    assert any(shares in one for one in statements(text))
    assert "By repeat" not in text
    assert "Segments that lose" not in text
    without = [row for row in facts.rows("metrics") if row["segment"] == "all"]
    text = page.report_page(RunFacts("r", {}, {"metrics": without}))
    assert rows_of(text, "repeats")[0]["dots"] == []
    assert any("evaluate.by_repeat: true" in one for one in statements(text))
    alone = [row for row in without if row["model"] == "B"]
    assert "How much is chance" not in page.report_page(RunFacts("r", {}, {"metrics": alone}))


def past_experiments() -> Calibration:
    recall = OFFLINE.assign(metric="recall@10", difference=OFFLINE["difference"] / 2)
    return calibrate(pd.concat([OFFLINE, recall, OFFLINE[:7].assign(metric="map@10")]), ONLINE)


def test_past_experiments_stand_with_both_errors_their_line_and_its_band() -> None:
    found = past_experiments()
    chapter = experiments.calibration(found.facts_of_run())
    assert chapter is not None
    said = " ".join(one.text for one in chapter.statements)
    assert "of 8 decided experiments 7 had the sign of ndcg@10" in said
    assert "map@10 and ctr: 7 experiments are too few" in said
    assert chapter.picks == ("metric", "goal")
    rows = pd.DataFrame(dict(chapter.views[0].dataset.columns)).set_index("metric")
    crosses = rows[rows["point"] == "experiment"]
    assert crosses.groupby("metric").size().to_dict() == {"map@10": 7, "ndcg@10": 16, "recall@10": 16}
    first = crosses.loc["ndcg@10"].iloc[0]
    ends = [first[name] for name in ("offline_low", "offline_high", "online_low", "online_high")]
    assert ends == pytest.approx(
        [1.2 - 1.96 * 0.2, 1.2 + 1.96 * 0.2, 0.9 - 1.96 * 0.3, 0.9 + 1.96 * 0.3], abs=1e-4
    )
    line = rows[rows["point"] == "line"].loc["ndcg@10"]
    assert line["offline"].tolist() == [-0.9, 2.0]
    assert line["online"].tolist() == pytest.approx(
        [found.predict(at, 0.0, "ndcg@10").expected for at in (-0.9, 2.0)]
    )
    half = 1.96 * found.predict(0.0, 0.0, "ndcg@10").deviation
    assert (line["online_high"] - line["online"]).tolist() == pytest.approx([half, half], abs=1e-4)
    assert "map@10" not in rows[rows["point"] == "line"].index


def test_a_calibration_is_drawn_written_and_shown(tmp_path: Path) -> None:
    found = past_experiments()
    assert "predict" in dir(found)
    assert all(hasattr(found, name) for name in dir(found))
    found.write(tmp_path)
    assert pd.read_parquet(tmp_path / "calibration")["metric"].tolist() == ["map@10", "ndcg@10", "recall@10"]
    found.plot().write(tmp_path / "plot.html")
    assert "Offline against online effects" in (tmp_path / "plot.html").read_text()
    report(found, tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    assert "Offline metrics and online wins" in page
