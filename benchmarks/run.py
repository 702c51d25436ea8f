"""Command line of the benchmarks: ``python -m benchmarks.run``; see README.md."""

import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import click

from benchmarks import table
from benchmarks.check import TOLERANCE, difference, of_means, read_per_user
from benchmarks.contenders import CONTENDERS, PROFILE, Contender
from benchmarks.data import DEFAULT_FOLDER, LAYOUTS, SIZES, TOGETHER, ensure
from benchmarks.race import Entrant, race
from benchmarks.workload import KINDS, LISTS, READERS, Task, Workload, of_kind, workload

RESULTS: Final = Path(__file__).parent / "results"
# Parameter of the workload that a scaling curve varies, and its values.
CURVES: Final[Mapping[str, Sequence[int | str]]] = {
    "kinds": ("ranked", "text", "graded", "models", "folds"),
    "users": (8_000, 40_000, 200_000, 1_000_000),
    "length": (10, 50, 200),
    "ks": (1, 5, 20),
    "models": (1, 4, 8),
    "metrics": (1, 3, 6),
    "partitions": (1, 4, 16, 64),
}


@click.command()
@click.option(
    "--table",
    "what",
    type=click.Choice(["peers", "profile", *CURVES]),
    default="peers",
    help="Table to measure: all contenders, the steps of spark-eval, or a scaling curve.",
)
@click.option("--size", type=click.Choice(list(SIZES)), default="S", help="Number of users, by name.")
@click.option("--workload", "kind", type=click.Choice(list(KINDS)), default="ranked", help="Kind of tables.")
@click.option("--layout", type=click.Choice(LAYOUTS), default=TOGETHER, help="Order of the rows of lists.")
@click.option("--read", type=click.Choice(list(READERS)), default="files", help="Reader of Parquet files.")
@click.option("--contenders", default="", help="Comma-separated names; default: all.")
@click.option("--repetitions", type=click.IntRange(1), default=3, help="Warm repetitions, after a cold one.")
@click.option("--timeout", type=float, default=20.0, help="Minutes per repetition.")
@click.option("--memory", default="2g", help="Memory of each Spark driver.")
@click.option("--partitions", type=click.IntRange(1), default=4, help="Partitions of Spark's shuffles.")
@click.option("--data", type=click.Path(path_type=Path), default=DEFAULT_FOLDER, help="Folder of the data.")
@click.option("--results", type=click.Path(path_type=Path), default=RESULTS, help="Folder of the tables.")
def main(
    what: str,
    size: str,
    kind: str,
    layout: str,
    read: str,
    contenders: str,
    repetitions: int,
    timeout: float,
    memory: str,
    partitions: int,
    data: Path,
    results: Path,
) -> None:
    """Benchmark spark-eval, floors and peers; write a dated table."""
    if kind not in LISTS and (layout, read) != (TOGETHER, "files"):
        raise click.BadParameter(f"--layout and --read apply to lists only: {', '.join(LISTS)}")
    plain = workload(kind, size, layout, partitions=partitions, memory=memory, read=read)
    title = named(kind, layout, read)
    chosen = chosen_contenders(what, kind, [name for name in contenders.split(",") if name])
    before = os.getloadavg()[0]
    with scratch_folder(data) as scratch:
        entrants = list(enter(what, plain, chosen, data, scratch))
        race(entrants, repetitions, 60 * timeout, lambda line: click.echo(line, err=True))
        differences = compare(entrants) if what == "peers" else {}
    rows = [table.figures(entrant) for entrant in entrants]
    now = datetime.now(UTC)
    options = f"--table {what} --size {size} --workload {kind} --repetitions {repetitions}"
    options += f" --layout {layout} --read {read} --memory {memory} --partitions {partitions}"
    options += f" --contenders {contenders}" if contenders else ""
    facts = {
        "date": now.isoformat(timespec="seconds"),
        "machine": table.machine(),
        "versions": table.versions(),
        "load": [round(before, 1), round(os.getloadavg()[0], 1)],
        "workload": describe(plain),
        "command": f'make benchmarks ARGS="{options}"',
        "rows": rows,
        "differences": differences,
    }
    text = render(what, rows, differences, size, title)
    page = table.write(
        results, f"{now:%Y-%m-%d}-{what}-{size}-{title}", f"{what}, {size}, {title}", facts, text
    )
    click.echo(page.read_text())
    unequal = [name for name, value in differences.items() if value is not None and value > TOLERANCE]
    if unequal:
        raise click.ClickException(f"not equal to ours: {', '.join(unequal)}")


def named(kind: str, layout: str, read: str) -> str:
    """Name the workload for tables: its kind, then the options that differ from the defaults."""
    others = [layout] * (layout != TOGETHER) + [f"read-by-{read}"] * (read != "files")
    return "-".join([kind, *others])


def chosen_contenders(what: str, kind: str, names: Sequence[str]) -> list[Contender]:
    """Return the contenders; a curve has spark-eval and the floor only."""
    if what == "profile":
        return [PROFILE]
    for name in names:
        if name not in CONTENDERS:
            raise click.BadParameter(f"unknown contender {name!r}; known: {', '.join(CONTENDERS)}")
    default = list(CONTENDERS) if what == "peers" else [table.OURS, table.FLOOR]
    return [CONTENDERS[name] for name in names or default if kind in CONTENDERS[name].kinds]


@contextmanager
def scratch_folder(data: Path) -> Iterator[Path]:
    """Yield a temporary folder for the output of repetitions."""
    data.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="run-", dir=data))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def enter(
    what: str, plain: Workload, chosen: Sequence[Contender], data: Path, scratch: Path
) -> Iterator[Entrant]:
    """Yield every contender at every point of a curve, or once."""
    points = {f"{what} {size}": at(plain, what, size) for size in CURVES.get(what, ())}
    for point, work in (points or {"": plain}).items():
        task = Task(work, ensure(work.dataset, data.resolve()))
        for contender in chosen:
            label = f"{point} {contender.name}".strip()
            yield Entrant(contender, task, label, scratch.resolve() / label.replace(" ", "-"))


def at(plain: Workload, what: str, size: Any) -> Workload:
    """Return the workload at a point of a curve."""
    side: dict[str, Any] = {what: size}
    match what:
        case "kinds":
            return of_kind(plain, size)
        case "users" | "length" | "models":
            return replace(plain, dataset=replace(plain.dataset, **side))
        case "ks":
            depth = plain.dataset.length
            return replace(plain, ks=tuple(sorted({-(-depth * n // size) for n in range(1, size + 1)})))
        case "metrics":
            return replace(plain, metrics=plain.metrics[:size])
    return replace(plain, partitions=size)


def compare(entrants: Sequence[Entrant]) -> dict[str, float | None]:
    """Return the difference of each contender's last numbers from ours; empty if ours did not run."""
    running = {entrant.label: entrant for entrant in entrants if entrant.fault is None}
    for ours_there in (table.PREDICTIONS[0], table.COMPARE[0]):
        if ours_there in running:
            known = running[ours_there].means or {}
            return {name: of_means(entrant.means or {}, known) for name, entrant in running.items()}
    of_ours = {name: entrant.contender.against for name, entrant in running.items()}
    if any(of_ours.values()):
        return {
            name: of_means(entrant.means or {}, running[against].means or {})
            for name, entrant in running.items()
            if (against := of_ours[name]) in running
        }
    if table.OURS not in running:
        return {}
    ours = running[table.OURS]
    reference = read_per_user(ours.output, ours.task.workload)
    return {
        name: difference(entrant.output, entrant.means, reference, entrant.contender, entrant.task.workload)
        for name, entrant in running.items()
    }


def render(
    what: str,
    rows: Sequence[Mapping[str, Any]],
    differences: Mapping[str, float | None],
    size: str,
    title: str,
) -> str:
    """Render the table as Markdown."""
    if what == "peers":
        return table.comparison(rows, differences, size, title)
    return table.steps(rows[0]) if what == "profile" else table.curve(rows)


def describe(work: Workload) -> str:
    """Describe the workload in words."""
    dataset = work.dataset
    lists = f"{dataset.users:,} users x {dataset.length}, {dataset.models} model(s), {dataset.ids} ids"
    if dataset.holds == "log":
        return f"{dataset.users:,} users x {dataset.length} interactions, {dataset.ids} ids; local[2]"
    if dataset.holds == "users":
        columns = len(work.columns)
        return f"{dataset.users:,} users of two models x {columns} columns; t and sign; local[2]"
    if dataset.holds == "facts":
        ks = ", ".join(map(str, work.ks))
        return f"{lists}, training and features; beyond accuracy, k = {ks}; local[2]"
    if dataset.holds == "predictions":
        return f"{dataset.users * dataset.length:,} rows of a label and a probability; 6 metrics; local[2]"
    order = f"{work.place}s{' with ties' if dataset.ties else ''}"
    order += "" if dataset.layout == TOGETHER else f", rows {dataset.layout}"
    order += f", {dataset.folds} folds" if dataset.folds else ""
    grades = "graded truth" if dataset.graded else "binary truth"
    repeats = f", {dataset.repeats:.0%} repeated rows" if dataset.repeats else ""
    numbers = f"{len(work.metrics)} metrics x k = {', '.join(map(str, work.ks))}"
    reader = "Spark" if work.read == "spark" else "the workers"
    spark = f"local[2], {work.partitions} partitions; our tables read by {reader}"
    return f"{lists}, {order}, {grades}{repeats}; {numbers}; {spark}"


if __name__ == "__main__":
    main()
