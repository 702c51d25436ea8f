"""Sources that name a snapshot: what they read, and what decides the run."""

from types import SimpleNamespace
from typing import Any

import pytest

from spark_eval.config.inputs import Snapshot, Source
from spark_eval.errors import ConfigError
from spark_eval.sources.listing import fingerprint
from spark_eval.sources.snapshots import iceberg_version

SNAPSHOT = Snapshot("delta", "0a1b", 3)


def no_session() -> Any:
    raise AssertionError("no session is needed")


@pytest.mark.parametrize("options", [{}, {"versionAsOf": 3}, {"TimestampAsOf": "2024-05-01"}])
def test_a_pinned_source_reads_its_snapshot_however_it_was_named(options: dict[str, Any]) -> None:
    source = Source(table="shop.log", options={**options, "mergeSchema": True}).pinned(SNAPSHOT)
    assert source.options == {"mergeSchema": True, "versionAsOf": 3}
    assert source.untravelled == {"mergeSchema": True}
    assert fingerprint(source, no_session) == [SNAPSHOT]


@pytest.mark.parametrize("option", ["snapshot-id", "as-of-timestamp", "branch", "Tag"])
def test_older_ways_to_name_a_snapshot_are_refused(option: str) -> None:
    with pytest.raises(ConfigError) as error:
        Source(table="lake.shop.log", options={option: 7})
    assert error.value.code == "UNSUPPORTED_INPUT"


@pytest.mark.parametrize(("chosen", "current", "version"), [(7, 8, 7), (None, 8, 8), (None, None, None)])
def test_the_version_of_iceberg(chosen: int | None, current: int | None, version: int | None) -> None:
    snapshot = None if current is None else SimpleNamespace(snapshotId=lambda: current)
    inner = SimpleNamespace(currentSnapshot=lambda: snapshot)
    table = SimpleNamespace(snapshotId=lambda: chosen, table=lambda: inner)
    assert iceberg_version(table) == version
