"""Config sections of input tables."""

from pathlib import Path
from typing import Annotated, Final, Literal, NamedTuple, Self

from pydantic import AfterValidator, Field, PrivateAttr, model_validator

from spark_eval.config.input_policy import SCHEMA, TABLE, check_reading, local_uri
from spark_eval.config.keys import Section
from spark_eval.errors import nearest
from spark_eval.names import check_run_id
from spark_eval.runtime.local_files import local_path
from spark_eval.schema import SUBSETS

Scalar = bool | int | float | str
RunId = Annotated[str, AfterValidator(check_run_id)]
InputPath = Annotated[str, Field(min_length=1), AfterValidator(local_uri)]
# Options that name a snapshot of a Delta or Iceberg table, and the one that names it by its number.
VERSION: Final = "versionAsOf"
TRAVEL: Final = (VERSION.lower(), "timestampasof")


class Snapshot(NamedTuple):
    """State of a Delta or Iceberg table: format, id of the table, and version, None of an empty table."""

    format: str
    table_id: str
    version: int | None


class Filter(Section):
    """A typed condition on a column of a source."""

    column: str = Field(description="a column of the source, by its own name")
    op: Literal["==", "!=", "<", "<=", ">", ">=", "in", "between", "is_null", "is_not_null"] = Field(
        description="the condition"
    )
    value: Scalar | list[Scalar] | None = Field(
        default=None, description="value to compare with: a list for in and between, nothing for null tests"
    )

    @model_validator(mode="after")
    def check_value(self) -> Self:
        """Check the value: a list for ``in`` and ``between``, none for null tests, else a scalar."""
        values = self.value if isinstance(self.value, list) else None
        match self.op:
            case "in":
                fits = values is not None
            case "between":
                fits = values is not None and len(values) == 2
            case "is_null" | "is_not_null":
                fits = self.value is None
            case _:
                fits = values is None and self.value is not None
        if not fits:
            raise ValueError(f"value {self.value!r} does not fit op {self.op!r}")
        return self


class Source(Section):
    """An input table: a path or a catalog table, with its columns (ours: theirs), filters and subset.

    A ``subset`` without path and table is that subset of this run's own split. ``fold`` selects one fold.
    """

    path: InputPath | None = Field(default=None, description="a file, a folder or a pattern, local or a URI")
    table: str | None = Field(default=None, description="or a table of the catalog: db.table")
    format: str = Field(
        default="parquet", description="format of the path: csv, json, orc, or any other source of Spark"
    )
    options: dict[str, Scalar] = Field(
        default={}, description="options of Spark's reader, such as {header: true}"
    )
    read: Literal["auto", "bytes", "spark"] = Field(
        default="auto",
        description="how Parquet reaches workers on Spark: whole files as bytes, rows of Spark, or by cost",
    )
    columns: dict[str, str] = Field(default={}, description="column names, ours: theirs")
    timestamp_unit: Literal["s", "ms", "us"] | None = Field(
        default=None, description="unit of timestamps that are integers"
    )
    where: list[Filter] = Field(default=[], description="conditions that all rows must meet")
    subset: str | None = Field(
        default=None, description="subset of a split; without path and table, of this run's split"
    )
    fold: int | None = Field(default=None, ge=0, description="only this fold of a split in folds")
    max_quarantined: float = Field(
        default=1.0, ge=0, le=1, description="fail if more than this share of the rows is quarantined"
    )
    _is_of_run: bool = PrivateAttr(default=False)
    _snapshot: Snapshot | None = PrivateAttr(default=None)

    @model_validator(mode="after")
    def check_place(self) -> Self:
        """Check that the source is one path, one table, or a known subset of this run's split."""
        if (self.path is None) == (self.table is None) and (self.path or self.subset is None):
            raise ValueError("give either a path or a table, or else a subset of this run's split")
        if self.subset is not None and self.subset not in SUBSETS:
            raise ValueError(f"unknown subset {self.subset!r}; {nearest(self.subset, SUBSETS)}")
        if self.table is not None and not TABLE.fullmatch(self.table):
            raise ValueError(
                f"table {self.table!r} is not a name such as table, db.table or catalog.db.table"
            )
        check_reading(self.path, self.format, self.options)
        if self.read != "auto" and (self.table is not None or self.format != "parquet"):
            raise ValueError("read is of a path of Parquet files")
        if {"path", "paths"} & {name.lower() for name in self.options}:
            raise ValueError("options: give the path as the key `path`, not as an option")
        return self

    @property
    def is_of_run(self) -> bool:
        """True if the source is a subset of this run's own split."""
        return self._is_of_run

    @property
    def path_or_empty(self) -> str:
        """Path of the files; empty if there is none."""
        return self.path or ""

    @property
    def own_columns(self) -> list[str]:
        """Columns to read in addition to those of every such table, by their own names."""
        return []

    def at(self, splits: str) -> Self:
        """Return the source with a path; a subset alone gets ``splits``, the path of this run's split."""
        if self.path is not None or self.table is not None:
            return self
        placed = self.model_copy(update={"path": splits})
        placed._is_of_run = True
        return placed

    @property
    def snapshot(self) -> Snapshot | None:
        """Snapshot of a Delta or Iceberg table that is read; None of other sources."""
        return self._snapshot

    @property
    def untravelled(self) -> dict[str, Scalar]:
        """Options but those that name a snapshot."""
        return {name: value for name, value in self.options.items() if name.lower() not in TRAVEL}

    def pinned(self, snapshot: Snapshot) -> Self:
        """Return the source, which from now on reads this snapshot."""
        assert snapshot.version is not None
        fixed = self.model_copy(update={"options": {**self.untravelled, VERSION: snapshot.version}})
        fixed._snapshot = snapshot
        return fixed


class Recommendations(Source):
    """Lists: a row per user and item, or a row per user with an array.

    The name of the model is in a column or in ``model``.
    """

    model: str | None = Field(default=None, description="name of the only model, if no column has it")
    layout: Literal["long", "array"] = Field(
        default="long", description="a row per user and item, or a row per user with an array"
    )


class Output(Section):
    """Output folder or schema; with ``manifest``, tables are published without renames."""

    path: InputPath | None = Field(default=None, description="a folder, local, mounted or a URI")
    manifest: bool = Field(
        default=False, description="for object stores: no renames; read with spark_eval.read_published"
    )
    table: str | None = Field(
        default=None, description="or a schema of a catalog, catalog.schema: each table is one there"
    )
    format: Literal["iceberg", "delta"] | None = Field(
        default=None, description="of these tables; by default the catalog's own"
    )

    @model_validator(mode="after")
    def check_place(self) -> Self:
        """Check that the output is either one path or one schema."""
        if (self.path is None) == (self.table is None):
            raise ValueError("give either a path, or a table: catalog.schema")
        if self.table is not None and not SCHEMA.fullmatch(self.table):
            raise ValueError(f"table {self.table!r} is no name of a schema, such as catalog.schema")
        if self.manifest and self.table is not None:
            raise ValueError("manifest is of a path; tables of a catalog need none")
        if self.format is not None and self.table is None:
            raise ValueError("format is of tables of a catalog; files are Parquet")
        return self

    @property
    def local_root(self) -> Path | None:
        """Folder of the output on this machine; None if it is elsewhere."""
        return None if self.path is None else local_path(self.path)
