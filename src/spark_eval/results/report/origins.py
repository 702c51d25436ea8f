"""Chapters on the origin of numbers: split and leakage, accounting of rows, config and versions."""

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from spark_eval.accounting import Entry
from spark_eval.errors import without_secrets
from spark_eval.results.report.chapters import Chapter, Dataset, Form, Statement, Tone, View, chart, warning
from spark_eval.results.report.data import RunFacts
from spark_eval.results.subsets import SubsetRow, cold_warnings, counted_ways_to_train
from spark_eval.schema import MODEL, Outcome, Row, Subset, Table

# Outcomes of rows, shown in a bar; all other outcomes count users.
ROW_OUTCOMES: Final = (
    *(Outcome.USED, Outcome.FILTERED, Outcome.DEDUPLICATED, Outcome.DROPPED, Outcome.QUARANTINED),
)
# Tables that have chapters, and the one whose columns are for addition, not for readers.
NOT_OTHERS: Final = {
    *(Table.SUBSETS, Table.LEAKAGE, Table.METRICS, Table.ACCOUNTING, Table.CURVES, Table.THRESHOLDS),
    *(Table.COMPARISONS, Table.SLICES, Table.GATES, Table.STAGES, Table.FUNNEL),
    *(Table.EXPERIMENTS, Table.INTERLEAVINGS, Table.CHECKS, Table.DECISIONS),
    *(Table.CALIBRATION, Table.FORECASTS),
    Table.SUMS,
}
SUBSET_HEADINGS: Final = {
    "trained_on": "trained on",
    "cold_users": "cold users",
    "cold_items": "cold items",
}


def other_tables(facts: RunFacts) -> Chapter | None:
    """Return the chapter with the tables that no other chapter has, row by row."""
    views = [
        View(Form.TABLE, name, Dataset.of(name, rows, list(rows[0])))
        for name, rows in facts.tables.items()
        if rows and name not in NOT_OTHERS
    ]
    return Chapter("Other tables", views=views) if views else None


def split_in_time(facts: RunFacts) -> Chapter | None:
    """Return the chapter on the split: time ranges of the subsets, leakage checks, and subset sizes."""
    checks = facts.rows(Table.LEAKAGE)
    spans = list(spans_of((facts.records.get("split") or {}).get("timeline") or {}))
    if not checks and not spans:
        return None
    views = []
    if spans:
        shown = ("fold", "part", "from", "to")
        dataset = Dataset.of("spans", spans, (*shown, "start", "end"))
        alt = "Parts of the log in time (UTC), a lane for each fold"
        # Records of earlier versions lack the first and last timestamp of the log.
        is_known = all(span[end] is not None for span in spans for end in ("start", "end"))
        kind = Form.SPANS if is_known else Form.TABLE
        views.append(chart(kind, "Parts in time", dataset, alt, shown=shown))
    leaked = sum(row["rows"] for row in checks if row["leaked"])
    statements = []
    if checks:
        tone = (Tone.BAD, "LEAK") if leaked else (Tone.GOOD, "No leak")
        statements.append(Statement(f"{leaked:,} leaked rows in {len(checks)} checks.", *tone))
        lines = [{**row, "verdict": leak_verdict(row)} for row in checks]
        columns = ("fold", "check", "rows", "users", "verdict")
        dataset = Dataset.of("leakage", lines, columns, {"verdict": "leaked"})
        views.append(View(Form.TABLE, "Leakage checks", dataset))
    if subsets := facts.rows(Table.SUBSETS):
        dataset = Dataset.of("subsets", subsets, SubsetRow._fields, SUBSET_HEADINGS)
        views.append(View(Form.TABLE, "Subsets", dataset))
        statements += [Statement(f"{text[0].upper()}{text[1:]}.") for text in counted_ways_to_train(subsets)]
        statements += [warning("Cold start", f"{text}.") for text in cold_warnings(subsets)]
    return Chapter("The split", statements, views)


def leak_verdict(check: Row) -> str:
    """Return the verdict of a leakage check: ``LEAK``, ``allowed`` (rows found, but permitted) or ``no``."""
    return "LEAK" if check["leaked"] else "allowed" if check["rows"] else "no"


def spans_of(split: Row) -> Iterator[dict[str, Any]]:
    """Yield the time range of each subset of a split, in milliseconds since the epoch; None if unknown.

    An open start or end is that of the log. A subset with an end that the record lacks has no range.
    """
    oldest, newest = split.get("oldest"), split.get("newest")
    for fold, part, of_subset, start_key, end_key in subsets_in_time(split):
        if part is None or not {start_key, end_key} - {None} <= of_subset.keys():
            continue
        start, end = (None if key is None else of_subset[key] for key in (start_key, end_key))
        first, last = (oldest if start is None else start), (newest if end is None else end)
        yield {
            "fold": fold,
            "part": part,
            "from": "the beginning of the log" if first is None else in_utc(first),
            "to": "the end of the log" if last is None else in_utc(last),
            "start": None if first is None else first / 1000,
            "end": None if last is None else last / 1000,
        }


def subsets_in_time(
    split: Row,
) -> Iterator[tuple[str, str | None, Row, str | None, str]]:
    """Yield fold and name of each subset, and the mapping and its keys with start (None: open) and end."""
    for fold, window in enumerate(split.get("windows") or ()):
        for subset in (Subset.TRAIN, Subset.TEST):
            yield str(fold), str(subset), window or {}, f"{subset}_start", f"{subset}_end"
    for period in split.get("periods") or ():
        yield "", (period or {}).get("subset"), period or {}, "start", "end"
    if "global_cut" in split:
        yield "", str(Subset.LOCAL_TRAIN), split, None, "local_train_end"
        ranker = f"{Subset.RANKER_TRAIN}, {Subset.RANKER_TEST}"
        yield "", ranker, split, "local_cut", "local_test_end"
        yield "", str(Subset.GLOBAL_TEST), split, "global_cut", "end"


def in_utc(microseconds: int) -> str:
    """Return a timestamp as text, in UTC.

    >>> in_utc(1_715_831_414_000_000)
    '2024-05-16 03:50:14'
    """
    return str(np.datetime64(microseconds, "us").astype("datetime64[s]")).replace("T", " ")


def accounting(facts: RunFacts) -> Chapter | None:
    """Return the chapter on the accounting: shares of each table's rows by outcome, and all lines."""
    rows = facts.rows(Table.ACCOUNTING)
    if not rows:
        return None
    counts: dict[str, Counter[str]] = {}
    for row in rows:
        if row["outcome"] in ROW_OUTCOMES:
            table = row["source"] if row[MODEL] is None else f"{row['source']} of {row[MODEL]}"
            counts.setdefault(table, Counter())[row["outcome"]] += row["rows"]
    lines = [{"table": table, **{one: count[one] for one in ROW_OUTCOMES}} for table, count in counts.items()]
    views = [
        chart(
            Form.STACK,
            "Rows of each table",
            Dataset.of("ends", lines, ("table", *ROW_OUTCOMES)),
            "Which share of each table's rows is used, filtered, deduplicated, dropped and quarantined",
            label="table",
            values=ROW_OUTCOMES,
            is_share=True,
        ),
        View(Form.TABLE, "All lines", Dataset.of("accounting", rows, Entry._fields)),
    ]
    quarantined = sum(row["rows"] for row in rows if row["outcome"] == Outcome.QUARANTINED)
    statements = [Statement("Every row that was read is counted once: those in are the sum of all others.")]
    if quarantined:
        text = f"{quarantined:,} rows are quarantined; the table quarantine holds them."
        statements.append(warning("Unusable", text))
    return Chapter("What became of every row", statements, views)


def provenance(facts: RunFacts) -> Chapter | None:
    """Return the chapter on the commit records: conventions, versions, fingerprints and configs."""
    if not facts.records:
        return None
    rows, texts = [], {}
    for verb, record in facts.records.items():
        rows += [{"verb": verb, "what": what, "is": text} for what, text in record_lines(record)]
        settings = without_secrets(record.get("config") or {})
        texts[f"Config of {verb}"] = json.dumps(settings, indent=2, ensure_ascii=False)
    dataset = Dataset.of("provenance", rows, ("verb", "what", "is"))
    table = View(Form.TABLE, "Conventions, versions, fingerprint", dataset)
    return Chapter("Where it comes from", (), [table], texts=texts)


def record_lines(record: Row) -> Iterator[tuple[str, str]]:
    """Yield the entries of a commit record except config and timeline, as pairs of name and text."""
    for name in ("published_at", "conventions", "fingerprint", "truth_digest"):
        if record.get(name) is not None:
            yield name.replace("_", " "), str(record[name])
    # Another version may have written the record, without some of its keys.
    parts = {name: record.get(name) or {} for name in ("tables", "versions", "summary", "snapshots", "runs")}
    for name, size in parts["tables"].items():
        if (n_rows := (size or {}).get("rows")) is not None:
            yield f"rows of {name}", f"{n_rows:,}"
    for name, version in parts["versions"].items():
        yield f"version of {name}", str(version)
    if (seconds := parts["summary"].get("seconds")) is not None:
        yield "seconds", str(seconds)
    for name, snapshot in parts["snapshots"].items():
        known = snapshot or {}
        yield f"snapshot of {name}", f"{known.get('format')}, versionAsOf: {known.get('version')}"
    for run, digest in parts["runs"].items():
        yield f"read run {run}", str(digest)
