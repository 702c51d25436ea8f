"""An input table: find its columns, check their types, collect its errors."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from operator import or_
from typing import Final

from pyspark.errors import PySparkTypeError
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from spark_eval.arrow.row_faults import inexact_relevance
from spark_eval.errors import DataError
from spark_eval.names import quote_column
from spark_eval.schema import (
    EXACT_DIGITS,
    FOLD,
    INEXACT,
    LARGEST_EXACT,
    NO_TEXT,
    TIMESTAMP,
    Fault,
)
from spark_eval.tables import spec as specs
from spark_eval.tables.columns import DIVIDER, NO_TIMESTAMP_UNIT, check_mapping, missing_column
from spark_eval.tables.file_parts import PlainFiles
from spark_eval.tables.plain_files import arrow_type, plain_files
from spark_eval.tables.stored_files import StoredFiles

# Spark's collation of plain strings.
BYTE_BY_BYTE: Final = "UTF8_BINARY"
FROM_EPOCH = {"s": F.timestamp_seconds, "ms": F.timestamp_millis, "us": F.timestamp_micros}
# Suffix after the time of day that Spark accepts as an offset: Z, +01, +01:00, UTC or Europe/Berlin.
OFFSET = r":\d{1,2}(\.\d*)?\s*([A-Za-z]\S*|[+-]\d{1,2}(:?\d{2}){0,2})\s*$"
ID_TYPES = (T.ByteType, T.ShortType, T.IntegerType, T.LongType, T.StringType)
# Types that columns of a kind get on Spark.
CASTS: Final = {
    specs.Kind.WHOLE: "long",
    specs.Kind.NUMBER: "double",
    specs.Kind.CLASS_NUMBER: "double",
    specs.Kind.VECTOR: "array<double>",
    specs.Kind.FLAG: "boolean",
}
PLAIN_TYPES: Final = (
    T.ByteType,
    T.ShortType,
    T.IntegerType,
    T.LongType,
    T.StringType,
    T.FloatType,
    T.DoubleType,
)
VALUE_TYPES: Final = (*PLAIN_TYPES, T.BooleanType, T.DateType, T.TimestampType, T.TimestampNTZType)
# Types of columns of a kind in files that workers read; for others PLAIN_TYPES. Arrow formats integers as
# Spark does, and has no lists in plain files.
IN_FILES: Final[Mapping[specs.Kind, tuple[type[T.DataType], ...]]] = {
    specs.Kind.TEXT: (T.StringType, T.IntegralType, T.BooleanType),
    specs.Kind.EXACT: (*PLAIN_TYPES, T.BooleanType),
    specs.Kind.INSTANT: (T.TimestampType, T.IntegralType),
    specs.Kind.MICROSECONDS: (T.TimestampType, T.IntegralType),
    # A float has another text than the double that Spark makes of it.
    specs.Kind.SCALAR: (T.StringType, T.BooleanType, T.IntegralType, T.DoubleType),
    specs.Kind.VALUE: VALUE_TYPES,
    specs.Kind.STRATUM: VALUE_TYPES,
    specs.Kind.VECTOR: (),
    specs.Kind.SET: (),
    specs.Kind.LABELS: (),
    specs.Kind.EMBEDDING: (),
    specs.Kind.FLAG: (T.BooleanType,),
}
# Types of columns of a kind.
ALLOWED: Final[Mapping[specs.Kind, tuple[type[T.DataType], ...]]] = {
    specs.Kind.WHOLE: (T.IntegralType,),
    specs.Kind.NUMBER: (T.NumericType, T.BooleanType),
    specs.Kind.SCORE: (T.NumericType, T.BooleanType),
    specs.Kind.EXACT: (T.NumericType, T.BooleanType),
    specs.Kind.ORDERED: (T.NumericType, T.BooleanType),
    specs.Kind.RANK: (T.NumericType,),
    specs.Kind.CLASS_NUMBER: (T.NumericType, T.BooleanType),
    specs.Kind.CLASS_NAME: (T.StringType,),
    specs.Kind.VECTOR: (T.ArrayType,),
    specs.Kind.SET: (T.StringType,),
    specs.Kind.EMBEDDING: (T.UserDefinedType,),
    specs.Kind.FLAG: (T.BooleanType,),
}


@dataclass
class Input:
    """A frame, its name in messages, and its column mapping (ours: theirs).

    ``needed`` maps columns to the purpose they are needed for, as used in messages.
    """

    frame: DataFrame
    source: str
    names: Mapping[str, str]
    faults: list[DataError] = field(default_factory=list)
    needed: Mapping[str, str] = field(default_factory=dict)

    def has(self, name: str) -> bool:
        """Return True if the table has our column ``name``, mapped or by its own name."""
        return name in self.names or name in self.frame.columns

    def lacks(self, name: str) -> bool:
        """Return True if the table lacks the column for ours."""
        theirs = self.names.get(name, name)
        return theirs not in self.frame.columns and theirs.split(".")[0] not in self.frame.columns

    def column(self, name: str) -> Column:
        """Return the table's column for ours; a dot selects a field of a struct. Note a missing one."""
        theirs = self.names.get(name, name)
        outer, *inner = [theirs] if theirs in self.frame.columns else theirs.split(".")
        alike = [column for column in self.frame.columns if column.lower() == outer.lower()]
        if outer not in alike:
            needed = self.needed.get(name, "")
            self.note(missing_column(self.source, name, self.names, self.frame.columns, needed))
        elif len(alike) > 1:
            self.fault("AMBIGUOUS_COLUMN", f"columns {', '.join(alike)} differ by case only; rename one")
        elif not has_path(self.frame.schema[outer].dataType, inner):
            kind = self.frame.schema[outer].dataType.simpleString()
            self.fault("MISSING_COLUMN", f"no field {theirs!r}; column {outer!r} is {kind}")
        else:
            return F.col(".".join(quote_column(part) for part in (outer, *inner)))
        return F.lit(None)

    def kind(self, name: str) -> T.DataType:
        """Return the type of the table's column for ours."""
        return self.frame.select(self.column(name)).schema[0].dataType

    def typed(self, name: str, allowed: tuple[type[T.DataType], ...], code: str, what: str) -> Column:
        """Return the column if its type is one of ``allowed``; otherwise note an error with this code."""
        kind = self.kind(name)
        if not isinstance(kind, (*allowed, T.NullType)):
            self.fault(code, f"column {self.names.get(name, name)!r} is {kind.simpleString()}; {what}")
        return self.column(name)

    def id(self, name: str) -> Column:
        """Return an id unchanged: an integer or a string; decimals without places become integers."""
        kind = self.kind(name)
        if isinstance(kind, T.DecimalType) and not kind.scale:
            return self.whole(name)
        code = "ID_IS_FLOAT" if isinstance(kind, T.FractionalType) else "ID_TYPE_UNSUPPORTED"
        hint = "ids are integers or strings (in pandas: astype('Int64'))"
        column = self.typed(name, ID_TYPES, code, hint)
        if not isinstance(kind, T.StringType):
            return column
        if kind.collation != BYTE_BY_BYTE:
            theirs = self.names.get(name, name)
            message = f"column {theirs!r} is {kind.simpleString()}, under which different ids may be equal; "
            self.fault("ID_COLLATION", f"{message}cast it: CAST({theirs} AS STRING COLLATE {BYTE_BY_BYTE})")
        return self.readable(name, column)

    def whole(self, name: str) -> Column:
        """Return decimals without places as longs; one of more than 64 bits fails the job."""
        number, message = self.column(name).try_cast("long"), f"error[UNSUPPORTED_TYPE] {self.source}: "
        message += f"column {self.names.get(name, name)!r} {specs.TOO_LONG}"
        fault = F.raise_error(F.lit(message)).cast("long")
        return F.when(self.column(name).isNotNull() & number.isNull(), fault).otherwise(number)

    def of_kind(self, column: specs.Column) -> Column:
        """Return a column of a spec, with the type of its kind; note an error for another type."""
        name, kind = column.name, column.kind
        if not self.is_allowed(kind, self.kind(name)):
            self.note(column.fault(self.source, self.names[name], self.kind(name).simpleString()))
            return F.lit(None)
        if kind in CASTS:
            return self.column(name).cast(CASTS[kind])
        if kind in specs.TIMES:
            when = instant(self, column.unit, column.timezone)
            return when if kind is specs.Kind.INSTANT else F.unix_micros(when)
        makers = {
            specs.Kind.ID: self.id,
            specs.Kind.TEXT: self.text,
            specs.Kind.SCORE: self.score,
            specs.Kind.EXACT: self.exact,
            specs.Kind.ORDERED: self.ordered,
            specs.Kind.RANK: self.rank,
            specs.Kind.SET: self.set_of,
            specs.Kind.LABELS: self.set_of,
            specs.Kind.EMBEDDING: self.embedding,
            specs.Kind.SCALAR: self.scalar,
            specs.Kind.VALUE: self.value,
            specs.Kind.STRATUM: self.value,
            specs.Kind.ORIGINAL: self.original,
        }
        return makers.get(kind, self.column)(name)

    def is_allowed(self, kind: specs.Kind, found: T.DataType) -> bool:
        """Return True for a type of columns of this kind."""
        if isinstance(found, T.NullType):
            return True
        match kind, found:
            case specs.Kind.SET | specs.Kind.LABELS, T.ArrayType():
                return isinstance(found.elementType, (*ID_TYPES, T.NullType))
            case specs.Kind.EMBEDDING, T.ArrayType():
                return isinstance(found.elementType, T.NumericType | T.NullType)
            case specs.Kind.EMBEDDING, T.MapType():
                return isinstance(found.keyType, T.IntegralType) and isinstance(
                    found.valueType, T.NumericType
                )
        return kind not in ALLOWED or isinstance(found, ALLOWED[kind])

    def ordered(self, name: str) -> Column:
        """Return a number with its order preserved: longs and decimals unchanged, others as doubles."""
        is_exact = isinstance(self.kind(name), T.LongType | T.DecimalType)
        return self.column(name) if is_exact else self.column(name).cast("double")

    def rank(self, name: str) -> Column:
        """Return ranks as longs, or as doubles: pandas returns whole ranks as doubles."""
        is_whole = isinstance(self.kind(name), T.IntegralType)
        return self.column(name).cast("long" if is_whole else "double")

    def set_of(self, name: str) -> Column:
        """Return a column of sets as arrays of text; what is no array is text, divided by ``|``."""
        if isinstance(self.kind(name), T.ArrayType):
            return self.column(name).cast("array<string>")
        return F.split(self.text(name), rf"\{DIVIDER}")

    def embedding(self, name: str) -> Column:
        """Return a column of vectors; dense vectors of floats stay floats."""
        column = self.column(name)
        match self.kind(name):
            case T.ArrayType(elementType=T.FloatType()):
                return column
            case T.MapType():
                return column.cast("map<bigint,double>")
            case T.UserDefinedType():
                from pyspark.ml.functions import vector_to_array

                return F.when(column.isNotNull(), vector_to_array(column))
        return column.cast("array<double>")

    def score(self, name: str) -> Column:
        """Return a number as a double; longs as they are: the workers find those that no double holds."""
        column = self.column(name)
        return column if isinstance(self.kind(name), T.LongType) else column.cast("double")

    def exact(self, name: str) -> Column:
        """Return a number as a double; one that is rounded fails the job, for no reader of it could know."""
        refused = F.raise_error(F.lit(str(inexact_relevance())))
        return F.when(self.is_inexact(name), refused).otherwise(self.column(name).cast("double"))

    def value(self, name: str) -> Column:
        """Return a column unchanged; text must be UTF-8."""
        column, is_text = self.column(name), isinstance(self.kind(name), T.StringType)
        return self.readable(name, column) if is_text else column

    def scalar(self, name: str) -> Column:
        """Return a column as text, a boolean, a long or a double."""
        kind = self.kind(name)
        if isinstance(kind, T.BooleanType):
            return self.column(name)
        if isinstance(kind, T.NumericType):
            return self.column(name).cast("long" if isinstance(kind, T.IntegralType) else "double")
        return self.text(name)

    def original(self, name: str) -> Column:
        """Return a column as it was given; as text if the workers lack its type."""
        try:
            arrow_type(self.kind(name))
        except PySparkTypeError:
            return self.column(name).cast("string")
        return self.column(name)

    def text(self, name: str) -> Column:
        """Return a model or segment of any type as text."""
        return self.readable(name, self.column(name).cast("string"))

    def readable(self, name: str, column: Column) -> Column:
        """Return text unchanged; invalid UTF-8 fails the job, because two texts could become equal."""
        message = f"error[INVALID_TEXT] {self.source}: column {self.names.get(name, name)} {NO_TEXT}"
        fault = F.raise_error(F.lit(message)).cast("string")
        return F.when(~F.is_valid_utf8(column), fault).otherwise(column)

    def number(self, name: str, code: str) -> Column:
        """Return the column as a double."""
        return self.typed(name, (T.NumericType, T.BooleanType), code, "a number is needed").cast("double")

    def is_inexact(self, name: str) -> Column:
        """Return True for numbers that a double may not distinguish from another number.

        Doubles distinguish decimals of up to 15 digits. A longer one is exact if casting back restores it.
        """
        kind, number = self.kind(name), self.column(name)
        if isinstance(kind, T.LongType):
            return ~number.between(-LARGEST_EXACT, LARGEST_EXACT)
        if isinstance(kind, T.DecimalType) and kind.precision > EXACT_DIGITS:
            comes_back = F.coalesce(number.cast("double").try_cast(kind) == number, F.lit(False))
            digits = F.regexp_replace(number.cast("string"), r"[-.]|E.*$", "")
            is_short = F.length(F.regexp_replace(digits, "^0+|0+$", "")) <= EXACT_DIGITS
            return number.isNotNull() & ~comes_back & ~is_short
        return F.lit(False)

    def fault(self, code: str, message: str) -> None:
        """Note an error of the table, once."""
        self.note(DataError(code, f"{self.source}: {message}"))

    def note(self, fault: DataError) -> None:
        """Note this error, once."""
        if str(fault) not in map(str, self.faults):
            self.faults.append(fault)

    def check(self) -> None:
        """Raise DataError with all errors of the table, if there are any."""
        DataError.raise_all(self.faults)

    def conformed(self, columns: Mapping[str, Column]) -> DataFrame:
        """Return the table with these columns, by our names; raise DataError with all its errors."""
        self.check()
        return self.frame.select(*(column.alias(name) for name, column in columns.items()))


def has_path(kind: T.DataType, fields: Sequence[str]) -> bool:
    """Return True if this field path exists in a struct, or in the structs of an array."""
    for name in fields:
        kind = kind.elementType if isinstance(kind, T.ArrayType) else kind
        if not isinstance(kind, T.StructType) or name not in kind.names:
            return False
        kind = kind[name].dataType
    return True


def open_input(frame: DataFrame, source: str, names: Mapping[str, str] | None) -> Input:
    """Return the table with its column mapping (ours: theirs); ConfigError for a name that is not ours."""
    check_mapping(source, names or {})
    return Input(frame, source, names or {})


def conformed_on_spark(
    spec_of: specs.SpecOf, name: str, frame: DataFrame, names: Mapping[str, str]
) -> tuple[DataFrame, PlainFiles | StoredFiles | None]:
    """Return a frame with the columns of its spec, and its files if workers can read and judge these.

    ``names`` map our columns to theirs. A decimal score has a column INEXACT beside it: True where a double
    rounds it.

    Raises one DataError with all errors of its columns.
    """
    spec = specs.spec_for(spec_of, name, frame.columns, names)
    if spec.unfold is not None:
        frame, names = spec.unfold(frame), {}
        spec = specs.spec_for(spec_of, name, frame.columns, names)
    columns = spec.there(frame.columns, names)
    table = Input(frame, name, {one.name: one.theirs(names) for one in columns}, [*spec.faults])
    conformed: dict[str, Column] = {}
    for one in columns:
        if table.lacks(one.name):
            table.note(spec.missing(one, frame.columns, names))
            continue
        conformed[one.name] = table.of_kind(one)
        if one.kind is specs.Kind.SCORE and isinstance(table.kind(one.name), T.DecimalType):
            conformed[INEXACT] = table.is_inexact(one.name)
    rows = table.conformed(conformed)
    return rows, files_of_workers(frame, columns, table.names) if spec.is_judged_by_workers else None


def files_of_workers(
    frame: DataFrame, columns: Sequence[specs.Column], theirs: Mapping[str, str]
) -> PlainFiles | StoredFiles | None:
    """Return the files of a frame with the columns that are judged; None if Spark must read some."""
    read = [one for one in columns if one.kind is not specs.Kind.ORIGINAL]
    if any(frame.columns.count(theirs[one.name]) != 1 for one in read):
        return None
    kinds = [(frame.schema[theirs[one.name]].dataType, one) for one in read]
    if not all(type(kind) in VALUE_TYPES and are_judged_by_workers(kind, one) for kind, one in kinds):
        return None
    return plain_files(frame, {one.name: theirs[one.name] for one in read})


def are_judged_by_workers(kind: T.DataType, column: specs.Column) -> bool:
    """Return True if workers take values of this type, in plain files, as Spark does for a column."""
    if column.kind in specs.TIMES and isinstance(kind, T.TimestampNTZType):
        return column.timezone == "UTC"
    return isinstance(kind, IN_FILES.get(column.kind, PLAIN_TYPES))


def fold_of(table: Input) -> dict[str, Column]:
    """Return the column ``fold`` as a long, if the table has one."""
    if not table.has(FOLD):
        return {}
    whole = table.typed(FOLD, (T.IntegralType,), "FOLD_NOT_INTEGER", "folds are whole numbers")
    return {FOLD: whole.cast("long")}


def instant(table: Input, unit: str | None, timezone: str) -> Column:
    """Return the table's timestamp as an instant; null if text is not a timestamp.

    Numbers are epochs in ``unit`` (s, ms, us). Text, dates and zoneless timestamps are local to ``timezone``,
    unless the text has an offset. A column of any other type is an error of the table.
    """
    column = table.column(TIMESTAMP)
    kind = table.kind(TIMESTAMP)
    match kind:
        case T.TimestampType() | T.NullType():
            return column.cast("timestamp")
        case T.TimestampNTZType() | T.DateType():
            return local_instant(column.cast("timestamp_ntz"), timezone)
        case T.StringType():
            local = local_instant(column.try_cast("timestamp_ntz"), timezone)
            return F.when(column.rlike(OFFSET), column.try_cast("timestamp")).otherwise(local)
        case T.NumericType() if unit is not None:
            return FROM_EPOCH[unit](column if unit == "s" else column.cast("long"))
        case T.NumericType():
            table.fault("TIMESTAMP_UNIT_MISSING", NO_TIMESTAMP_UNIT)
        case _:
            what = f"the timestamp column is {kind.simpleString()}"
            table.fault("TIMESTAMP_TYPE", f"{what}; map columns.timestamp to one that tells a time")
    return F.lit(None).cast("timestamp")


def local_instant(wall_clock: Column, timezone: str) -> Column:
    """Return the instant of this zoneless timestamp as wall time in ``timezone``.

    It is computed in microseconds since the epoch, because Spark's casts would use the session's zone.
    """
    epoch = F.lit("1970-01-01 00:00:00").cast("timestamp_ntz")
    utc = F.convert_timezone(F.lit(timezone), F.lit("UTC"), wall_clock)
    return F.timestamp_micros(F.timestamp_diff("MICROSECOND", epoch, utc))


def first_fault_column(faults: Mapping[Fault, Column]) -> Column:
    """Return the code of the first condition that is true, or null."""
    return F.coalesce(*(F.when(condition, code.value) for code, condition in faults.items()))


def is_any_null(*keys: Column) -> Column:
    """Return True if any key is null."""
    return reduce(or_, (key.isNull() for key in keys))
