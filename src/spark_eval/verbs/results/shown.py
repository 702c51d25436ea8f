"""What results show and draw of themselves in a notebook, give to pandas, write and log."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final

import pandas as pd
import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame

from spark_eval.errors import ConfigError, escape_control_characters
from spark_eval.metrics.aliases import as_list
from spark_eval.reporting.facts import SMALL, RunFacts
from spark_eval.runtime.local_files import check_path, local_path
from spark_eval.runtime.versions import versions
from spark_eval.schema import MODEL, Table
from spark_eval.verbs.results.mlflow_runs import log_run
from spark_eval.verbs.small import SmallRows, small_table

if TYPE_CHECKING:
    from spark_eval.reporting.plots import Plot

# What a report of results that are not published calls them.
UNPUBLISHED: Final = "not published"
# Whole numbers stay whole beside missing ones.
WHOLE_NUMBERS = {pa.int32(): pd.Int32Dtype(), pa.int64(): pd.Int64Dtype()}
# Of a long table so many lines are shown.
MOST_LINES_SHOWN = 50


@dataclass(frozen=True)
class TextTable:
    """A table of texts as people read it: a header, lines of as many texts, sentences below."""

    title: str
    header: Sequence[str]
    lines: Sequence[Sequence[str]]
    notes: Sequence[str] = ()

    def to_pandas(self) -> pd.DataFrame:
        """Return the texts."""
        return pd.DataFrame(list(map(list, self.lines)), columns=list(self.header))

    def __repr__(self) -> str:
        rows = self.to_pandas().head(MOST_LINES_SHOWN).map(escape_control_characters)
        return "\n".join(
            [escape_control_characters(self.title), rows.to_string(index=False), *self.all_notes]
        )

    def _repr_html_(self) -> str:
        rows = (
            self.to_pandas().head(MOST_LINES_SHOWN).map(lambda text: escape(escape_control_characters(text)))
        )
        with pd.option_context("display.max_colwidth", None):
            table = rows.rename(columns=escape).to_html(index=False, border=0, escape=False)
        notes = "".join(f"<br><small>{escape(note)}</small>" for note in self.all_notes)
        return f"<div><b>{escape(escape_control_characters(self.title))}</b>{table}{notes}</div>"

    @property
    def all_notes(self) -> list[str]:
        """The notes, and how many lines are not shown."""
        n_more = len(self.lines) - MOST_LINES_SHOWN
        return [
            *map(escape_control_characters, self.notes),
            *([f"and {n_more} more lines"] if n_more > 0 else []),
        ]


class Displayable(ABC):
    """A result that shows itself, without a job of Spark; ``tables`` are the names of its tables."""

    tables: ClassVar[tuple[str, ...]]
    # What it offers beside its tables and what all results offer.
    offers: ClassVar[tuple[str, ...]] = ()

    @abstractmethod
    def shown(self) -> list[TextTable]:
        """Return what a notebook shows."""

    @abstractmethod
    def facts_of_run(self) -> RunFacts:
        """Return what a report is made of, as if this had been published."""

    def plot(self, chart: str | None = None, *, metric: str | Sequence[str] | None = None) -> "Plot":
        """Return charts of the report: a chapter by its name, by default the first that has charts.

        Of ``metric`` alone, one or several, if it is given: ``ndcg``, ``ndcg@10``. Raises ConfigError
        UNKNOWN_CHART, with the names of those that there are, and METRIC_NOT_MEASURED.
        """
        # Pages need Jinja2, which only the driver has.
        from spark_eval.reporting.plots import plot_of

        return plot_of(self.facts_of_run(), chart, [] if metric is None else as_list(metric))

    def summary(self) -> TextTable:
        """Return the numbers side by side, and what to know of them, as a notebook shows them."""
        return self.shown()[0]

    def _repr_html_(self) -> str:
        return "".join(table._repr_html_() for table in self.shown())

    def __dir__(self) -> list[str]:
        return sorted({*self.tables, *self.offers, "summary", "plot", "to_pandas"})

    def table(self, name: str) -> DataFrame:
        """Return a table by its name; raise ConfigError UNKNOWN_TABLE."""
        if name not in self.tables:
            raise ConfigError.unknown("UNKNOWN_TABLE", "table", name, self.tables, type(self).__name__)
        frame: DataFrame = getattr(self, name)
        return frame

    def to_pandas(self, table: str | None = None) -> pd.DataFrame:
        """Return a table, by default the first of ``tables``; whole numbers stay whole.

        All of its rows come to this process. Raises ConfigError UNKNOWN_TABLE.
        """
        frame: pd.DataFrame = (
            self.table(table or self.tables[0]).toArrow().to_pandas(types_mapper=WHOLE_NUMBERS.get)
        )
        return frame


class SmallFrame(cached_property[DataFrame]):
    """An attribute of results: a table that the driver holds, as a frame once it is asked for."""

    def __init__(self, table: Table, meaning: str) -> None:
        def frame(result: Any) -> DataFrame:
            return small_table(result.spark, *result.small_tables[table])

        frame.__doc__ = f"The table ``{table}``: {meaning}"
        super().__init__(frame)

    def __set_name__(self, owner: type[Any], name: str) -> None:
        super().__set_name__(owner, name)
        self.func.__module__ = owner.__module__  # where documents look for it


class Writable(Displayable):
    """A result that writes its tables, and logs its numbers to MLflow; ``verb`` is what it came of."""

    verb: ClassVar[str]

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), "models", "write", "log_mlflow"})

    @property
    @abstractmethod
    def small_tables(self) -> Mapping[Table, SmallRows]:
        """The rows that the driver holds, by their tables."""

    @property
    def record(self) -> Mapping[str, Any]:
        """What a report tells of the result beside its tables."""
        return {}

    def facts_of_run(self) -> RunFacts:
        """Return what a report is made of."""
        tables: dict[Table, Sequence[Any]] = {
            table: rows for table, (rows, _) in self.small_tables.items() if table in SMALL
        }
        return as_if_published(self.verb, self.record, tables)

    def log_mlflow(self, run_id: str | None = None) -> str:
        """Log to the active run of MLflow, else to a new one; return its id at MLflow.

        Metrics are called ``ndcg_at_10``, before it the model where there are several, and the segment:
        ``als/country.DE/ndcg_at_10``. Conventions are parameters, the report is an artifact. ``run_id`` is
        how you call the run: it becomes a tag, the report's title, and the name of a new run.

        Raises SetupError NO_MLFLOW where MLflow is not installed, and ConfigError MLFLOW_NAME.
        """
        return log_run(self.facts_of_run(), run_id)

    def write(self, path: str | Path) -> None:
        """Write every table that has rows as Parquet below a folder, each into a new one: ``<path>/metrics``.

        ``per_user`` lies there by model. What is written is no published run: nothing is renamed at the end,
        and a call that fails may leave some of the tables. Raises ConfigError FOLDER_EXISTS, and INVALID_PATH
        for a path among published runs.
        """
        if (local := local_path(str(path))) is not None:
            check_path(local)
        empty = {table for table, (rows, _) in self.small_tables.items() if not rows}
        for name in (name for name in self.tables if name not in empty):
            writer = self.table(name).write.mode("error")
            try:
                (writer.partitionBy(MODEL) if name == Table.PER_USER else writer).parquet(f"{path}/{name}")
            except AnalysisException as error:
                if error.getCondition() != "PATH_ALREADY_EXISTS":
                    raise
                message = f"{str(path)!r} has a folder {name} already; give another path, or remove it"
                raise ConfigError("FOLDER_EXISTS", message) from error


def as_if_published(
    verb: str,
    record: Mapping[str, Any],
    tables: Mapping[Table, Sequence[Any]],
) -> RunFacts:
    """Return what a verb's record and tables of named tuples say, as if they had been published."""
    rows = {table: [row._asdict() for row in of_table] for table, of_table in tables.items()}
    return RunFacts(UNPUBLISHED, {verb: {**record, "versions": versions()}}, rows)
