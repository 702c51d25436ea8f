"""Six experiments as the terminal shows them: the page has these outputs, and they say what to do."""

from pathlib import Path
from typing import Any, Final

import numpy as np
import pandas as pd
import pytest
import yaml

from spark_eval.cli.commands import main

PAGE: Final = Path(__file__).parents[2] / "docs" / "experiments.md"
NOON: Final = pd.Timestamp("2024-05-02T12:00:00Z")
METRICS: Final = [
    {"name": "watch", "kind": "mean", "of": {"kind": "watch"}, "decimals": 1, "effect": 1.5},
    {
        "name": "buys",
        "kind": "mean",
        "of": {"kind": "buy", "value": "any"},
        "role": "guardrail",
        "margin": 0.02,
        "margin_kind": "relative",
    },
]
HOME: Final = {
    "name": "home",
    "control": "old",
    "variants": {"old": 1, "new": 1},
    "period": ["2024-05-01", "2024-05-08"],
    "by": ["daytime"],
}
# Of each case: users, factors on what is watched in the morning and in the evening, factor on the share of
# users who buy, share of the users of the treatment that is lost; and the exit code.
CASES: Final[dict[str, tuple[int, tuple[float, float], float, float, int]]] = {
    "Win": (20_000, (1.05, 1.05), 1.02, 0.0, 0),
    "Loss": (20_000, (0.95, 0.95), 1.02, 0.0, 5),
    "Guardrail not ruled out": (20_000, (1.05, 1.05), 0.99, 0.0, 5),
    "Sample ratio mismatch": (20_000, (1.05, 1.05), 1.02, 0.06, 5),
    "Interaction": (20_000, (0.90, 1.11), 1.02, 0.0, 0),
    "Too few users": (600, (1.01, 1.01), 1.2, 0.0, 0),
}


def tables_of(
    n_users: int, watched: tuple[float, float], bought: float, lost: float
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Users of both variants, half of them in the morning, who watch some 50 minutes and buy at 60 %."""
    random = np.random.default_rng(7)
    users = np.arange(n_users)
    treated, evening = users % 2 == 1, users // 2 % 2 == 1
    is_there = ~treated | (random.random(n_users) >= lost)
    factor = np.where(treated, np.where(evening, watched[1], watched[0]), 1.0)
    minutes = (random.gamma(4, 12.5, n_users) * factor).round(1)
    buys = random.random(n_users) < 0.6 * np.where(treated, bought, 1.0)
    exposures = pd.DataFrame(
        {
            "user": users,
            "variant": np.where(treated, "new", "old"),
            "daytime": np.where(evening, "evening", "morning"),
            "timestamp": NOON,
        }
    )
    events = pd.concat(
        [
            pd.DataFrame({"user": users, "kind": "watch", "value": minutes}),
            pd.DataFrame({"user": users[buys], "kind": "buy", "value": 1.0}),
        ]
    ).assign(timestamp=NOON)
    return exposures[is_there], events


def shown(name: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """What ``spark-eval online`` prints of a case, up to the paths of its tables."""
    n_users, watched, bought, lost, code = CASES[name]
    config: dict[str, Any] = {"output": {"path": str(folder / "out")}}
    frames = tables_of(n_users, watched, bought, lost)
    for table, frame in zip(("exposures", "events"), frames, strict=True):
        frame.to_parquet(folder / f"{table}.parquet", index=False)
        config[table] = {"path": str(folder / f"{table}.parquet")}
    config["online"] = {"metrics": METRICS, "experiments": HOME}
    config["gates"] = [{"experiment": "home", "metric": "watch"}]
    file = folder / "online.yaml"
    file.write_text(yaml.safe_dump(config), encoding="utf-8")
    with pytest.raises(SystemExit) as left:
        main(["online", "--config", str(file), "--run-id", "home"])
    assert (left.value.code or 0) == code
    out = capsys.readouterr().out
    lines = out[out.index("experiments of run home") : out.index("\nrun home published")].splitlines()
    return "\n".join(line.rstrip() for line in lines)


@pytest.mark.parametrize("name", CASES)
def test_the_page_has_what_the_terminal_shows(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = PAGE.read_text(encoding="utf-8")
    text = shown(name, tmp_path, capsys)
    assert text in page, text
    assert f"**{name}**" in page
