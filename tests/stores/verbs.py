"""The verbs beyond the chain: their inputs, their configs, their calls, and hashes of what they publish."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
import pandas as pd
from pyspark.sql import SparkSession
from tests.stores.chain import RUN, hash_of_table, tree_of, write_config, write_folder

# How a config names an input: {"path": …} or {"table": …}.
Name = Callable[[str], dict[str, Any]]
DAY: Final = "2024-05-03"
NEXT: Final = "2024-05-02"
NOON: Final = pd.Timestamp(f"{DAY}T12:00:00Z")
EXPERIMENT: Final = {
    "name": "home",
    "control": "a",
    "variants": {"a": 1.0, "b": 1.0},
    "period": [DAY, "2024-05-08"],
}
METRICS: Final = (
    {"name": "ctr", "kind": "ratio", "numerator": {"kind": "click"}, "denominator": {"kind": "view"}},
    {"name": "watch", "kind": "mean", "of": {"kind": "watch", "value": "sum"}, "decimals": 3},
)
# Lists of the second day lack some items, so that its values are others.
FEWER: Final = "recommendations.where=[{column: item, op: <, value: 30}]"
WINDOW: Final = ("--from", RUN, "--to", NEXT)
# Config, verb and words of each call, and its exit code.
CALLS: Final = (
    ("predictions", "predictions", ("--run-id", "p"), 5),
    ("online", "online", ("--run-id", "o"), 0),
    ("online", "online", ("--run-id", "d", "--day", DAY), 0),
    ("online", "online", ("--run-id", "w", "--from", DAY, "--to", DAY), 0),
    ("linkage", "sample", ("--run-id", "l"), 0),
    ("linkage", "linkage", ("--run-id", "l"), 0),
    ("days", "split", ("--run-id", RUN), 0),
    ("days", "evaluate", ("--run-id", RUN), 0),
    ("days", "split", ("--run-id", NEXT), 0),
    ("days", "evaluate", ("--run-id", NEXT, "--set", FEWER), 0),
    ("days", "window", WINDOW, 0),
    ("days", "watch", ("--run-id", NEXT, "--set", "watch.reference=top"), 0),
)


def inputs() -> dict[str, pd.DataFrame]:
    """Return the inputs of these verbs by name."""
    random = np.random.default_rng(35)
    users = np.arange(40)
    logit = random.normal(-1, 2, 400)
    label = (random.random(400) < 1 / (1 + np.exp(-logit))).astype(int)
    models = [
        pd.DataFrame(
            {"model": model, "user": np.tile(users, 10), "label": label, "score": 1 / (1 + np.exp(-shown))}
        )
        for model, shown in (("good", logit), ("bad", logit + 3 * random.standard_normal(400)))
    ]
    arms = np.where(users % 2, "b", "a")
    shown = [
        (user, kind, value)
        for user in users.tolist()
        for kind, value in [("view", None)] * 10
        + [("click", None)] * (1 + user // 2 % 3 + 3 * (user % 2))
        + [("watch", 10.5 + user // 2 % 7)]
    ]
    drafts = [
        {"impression": one, "user": one // 2, "item": team, "position": position, "team": team}
        | {"rank_a": 1 + (team == "b"), "rank_b": 1 + (team == "a"), "first_pick": teams[0]}
        | {"clicked": bool(random.integers(2))}
        for one, teams in enumerate(("ab", "ba") * 30)
        for position, team in enumerate(teams, start=1)
    ]
    pairs = random.choice(80 * 80, 200, replace=False)
    left, right = pairs // 80, pairs % 80
    candidates = pd.DataFrame({"a": left, "b": right, "score": random.random(200)})[left < right]
    reviews = candidates[["a", "b"]].assign(
        label=np.where(candidates["a"] // 3 == candidates["b"] // 3, "match", "non_match"), reviewer="ann"
    )
    records = np.arange(80)
    return {
        "scored": pd.concat(models, ignore_index=True),
        "exposures": pd.DataFrame({"user": users, "variant": arms, "timestamp": NOON}),
        "events": pd.DataFrame(shown, columns=["user", "kind", "value"])
        .astype({"value": float})
        .assign(timestamp=NOON),
        "interleaving": pd.DataFrame(drafts),
        "predicted": pd.DataFrame({"record": records, "cluster": records // 3}),
        "true": pd.DataFrame({"record": records, "cluster": records // 4}),
        "candidates": candidates.reset_index(drop=True),
        "reviews": reviews.reset_index(drop=True),
    }


def write_inputs_of_verbs(home: Path) -> None:
    """Write the inputs, each as a folder of two files of Parquet."""
    for name, rows in inputs().items():
        write_folder(home / name, rows, 2)


def write_configs(home: Path, name: Name, output: Mapping[str, Any]) -> dict[str, str]:
    """Write the configs of these verbs, with inputs named so; return their paths."""
    gate = {"metric": "auc", "model": "bad", "against": {"model": "good"}, "max_drop": 0.01, "min_users": 10}
    scored: dict[str, Any] = {"task": "binary", "metrics": ["auc", "log_loss"], "intervals": "user"}
    scored |= {"curves": True, "choose": {"flags": [20]}}
    home.mkdir()
    chain = tree_of("", "")
    trees: dict[str, dict[str, Any]] = {
        "predictions": {
            "predictions": {**name("scored"), **scored},
            "compare": {"baseline": {"model": "good"}},
            "gates": [gate],
        },
        "online": {one: name(one) for one in ("exposures", "events", "interleaving")}
        | {"online": {"metrics": list(METRICS), "experiments": [EXPERIMENT]}},
        "linkage": {one: name(one) for one in ("predicted", "true", "candidates", "reviews")}
        | {"sample": {"strata": [0.5], "per_stratum": 10, "seed": 3}},
        "days": {
            "interactions": {**name("log"), "timestamp_unit": "s"},
            "recommendations": name("lists"),
            "evaluate": chain["evaluate"],
            "watch": {"metrics": ["ndcg@10"]},
        },
    }
    return {
        key: write_config(home / f"{key}.yaml", {**tree, "output": dict(output)})
        for key, tree in trees.items()
    }


def run_verbs(
    call: Callable[..., Any], spark: SparkSession, configs: Mapping[str, str], page: Path
) -> dict[str, Any]:
    """Call the verbs, history and status; return what they tell, and a hash of each published table."""
    for config, verb, words, code in CALLS:
        done = call(verb, "--config", configs[config], *words)
        assert done.code == code, f"{verb}: {done.err}"
    done = call("history", "--config", configs["days"], "--page", str(page), "--paired")
    assert (done.code, done.err) == (0, ""), done.err
    told = json.loads(call("status", "--config", configs["days"], "--json").out)
    runs = {f"{run['verb']} {run['run_id']}": run for run in told["runs"]}
    return {
        "history": done.out[done.out.index("history of") : done.out.index("\n  page ")],
        "status": {
            name: {key: run[key] for key in ("rows", "damage", "stale")} for name, run in runs.items()
        },
        "values": {
            f"{name}: {table}": hash_of_table(spark, told["root"], table, run["run_id"])
            for name, run in runs.items()
            for table in run["rows"]
        },
    }
