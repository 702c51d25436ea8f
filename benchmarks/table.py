"""Write the results as Markdown and JSON."""

import json
import platform
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from statistics import median
from typing import Any, Final

from benchmarks.race import Entrant, Sample
from spark_eval.runtime.session import find_java
from spark_eval.runtime.versions import code_version

LIBRARIES: Final = (
    "pyspark",
    "pandas",
    "pyarrow",
    "numpy",
    "duckdb",
    "polars",
    "ranx",
    "rectools",
    "recommenders",
    "scikit-learn",
    "replay-rec",
)
FLOOR: Final = "floor-shuffle"
OURS: Final = "ours"
# Ours and the floor, if a log is split.
SPLIT: Final = ("split", "constant-column")
# Ours and the floor, if predictions are evaluated.
PREDICTIONS: Final = ("predictions", "scores-shuffled")
# Ours and the floor, if two models are compared.
COMPARE: Final = ("compare", "columns-summed")
MEBIBYTE: Final = 1024**2
LISTED: Final = ("machine", "versions")
# Upper bound of our warm CPU seconds, as a multiple of the contender's; see README.md.
AIMS: Final[Mapping[tuple[str, str, str], float]] = {
    ("M", "ranked", "floor-shuffle"): 0.85,
    ("M", "ranked-by_rank", "floor-shuffle"): 1.15,
    ("M", "ranked-anywhere", "floor-shuffle"): 1.15,
    ("M", "ranked-by_item", "floor-shuffle"): 1.15,
    ("M", "ranked-read-by-spark", "floor-shuffle"): 1.5,
    ("M", "graded", "floor-shuffle"): 1.6,
    ("M", "scored", "floor-shuffle"): 1.5,
    ("M", "scored-anywhere", "floor-shuffle"): 1.5,
    ("S", "ranked", "floor-shuffle"): 1.3,
    ("M", "ranked", "duckdb"): 4.0,
    ("M", "ranked", "rectools"): 0.9,
    ("M", "split", "constant-column"): 1.2,
    ("M", "predictions", "evaluators"): 1 / 5,
    ("L", "compare", "columns-summed"): 1.3,
    ("L", "ranked", "floor-shuffle"): 1.0,
    ("M", "ranked", "apply-in-pandas"): 1 / 80,
    ("M", "ranked", "replay-spark"): 1 / 30,
    ("M", "ranked", "recommenders"): 1 / 15,
    ("M", "ranked", "ranking-evaluator"): 1 / 8,
    ("S", "ranked", "apply-in-pandas"): 1 / 25,
    ("S", "ranked", "replay-spark"): 1 / 15,
    ("S", "ranked", "recommenders"): 1 / 7,
    ("S", "ranked", "ranking-evaluator"): 1 / 3,
}


def machine() -> dict[str, Any]:
    """Return cores, memory and system, without anything that identifies the machine."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    memory = int(Path("/proc/meminfo").read_text().split()[1]) * 1024
    return {
        "cpu": names[0] if names else platform.machine(),
        "cores": len(names) or None,
        "memory_gib": round(memory / 1024**3, 1),
        "system": f"{platform.system()} {platform.machine()}",
    }


def versions() -> dict[str, str]:
    """Return the versions of Python, Java, spark-eval and libraries."""
    installed = {"python": platform.python_version(), "java": str(find_java().version)}
    installed["spark-eval"] = f"{version('spark-eval')}, code {code_version()[:12]}"
    for name in LIBRARIES:
        try:
            installed[name] = version(name)
        except PackageNotFoundError:
            installed[name] = "not installed"
    return installed


def figures(entrant: Entrant) -> dict[str, Any]:
    """Return the measurements of an entrant; medians and maxima are over the warm repetitions."""
    return {
        "contender": entrant.label,
        "does": entrant.contender.does,
        "against": entrant.contender.against,
        "fault": entrant.fault,
        "start": entrant.start and vars(entrant.start),
        "cold": entrant.cold and vars(entrant.cold),
        "answers": entrant.answers,
        "warm": [vars(sample) for sample in entrant.warm],
        "cpu": middle(entrant.warm, lambda sample: sample.cpu),
        "wall": middle(entrant.warm, lambda sample: sample.wall),
        "peak": max((sample.peak for sample in entrant.warm), default=None),
        "worker": max((sample.worker for sample in entrant.warm), default=None),
    }


def middle(samples: Sequence[Sample], of: Callable[[Sample], float]) -> float | None:
    """Return the median; None without samples."""
    return median(map(of, samples)) if samples else None


def comparison(
    rows: Sequence[Mapping[str, Any]], differences: Mapping[str, float | None], size: str, kind: str
) -> str:
    """Render the table of a race: one line per contender."""
    ours, floor = {pair[0]: pair for pair in (SPLIT, PREDICTIONS, COMPARE)}.get(kind, (OURS, FLOOR))
    cpu = {row["contender"]: row["cpu"] for row in rows}
    lines = [
        "| contender | warm CPU s | spread | wall s | whole process, CPU s | peak MiB "
        "| largest worker MiB | / floor | ours / it | aim | equal to ours |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        name = row["contender"]
        if row["fault"] is not None:
            lines.append(f"| {name}: {row['does']} | {row['fault']} |" + " |" * 9)
            continue
        whole = row["start"]["cpu"] + row["cold"]["cpu"]
        aim = AIMS.get((size, kind, name))
        cells = [
            f"{name}: {row['does']}",
            number(row["cpu"]),
            spread(row["warm"]),
            number(row["wall"]),
            number(whole),
            f"{row['peak'] / MEBIBYTE:.0f}",
            f"{row['worker'] / MEBIBYTE:.0f}" if row["worker"] else "",
            number(ratio(row["cpu"], cpu.get(floor))),
            number(ratio(cpu.get(row["against"] or ours), row["cpu"])),
            "" if aim is None else f"≤ {number(aim)}",
            equality(differences.get(name)),
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def steps(row: Mapping[str, Any]) -> str:
    """Render the table of a profile: the cost that each step adds to the previous one."""
    if row["fault"] is not None:
        return str(row["fault"])
    lines = ["| up to step | warm CPU s | spread | adds |", "|---|---|---|---|"]
    before = 0.0
    for name in row["answers"][0]["means"]:
        spent = [answer["means"][name] for answer in row["answers"][1:]]
        cpu = median(spent)
        lines.append(f"| {name} | {number(cpu)} | {least_and_most(spent)} | {number(cpu - before)} |")
        before = cpu
    return "\n".join(lines)


def curve(rows: Sequence[Mapping[str, Any]]) -> str:
    """Render the table of a scaling curve: each contender at each point, with its ratio to the floor."""
    floors = {
        row["contender"].removesuffix(FLOOR): row["cpu"] for row in rows if row["contender"].endswith(FLOOR)
    }
    lines = [
        "| at | warm CPU s | spread | wall s | peak MiB | largest worker MiB | / floor ii |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        name = row["contender"]
        if row["fault"] is not None:
            lines.append(f"| {name} | {row['fault']} | | | | | |")
            continue
        floor = floors.get(name.rpartition(" ")[0] + " ")
        cells = [name, number(row["cpu"]), spread(row["warm"]), number(row["wall"])]
        cells += [f"{row[most] / MEBIBYTE:.0f}" if row[most] else "" for most in ("peak", "worker")]
        cells.append(number(ratio(row["cpu"], floor)))
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def ratio(value: float | None, of: float | None) -> float | None:
    """Return ``value / of``; None if one of them is missing."""
    return None if value is None or not of else value / of


def number(value: float | None) -> str:
    """Format a number with three significant digits, without exponents."""
    if value is None:
        return ""
    digits = 0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2 if abs(value) >= 1 else 3
    return f"{value:.{digits}f}"


def spread(samples: Sequence[Mapping[str, float]]) -> str:
    """Format the range of CPU seconds of the warm repetitions."""
    return least_and_most([sample["cpu"] for sample in samples])


def least_and_most(values: Sequence[float]) -> str:
    """Format the range of values."""
    return f"{number(min(values))} to {number(max(values))}"


def equality(difference: float | None) -> str:
    """Describe the difference of the numbers from ours."""
    if difference is None:
        return "gives none"
    return "yes" if difference <= 1e-9 else f"NO: off by {difference:.2g}"


def write(folder: Path, name: str, heading: str, facts: Mapping[str, Any], text: str) -> Path:
    """Write a Markdown file and a JSON file of the same name; return the path of the Markdown file."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.json").write_text(json.dumps(facts, indent=1) + "\n")
    about = {title: ", ".join(f"{key} {value}" for key, value in facts[title].items()) for title in LISTED}
    lines = [f"- {title}: {values}" for title, values in about.items()]
    lines.append(f"- load average before and after: {facts['load'][0]}, {facts['load'][1]}")
    lines += [f"- workload: {facts['workload']}", f"- command: `{facts['command']}`"]
    page = folder / f"{name}.md"
    page.write_text(f"# {heading}\n\nMeasured {facts['date']}.\n\n" + "\n".join(lines) + f"\n\n{text}\n")
    return page
