"""Snapshots of Delta and Iceberg tables: which one a source names, and reading exactly that one.

Such a table changes by commits. Each makes a snapshot with a number, and older ones stay readable. A run
looks once which one its source names, and reads that one from then on.
"""

from typing import TYPE_CHECKING, Any, Final

from spark_eval.config.inputs import TRAVEL, VERSION, Snapshot, Source
from spark_eval.errors import EnvironmentFault
from spark_eval.runtime.any_session import OpenSession, is_remote, unsupported_remotely
from spark_eval.runtime.local_files import uri_of
from spark_eval.runtime.spark_errors import is_of_spark, named_spark_error
from spark_eval.tables.catalog_tables import described, newest_version

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# Formats of tables with snapshots.
VERSIONED: Final = ("delta", "iceberg")
DELTA_CLASSES: Final = "org.apache.spark.sql.delta."
ICEBERG_CLASSES: Final = "org.apache.iceberg.spark."


def load_table(spark: "SparkSession", source: Source) -> "DataFrame":
    """Return the rows of a table of the catalog, or of a versioned table at a path."""
    reader = spark.read.options(**source.options)
    if source.table is not None:
        return reader.table(source.table)
    return reader.format(source.format).load(uri_of(source.path_or_empty))


def pinned(source: Source, session: OpenSession) -> Source:
    """Return the source with the snapshot that it names now; other sources as they are.

    A source that cannot be found is left as it is: reading it raises the reason. Raises EnvironmentFault if a
    retry may find it, and ConfigError CONNECT_UNSUPPORTED as ``snapshot_by_sql`` does.
    """
    frame = table_of(source, session)
    if frame is None:
        return source
    snapshot = snapshot_by_sql(frame, source) if is_remote(frame) else snapshot_of(without_aliases(frame))
    return source if snapshot is None or snapshot.version is None else source.pinned(snapshot)


def snapshots_in(source: Source, session: OpenSession) -> list[Snapshot]:
    """Return the snapshots that a source reads: its own, or those of the tables of a view."""
    frame = table_of(source, session)
    if frame is None:
        return []
    if is_remote(frame):
        return [snapshot_by_sql(frame, source)]
    plan: Any = frame
    leaves = plan._jdf.queryExecution().analyzed().collectLeaves()
    found = (snapshot_of(leaves.apply(index)) for index in range(leaves.size()))
    return sorted(snapshot for snapshot in found if snapshot is not None)


def table_of(source: Source, session: OpenSession) -> "DataFrame | None":
    """Return the frame of a source that may be versioned; None for others, and if it cannot be found."""
    if source.table is None and source.format not in VERSIONED:
        return None
    try:
        frame = load_table(session(), source)
        # Over Spark Connect a table is looked up when something is asked of its frame.
        return frame if frame.columns else None
    except Exception as error:
        if not is_of_spark(error):
            raise
        fault = named_spark_error(error, repr(source.table or source.path))
        if isinstance(fault, EnvironmentFault):
            raise fault from error
        return None


def snapshot_by_sql(frame: "DataFrame", source: Source) -> Snapshot:
    """Return the snapshot that a source of a Spark Connect session names, as its catalog tells by SQL.

    The id of an Iceberg table is its location, because SQL does not tell its own. Raises ConfigError
    CONNECT_UNSUPPORTED for a view, a folder or a table without snapshots, and for a snapshot that is not
    named by its number: frames of Spark Connect look such things up whenever they are used.
    """
    spark, name = frame.sparkSession, source.table or source.path_or_empty
    about = {} if source.table is None else described(spark, name)
    provider = about.get("Provider", "")
    if provider not in VERSIONED:
        what = f"{name!r} is not the name of a table with snapshots"
        raise unsupported_remotely(what, "inputs are tables of Delta or Iceberg")
    travel = {option.lower(): value for option, value in source.options.items() if option.lower() in TRAVEL}
    version = travel.get(VERSION.lower(), newest_version(spark, name, provider))
    if "timestampasof" in travel or not isinstance(version, int | None):
        raise unsupported_remotely(f"{name!r}: {travel}", f"name a snapshot by its number, as {VERSION}")
    table_id = about["Location"]
    if provider == "delta":
        table_id = spark.sql(f"DESCRIBE DETAIL {name}").collect()[0]["id"]
    return Snapshot(provider, table_id, version)


def without_aliases(frame: "DataFrame") -> Any:
    """Return the logical plan of a frame below its names."""
    java: Any = frame  # the JVM is PySpark's only access to a plan
    plan = java._jdf.queryExecution().analyzed()
    while class_of(plan).endswith(".SubqueryAlias"):
        plan = plan.child()
    return plan


def snapshot_of(plan: Any) -> Snapshot | None:
    """Return the snapshot that a leaf of a logical plan reads; None if it is not of a versioned table."""
    kind = class_of(plan).rpartition(".")[2]
    if kind == "LogicalRelation" and class_of(plan.relation()).startswith(DELTA_CLASSES):
        files = plan.relation().location()
        return Snapshot("delta", files.metadata().id(), files.version())
    if kind == "DataSourceV2Relation" and class_of(plan.table()).startswith(ICEBERG_CLASSES):
        table = plan.table()
        return Snapshot("iceberg", str(table.table().uuid()), iceberg_version(table))
    return None


def class_of(thing: Any) -> str:
    """Return the name of the class of a Java object."""
    return str(thing.getClass().getName())


def iceberg_version(table: Any) -> int | None:
    """Return the id of the snapshot that a table of Iceberg reads; None if it has none."""
    chosen: int | None = table.snapshotId()
    if chosen is not None:
        return chosen
    current = table.table().currentSnapshot()
    return None if current is None else int(current.snapshotId())
