"""The launch review: the sample of the docs is what the code says; what speaks against a model is named."""

import html
import json
import re
from pathlib import Path
from typing import Any, Final

import pandas as pd
import pytest

from spark_eval import compare
from spark_eval.comparison.compare import Comparison
from spark_eval.comparison.rows import compared_direction
from spark_eval.results.review import Part, commands_of, review_of
from spark_eval.runs.verdict import Verdict, gate_line, is_verdict
from spark_eval.schema import Table

DOCS: Final = Path(__file__).parents[2] / "docs" / "comparison.md"
CHANGES: Final = {
    ("SE", "tv"): [-0.4, -0.3, -0.5, -0.2],
    ("SE", "web"): [0.1, 0.0, 0.2, -0.1],
    ("NO", "tv"): [0.1, 0.0, -0.1, 0.1],
    ("NO", "web"): [0.2, 0.0, 0.1, 0.1],
}


def compared(**options: Any) -> Comparison:
    """The worked example of slices, without two users of the new model."""
    rows = [(country, device, d) for (country, device), many in CHANGES.items() for d in many * 4]
    users = pd.DataFrame(rows, columns=["country", "device", "d"]).rename_axis("user").reset_index()
    old = users.assign(ndcg_at_10=0.5, recall_at_10=0.4).drop(columns="d")
    recall = 0.4 + users["user"] % 5 / 50
    new = old.assign(ndcg_at_10=0.5 + users["d"], recall_at_10=recall.where(users["user"] > 0)).iloc[:-2]
    return compare(new, old, model="new", baseline_model="old", **options)


def verdict_of(found: Comparison) -> Verdict:
    """The verdict on a comparison, as of a run."""
    small: Any = found.small_tables
    tables = {str(name): [row._asdict() for row in rows] for name, (rows, _) in small.items()}
    gates = tables[Table.GATES]
    job: Any = {"config": {}, "runs": {"today": None, "yesterday": None}}
    review = review_of(tables, compared_direction, commands_of("today", {"compare": job}))
    return Verdict("today", "compare", gates, [gate_line(row) for row in gates], review=review)


@pytest.fixture(scope="module")
def sample() -> Verdict:
    gate: dict[str, Any] = {"metric": "ndcg@10", "min_users": 10, "min_common": 0.9}
    gates = [gate | {"max_drop": 0.01}, gate | {"max_drop": 0.05, "every_slice": True}]
    slices = {"of": ["country", "device"], "min_users": 15}
    return verdict_of(compared(segments=["country"], slices=slices, gates=gates))


def test_the_sample_of_the_docs_is_the_code(sample: Verdict) -> None:
    assert f"```text\n{sample.as_markdown()}```" in DOCS.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["verdict.md", "verdict.json"])
def test_a_verdict_with_a_review_is_replaced_as_one(sample: Verdict, name: str, tmp_path: Path) -> None:
    file = tmp_path / name
    file.write_text(sample.as_json() if name.endswith("json") else sample.as_markdown())
    assert is_verdict(file)
    file.write_text(file.read_text() + "and more\n")
    assert not is_verdict(file)


def test_both_forms_have_the_same_content(sample: Verdict) -> None:
    review = json.loads(sample.as_json())["review"]
    assert [*review] == [*map(str, Part)]
    page = html.unescape(re.sub(r"\\(.)", r"\1", sample.as_markdown()))
    for part, lines in review.items():
        assert f"**{part}**\n\n" + "".join(f"- {line}\n" for line in lines) in page


def test_segments_that_lose_are_named_without_slices() -> None:
    review = verdict_of(compared(segments=["country"], gates=[])).review
    [lost] = review[Part.WORSE]
    assert lost.startswith("country=SE: ndcg@10 -.15")
    assert verdict_of(compared()).review[Part.WORSE] == ["not asked: compare.slices tests users and items"]
    nothing = verdict_of(compared(metrics=["recall@10"], segments=["country"])).review
    assert nothing[Part.WORSE] == ["nowhere for certain, of 2 segment values"]


def test_values_of_some_users_and_cold_shares_are_not_known() -> None:
    found = compared()
    rows = [row._asdict() for row in found.rows]
    cold = rows[0] | {"segment": "item:popularity", "segment_value": "cold", "n_users": 31}
    tables = {"comparisons": [*rows, cold]}
    lines = review_of(tables, compared_direction, [])[Part.UNKNOWN]
    assert lines == [
        "recall@10 is of 61 of 62 users: others have no value",
        "item:popularity=cold: 31 of 62 users (50.0 %)",
    ]


def test_the_candidate_that_passed_is_reviewed() -> None:
    rows = [row._asdict() for row in compared(metrics=["ndcg@10"]).rows]
    other = [
        row | {"candidate": "better", "difference": 0.1, "ci_low": 0.05, "ci_high": 0.15} for row in rows
    ]
    gates = [
        {"model": name, "passed": name == "better", "decision": "worse", "metric": "ndcg", "k": 10}
        for name in ("new", "better")
    ]
    tables = {"comparisons": rows + other, "gates": gates}
    [line] = review_of(tables, compared_direction, [])[Part.CHANGES]
    assert "+20.0 % (+10.0 to +30.0 %)" in line
    assert "(better against old" in line


def test_a_run_without_a_comparison_has_no_review() -> None:
    assert review_of({}, compared_direction, ["spark-eval evaluate"]) == {}
