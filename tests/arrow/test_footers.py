"""Checksums of Hadoop's beside a file: those of another file are left to Spark, which looks at them."""

import os
import zlib
from pathlib import Path

import pytest

from spark_eval.arrow.footers import MOMENT_NS, checksum_file_matches

CONTENT = bytes(range(250)) * 7


@pytest.mark.parametrize(
    ("older_ns", "is_same", "fits"),
    [
        (0, True, True),
        (-MOMENT_NS, False, True),
        # A busy machine closes a file a moment after its checksums.
        (1, True, True),
        (16_000_000, True, True),
        (16_000_000, False, False),
        (MOMENT_NS, True, False),
    ],
)
def test_checksums_that_are_older_are_of_another_file_unless_they_fit(
    tmp_path: Path, older_ns: int, is_same: bool, fits: bool
) -> None:
    file, checksums = tmp_path / "a.parquet", tmp_path / ".a.parquet.crc"
    parts = [CONTENT[start : start + 512] for start in range(0, len(CONTENT), 512)]
    sums = b"".join(zlib.crc32(part).to_bytes(4, "big") for part in parts)
    checksums.write_bytes(b"crc\0" + (512).to_bytes(4, "big") + sums)
    file.write_bytes(CONTENT if is_same else CONTENT[:900] + b"\0" + CONTENT[901:])
    now = file.stat().st_mtime_ns
    os.utime(file, ns=(now, now))
    os.utime(checksums, ns=(now - older_ns, now - older_ns))
    assert checksum_file_matches(file) == fits


def test_a_file_without_checksums_or_with_odd_ones(tmp_path: Path) -> None:
    file = tmp_path / "a.parquet"
    file.write_bytes(CONTENT)
    assert checksum_file_matches(file)
    for odd in (b"", b"crc\0\0\0\0\0", b"PAR1" * 5):
        (tmp_path / ".a.parquet.crc").write_bytes(odd)
        os.utime(tmp_path / ".a.parquet.crc", ns=(0, file.stat().st_mtime_ns - 1))
        assert not checksum_file_matches(file)
