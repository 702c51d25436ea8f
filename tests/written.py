"""Files that follow from the code: ``python -m tests.written`` writes them, and tests compare them.

A page has its generated parts between ``<!-- from the code: NAME -->`` and ``<!-- to here -->``.
"""

import ast
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final

import pyarrow as pa

from spark_eval.accounting import ACCOUNTING
from spark_eval.arrow.files import INSTANT
from spark_eval.calibration.rows import PROGRAMME_TABLE
from spark_eval.cli.metric_tables import markdown
from spark_eval.comparison.rows import COMPARISONS, GATES, SLICES
from spark_eval.evaluation.stages.rows import FUNNEL, STAGE_TABLE
from spark_eval.evaluation.summary import METRICS, SUMS
from spark_eval.experiments.interleaving import INTERLEAVINGS
from spark_eval.experiments.tables import CHECKS, DECISIONS, EXPERIMENTS
from spark_eval.linkage.evaluate import LINKAGE_TABLE
from spark_eval.linkage.reviews import SAMPLE_COLUMNS
from spark_eval.predictions.tables import CURVES, THRESHOLDS
from spark_eval.results.forecasts import CALIBRATION_TABLE, FORECASTS
from spark_eval.results.subsets import SUBSET_TABLE
from spark_eval.runners.local_tables import takes_of
from spark_eval.runs.verb import Published
from spark_eval.schema import Table
from spark_eval.splits.leakage import LEAKAGE
from spark_eval.tables.spec import Column, Kind
from spark_eval.verbs import VERBS

REPOSITORY: Final = Path(__file__).parents[1]
SOURCE: Final = REPOSITORY / "src" / "spark_eval"
PART: Final = re.compile(r"(<!-- from the code: (\w+) -->\n).*?(<!-- to here -->)", re.DOTALL)
# Columns of the tables whose rows are a type of the package, as Spark writes a schema.
COLUMNS: Final[Mapping[str, str]] = {
    Table.SUBSETS: SUBSET_TABLE,
    Table.LEAKAGE: LEAKAGE,
    Table.METRICS: METRICS,
    Table.SUMS: SUMS,
    Table.STAGES: STAGE_TABLE,
    Table.FUNNEL: FUNNEL,
    Table.CURVES: CURVES,
    Table.THRESHOLDS: THRESHOLDS,
    Table.EXPERIMENTS: EXPERIMENTS,
    Table.INTERLEAVINGS: INTERLEAVINGS,
    Table.CHECKS: CHECKS,
    Table.DECISIONS: DECISIONS,
    Table.CALIBRATION: CALIBRATION_TABLE,
    Table.PROGRAMME: PROGRAMME_TABLE,
    Table.FORECASTS: FORECASTS,
    Table.LINKAGE: LINKAGE_TABLE,
    Table.SAMPLE: ", ".join(SAMPLE_COLUMNS),
    Table.COMPARISONS: COMPARISONS,
    Table.SLICES: SLICES,
    Table.GATES: GATES,
    Table.ACCOUNTING: ACCOUNTING,
}
# Columns of the tables that have some of the user's own.
WITH_OTHERS: Final[Mapping[str, str]] = {
    Table.SPLITS: "user, item, timestamp, relevance, fold, the log's other columns",
    Table.PER_USER: "user, n_relevant, n_recommended, segments, one double per metric and k (`ap_at_10`); "
    "of predictions user, segment and segment_value if there are segments, and "
    "[exact sums](predictions.md#compare-and-gate-models)",
    Table.ITEM_SEGMENTS: "user, segment, segment_value, and the columns of `per_user` of metrics of hits",
    Table.USER_DAYS: "user, day, timestamp, kind, columns of conditions and slices, n_events, "
    "a sum per decimals, user_days",
    Table.QUARANTINE: "source, code, the row as JSON",
}
JOB: Final = '''\
"""spark-submit jobs/{verb}.py --config FILE ...: equivalent to ``spark-eval {verb}``."""

import sys

from spark_eval.cli.commands import main

if __name__ == "__main__":
    main(["{verb}", *sys.argv[1:]])
'''


def layers() -> str:
    """Return the floors of the import contract, the highest first, with what each folder is."""
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = project["tool"]["importlinter"]["contracts"]
    house = next(one for one in contracts if one.get("containers") == ["spark_eval"])
    floors = [re.split(r"\s*[|:]\s*", floor) for floor in house["layers"]]
    rows = [
        [room, str(len(floors) - above), first_sentence(room)]
        for above, rooms in enumerate(floors)
        for room in rooms
    ]
    return markdown(("folder or module", "floor", "is"), rows)


def first_sentence(room: str) -> str:
    """Return the first sentence of the docstring of a folder or a module."""
    folder = SOURCE / room
    file = folder / "__init__.py" if folder.is_dir() else folder.with_suffix(".py")
    text = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or ""
    return " ".join(text.partition("\n\n")[0].split()).replace("``", "`").removesuffix(".")


def verbs() -> str:
    """Return a row per verb that makes a run: what it reads, its phases, what it publishes."""
    rows = [
        [
            verb.name,
            ", ".join(f"`{name}`" for name in verb.sections),
            ", ".join(verb.phases),
            ", ".join(f"`{table.name}`" for table in verb.tables),
        ]
        for verb in VERBS.values()
    ]
    return markdown(("verb", "sections of the config", "phases", "publishes"), rows)


def tables() -> str:
    """Return a row per published table: the verbs that publish it, its folders and its columns."""
    found = {one.name: one for verb in VERBS.values() for one in verb.tables}
    rows = []
    for table in [*found.values(), Published(Table.QUARANTINE)]:
        of_verbs = [verb.name for verb in VERBS.values() if table.name in {one.name for one in verb.tables}]
        rows.append(
            [
                table.name,
                ", ".join(f"`{name}`" for name in of_verbs) or "all that read sources",
                ", ".join(["run_id", *table.by]),
                columns_of(table),
            ]
        )
    return markdown(("table", "published by", "partitioned by", "columns"), rows)


def columns_of(table: Published) -> str:
    """Return the columns of a table in words, but for those that its folders name."""
    if table.name not in COLUMNS:
        return WITH_OTHERS.get(table.name, "see the page of its verb")
    names = [column.split(" ")[0] for column in COLUMNS[table.name].split(", ")]
    more = "; of predictions also n_rows" if table.name == Table.METRICS else ""
    return ", ".join(name for name in names if name not in table.by) + more


def kinds() -> str:
    """Return what columns of each kind hold, and the types that this process takes for them."""
    types = {
        "integers": pa.int64(),
        "floats": pa.float64(),
        "text": pa.string(),
        "booleans": pa.bool_(),
        "dates": pa.date32(),
        "timestamps": INSTANT,
        "lists of text": pa.list_(pa.string()),
        "lists of numbers": pa.list_(pa.float64()),
    }
    rows = []
    for kind in Kind:
        takes = takes_of(Column("column", kind, unit="s"))
        rows.append([kind.name, kind, ", ".join(name for name, one in types.items() if takes(one))])
    return markdown(("kind", "holds", "in this process"), rows)


PARTS: Final[Mapping[str, Callable[[], str]]] = {
    "layers": layers,
    "kinds": kinds,
    "verbs": verbs,
    "tables": tables,
}
PAGES: Final = ("docs/architecture.md", "docs/tables.md")


def written() -> Iterator[tuple[Path, str]]:
    """Yield each file that follows from the code, wholly or in parts, with its text."""
    for verb in [*VERBS, "report"]:
        yield REPOSITORY / "jobs" / f"{verb}.py", JOB.format(verb=verb)
    for name in PAGES:
        page = REPOSITORY / name
        text = page.read_text(encoding="utf-8")
        yield page, PART.sub(lambda found: f"{found[1]}\n{PARTS[found[2]]()}\n{found[3]}", text)


if __name__ == "__main__":
    for file, text in written():
        file.write_text(text, encoding="utf-8")
