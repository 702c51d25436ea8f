"""Quarantine: invalid rows of conformed tables, and limits on their share."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from functools import partial
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from spark_eval.accounting import Entry
from spark_eval.arrow.json_rows import rows_as_json
from spark_eval.arrow.row_faults import FaultRule
from spark_eval.errors import DataError
from spark_eval.runners.rows import Rows, SparkRows
from spark_eval.schema import FATAL, FAULT, MODEL, Fault, Outcome

CODES: Final = pa.array([fault.value for fault in Fault])
QUARANTINE: Final = pa.schema({"source": pa.string(), "code": pa.string(), "row": pa.string()})
NONE: Final = pa.RecordBatch.from_pylist([], QUARANTINE)
# Number of quarantined rows in a message, and the maximum number of characters of each.
MOST_EXAMPLES: Final = 3
LONGEST_EXAMPLE: Final = 200
# Hints added to messages, by source and code.
HINTS: Final = {
    ("predictions", Fault.NOT_A_PROBABILITY.value): "; say scores: raw of scores that are no probabilities",
    ("events", Fault.VALUE_OUT_OF_RANGE.value): "; say value: count of events that have no value",
}


def quarantined(source: str, rows: Rows, model: str | None = None) -> Rows:
    """Return (source, code, row as JSON) of the invalid rows of a conformed table, or of a model in it."""
    if rows.session is None:
        make = partial(quarantined_batch, source, model)
        return rows.map(lambda batches: map(make, batches), QUARANTINE)
    from pyspark.sql import functions as F

    frame = rows.result() if model is None else rows.where_in(MODEL, [model]).result()
    bad = frame.where(F.col(FAULT).isin(CODES.to_pylist()))
    return SparkRows(
        bad.select(
            F.lit(source).alias("source"), F.col(FAULT).alias("code"), F.to_json(F.struct("*")).alias("row")
        )
    )


def quarantined_batch(source: str, model: str | None, batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return (source, code, row as JSON) of the invalid rows of a batch, or of one of its models."""
    rows = pa.table(batch)
    if model is not None:
        rows = rows.filter(pc.equal(rows[MODEL].cast(pa.string()), model))
    rows = rows.filter(pc.is_in(rows[FAULT], value_set=CODES)).combine_chunks()
    columns = [pa.repeat(source, len(rows)), rows[FAULT], rows_as_json(rows)]
    return pa.table(columns, schema=QUARANTINE).combine_chunks().to_batches()[0] if len(rows) else NONE


def share_faults(
    entries: Sequence[Entry], tables: Mapping[str, Rows], most: Mapping[str, float]
) -> list[DataError]:
    """Return errors QUARANTINE_SHARE for tables with a larger quarantined share than ``most`` allows.

    Recommendations are checked per model, so that valid models do not hide a broken one. Rows with fatal
    codes are not counted, because each of them is an error by itself.
    """
    n_rows = {(entry.source, entry.model): entry.rows for entry in entries if entry.outcome == Outcome.IN}
    codes: dict[tuple[str, str | None], Counter[str]] = {}
    for entry in entries:
        if entry.outcome == Outcome.QUARANTINED and entry.reason not in set(FATAL):
            codes.setdefault((entry.source, entry.model), Counter())[str(entry.reason)] += entry.rows
    faults = []
    for (source, model), of_codes in codes.items():
        share, n_bad = Fraction(str(most.get(source, 1))), of_codes.total()
        if n_bad > share * n_rows[source, model]:
            examples = quarantined(source, tables[source], model).first(MOST_EXAMPLES)
            shown = ", ".join(f"{row['code']} {row['row'][:LONGEST_EXAMPLE]}" for row in examples)
            by_code = ", ".join(f"{number} {code}" for code, number in of_codes.items())
            which = source if model is None else f"{source} of model {model!r}"
            message = f"{which}: {n_bad} of {n_rows[source, model]} rows are quarantined ({by_code})"
            limit = f"{source}.max_quarantined, now {float(share):g}"
            message += f", such as {shown}; fix them, or allow more by {limit}"
            message += "".join(HINTS.get((source, code), "") for code in of_codes)
            faults.append(DataError("QUARANTINE_SHARE", message))
    return faults


def unusable_rows(rows: Rows, rule: FaultRule) -> Rows:
    """Return the conformed rows that are invalid by the rule, with the code in ``fault``."""
    names = [name for name in rows.columns if name != FAULT]
    kinds = pa.schema({name: rows.kind(name) for name in names}).append(pa.field(FAULT, pa.string()))

    def judged(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            table = pa.table(batch)
            _, faults = rule(table)
            if faults is not None:
                codes = faults.cast(pa.string())
                is_fault = pc.is_in(codes, value_set=CODES)
                bad = table.select(names).append_column(FAULT, codes).filter(is_fault)
                yield from bad.cast(kinds).to_batches()

    return rows.as_typed.map(judged, kinds)
