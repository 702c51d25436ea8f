"""The record of a verb; its command, its checks and the reading of its tables follow from it.

The records are in ``spark_eval.verbs``, a module each, which is loaded when its command is called.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Protocol

from spark_eval.accounting import Entry
from spark_eval.errors import ConfigError
from spark_eval.publishing.attempt import Attempt
from spark_eval.publishing.verify import Expected
from spark_eval.results.driver_tables import SmallRows
from spark_eval.results.leaderboard import Leaderboard
from spark_eval.runs.job import Job, JobKind, Run
from spark_eval.runs.sections import Config
from spark_eval.runtime.any_session import OpenSession
from spark_eval.schema import MODEL, Row, Table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Screen(Protocol):
    """Screen that a verb prints its results on."""

    def say(self, text: str) -> None:
        """Print a line."""

    def grid(
        self, header: Sequence[str], cells: Sequence[Sequence[str]], title: str = "", of: str | None = None
    ) -> None:
        """Print rows of text as a table; with ``of``, the first rows of this published table."""

    def board(self, board: Leaderboard, title: str) -> None:
        """Print a leaderboard, with the metrics that fit."""

    def funnel(self, stages: Sequence[Row], funnel: Sequence[Row]) -> None:
        """Print the loss of users and relevant items along the stages of a pipeline."""


def always(_config: Config) -> bool:
    """Return True: the table is published in every run."""
    return True


@dataclass(frozen=True)
class Published:
    """Table that a verb publishes.

    ``by`` are the columns that name its folders below the run. ``is_reported`` is true if reports read its
    rows. ``is_asked`` tells whether a run of this config publishes it.
    """

    name: Table
    by: tuple[str, ...] = ()
    is_reported: bool = True
    is_asked: Callable[[Config], bool] = always


ACCOUNTING: Final = Published(Table.ACCOUNTING)
METRICS: Final = Published(Table.METRICS, by=(MODEL,))


@dataclass(frozen=True)
class Work:
    """Input of a verb; ``resources`` is closed after the tables are published.

    ``local`` are its tables if this process computes them; None if Spark does.
    """

    session: OpenSession
    config: Config
    job: Job
    attempt: Attempt
    resources: ExitStack
    local: Any = None

    @property
    def spark(self) -> "SparkSession":
        """The session of Spark, opened at the first use."""
        return self.session()


@dataclass(frozen=True)
class LocalInput:
    """Tables of a verb that this process computes, in its own form, and their number of rows."""

    tables: Any
    n_rows: int


@dataclass(frozen=True)
class Computed:
    """Result of a verb, which the runner stages, checks and publishes.

    ``rows`` are its small tables, which the runner writes if the config asks for them. ``written`` are the
    numbers of rows of the tables that the verb has staged itself. ``judged`` are the sources that may have
    quarantined rows, with codes in ``fault``. ``expected`` describes ``per_user``, and ``facts`` are added to
    the commit record. ``n_rows`` is the number of rows that the log names.
    """

    rows: Mapping[str, SmallRows]
    entries: Sequence[Entry]
    written: Mapping[str, int] = field(default_factory=dict)
    judged: Row = field(default_factory=dict)
    expected: Expected | None = None
    facts: Row = field(default_factory=dict)
    n_rows: int | None = None


@dataclass(frozen=True)
class Shortcut:
    """Option of a command that sets a key of the config."""

    option: str
    metavar: str
    key: str
    meaning: str

    @property
    def parameter(self) -> str:
        """Name of its parameter in Python."""
        return self.key.replace(".", "_")


@dataclass(frozen=True, kw_only=True)
class Verb(JobKind):
    """Record of a verb: its sections, tables, computation and output.

    Attributes:
        name: The command, the name of its job, and its name in commit records. ``verbs.SENTENCES`` has the
            first sentence of its help.
        about: The rest of its help.
        sections: The sections of the config that it reads. The first one is required, and all of them decide
            the run id.
        instead: Sections that may stand without the first one.
        tables: The tables that it publishes.
        phases: The phases of its work, which the log names.
        compute: From inputs to tables; the runner stages, checks and publishes them.
        show: Prints the main results of a run.
        job: The work that a config asks for: its run id, and what it reads.
        check: What ``validate`` checks; it returns names of what it checked. None for its sources.
        judge: Raises GateFailure if the published run has failed.
        then: The name of the verb that follows in the same command; None if there is none.
        options: Options of its section that help lists, each with its meaning.
        shortcuts: Options of its command that set keys of the config.
        open_locally: Opens its input for this process; raises NotPlain if only Spark can take it. None if
            Spark does all the work.
        opens_spark: True if work that is not done in this process needs a session, wherever the tables are.
        has_verdict: True if its command writes gates to a file on request.
    """

    about: str = ""
    tables: tuple[Published, ...]
    phases: tuple[str, ...]
    compute: Callable[[Work], Computed]
    show: Callable[[Run, Screen], None]
    job: Callable[[JobKind, Config, str | None, OpenSession], Job] = Job.of
    check: "Callable[[Verb, Config, OpenSession], list[str]] | None" = None
    judge: Callable[[Run], None] = lambda _run: None
    then: Callable[[Config], str | None] = lambda _config: None
    options: Callable[[], Sequence[tuple[str, str]]] = tuple
    shortcuts: Sequence[Shortcut] = ()
    open_locally: Callable[[Work], LocalInput] | None = None
    opens_spark: bool = True
    has_verdict: bool = False
    instead: tuple[str, ...] = ()

    def check_sections(self, config: Config) -> None:
        """Raise ConfigError MISSING_SECTION if the config lacks the section of the verb."""
        names = (self.sections[0], *self.instead)
        if all(getattr(config, name) is None for name in names):
            message = f"the config has no section {' or '.join(map(repr, names))}, which this verb reads"
            raise ConfigError("MISSING_SECTION", message)

    def tables_of(self, config: Config) -> tuple[str, ...]:
        """Return the names of the tables that a run of this config publishes."""
        return tuple(table.name for table in self.tables if table.is_asked(config))

    @property
    def by_model(self) -> set[str]:
        """Tables with a folder for each model."""
        return {table.name for table in self.tables if MODEL in table.by}

    @property
    def reported(self) -> set[str]:
        """Tables whose rows reports read."""
        return {table.name for table in self.tables if table.is_reported}
