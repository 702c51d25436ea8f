"""Check the footers of local files against each other, and against Spark's schema."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Final

import pyarrow as pa

from spark_eval.arrow.files import is_consistent
from spark_eval.arrow.footers import columns_of_spark, nanosecond_columns, timestamp_kinds, unsigned_columns
from spark_eval.arrow.sound_footers import EncryptedFile, read_footer
from spark_eval.config.inputs import Source
from spark_eval.errors import DataError, raise_if_of_machine
from spark_eval.runtime.any_session import OpenSession
from spark_eval.runtime.file_kinds import NAMES as FORMATS
from spark_eval.runtime.file_kinds import other_format
from spark_eval.runtime.hadoop_files import files_at
from spark_eval.schema import INPUT_COLUMNS, SUBSET
from spark_eval.sources.listing import check_listing

PARQUET: Final = "parquet"
ORC: Final = "orc"
LOG: Final = "interactions"
HOW_TO_MEND: Final = "write all with one schema"


@dataclass
class FileSchemas:
    """Schemas of local files: columns, columns with nested fields, and the timestamp unit of each file.

    ``unsigned`` says of the columns of each file whether their integers are unsigned, of 64 bits.
    """

    columns: dict[str, list[str]] = field(default_factory=dict)
    paths: dict[str, frozenset[str]] = field(default_factory=dict)
    moments: dict[str, Mapping[str, tuple[bool, bool]]] = field(default_factory=dict)
    unsigned: dict[str, Mapping[str, bool]] = field(default_factory=dict)

    @classmethod
    def of(cls, files: Iterable[str], file_format: str, name: str) -> "FileSchemas":
        """Read the footers of files; encrypted files are left to Spark.

        Raises DataError WRONG_FORMAT for files of another format, CORRUPT_FILE for a missing or inconsistent
        footer, and UNSUPPORTED_TYPE for a column with a type unknown to Arrow, such as 128-bit integers.
        """
        schemas, others, damaged, unknown = cls(), list[str](), list[str](), list[str]()
        for file in files if file_format in FORMATS else ():
            try:
                if file_format in (PARQUET, ORC):
                    schemas.add(file, file_format)
                elif (other := other_format(file, file_format)) is not None:
                    others.append(other)
            except EncryptedFile:
                continue
            except pa.ArrowNotImplementedError as error:
                unknown.append(f"{file!r}: {error}")
            except (OSError, ValueError, pa.ArrowException) as error:
                raise_if_of_machine(error, file)
                other = other_format(file, file_format)
                (damaged if other is None else others).append(other or f"{file!r}: {error}")
        if others:
            raise DataError("WRONG_FORMAT", f"{name}: {others[0]}")
        if damaged:
            message = f"{name}: {len(damaged)} files are damaged, such as {damaged[0]}; write them again"
            raise DataError("CORRUPT_FILE", message)
        if unknown:
            raise unknown_type(name, unknown)
        return schemas

    def add(self, file: str, file_format: str) -> None:
        """Read one footer."""
        fields: list[str] = []
        if file_format == ORC:
            import pyarrow.orc

            self.columns[file] = list(pyarrow.orc.ORCFile(file).schema.names)
        else:
            footer = read_footer(file)
            if not is_consistent(footer):
                raise ValueError("its footer's numbers of rows do not agree")
            columns_of_spark(footer)
            self.columns[file] = list(footer.schema.to_arrow_schema().names)
            self.moments[file] = timestamp_kinds(footer)
            self.unsigned[file] = unsigned_columns(footer)
            for number in range(len(footer.schema)):
                fields += accumulate(footer.schema.column(number).path.split("."), "{}.{}".format)
        self.paths[file] = frozenset(map(str.lower, (*self.columns[file], *fields)))

    def has(self, file: str, column: str) -> bool:
        """Return True if a file has a column or field, ignoring case as Spark does."""
        return column.lower() in self.paths[file]

    @property
    def nanoseconds(self) -> dict[str, bool]:
        """Columns in nanoseconds; see ``nanosecond_columns``."""
        columns = {name for names in self.columns.values() for name in names}
        return nanosecond_columns(self.moments.values(), columns)

    def check(self, wanted: Collection[str], may_lack: bool, name: str) -> None:
        """Raise DataError for columns that some files lack, have twice, or have with another timestamp unit.

        Spark would fill such a column with nulls, or drop it from all files; ``may_lack`` allows that.
        """
        faults = []
        for column in wanted:
            without = [file for file in self.columns if not self.has(file, column)]
            if not may_lack and 0 < len(without) < len(self.columns):
                message = f"{name}: {len(without)} of {len(self.columns)} files have no column {column!r}, "
                message += f"such as {without[0]!r}; {HOW_TO_MEND}, or take nulls with options.mergeSchema"
                faults.append(DataError("SCHEMA_DRIFT", message))
            faults += self.repeated(column, name)
            kinds = {moments[column]: file for file, moments in self.moments.items() if column in moments}
            if len(kinds) > 1:
                message = f"{name}: files count {column!r} in different ways (zone, nanoseconds), such as "
                message += f"{' and '.join(map(repr, kinds.values()))}; {HOW_TO_MEND}"
                faults.append(DataError("SCHEMA_DRIFT", message))
        DataError.raise_all(faults)

    def repeated(self, column: str, name: str) -> list[DataError]:
        """Return an error if a file has a column twice, ignoring case."""
        for file, names in self.columns.items():
            alike = [other for other in names if other.lower() == column.lower()]
            if len(alike) > 1:
                message = f"{name}: columns {', '.join(alike)} of {file!r} differ by case only; rename one"
                return [DataError("AMBIGUOUS_COLUMN", message)]
        return []

    def check_seen(self, wanted: Collection[str], columns: Iterable[str], name: str) -> None:
        """Raise DataError SCHEMA_DRIFT for columns of the files that Spark's schema lacks."""
        known = {column.lower() for column in columns}
        for column in wanted:
            holder = next((file for file in self.columns if self.has(file, column)), None)
            if holder is not None and known.isdisjoint({column.lower(), column.lower().partition(".")[0]}):
                message = f"{name}: Spark does not see column {column!r} of {holder!r}, which is not in a "
                message += "_common_metadata or _metadata beside it, or not in a schema of Spark's that its "
                raise DataError("SCHEMA_DRIFT", f"{message}writer kept; remove that, or {HOW_TO_MEND}")


def unknown_type(name: str, files: Sequence[str]) -> DataError:
    """Return the error of files with a column type that Arrow lacks; ``files`` describes each."""
    what = f"{name}: {len(files)} files have a column of a type that cannot be read, such as {files[0]}"
    return DataError("UNSUPPORTED_TYPE", f"{what}; write it with another type, or leave it out")


def columns_of(source: Source, name: str, segments: Collection[str], schemas: FileSchemas) -> list[str]:
    """Return the columns of a source that are read, by their names there; all columns of a log."""
    ours = {*INPUT_COLUMNS[name], *source.columns, *segments}
    theirs = {source.columns.get(column, column) for column in ours}
    theirs |= {condition.column for condition in source.where}
    theirs |= {SUBSET} if source.subset is not None else set()
    theirs.update(source.own_columns)
    if name == LOG:
        names = (column for columns in schemas.columns.values() for column in columns)
        theirs.update({column.lower(): column for column in names}.values())
    return sorted(theirs)


@dataclass(frozen=True)
class CheckedFiles:
    """Files of a source by name, the schemas of the local ones, and the columns to read."""

    files: Mapping[str, str]
    schemas: FileSchemas
    wanted: Sequence[str]

    @property
    def local(self) -> list[str]:
        """The paths of the local files."""
        return [file for file in self.files.values() if file.startswith("/")]


def check_files(
    source: Source, name: str, segments: Collection[str], before: Collection[str] | None, session: OpenSession
) -> CheckedFiles:
    """Return the files of a path, or of this run's split, after all checks that read no row.

    ``session`` is opened only for files that are not a plain folder of this machine. Raises DataError
    MISSING_SPLIT, and the errors of ``check_listing`` and ``FileSchemas``.
    """
    if source.is_of_run and not (root := files_at(session, source.path_or_empty)).is_there(root.root):
        run_id = source.path_or_empty.rpartition("run_id=")[2]
        fix = f"run `spark-eval split --config FILE --run-id {run_id}` first"
        raise DataError("MISSING_SPLIT", f"{name}: no split at {source.path_or_empty}; {fix}")
    files = check_listing(source, name, before, session)
    local = [file for file in files.values() if file.startswith("/")]
    schemas = FileSchemas.of(local, source.format, name)
    wanted = columns_of(source, name, segments, schemas)
    options = {option.lower(): str(value).lower() for option, value in source.options.items()}
    schemas.check(wanted, options.get("mergeschema") == "true", name)
    return CheckedFiles(files, schemas, wanted)
