"""What a report says, without a browser: from published tables alone, and nothing that is not whole."""

import json
import re
import shutil
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.results.report import made_runs
from tests.results.report.conftest import MODELS

from spark_eval.arrow.user_files import open_dataset
from spark_eval.cli.commands import main
from spark_eval.publishing.local import LocalStore
from spark_eval.results.report import page, spread
from spark_eval.results.report.data import RunFacts
from spark_eval.schema import Table
from spark_eval.verbs.report import facts_of, write_report


class Tags(HTMLParser):
    """The tags of a page with their attributes, and its text by tag."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[tuple[str, str]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.texts.append((self.tags[-1][0] if self.tags else "", data))


def data_of(text: str) -> dict[str, Any]:
    found = re.search(r'id="page-data">(.*?)</script>', text, re.DOTALL)
    assert found
    tree: dict[str, Any] = json.loads(found[1])
    return tree


def column(text: str, dataset: str, name: str) -> list[Any]:
    values = data_of(text)["datasets"][dataset]["columns"][name]
    if not isinstance(values, dict):
        return list(values)
    places = np.repeat(values["places"], values.get("runs", 1)).tolist()
    return [values["names"][place] for place in places]


def statements(text: str) -> list[str]:
    found = re.findall(r'<p class="statement (\w+)">(?:<b>(.*?)</b> )?(.*?)</p>', text, re.DOTALL)
    return [" | ".join(parts) for parts in found if parts[1] != "No script"]


def test_gates_come_first_with_words_and_those_that_failed_before_others(pages: dict[str, Path]) -> None:
    text = pages["lists"].read_text()
    assert re.findall(r"<h2 id=.*?>(.*?)</h2>", text)[:4] == [
        "Verdict",
        "Gates",
        "Which model is best",
        "Differences from the baseline",
    ]
    said = statements(text)
    assert said[0].startswith(
        "bad | FAILED | ndcg@10 of popularity against als: more than .01 worse: certain (95 %)"
    )


def test_the_best_model_is_said_with_the_terminals_marks(pages: dict[str, Path]) -> None:
    text = pages["lists"].read_text()
    names = ("metric", "best", "value", "ci_low", "ci_high", "certain")
    columns = [column(text, "best", name) for name in names]
    best = {row[0]: row[1:] for row in zip(*columns, strict=True)}
    assert best["recall@10"][0] == "als"
    assert best["recall@10"][1] == 0.53
    assert best["recall@10"][-1] == f"no: {made_runs.HOSTILE}, popularity may be as good"
    rows = [
        (model, mark)
        for model, measure, segment, mark in zip(
            *(column(text, "metrics", name) for name in ("model", "measure", "segment", "mark")), strict=True
        )
        if (measure, segment) == ("ndcg@10", "all")
    ]
    assert sorted(rows) == [(made_runs.HOSTILE, "~"), ("als", "*"), ("popularity", "~")]


def test_lower_is_better_where_the_metric_of_predictions_says_so(output: Path) -> None:
    facts = facts_of(LocalStore(output), "clicks")
    better = {row["metric"]: row["better"] for row in facts.measured}
    assert better == {"auc": "higher", "log_loss": "lower", "confusion(label=0,predicted=1)": "none"}


def test_every_text_is_escaped_and_no_name_becomes_markup(pages: dict[str, Path]) -> None:
    for path in pages.values():
        text = path.read_text()
        tags = Tags(text)
        assert [tag for tag, _ in tags.tags if tag in ("img", "iframe", "object", "base")] == []
        # The only drawings are intervals of changes, whose attributes are numbers.
        drawn = [attributes for tag, attributes in tags.tags if tag == "svg"]
        interval = {"class": "interval", "viewbox": "0 0 200 16", "aria-hidden": "true"}
        assert all(one == interval for one in drawn)
        names = {name for _, attributes in tags.tags for name in attributes}
        assert {name for name in names if name.startswith("on") or name == "style"} == set()
        assert [tag for tag, _ in tags.tags].count("script") == 3
        data = text.partition('id="page-data">')[2].partition("</script>")[0]
        assert not set("<>&\u2028\u2029") & set(data)
    text = pages["lists"].read_text()
    assert made_runs.HOSTILE in column(text, "metrics", "model")
    assert made_runs.HOSTILE_VALUE in column(text, "metrics", "segment_value")


def test_the_policy_allows_these_very_scripts_and_nothing_else(pages: dict[str, Path]) -> None:
    text = pages["lists"].read_text()
    policy = next(one["content"] for tag, one in Tags(text).tags if one.get("http-equiv"))
    assert policy is not None
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe" not in policy
    scripts = re.findall(r"<script>(.*?)</script>", text, re.DOTALL)
    assert all(page.hash_of(script) in policy for script in scripts)
    assert len(scripts) == policy.count("sha256-") - 1
    assert page.hash_of(re.findall(r"<style>(.*?)</style>", text, re.DOTALL)[0]) in policy
    assert not re.search(r"""(src|href)=["']?(https?:)?//""", text.replace(scripts[0], ""))


def test_secrets_of_a_config_are_not_shown(pages: dict[str, Path]) -> None:
    text = pages["lists"].read_text()
    assert "s3://key:***@bucket/" in text
    assert "s3://key:secret" not in text
    assert '"password": "x"' not in text.replace("&#34;", '"')


def test_the_same_run_gives_the_same_bytes(output: Path, tmp_path: Path) -> None:
    store = LocalStore(output)
    one, other = (
        Path(write_report(store, "clicks", file=str(tmp_path / name))) for name in ("a.html", "b.html")
    )
    assert one.read_bytes() == other.read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.html", "b.html"]


def test_leaks_rows_and_another_run_are_told(pages: dict[str, Path]) -> None:
    said = statements(pages["lists"].read_text())
    assert "bad | LEAK | 3 leaked rows in 3 checks." in said
    assert "plain |  | Train on train of each fold for test." in said
    cold = [text for text in said if text.startswith("warning | Cold start | ")]
    assert [text.partition(":")[0].rpartition("| ")[2] for text in cold] == [
        "23 of 40 users of test (57%) have no row in train"
    ]
    assert "warning | Unusable | 1,200 rows are quarantined; the table quarantine holds them." in said
    text = pages["lists"].read_text()
    assert set(column(text, "other_run", "model")) == {"als", "popularity"}
    assert column(text, "other_run", "difference") == pytest.approx([0.05] * 10)
    # Welch: both errors are 0.3 / 20, and t at 798 degrees of freedom is 1.963.
    assert column(text, "other_run", "ci_low")[0] == pytest.approx(0.05 - 1.963 * 0.3 / 20 * 2**0.5, abs=1e-5)


def test_chapters_are_there_only_where_there_is_data(output: Path) -> None:
    facts = facts_of(LocalStore(output), "before")
    found = [name for name, make in page.CHAPTERS.items() if make(facts) is not None]
    assert found == [
        "verdict",
        "models",
        "cutoffs",
        "segments",
        "spread",
        "folds",
        "accounting",
        "provenance",
    ]
    assert [make(RunFacts("none", {}, {})) for make in page.CHAPTERS.values()] == [None] * len(page.CHAPTERS)
    assert "Run none" in page.report_page(RunFacts("none", {}, {}))


def test_users_are_counted_batch_by_batch_as_all_at_once(output: Path) -> None:
    place = output / "per_user" / "run_id=lists"
    counts, n_rows = spread.spread_of(open_dataset(str(place)))
    assert n_rows == 1200
    assert {one.model for one in counts} == set(MODELS)
    users = pq.read_table(place / "model=als")["ndcg_at_10"].to_numpy()
    expected, edges = np.histogram(users[users > 0], bins=spread.N_BINS, range=(0, 1))
    of_als = [one for one in counts if (one.model, one.measure) == ("als", "ndcg@10")]
    assert of_als[0] == ("als", "ndcg@10", 0.0, 0.0, int((users == 0).sum()))
    assert [one.users for one in of_als[1:]] == expected.tolist()
    assert [one.low for one in of_als[1:]] == pytest.approx(edges[:-1].tolist())


def test_counts_leave_out_what_is_undefined_and_keep_the_upper_bound(tmp_path: Path) -> None:
    (tmp_path / "model=m").mkdir()
    values = pa.table({"ndcg_at_5": [0.0, 1.0, 1.0, None, float("nan")], "dcg_at_5": [9.0] * 5})
    pq.write_table(values, tmp_path / "model=m" / "part.parquet")
    counts, n_rows = spread.spread_of(open_dataset(str(tmp_path)))
    assert n_rows == 5
    # Metrics without an upper bound have no bins.
    assert {one.measure for one in counts} == {"ndcg@5"}
    assert (counts[0].users, counts[-1].users, sum(one.users for one in counts)) == (1, 2, 3)


def call(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as left:
        main(["report", *arguments])
    said = capsys.readouterr()
    assert isinstance(left.value.code, int)
    return left.value.code, said.out, said.err


def test_the_command_needs_a_path_and_a_run_alone(
    output: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = call(capsys, "--path", str(output), "--run-id", "clicks")
    assert (code, err) == (0, "")
    assert out == f"{output}/report/clicks.html\n"
    code, out, err = call(
        capsys, "--path", str(output), "--run-id", "clicks", "--to", str(tmp_path / "x" / "p.html")
    )
    assert (code, out, err) == (0, f"{tmp_path}/x/p.html\n", "")


def lost_table(root: Path) -> None:
    shutil.rmtree(root / "metrics" / "run_id=lists")


def lost_rows(root: Path) -> None:
    (root / "metrics" / "run_id=lists" / "model=als" / "part-0.parquet").unlink()


def lost_users(root: Path) -> None:
    (root / "per_user" / "run_id=lists" / "model=als" / "part-0.parquet").unlink()


def lost_record(root: Path) -> None:
    (root / "_commits" / "lists.json").unlink()


@pytest.mark.parametrize("lose", [lost_table, lost_rows, lost_users, lost_record])
def test_a_run_that_is_not_whole_has_no_report(
    lose: Callable[[Path], None], output: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = tmp_path / "out"
    shutil.copytree(output, root, ignore=shutil.ignore_patterns("report"))
    lose(root)
    code, out, err = call(capsys, "--path", str(root), "--run-id", "lists")
    assert (code, out) == (3, "")
    assert err.startswith("error[INCOMPLETE_RUN] run 'lists' is incomplete: ")
    assert not (root / "report").exists()


def test_what_cannot_be_reported_is_named(
    output: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cases = (
        (("--path", str(output), "--run-id", "list"), 3, "UNKNOWN_RUN", "did you mean 'lists'?"),
        (("--path", str(output), "--run-id", "lists", "--baseline", "befor"), 3, "UNKNOWN_RUN", "'before'"),
        (("--path", str(tmp_path), "--run-id", "lists"), 3, "UNKNOWN_RUN", "none is"),
        (("--path", str(tmp_path / "no"), "--run-id", "lists"), 3, "MISSING_INPUT", "no such folder"),
        (("--path", "s3://bucket/out", "--run-id", "lists"), 2, "UNSUPPORTED_OUTPUT", "give --config"),
        (("--path", str(output), "--run-id", "../lists"), 2, "INVALID_RUN_ID", "allowed"),
        (("--run-id", "lists"), 2, "USAGE", "either --path"),
        (("--path", str(output)), 2, "USAGE", "--run-id"),
    )
    for arguments, code, name, part in cases:
        found = call(capsys, *arguments)
        assert (found[0], found[1]) == (code, "")
        assert found[2].startswith(f"error[{name}] ")
        assert part in found[2]
    assert list(tmp_path.iterdir()) == []


def test_a_link_does_not_lead_the_page_out_of_the_output(
    output: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = tmp_path / "out"
    shutil.copytree(output, root, ignore=shutil.ignore_patterns("report"))
    (tmp_path / "elsewhere").mkdir()
    (root / "report").symlink_to(tmp_path / "elsewhere")
    code, _, err = call(capsys, "--path", str(root), "--run-id", "clicks")
    assert code == 2
    assert err.startswith("error[OUTSIDE_OUTPUT] ")
    assert list((tmp_path / "elsewhere").iterdir()) == []


@pytest.mark.slow
def test_fifty_models_stay_below_five_megabytes(tmp_path: Path) -> None:
    names = [f"model_{n:02d}_with_a_name" for n in range(50)]
    metrics = ("precision", "recall", "f1", "hit_rate", "map", "mar", "mrr", "arhr", "ndcg", "dcg")
    measures = [(metric, k) for metric in metrics for k in (5, 10, 20)]
    made_runs.lists(tmp_path, "big", names, measures, {"country": [f"country {n}" for n in range(20)]}, 2_000)
    path = Path(write_report(LocalStore(tmp_path), "big"))
    assert path.stat().st_size < 5_000_000
    assert len(column(path.read_text(), "metrics", "model")) == 50 * 30 * 26


def test_tables_that_are_small_are_those_that_a_page_reads(output: Path) -> None:
    assert set(facts_of(LocalStore(output), "lists").tables) == {
        Table.METRICS,
        Table.ACCOUNTING,
        Table.LEAKAGE,
        Table.SUBSETS,
        Table.COMPARISONS,
        Table.GATES,
    }
