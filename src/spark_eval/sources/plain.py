"""Sources of a config that this process reads: plain Parquet files of this machine. No Spark here."""

from collections.abc import Collection, Sequence

from spark_eval.config.inputs import Source
from spark_eval.runners.local_tables import NotPlain, OpenedTable, file_schema, paths_by_folder, plain_paths
from spark_eval.runtime.any_session import OpenSession
from spark_eval.schema import SUBSET, SUBSETS
from spark_eval.sources.listing import list_plainly
from spark_eval.sources.schemas import PARQUET, check_files


def open_plain(
    source: Source, name: str, segments: Collection[str], before: Collection[str] | None, session: OpenSession
) -> OpenedTable:
    """Return the files of a source and their columns, after the checks that sources have on Spark.

    ``segments`` are columns of users that are read, ``before`` the names of the files at the start of the
    run. Raises NotPlain if only Spark can read the source.
    """
    if reason := reason_for_spark(source):
        raise NotPlain(f"{name} {reason}")
    paths = sorted(check_files(source, name, segments, before, session).local)
    if source.subset is not None:
        return open_subset(paths, source.path_or_empty, source.subset, name)
    if paths != plain_paths(source.path_or_empty):
        raise NotPlain(f"{name} is not a folder of files alone")
    return None, paths, file_schema(paths)


def open_subset(paths: Sequence[str], folder: str, subset: str, name: str) -> OpenedTable:
    """Return those of the files of a split that are of a subset; NotPlain if only Spark can read them."""
    values = paths_by_folder(folder, SUBSET)
    if values is None or sorted(values) != list(paths):
        raise NotPlain(f"{name} is not a folder of subsets alone")
    schema = file_schema(paths)
    parts = {part.value for part in SUBSETS[subset]}
    chosen = [path for path in paths if values[path] in parts]
    if not chosen or SUBSET in map(str.lower, schema.names):
        raise NotPlain(f"{name} has no folder of {subset} alone")
    return None, chosen, schema


def reason_for_spark(source: Source) -> str | None:
    """Return why only Spark reads a source; None if this process may."""
    if source.table is not None:
        return "is a table of the catalog"
    if source.format != PARQUET:
        return f"is {source.format.upper()}"
    if source.options:
        return f"has the option {next(iter(source.options))}"
    if source.where or source.fold is not None:
        return "is read by conditions"
    if list_plainly(source) is None:
        return "is not a folder of files of this machine"
    return None
