"""Tables of a result as pandas, polars, Arrow and Spark frames."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Final

import pandas as pd
import pyarrow as pa

from spark_eval.errors import ConfigError, SetupError
from spark_eval.results.driver_tables import SmallRows, arrow_table, is_of_spark, to_arrow

if TYPE_CHECKING:
    from polars import DataFrame as PolarsFrame
    from pyspark.sql import DataFrame

# pandas types of integer columns that may have missing values.
WHOLE_NUMBERS: Final = {pa.int32(): pd.Int32Dtype(), pa.int64(): pd.Int64Dtype()}


class Exported(ABC):
    """Result with tables; ``tables`` are their names.

    Tables in the driver are pandas frames, whichever engine ran. Tables with a row per user or interaction
    are Spark frames if Spark has computed them, and otherwise of the kind that was given.
    """

    tables: ClassVar[tuple[str, ...]]
    # Tables that only some results have; ``write`` leaves them out.
    on_request: ClassVar[tuple[str, ...]] = ()

    @property
    @abstractmethod
    def small_tables(self) -> Mapping[str, SmallRows]:
        """The rows of tables in the driver, with their schemas."""

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__()} - {"small_rows", "small_tables"})

    def small_rows(self, name: str) -> SmallRows | None:
        """Return the rows of a table in the driver, with their schema; None for a large table."""
        return self.small_tables.get(name)

    def table(self, name: str | None = None) -> Any:
        """Return a table by its name.

        Args:
            name: One of ``tables``; by default the first one.

        Returns:
            A pandas frame. ``per_user`` and the rows of a split are Spark frames if Spark has computed them,
            and otherwise of the kind that was given.

        Raises:
            ConfigError: UNKNOWN_TABLE.

        Examples:
            With the ``result`` of the example of ``evaluate``:

            >>> "rr_at_2" in result.table("per_user").columns
            True
        """
        name = self.tables[0] if name is None else name
        names = (*self.tables, *self.on_request)
        if name not in names:
            raise ConfigError.unknown("UNKNOWN_TABLE", "table", name, names, type(self).__name__)
        return getattr(self, name)

    def to_arrow(self, table: str | None = None) -> pa.Table:
        """Return a table as an Arrow table.

        Args:
            table: The name of a table; by default the first one of ``tables``. All of its rows are collected.

        Returns:
            The Arrow table.

        Raises:
            ConfigError: UNKNOWN_TABLE.

        Examples:
            With the ``result`` of the example of ``evaluate``:

            >>> result.to_arrow("per_user").num_rows
            2
        """
        frame, rows = self.table(table), self.small_rows(table or self.tables[0])
        return to_arrow(frame) if rows is None else arrow_table(*rows)

    def to_pandas(self, table: str | None = None) -> pd.DataFrame:
        """Return a table as a pandas frame; integer columns with missing values remain integer.

        Args:
            table: The name of a table; by default the first one of ``tables``. All of its rows are collected.

        Returns:
            The pandas frame.

        Raises:
            ConfigError: UNKNOWN_TABLE.

        Examples:
            With the ``result`` of the example of ``evaluate``:

            >>> result.to_pandas("per_user").set_index("user")["rr_at_2"].sort_index().tolist()
            [0.5, 1.0]
        """
        return pandas_frame(self.to_arrow(table))

    def to_polars(self, table: str | None = None) -> "PolarsFrame":
        """Return a table as a polars frame.

        Args:
            table: The name of a table; by default the first one of ``tables``. All of its rows are collected.

        Returns:
            The polars frame.

        Raises:
            ConfigError: UNKNOWN_TABLE.
            SetupError: NO_POLARS if polars is not installed.

        Examples:
            With the ``result`` of the example of ``evaluate``:

            >>> result.to_polars("metrics")["value"].to_list()
            [0.5, 0.75]
        """
        rows = self.to_arrow(table)
        try:
            import polars
        except ImportError as error:
            message = "to_polars needs polars, which is not installed; pip install polars, or use to_arrow"
            raise SetupError("NO_POLARS", message) from error
        frame = polars.from_arrow(rows)
        assert isinstance(frame, polars.DataFrame)
        return frame

    def to_spark(self, table: str | None = None) -> "DataFrame":
        """Return a table as a Spark frame.

        The session is that of the result; a result of this process takes the session of ``get_session``.

        Args:
            table: The name of a table; by default the first one of ``tables``.

        Returns:
            The Spark frame, the very frame that Spark has computed if there is one.

        Raises:
            ConfigError: UNKNOWN_TABLE.
            SetupError: NO_JAVA if there is no session, and none can be started.

        Examples:
            With the ``result`` of the example of ``evaluate``:

            >>> result.to_spark("metrics").select("metric", "value").first()
            Row(metric='mrr', value=0.5)
        """
        frame = self.table(table)
        if is_of_spark(frame):
            of_spark: DataFrame = frame
            return of_spark
        from spark_eval.runtime.session import get_session
        from spark_eval.tables.frames import arrow_to_spark

        spark = getattr(self, "spark", None)
        return arrow_to_spark(
            get_session() if spark is None else spark, table or self.tables[0], self.to_arrow(table)
        )


def pandas_frame(rows: pa.Table) -> pd.DataFrame:
    """Return rows as a pandas frame; integer columns have types for missing values."""
    frame: pd.DataFrame = rows.to_pandas(types_mapper=WHOLE_NUMBERS.get)
    return frame


class SmallFrame(cached_property[pd.DataFrame]):
    """Attribute of results: a table in the driver as a pandas frame, made at first access."""

    def __init__(self, table: str, meaning: str) -> None:
        def frame(result: Exported) -> pd.DataFrame:
            rows = result.small_rows(table)
            assert rows is not None
            return pandas_frame(arrow_table(*rows))

        frame.__doc__ = f"The table ``{table}``: {meaning}"
        super().__init__(frame)

    def __set_name__(self, owner: type[Any], name: str) -> None:
        super().__set_name__(owner, name)
        self.func.__module__ = owner.__module__  # documentation tools look there
