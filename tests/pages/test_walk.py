"""Every page is done literally, in order, in a clone of its own: `make test-pages`."""

import logging
import re
from collections.abc import Iterator
from pathlib import Path
from shutil import which

import pandas as pd
import pytest
from tests.pages.blocks import OUTPUT, PYTHON, REPOSITORY, SHELL, WALKED, blocks, read
from tests.pages.walk import Walk, clone, walking

AIRFLOW = REPOSITORY / ".venv-airflow"
DATA = REPOSITORY.parent / "shared" / "data" / "ml-latest-small"
RATINGS = "ratings.csv"
MOVIELENS = ["map", "mar", "mrr", "ndcg", "recall"]
PAGES_WITH = {
    language: [
        page for page in WALKED if any(block.language == language and block.is_run for block in blocks(page))
    ]
    for language in (SHELL, PYTHON)
}
# Walked by `make test-slow` too; the others only by `make test-pages`.
# Of the others the slow ring has no time.
UNMARKED = list[pytest.MarkDecorator]()
MARKS = {"README.md": [pytest.mark.brief], "docs/demo.md": UNMARKED, "docs/retrieval.md": UNMARKED}
IN_A_CLONE = [page for page in PAGES_WITH[SHELL] if page != "docs/airflow.md"]
# A minute of Spark, where README takes seconds.
IN_PROCESS = [
    pytest.param(page, marks=[] if page == "README.md" else [pytest.mark.slow])
    for page in PAGES_WITH[PYTHON]
    if page == "README.md" or page not in IN_A_CLONE
]
has_tools = pytest.mark.skipif(which("bash") is None or which("git") is None, reason="no bash, or no git")


@pytest.fixture
def quiet(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    """No word of ours, after a verb that gave the logger a handler; the engine is that of users."""
    caplog.set_level(logging.WARNING, "spark_eval")
    monkeypatch.delenv("SPARK_EVAL_ENGINE")


def take_all(walk: Walk, page: str) -> list[str]:
    """Do a page to its end; what was left out of it, with the reasons."""
    left_out = []
    for block in blocks(page):
        if block.skipped:
            left_out.append(f"{block.place}: {block.skipped}")
        if block.needs and not place(walk, block.needs):
            left_out.append(f"{block.place}: {block.needs} is not beside the repository")
            continue
        try:
            walk.take(block)
        except AssertionError as error:
            pytest.fail(f"{block.place}\n\n{block.text}\n{error}", pytrace=False)
    return left_out


def place(walk: Walk, name: str) -> bool:
    """Put a file of data that is not ours where a page takes it from; whether it is there."""
    if (DATA / name).exists() and not (walk.folder / name).exists():
        (walk.folder / name).symlink_to(DATA / name)
    return (DATA / name).exists()


@pytest.fixture
def walk(tmp_path: Path) -> Iterator[Walk]:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    with walking(clone(tmp_path / "spark-eval"), scratch) as found:
        yield found


@has_tools
@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize(
    "page", [pytest.param(page, marks=MARKS.get(page, [pytest.mark.exhaustive])) for page in IN_A_CLONE]
)
def test_a_page_does_what_it_says(walk: Walk, page: str, request: pytest.FixtureRequest) -> None:
    if any(block.language == PYTHON and "get_session" in block.text for block in blocks(page)):
        request.getfixturevalue("spark")
    print(*take_all(walk, page), sep="\n")
    if page == "docs/demo.md" and (walk.folder / "movielens").exists():
        assert leaderboard(walk.folder / "movielens") in read(page)
    if page == "docs/operations.md":
        told = ledger_of_the_page()
        assert len(told) == 7
        assert told in ledgers(walk.folder / "spark-eval-demo")


@pytest.mark.usefixtures("spark", "quiet")
@pytest.mark.parametrize("page", IN_PROCESS)
def test_the_python_of_a_page_prints_what_it_says(page: str, tmp_path: Path) -> None:
    walk = Walk(tmp_path)
    print(*take_all(walk, page), sep="\n")
    if page == "README.md":
        assert side_by_side(walk.names["recommendations"], walk.names["truth"]) in read(page)


@has_tools
@pytest.mark.airflow
@pytest.mark.timeout(3600)
def test_the_page_of_airflow_does_what_it_says(walk: Walk) -> None:
    assert AIRFLOW.exists(), "no .venv-airflow; `make test-pages` makes it and runs this"
    assert walk.shell is not None
    (walk.shell.scratch / "airflow").symlink_to(AIRFLOW)
    print(*take_all(walk, "docs/airflow.md"), sep="\n")
    published = walk.folder / "out" / "metrics" / "run_id=2024-06-01"
    assert published.is_dir()


@has_tools
@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.usefixtures("quiet")
@pytest.mark.skipif(
    not (DATA / RATINGS).exists(), reason="MovieLens ml-latest-small is not beside the repository"
)
def test_models_of_movielens_compare_as_the_page_says(walk: Walk) -> None:
    for block in blocks("docs/comparison.md"):
        if block.needs or block.file == "movielens.yaml":
            assert not block.needs or place(walk, block.needs)
            walk.take(block)
    users = pd.read_parquet(walk.folder / "movielens" / "per_user" / "run_id=demo")
    values = users.pivot(index="user", columns="model", values="ap_at_10")
    difference = values["recent_popularity"] - values["popularity"]
    told = pd.read_parquet(walk.folder / "movielens" / "comparisons" / "run_id=demo")
    [row] = told[(told["metric"] == "map") & (told["candidate"] == "recent_popularity")].to_dict("records")
    assert row["n_users"] == len(difference) == 82
    assert row["difference"] == pytest.approx(difference.mean())
    assert row["std_error"] == pytest.approx(difference.sem())


@pytest.mark.slow
@pytest.mark.usefixtures("spark", "quiet")
@pytest.mark.skipif(
    not (DATA / RATINGS).exists(), reason="MovieLens ml-latest-small is not beside the repository"
)
def test_stages_of_movielens_lose_what_the_page_says(tmp_path: Path) -> None:
    walk = Walk(tmp_path)
    for block in blocks("docs/stages.md"):
        assert not block.needs or place(walk, block.needs)
        if block.language in (PYTHON, OUTPUT):
            walk.take(block)
    models = walk.names["models"]
    handed_on = {
        name: set(zip(table["user"], table["item"], strict=True))
        for name, table in {**models, "ruled": models["ruled"].query("rank <= 10")}.items()
    }
    truth = set(zip(walk.names["truth"]["user"], walk.names["truth"]["item"], strict=True))
    candidates = truth & (handed_on["popular"] | handed_on["similar"])
    told = {row.step: (row.n_users, row.n_pairs) for row in walk.names["result"].stage_sums.funnel_rows()}
    for step, pairs in {
        "with_relevant_candidate": candidates,
        "with_hit_in_ranking": truth & handed_on["taste"],
        "lost_candidates": truth - candidates,
        "lost_ranking": candidates - handed_on["taste"] - handed_on["ruled"],
        "kept": candidates & handed_on["taste"] & handed_on["ruled"],
    }.items():
        assert told[step] == (len({user for user, _ in pairs}), len(pairs))


def side_by_side(recommendations: pd.DataFrame, truth: pd.DataFrame) -> str:
    """The first three rows of both tables as rows of one in README."""
    tables = (table.head(3).itertuples(index=False) for table in (recommendations, truth))
    rows = zip(*tables, strict=True)
    return "\n".join(
        f"| {' | '.join(map(str, one))} |   | {' | '.join(map(str, other))} |" for one, other in rows
    )


def leaderboard(output: Path) -> str:
    """The published numbers as a table of the page on the demo."""
    rows = pd.read_parquet(output / "metrics")
    rows = rows[(rows["segment"] == "all") & rows["metric"].isin(MOVIELENS)]
    values = rows.pivot(index=["k", "model"], columns="metric", values="value").reset_index()
    users = int(rows["n_users"].max())
    lines = [
        f"| {row['model']} | {row['k']} | {' | '.join(f'{row[name]:.4f}' for name in MOVIELENS)} | {users} |"
        for row in values.to_dict("records")
    ]
    header = f"| model | k | {' | '.join(MOVIELENS)} | users |"
    return "\n".join([header, "|---" * (len(MOVIELENS) + 3) + "|", *lines])


def ledger_of_the_page() -> list[tuple[str, str, str, int, int]]:
    """The example of the page on operations: lines of the accounting of one model of the demo."""
    row = re.compile(r"^\| (\w+) \| (\w+) \| (\w*) ?\| (\d+) \| (\d+) \|", re.MULTILINE)
    return sorted((a, b, c, int(d), int(e)) for a, b, c, d, e in row.findall(read("docs/operations.md")))


def ledgers(output: Path) -> list[list[tuple[str, str, str, int, int]]]:
    """The same of each model, as the demo has published them."""
    rows = pd.read_parquet(output / "accounting" / "run_id=demo" / "evaluate.parquet").fillna({"reason": ""})
    rows = rows[~rows["outcome"].isin(["largest"])]
    columns = ["source", "outcome", "reason", "rows", "users"]
    return [
        sorted((a, b, c, int(d), int(e)) for a, b, c, d, e in of_model[columns].itertuples(index=False))
        for _, of_model in rows.groupby("model")
    ]
