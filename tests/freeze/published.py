"""What lies below an output root: tables by column, values by hash, commit records."""

import hashlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

# Keys of a commit record whose values depend on the day, the machine, the code or the plan.
VOLATILE = ("files", "fingerprint", "published_at", "seconds", "versions")


def tables(root: Path) -> Iterator[tuple[str, str, Path]]:
    """Yield run, table and folder of everything that is published."""
    for folder in sorted(root.glob("[!_]*/run_id=*")):
        yield folder.name.removeprefix("run_id="), folder.parent.name, folder


def columns_of(root: Path) -> dict[str, list[dict[str, Any]]]:
    """Return the shapes of each table, and the runs that have them."""
    found: dict[str, dict[str, Any]] = {}
    for run_id, table, folder in tables(root):
        for path in sorted(folder.rglob("*.parquet")):
            shape = shape_of(path, root / table)
            runs = found.setdefault(table, {}).setdefault(json.dumps(shape), {"runs": [], **shape})["runs"]
            runs += [] if run_id in runs else [run_id]
    return {table: [shapes[text] for text in sorted(shapes)] for table, shapes in found.items()}


def shape_of(path: Path, table: Path) -> dict[str, Any]:
    """Return the partition columns of a file, and its own columns in their order."""
    folders = [part.partition("=")[0] for part in path.relative_to(table).parent.parts]
    schema = pq.read_schema(path)
    return {"folders": folders, "columns": [f"{field.name}: {field.type}" for field in schema]}


def bits_of(root: Path) -> dict[str, Any]:
    """Return for each run and table the number of rows, and a hash of each column."""
    found: dict[str, Any] = {}
    for run_id, table, folder in tables(root):
        rows = pq.read_table(folder)
        found[f"{run_id} {table}"] = len(rows)
        found |= {f"{run_id} {table}.{name}": digest(values) for name, values in in_order(rows).items()}
    return found


def in_order(rows: pa.Table) -> dict[str, list[str]]:
    """Return the values of each column as text that tells all of them apart, in one order of the rows.

    Numbers decide last: where one of them changes, the other columns stay as they are.
    """
    names = sorted(rows.column_names, key=lambda name: (pa.types.is_floating(rows[name].type), name))
    lines = sorted(zip(*(map(repr, rows[name].to_pylist()) for name in names), strict=True))
    return dict(zip(names, map(list, zip(*lines, strict=True)), strict=True))


def digest(values: list[str]) -> str:
    """Return a hash of texts in their order."""
    return hashlib.sha256("\n".join(values).encode()).hexdigest()[:16]


def means_of(root: Path) -> dict[str, float | None]:
    """Return for each run the values of everybody's metrics, so that a diff shows numbers."""
    found: dict[str, float | None] = {}
    for run_id, table, folder in tables(root):
        for row in pq.read_table(folder).to_pylist() if table == "metrics" else ():
            if row["segment"] == "all":
                at = "" if row["k"] is None else f"@{row['k']}"
                found[f"{run_id} {row['model']} {row['metric']}{at}"] = row["value"]
    return found


def commits_of(root: Path, home: Path) -> dict[str, Any]:
    """Return the commit record of each run; of what varies, the keys alone."""
    return {
        path.stem: stable(json.loads(path.read_text()), home) for path in (root / "_commits").glob("*.json")
    }


def stable(value: Any, home: Path) -> Any:
    """Return a part of a record without what varies."""
    if isinstance(value, Mapping):
        return {key: varies(part) if key in VOLATILE else stable(part, home) for key, part in value.items()}
    if isinstance(value, list):
        return [stable(part, home) for part in value]
    return value.replace(str(home), "HOME") if isinstance(value, str) else value


def varies(value: Any) -> Any:
    """Return the keys of what varies, and the kind of its values."""
    return (
        {key: varies(part) for key, part in value.items()}
        if isinstance(value, Mapping)
        else type(value).__name__
    )
