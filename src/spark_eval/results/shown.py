"""Display, charts, writing and MLflow logging of results."""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final

import pandas as pd

from spark_eval.errors import ConfigError, escape_control_characters
from spark_eval.kernels.aliases import as_list
from spark_eval.results.driver_tables import is_of_spark, to_arrow, write_rows
from spark_eval.results.exported import Exported
from spark_eval.results.mlflow_runs import log_run
from spark_eval.results.report.data import MetricText, RunFacts
from spark_eval.runtime.local_files import check_path, local_path
from spark_eval.runtime.versions import versions
from spark_eval.schema import MODEL, Row, Table

if TYPE_CHECKING:
    from spark_eval.results.report.plots import Plot

# Run id in reports on unpublished results.
UNPUBLISHED: Final = "not published"
# Number of lines shown of a long table.
MOST_LINES_SHOWN = 50


@dataclass(frozen=True)
class TextTable:
    """Table of texts for display: a header, lines with one text per column, what is read first, and notes."""

    title: str
    header: Sequence[str]
    lines: Sequence[Sequence[str]]
    notes: Sequence[str] = ()
    lead: Sequence[str] = ()

    def to_pandas(self) -> pd.DataFrame:
        """Return the lines as a pandas frame of texts.

        Returns:
            One row per line; the columns are those of the header.
        """
        return pd.DataFrame(list(map(list, self.lines)), columns=list(self.header))

    def __repr__(self) -> str:
        rows = self.to_pandas().head(MOST_LINES_SHOWN).map(escape_control_characters)
        lead = map(escape_control_characters, (self.title, *self.lead))
        return "\n".join([*lead, rows.to_string(index=False), *self.all_notes])

    def _repr_html_(self) -> str:
        rows = (
            self.to_pandas().head(MOST_LINES_SHOWN).map(lambda text: escape(escape_control_characters(text)))
        )
        with pd.option_context("display.max_colwidth", None):
            table = rows.rename(columns=escape).to_html(index=False, border=0, escape=False)
        notes = "".join(f"<br><small>{escape(note)}</small>" for note in self.all_notes)
        lead = "".join(f"<br>{escape(escape_control_characters(text))}" for text in self.lead)
        return f"<div><b>{escape(escape_control_characters(self.title))}</b>{lead}{table}{notes}</div>"

    @property
    def all_notes(self) -> list[str]:
        """The notes, and the number of lines that are not shown."""
        n_more = len(self.lines) - MOST_LINES_SHOWN
        return [
            *map(escape_control_characters, self.notes),
            *([f"and {n_more} more lines"] if n_more > 0 else []),
        ]


class Displayable(Exported):
    """Result that displays itself without a Spark job."""

    # Attributes in addition to the tables and to those of all results.
    offers: ClassVar[tuple[str, ...]] = ()

    @abstractmethod
    def shown(self) -> list[TextTable]:
        """Return the tables that a notebook displays."""

    @abstractmethod
    def facts_of_run(self) -> RunFacts:
        """Return the data of a report, as if this result had been published."""

    def plot(self, chart: str | None = None, *, metric: str | Sequence[str] | None = None) -> "Plot":
        """Return the charts of one chapter of the report.

        Args:
            chart: The name of the chapter; by default the first one with charts.
            metric: One or several metrics to draw, such as ``ndcg`` or ``ndcg@10``; by default all.

        Returns:
            A ``Plot``, which a notebook displays.

        Raises:
            ConfigError: UNKNOWN_CHART, with the names of the chapters that have charts; METRIC_NOT_MEASURED.

        Examples:
            With the ``result`` of the example of ``evaluate``:

            >>> result.plot(metric="mrr").write("mrr.html")
        """
        # Imported here: pages need Jinja2, which may be missing on executors.
        from spark_eval.results.report.plots import plot_of

        return plot_of(self.facts_of_run(), chart, [] if metric is None else as_list(metric))

    def summary(self) -> TextTable:
        """Return the main numbers with notes, as a notebook displays them.

        Returns:
            A table of texts; ``to_pandas()`` converts it.

        Examples:
            With the ``result`` of the example of ``evaluate``:

            >>> result.summary().title
            'Evaluation of 1 model (als)'
        """
        return self.shown()[0]

    def _repr_html_(self) -> str:
        return "".join(table._repr_html_() for table in self.shown())

    def __dir__(self) -> list[str]:
        names = {*self.tables, *self.on_request, *self.offers, "summary", "plot"}
        return sorted({*names, "to_pandas", "to_polars", "to_arrow", "to_spark"})


class Writable(Displayable):
    """Result that writes its tables and logs to MLflow; ``verb`` is the verb that computed it."""

    verb: ClassVar[str]
    # Metrics of predictions, if the result has any.
    prediction_metrics: ClassVar[Mapping[str, MetricText]] = {}

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), "models", "write", "log_mlflow"})

    @property
    def record(self) -> Row:
        """Attributes of the result for a report, in addition to its tables."""
        return {}

    def facts_of_run(self) -> RunFacts:
        """Return the data of a report, as if this result had been published."""
        tables = {table: rows for table, (rows, _) in self.small_tables.items()}
        return as_if_published(self.verb, self.record, tables, self.prediction_metrics)

    def log_mlflow(
        self, run_id: str | None = None, *, model_version: str | None = None, alias: str | None = None
    ) -> str:
        """Log to the active MLflow run, or to a new one.

        Metrics are named ``ndcg_at_10``, after the model if there are several and after the segment:
        ``als/country.DE/ndcg_at_10``. Conventions are logged as parameters, and the report as an artifact.

        Args:
            run_id: Your name of the run: it becomes a tag, the title of the report, and the name of a new
                run.
            model_version: A registered model and its version, ``ctr/7``; it gets tags, such as
                ``spark_eval.gates``: passed, failed or none.
            alias: An alias that moves to this version if the result has gates and all of them passed.

        Returns:
            The id of the MLflow run.

        Raises:
            SetupError: NO_MLFLOW if MLflow is not installed.
            ConfigError: MLFLOW_NAME if two values would have the same name, or a name is too long;
                INVALID_MODEL_VERSION.

        Examples:
            With the ``result`` of the example of ``evaluate``:

            >>> run = result.log_mlflow("als-2024-05")
            >>> mlflow.get_run(run).data.metrics["mrr_at_2"]
            0.75
        """
        return log_run(self.facts_of_run(), run_id, model_version, alias)

    def write(self, path: str | Path) -> None:
        """Write every table that has rows as Parquet to a new folder ``<path>/<table>``.

        ``per_user`` is partitioned by model. The result is not a published run: the write is not atomic, and
        a call that fails may leave some of the tables.

        Args:
            path: The parent folder of the tables.

        Raises:
            ConfigError: FOLDER_EXISTS if a table's folder exists; INVALID_PATH for a path among published
                runs.

        Examples:
            With the ``result`` of the example of ``evaluate``, and the path of a ``folder``:

            >>> result.write(f"{folder}/als")
            >>> len(pd.read_parquet(f"{folder}/als/per_user"))
            2
        """
        if (local := local_path(str(path))) is not None:
            check_path(local)
        empty = {table for table, (rows, _) in self.small_tables.items() if not rows}
        for name in (name for name in self.tables if name not in empty):
            write_table(self.table(name), path, name)


def write_table(table: Any, path: str | Path, name: str) -> None:
    """Write a table to a new folder, ``per_user`` by model; raise ConfigError FOLDER_EXISTS otherwise."""
    message = f"{str(path)!r} has a folder {name} already; give another path, or remove it"
    by = [MODEL] if name == Table.PER_USER else []
    if not is_of_spark(table):
        folder = Path(path, name)
        if folder.exists():
            raise ConfigError("FOLDER_EXISTS", message)
        write_rows(to_arrow(table), folder, by_model=bool(by))
        return
    from pyspark.errors import AnalysisException

    try:
        table.write.mode("error").partitionBy(*by).parquet(f"{path}/{name}")
    except AnalysisException as error:
        if error.getCondition() != "PATH_ALREADY_EXISTS":
            raise
        raise ConfigError("FOLDER_EXISTS", message) from error


def as_if_published(
    verb: str,
    record: Row,
    tables: Mapping[str, Sequence[Any]],
    prediction_metrics: Mapping[str, MetricText] | None = None,
) -> RunFacts:
    """Return the data of a report from a verb's record and its tables of named tuples."""
    rows = {table: [row._asdict() for row in of_table] for table, of_table in tables.items()}
    records = {verb: {**record, "versions": versions()}}
    return RunFacts(UNPUBLISHED, records, rows, prediction_metrics=prediction_metrics or {})
