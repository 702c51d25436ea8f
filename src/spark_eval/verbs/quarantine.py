"""The rows that cannot be used: kept with their codes; too many of them are a failure."""

from collections import Counter
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_eval.accounting import AccountingRow, Entry
from spark_eval.errors import DataError
from spark_eval.schema import FATAL, FAULT, MODEL, Fault, Outcome

# Of rows that are shown where too many are quarantined, and of the characters of each.
MOST_EXAMPLES: Final = 3
MOST_CHARACTERS: Final = 200


def quarantined(source: str, rows: DataFrame) -> DataFrame:
    """source, code, row (as JSON) of those conformed rows of a table that cannot be used."""
    codes = [fault.value for fault in Fault]
    found = rows.where(F.col(FAULT).isin(codes))
    return found.select(
        F.lit(source).alias("source"), F.col(FAULT).alias("code"), F.to_json(F.struct("*")).alias("row")
    )


def share_faults(
    ledger: Sequence[AccountingRow], tables: Mapping[str, DataFrame], most: Mapping[str, float]
) -> list[DataError]:
    """DataErrors QUARANTINE_SHARE of tables of which more than the share ``most`` is quarantined.

    Of recommendations, where that is so of any model's: a sound model does not make up for a broken one.
    Rows of which a single one refuses the table do not count.
    """
    entries = [Entry(*line) for line in ledger]
    n_rows = {(entry.source, entry.model): entry.rows for entry in entries if entry.outcome == Outcome.IN}
    codes: dict[tuple[str, str | None], Counter[str]] = {}
    for entry in entries:
        if entry.outcome == Outcome.QUARANTINED and entry.reason not in set(FATAL):
            codes.setdefault((entry.source, entry.model), Counter())[str(entry.reason)] += entry.rows
    faults = []
    for (source, model), found in codes.items():
        share, n_bad = Fraction(str(most.get(source, 1))), found.total()
        if n_bad > share * n_rows[source, model]:
            rows = tables[source] if model is None else tables[source].where(F.col(MODEL) == model)
            examples = quarantined(source, rows).limit(MOST_EXAMPLES).collect()
            shown = ", ".join(f"{row['code']} {row['row'][:MOST_CHARACTERS]}" for row in examples)
            by_code = ", ".join(f"{number} {code}" for code, number in found.items())
            which = source if model is None else f"{source} of model {model!r}"
            message = f"{which}: {n_bad} of {n_rows[source, model]} rows are quarantined ({by_code})"
            limit = f"{source}.max_quarantined, now {float(share):g}"
            message += f", such as {shown}; mend them, or allow more by {limit}"
            faults.append(DataError("QUARANTINE_SHARE", message))
    return faults
