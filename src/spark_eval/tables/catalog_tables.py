"""Tables of runs in a schema of a catalog, Delta or Iceberg.

Each published table is one table there, partitioned by run and attempt. ``attempts`` registers each attempt
before its first row, and ``commits`` has one row for each published verb of a run, with its commit record.
Rows count if ``commits`` names their attempt. All access is by Spark's own API, which Spark Connect has, too.
"""

import json
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

from spark_eval.errors import ConfigError, DataError
from spark_eval.names import quote_column
from spark_eval.schema import Table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession
    from pyspark.sql import types as T

SCHEME: Final = "catalog://"
RUNS: Final = "_runs"
# Columns of every table: the run and the attempt of a row.
RUN_ID: Final = "run_id"
ATTEMPT: Final = "attempt"
COMMITS_TABLE: Final = "commits"
ATTEMPTS_TABLE: Final = "attempts"
COMMIT_COLUMNS: Final = "run_id string, verb string, number int, attempt string, record string"
ATTEMPT_COLUMNS: Final = "run_id string, verb string, attempt string, number int, begun_at double"
FORMATS: Final = ("iceberg", "delta")
# By default Iceberg would bring all rows of a run into one task before it writes them.
PROPERTIES: Final = {"iceberg": {"write.distribution-mode": "none", "format-version": "2"}, "delta": {}}
# Number of tries of a commit that others disturb, and seconds before the second one.
MOST_TRIES: Final = 8
FIRST_PAUSE: Final = 0.1
# Types that Iceberg keeps as another one.
KEPT_AS: Final = {"tinyint": "int", "smallint": "int"}

# What Delta and Iceberg say of commits that come between, and of tables that others create.
CONFLICTS: Final = (
    "ConcurrentAppendException",
    "ConcurrentDeleteReadException",
    "ConcurrentDeleteDeleteException",
    "ConcurrentTransactionException",
    "ConcurrentWriteException",
    "MetadataChangedException",
    "ProtocolChangedException",
    "DELTA_CONCURRENT_",
    "DELTA_METADATA_CHANGED",
    "DELTA_PROTOCOL_CHANGED",
    "CommitFailedException",
    "Found conflicting files",
    "Missing required files to delete",
    "AlreadyExistsException",
    "TABLE_OR_VIEW_ALREADY_EXISTS",
    "Table already exists",
    "metadata has changed",
)


class Place(str):
    """Path of the rows of one attempt in one table, which can be written to; see ``CatalogTables.place``."""

    tables: "CatalogTables"
    number: int

    def append(self, rows: "DataFrame") -> None:
        """Add rows to the table, in one commit."""
        self.tables.append(self, rows)

    def rows(self, columns: Sequence[str]) -> "DataFrame":
        """Return these columns of the rows."""
        return self.tables.rows(self).select(*map(quote_column, columns))


class Parts(NamedTuple):
    """Attempt, table and run of a place."""

    attempt: str
    table: str
    run_id: str


class Registered(NamedTuple):
    """Row of ``attempts``: an attempt at the commit with this number."""

    run_id: str
    verb: str
    attempt: str
    number: int
    begun_at: float


class CatalogTables:
    """Tables of the schema that the root ``catalog://CATALOG.SCHEMA`` names.

    ``kind`` is their format; None if nothing is written.
    """

    def __init__(self, spark: "SparkSession", root: str, kind: str | None = None) -> None:
        self.spark = spark
        self.root = root
        self.kind = kind
        self.schema = [f"`{part}`" for part in root.removeprefix(SCHEME).split(".")]
        self.registered: set[str] = set()
        self.columns: dict[str, Sequence[str]] = {}

    @classmethod
    def of(cls, spark: "SparkSession", table: str, kind: str | None) -> Self:
        """Return the tables of a schema; its catalog decides their format if none is given.

        Raises ConfigError UNSUPPORTED_OUTPUT for a catalog that the session does not have, and without a
        format if the catalog is not one of Delta's or Iceberg's own.
        """
        catalog, _, _ = table.partition(".")
        name = f"spark.sql.catalog.{catalog}"
        plugin = (spark.conf.get(name, None) or "").lower()
        if not plugin and catalog != "spark_catalog":
            message = f"output.table {table!r}: this session has no catalog {catalog!r}; set {name}"
            raise ConfigError("UNSUPPORTED_OUTPUT", message)
        kind = kind or next((one for one in FORMATS if one in plugin), None)
        if kind is None:
            message = f"output.table {table!r}: {name} is neither Delta's nor Iceberg's own"
            raise ConfigError("UNSUPPORTED_OUTPUT", f"{message}; set output.format: delta or iceberg")
        return cls(spark, f"{SCHEME}{table}", kind)

    @classmethod
    def at(cls, spark: "SparkSession", path: str) -> "Place":
        """Return the place of a path."""
        root, _, _ = path.partition(f"/{RUNS}/")
        return cls(spark, root).place(path, 0)

    def place(self, path: str, number: int) -> Place:
        """Return a path as a place, of an attempt at the commit with this number."""
        place = Place(path)
        place.tables, place.number = self, number
        return place

    def parts(self, path: str) -> Parts:
        """Return attempt, table and run of the path of a place."""
        attempt, table, run = path.removeprefix(f"{self.root}/{RUNS}/").split("/", 2)
        return Parts(attempt, table, run.removeprefix(f"{RUN_ID}="))

    def name(self, table: str) -> str:
        """Return the quoted name of a table."""
        return ".".join([*self.schema, f"`{table}`"])

    def exists(self, table: str) -> bool:
        """Return True if the table exists."""
        return self.spark.catalog.tableExists(self.name(table))

    def is_there(self, path: str) -> bool:
        """Return True if the path is a place of a registered attempt, in a table that exists."""
        if f"/{RUNS}/" not in path:
            return False
        attempt, table, _ = self.parts(path)
        if attempt not in self.registered:
            self.registered = {one.attempt for one in self.attempts()}
        return attempt in self.registered and self.exists(table)

    def newest(self, table: str) -> "DataFrame":
        """Return the rows of a table at its newest snapshot, which the frame keeps to."""
        name = self.name(table)
        self.spark.catalog.refreshTable(name)  # Iceberg keeps tables for half a minute
        version = newest_version(self.spark, name, described(self.spark, name).get("Provider"))
        reader = self.spark.read if version is None else self.spark.read.option("versionAsOf", version)
        return reader.table(name)

    def rows(self, path: str) -> "DataFrame":
        """Return the rows of a place, with all columns of its table but the run and the attempt."""
        from pyspark.sql import functions as F

        attempt, table, run_id = self.parts(path)
        rows = self.newest(table).where((F.col(RUN_ID) == run_id) & (F.col(ATTEMPT) == attempt))
        return rows.drop(RUN_ID, ATTEMPT)

    def commits(self, run_id: str | None = None) -> list["Row"]:
        """Return the rows of ``commits``, of one run or of all."""
        return self.collected(COMMITS_TABLE, run_id)

    def attempts(self, run_id: str | None = None) -> list[Registered]:
        """Return the registered attempts, at one run or at all."""
        return [Registered(**row.asDict()) for row in self.collected(ATTEMPTS_TABLE, run_id)]

    def collected(self, table: str, run_id: str | None) -> list["Row"]:
        """Return rows of a small table; none if it does not exist."""
        from pyspark.sql import functions as F

        if not self.exists(table):
            return []
        name = self.name(table)
        self.spark.catalog.refreshTable(name)
        rows = self.spark.table(name)
        return (rows if run_id is None else rows.where(F.col(RUN_ID) == run_id)).collect()

    def record_of(self, path: str) -> dict[str, Any] | None:
        """Return the commit record that names the attempt of a place; None if none does."""
        attempt, _, run_id = self.parts(path)
        records = [row["record"] for row in self.commits(run_id) if row["attempt"] == attempt]
        record: dict[str, Any] | None = json.loads(records[0]) if records else None
        return record

    def append(self, place: Place, rows: "DataFrame") -> None:
        """Add rows to a table, in one commit; the attempt is registered first.

        Raises ConfigError UNSUPPORTED_OUTPUT if a column has another type in the table.
        """
        from pyspark.sql import functions as F

        attempt, table, run_id = self.parts(place)
        if attempt not in self.registered:
            self.register(run_id, attempt, place.number)
        self.columns[place] = rows.columns
        rows = rows.withColumns({RUN_ID: F.lit(run_id), ATTEMPT: F.lit(attempt)})
        schema = self.fitting(table, rows.schema)
        whole = rows.select(
            *(
                F.col(quote_column(field.name))
                if field.name in rows.columns
                else F.lit(None).cast(field.dataType).alias(field.name)
                for field in schema
            )
        )
        undisturbed(lambda: whole.writeTo(self.name(table)).append())

    def register(self, run_id: str, attempt: str, number: int) -> None:
        """Add an attempt to ``attempts``."""
        verb = attempt.rsplit("-", 2)[1]
        row = Registered(run_id, verb, attempt, number, time.time())
        frame = self.spark.createDataFrame([row], ATTEMPT_COLUMNS)
        self.fitting(ATTEMPTS_TABLE, frame.schema)
        undisturbed(lambda: frame.writeTo(self.name(ATTEMPTS_TABLE)).append())
        self.registered.add(attempt)

    def fitting(
        self, table: str, schema: "T.StructType", by: Sequence[str] = (RUN_ID, ATTEMPT)
    ) -> "T.StructType":
        """Return the schema of a table, after creating it or adding the columns of ``schema`` to it."""
        name = self.name(table)
        if not self.exists(table):
            undisturbed(lambda: self.create(table, schema, by))
        known = {field.name: field.dataType.simpleString() for field in self.spark.table(name).schema}
        for field in schema:
            kind = field.dataType.simpleString()
            there = known.get(field.name, kind)
            if kind not in (there, "void") and KEPT_AS.get(kind, kind) != there:
                message = f"{table}.{field.name} is {there} in output.table, and {kind} in this run"
                raise ConfigError("UNSUPPORTED_OUTPUT", f"{message}; publish it to another schema")
        if not known.keys() >= {field.name for field in schema}:
            undisturbed(partial(self.widen, name, schema))
        self.spark.catalog.refreshTable(name)
        return self.spark.table(name).schema

    def create(self, table: str, schema: "T.StructType", by: Sequence[str]) -> None:
        """Create a table with these columns, and its schema, unless another attempt just does."""
        from pyspark.sql import functions as F
        from pyspark.sql import types as T

        assert self.kind is not None
        nullable = T.StructType([T.StructField(field.name, field.dataType) for field in schema])
        self.spark.sql(f"CREATE SCHEMA IF NOT EXISTS {'.'.join(self.schema)}")
        if self.exists(table):
            return
        writer = self.spark.createDataFrame([], nullable).writeTo(self.name(table)).using(self.kind)
        for key, value in PROPERTIES[self.kind].items():
            writer = writer.tableProperty(key, value)
        writer.partitionedBy(*map(F.col, by)).create()

    def widen(self, name: str, schema: "T.StructType") -> None:
        """Add the columns of ``schema`` that a table lacks; another attempt may just have added some."""
        from pyspark.sql import types as T

        self.spark.catalog.refreshTable(name)
        known = set(self.spark.table(name).columns)
        lacking = [field for field in schema if field.name not in known]
        if not lacking:
            return
        if self.kind == "delta":  # its release 4.2.0 cannot alter tables in Spark 4.1.4
            rows = self.spark.createDataFrame([], T.StructType(lacking))
            rows.writeTo(name).option("mergeSchema", "true").append()
        else:
            columns = [f"{quote_column(field.name)} {field.dataType.simpleString()}" for field in lacking]
            self.spark.sql(f"ALTER TABLE {name} ADD COLUMNS ({', '.join(columns)})")

    def commit(self, run_id: str, verb: str, number: int, attempt: str, record: str) -> None:
        """Make an attempt the published one of a verb and run, if the commit before is ``number - 1``.

        Whether it is, ``commits`` tells. The catalog refuses the second of two such commits.
        """
        from pyspark.sql import functions as F

        row = self.spark.createDataFrame([(run_id, verb, number, attempt, record)], COMMIT_COLUMNS)
        self.fitting(COMMITS_TABLE, row.schema, by=(RUN_ID,))

        old_run, old_verb, old_number = (
            F.col(f"{COMMITS_TABLE}.{one}") for one in (RUN_ID, "verb", "number")
        )
        # Run and verb as values: the catalog then knows which rows this commit depends on.
        is_same = (old_run == run_id) & (old_verb == verb)

        def merge() -> None:
            self.spark.catalog.refreshTable(self.name(COMMITS_TABLE))
            merging = row.alias("new").mergeInto(self.name(COMMITS_TABLE), is_same)
            merging = merging.whenMatched(old_number == number - 1).updateAll()
            merging.whenNotMatched(F.lit(number) == 1).insertAll().merge()

        undisturbed(merge)

    def remove(self, path: str) -> None:
        """Delete the rows of an attempt from all tables, and then the attempt."""
        attempt = path.rpartition("/")[2]
        run_id = next((one.run_id for one in self.attempts() if one.attempt == attempt), None)
        if run_id is None:
            return
        of_schema = self.spark.sql(f"SHOW TABLES IN {'.'.join(self.schema)}").collect()
        tables = sorted({row["tableName"] for row in of_schema} & set(Table))
        for table in (*tables, ATTEMPTS_TABLE):
            undisturbed(partial(self.delete, table, run_id, attempt))
        self.registered.discard(attempt)

    def delete(self, table: str, run_id: str, attempt: str) -> None:
        """Delete the rows of an attempt from a table, which has no commit if there are none."""
        from pyspark.sql import functions as F

        name = self.name(table)
        self.spark.catalog.refreshTable(name)
        of_attempt = (F.col(RUN_ID) == run_id) & (F.col(ATTEMPT) == attempt)
        rows = self.spark.table(name)
        if not rows.where(of_attempt).isEmpty():
            self.spark.createDataFrame([], rows.schema).writeTo(name).overwrite(of_attempt)


def described(spark: "SparkSession", name: str) -> dict[str, str]:
    """Return the details of a table by the names that its catalog gives them; a view has no ``Provider``."""
    return {
        row["col_name"]: row["data_type"] for row in spark.sql(f"DESCRIBE TABLE EXTENDED {name}").collect()
    }


def newest_version(spark: "SparkSession", name: str, provider: str | None) -> int | None:
    """Return the newest version of a table of Delta or Iceberg, None of an empty one."""
    if provider == "delta":
        return int(spark.sql(f"DESCRIBE HISTORY {name} LIMIT 1").collect()[0]["version"])
    main = spark.table(f"{name}.refs").where("name = 'main'").collect()
    return int(main[0]["snapshot_id"]) if main else None


def is_place(path: str) -> bool:
    """Return True for the path of rows in a table of a catalog."""
    return path.startswith(SCHEME)


def published_rows(spark: "SparkSession", path: str) -> "DataFrame":
    """Return the rows of a published place, with the columns of its commit record.

    Raises DataError MISSING_INPUT if another attempt is the published one by now.
    """
    place = CatalogTables.at(spark, path)
    record = place.tables.record_of(path)
    if record is None:
        raise DataError("MISSING_INPUT", f"{path!r} is no longer published; start again")
    return place.rows(list(record["tables"][place.tables.parts(path).table]["columns"]))


def undisturbed(commit: Callable[[], object]) -> None:
    """Commit; try again if another commit came between, or raise its error."""
    pause = FIRST_PAUSE
    for n_left in reversed(range(MOST_TRIES)):
        try:
            commit()
        except Exception as error:
            if not n_left or not is_conflict(error):
                raise
            time.sleep(pause)
            pause *= 2
        else:
            return


def is_conflict(error: Exception) -> bool:
    """Return True if a catalog refused a commit because of another one."""
    text = str(error)
    return any(word in text for word in CONFLICTS)
