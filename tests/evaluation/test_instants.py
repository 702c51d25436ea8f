"""Timestamps of every kind become instants, whatever the session's time zone."""

import pytest
from conformed import conformed_log
from frames import settings
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from spark_eval.errors import DataError
from spark_eval.schema import FAULT, ITEM, TIMESTAMP


@pytest.mark.parametrize("zone", ["UTC", "America/Los_Angeles"])
@pytest.mark.parametrize(
    ("unit", "moments"),
    [
        ("s", {"1711846800": 1711846800, "NULL": None}),
        ("s", {"1711846800.5D": 1711846800.5}),
        ("ms", {"1711846800001L": 1711846800.001}),
        ("us", {"1711846800000001L": 1711846800.000001}),
        (None, {"TIMESTAMP'2024-03-31 01:00:00Z'": 1711846800}),
        (None, {"DATE'2024-03-31'": 1711839600}),
        (
            None,
            {  # Clocks in Berlin jump from 2 to 3 in March; in October they show 02:30 twice.
                "TIMESTAMP_NTZ'2024-03-31 01:59:59'": 1711846799,
                "TIMESTAMP_NTZ'2024-03-31 03:00:00'": 1711846800,
                "TIMESTAMP_NTZ'2024-10-27 02:30:00'": 1729989000,
                "TIMESTAMP_NTZ'2024-10-27 03:00:00'": 1729994400,
            },
        ),
        (
            None,
            {
                "'2024-03-31 01:59:59'": 1711846799,
                "'2024-03-31 03:00:00'": 1711846800,
                "'2024-03-31T03:00:00.25'": 1711846800.25,
                "'2024-03-31'": 1711839600,
                "'2024-03-31T01:00:00Z'": 1711846800,
                "'2024-03-31 01:00:00.5Z '": 1711846800.5,
                "'2024-03-31 02:00:00+01:00'": 1711846800,
                "'2024-03-31 02:00:00+0100'": 1711846800,
                "'2024-03-31 02:00:00+01'": 1711846800,
                "'2024-03-31 01:00:00 UTC'": 1711846800,
                "'2024-03-30 21:00:00 America/New_York'": 1711846800,
                "'yesterday'": None,
                "'31/03/2024'": None,
            },
        ),
    ],
    ids=["seconds", "parts of seconds", "ms", "us", "timestamp", "date", "ntz", "string"],
)
def test_every_timestamp_is_an_instant_whatever_the_session_zone(
    spark: SparkSession, zone: str, unit: str | None, moments: dict[str, float | None]
) -> None:
    values = ", ".join(f"({place}, {value})" for place, value in enumerate(moments))
    with settings(spark, {"spark.sql.session.timeZone": zone}):
        frame = spark.sql(f"SELECT 1 AS user, item, timestamp FROM VALUES {values} AS rows(item, timestamp)")
        log = conformed_log(frame, None, unit, "Europe/Berlin")
        rows = log.select(ITEM, F.unix_micros(TIMESTAMP), FAULT).orderBy(ITEM).collect()
    expected = [None if moment is None else round(moment * 1e6) for moment in moments.values()]
    assert [row[1] for row in rows] == expected
    assert [row[2] for row in rows] == [None if moment else "NULL_TIMESTAMP" for moment in expected]


@pytest.mark.parametrize(("kind", "code"), [("int", "TIMESTAMP_UNIT_MISSING"), ("boolean", "TIMESTAMP_TYPE")])
def test_a_timestamp_of_an_unsupported_type_is_refused(spark: SparkSession, kind: str, code: str) -> None:
    frame = spark.createDataFrame([], f"user int, item int, timestamp {kind}")
    with pytest.raises(DataError) as raised:
        conformed_log(frame, None, None, "UTC")
    assert raised.value.code == code
