"""Plots of facts, without a browser: which there are, of which metrics, and what a page of one holds."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from spark_eval.errors import ConfigError
from spark_eval.publishing.local import LocalStore
from spark_eval.results.report.data import RunFacts
from spark_eval.results.report.page import CHAPTERS
from spark_eval.results.report.plots import Plot, plot_of
from spark_eval.verbs.report import facts_of


@pytest.fixture(scope="module")
def lists(output: Path) -> RunFacts:
    return facts_of(LocalStore(output), "lists")


def data_of(plot: Plot) -> dict[str, Any]:
    found = re.search(r'id="page-data">(.*?)</script>', plot.page, re.DOTALL)
    assert found
    tree: dict[str, Any] = json.loads(found[1])
    return tree


def test_the_first_chapter_with_charts_is_drawn_alone(lists: RunFacts) -> None:
    plot = plot_of(lists)
    tree = data_of(plot)
    assert (plot.chart, plot.title) == ("models", "Which model is best")
    assert list(tree["chapters"]) == ["models"]
    # No leaderboard: a result shows its own.
    assert [view["kind"] for view in tree["chapters"]["models"]["views"]] == ["intervals"]
    assert list(tree["datasets"]) == ["metrics"]
    assert "<header>" not in plot.page
    assert "<h1>" not in plot.page


def test_metrics_are_chosen_by_name_and_cutoff(lists: RunFacts) -> None:
    assert [view["title"] for view in data_of(plot_of(lists, "cutoffs"))["chapters"]["cutoffs"]["views"]] == [
        *("ndcg", "recall")
    ]
    chosen = data_of(plot_of(lists, "cutoffs", ["ndcg"]))
    assert [view["title"] for view in chosen["chapters"]["cutoffs"]["views"]] == ["ndcg"]
    assert chosen["datasets"]["metrics"]["columns"]["metric"]["names"] == ["ndcg"]
    of_one = data_of(plot_of(lists, "models", ["ndcg@5", "mrr@all"]))
    assert of_one["datasets"]["metrics"]["columns"]["measure"]["names"] == ["ndcg@5", "mrr@all"]
    assert of_one["first"] == "ndcg@5"
    # The reader has no choice of a metric that would tell which it is.
    assert plot_of(lists, "segments", ["ndcg@5"]).title == "Segments: ndcg@5"


def test_a_chart_that_is_not_there_is_refused_with_those_that_are(output: Path, lists: RunFacts) -> None:
    with pytest.raises(ConfigError) as error:
        plot_of(lists, "curve")
    assert error.value.code == "UNKNOWN_CHART"
    known = str(error.value).partition("there are: ")[2].split(", ")
    assert known[:3] == ["models", "differences", "cutoffs"]
    # Gates and configs are no charts; of these metrics there is no curve over cutoffs.
    assert {"gates", "provenance", "curves", "stages"} & set(known) == set()
    assert all(plot_of(lists, name).chart == name for name in known)
    with pytest.raises(ConfigError, match="UNKNOWN_CHART"):
        plot_of(lists, "cutoffs", ["mrr@all"])
    clicks = facts_of(LocalStore(output), "clicks")
    assert plot_of(clicks, "curves").title == "Curves of predictions"
    with pytest.raises(ConfigError, match=r"METRIC_NOT_MEASURED.*in plot; did you mean 'auc'"):
        plot_of(clicks, "curves", ["auk"])
    assert {row["metric"] for row in clicks.of_metrics(["auc"], "plot").measured} == {"auc"}
    with pytest.raises(ConfigError, match=r"METRIC_NOT_MEASURED.*leave the metric out"):
        plot_of(RunFacts("none", {}, {}), "split", ["ndcg"])


def test_the_names_of_chapters_stand_in_the_documentation() -> None:
    text = (Path(__file__).parents[3] / "docs" / "report.md").read_text(encoding="utf-8")
    assert re.findall(r"^\| [^|]+ \| `(\w+)` \| ", text, re.MULTILINE) == list(CHAPTERS)


def test_users_are_counted_only_where_their_spread_is_drawn(lists: RunFacts) -> None:
    asked: list[set[str]] = []

    def count(measures: Any) -> Any:
        asked.append(set(measures))
        return lists.users

    facts = RunFacts("r", lists.records, lists.tables, count)
    plot_of(facts, "models")
    plot_of(facts, "cutoffs")
    assert asked == []
    plot_of(facts, "spread", ["ndcg@10"])
    assert asked == [{"ndcg@10"}]


def test_a_notebook_gets_a_frame_and_a_file_the_page(lists: RunFacts, tmp_path: Path) -> None:
    plot = plot_of(lists, "segments")
    html = plot._repr_html_()
    assert html.startswith('<iframe srcdoc="&lt;!DOCTYPE html&gt;')
    assert html.count("<") == 2
    assert repr(plot) == "Plot of segments: Segments; write(path) makes an HTML file of it"
    plot.write(tmp_path / "one.html")
    assert (tmp_path / "one.html").read_text() == plot.page
    assert 'http-equiv="Content-Security-Policy"' in plot.page
