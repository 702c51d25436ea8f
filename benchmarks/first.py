"""Cost of the tutorial's commands: from a CSV of ratings to a report, in this process and on Spark.

``python -m benchmarks.first RATINGS.csv [REPETITIONS]``: columns userId, movieId, rating and timestamp, as
MovieLens has them. Each command is a whole process; engines take turns. CPU time is that of the process and
all its descendants. Linux only.
"""

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

import pandas as pd

from benchmarks.start import Cost, adopt_orphans, cost_of, median_of

ENGINES: Final = ("local", "spark")
CONFIG: Final = """
output: {path: OUT}
engine: ENGINE
interactions:
  path: RATINGS
  format: csv
  options: {header: true}
  columns: {user: userId, item: movieId, timestamp: timestamp, relevance: rating}
  timestamp_unit: s
split: {method: last_fraction, test_share: 0.2, ties: together}
recommendations: {path: lists.parquet}
train: {subset: train}
evaluate: {k: [5, 10], relevance: {threshold: 4.0}, segments: [activity]}
compare: {baseline: {model: popular}, metrics: [ndcg@10]}
gates: [{metric: ndcg, k: 10, max_drop: 0}]
"""


def write_lists(ratings: Path, folder: Path) -> None:
    """Write two lists of 20 items for each user: the most rated items, and the most rated ones of late."""
    rows = pd.read_csv(ratings)
    late = rows[rows["timestamp"] > rows["timestamp"].quantile(0.5)]
    lists = [
        pd.DataFrame({"item": part["movieId"].value_counts().index[:20], "model": model})
        for model, part in {"popular": rows, "recent": late}.items()
    ]
    users = pd.DataFrame({"user": rows["userId"].unique()})
    ranked = pd.concat(one.assign(rank=range(1, len(one) + 1)) for one in lists)
    users.merge(ranked, how="cross").to_parquet(folder / "lists.parquet", index=False)


def commands(ratings: Path, engine: str, number: int) -> dict[str, list[str]]:
    """Return the arguments of each command of a repetition."""
    config, run = ["--config", f"{engine}.yaml"], ["--run-id", f"r{number}"]
    first = ["--config", f"first-{engine}.yaml", "--force"]
    return {
        "init": ["init", "--interactions", str(ratings), *first],
        "validate": ["validate", *config, "--verb", "split"],
        "split": ["split", *config, *run],
        "evaluate": ["evaluate", *config, *run],
        "compare": ["compare", *config, *run],
        "report": ["report", "--path", f"out-{engine}", *run],
    }


def main(ratings: Path, repetitions: int) -> None:
    """Print the median costs of each command and of all, by engine."""
    adopt_orphans()
    program = str(Path(sys.executable).parent / "spark-eval")
    costs: dict[tuple[str, str], list[Cost]] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_lists(ratings, folder)
        for engine in ENGINES:
            text = CONFIG.replace("RATINGS", str(ratings)).replace("OUT", f"out-{engine}")
            (folder / f"{engine}.yaml").write_text(text.replace("ENGINE", engine))
        for number in range(repetitions):
            for engine in ENGINES:
                for command, arguments in commands(ratings, engine, number).items():
                    costs.setdefault((command, engine), []).append(cost_of([program, *arguments], folder))
    print("| command | local: CPU s | wall s | Spark: CPU s | wall s |\n|" + "---|" * 5)
    medians = {key: median_of(measured) for key, measured in costs.items()}
    for command in dict.fromkeys(command for command, _ in medians):
        shown = [medians[command, engine] for engine in ENGINES]
        print(f"| {command} | " + " | ".join(f"{one.cpu:.1f} | {one.wall:.1f}" for one in shown) + " |")
    of_engines = [[cost for (_, of), cost in medians.items() if of == engine] for engine in ENGINES]
    whole = (f"{sum(c.cpu for c in of):.1f} | {sum(c.wall for c in of):.1f}" for of in of_engines)
    print("| all | " + " | ".join(whole) + " |")


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    try:
        main(Path(sys.argv[1]).absolute(), int(sys.argv[2]) if sys.argv[2:] else 3)
    except subprocess.CalledProcessError as error:
        sys.exit(f"{error.cmd} ended with code {error.returncode}")
