"""Text columns are read as codes while the writer kept its dictionary, and as text where it gave it up."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spark_eval.arrow.files import FilePart, FileState, read_parts

N_ROWS = 60_000
# Forty thousand texts of fifty bytes, twice the usual limit of a dictionary, and seven texts.
MANY = [f"{number % 40_000:050}" for number in range(N_ROWS)]
FEW = [f"item {number % 7}" for number in range(N_ROWS)]


@pytest.mark.parametrize("use_dictionary", [True, False])
def test_texts_are_codes_only_where_a_file_has_codes(tmp_path: Path, use_dictionary: bool) -> None:
    path = str(tmp_path / "lists.parquet")
    rows = pa.table({"user": MANY, "item": FEW})
    pq.write_table(rows, path, use_dictionary=use_dictionary, row_group_size=N_ROWS // 2)
    part = FilePart(path, FileState.of(path), (0, 1), 0)
    batches = list(read_parts([part], {"user": "user", "item": "item"}, coded=True))
    assert {batch["user"].type for batch in batches} == {pa.string()}
    assert all(pa.types.is_dictionary(batch["item"].type) for batch in batches)
    found = [pa.Table.from_batches([batch]).cast(rows.schema) for batch in batches]
    assert pa.concat_tables(found).combine_chunks() == rows
