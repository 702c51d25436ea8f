"""The rank-biased overlap of a list and a reranked one is LensKit's."""

import json
import random
import subprocess
from pathlib import Path

import pandas as pd
import pytest

from spark_eval import evaluate

PYTHON = Path(__file__).parents[2] / ".venv-parity" / "bin" / "python"
SCRIPT = Path(__file__).parent / "libraries" / "ask_lenskit_reranking.py"
pytestmark = [pytest.mark.parity, pytest.mark.timeout(900), pytest.mark.usefixtures("engine_of_users")]
TOLERANCE = 1e-9
K = 10


def drawn(seed: int) -> tuple[list[int], list[int]]:
    source = random.Random(seed)
    before = source.sample(range(40), source.randrange(1, 30))
    moved = source.sample(before, len(before)) if seed % 2 else [*before]
    after = [item if source.random() < 0.8 else item + 100 for item in moved]
    return before, after[: source.randrange(1, K + 1)]


def test_overlap_is_that_of_lenskit(compared: list[str]) -> None:
    if not PYTHON.exists():
        pytest.skip("the libraries are not installed; `make test-parity` installs them and runs this")
    pairs = [drawn(seed) for seed in range(300)]
    # LensKit goes on to n even if both lists have ended; ours ends with the longer one.
    cases = [(before, after, min(K, max(len(before), len(after)))) for before, after in pairs]
    done = subprocess.run(
        [PYTHON, SCRIPT], input=json.dumps(cases), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    rows = [
        (model, user, item, rank)
        for user, lists in enumerate(pairs)
        for model, items in zip(("before", "after"), lists, strict=True)
        for rank, item in enumerate(items, 1)
    ]
    lists = pd.DataFrame(rows, columns=["model", "user", "item", "rank"])
    users = pd.DataFrame({"user": range(len(pairs)), "case": [f"u{user}" for user in range(len(pairs))]})
    stages = [
        {"name": "ranking", "model": "before", "k": 30},
        {"name": "final", "model": "after", "k": K, "reranks": "ranking"},
    ]
    truth = pd.DataFrame({"user": range(len(pairs)), "item": 0})
    found = evaluate(lists, truth, users=users, segments=["case"], metrics="ndcg", k=K, stages=stages)
    rows_of_case = found.to_pandas("stages").query("metric == 'rank_biased_overlap' and segment == 'case'")
    ours = rows_of_case.set_index("segment_value")["value"]
    apart = [abs(ours[f"u{user}"] - theirs) for user, theirs in enumerate(answer["values"])]
    assert max(apart) <= TOLERANCE
    assert len(set(answer["values"])) > 100
    compared.append(
        f"lenskit {answer['version']}: overlap of {len(cases)} lists, at most {max(apart):.1e} apart"
    )
