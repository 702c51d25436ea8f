"""Runs published without Spark, with every table that a report shows, and names that want to be markup."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from spark_eval.accounting import ACCOUNTING, Entry
from spark_eval.comparison.rows import COMPARISONS, GATES, ComparisonRow, GateRow
from spark_eval.evaluation.stages.rows import FUNNEL, STAGE_TABLE
from spark_eval.evaluation.summary import METRICS, MetricRow
from spark_eval.names import folder_name
from spark_eval.predictions.tables import (
    CURVES,
    THRESHOLDS,
    CurveRow,
    PredictionRow,
    ThresholdRow,
)
from spark_eval.predictions.tables import METRICS as PREDICTION_TABLE
from spark_eval.publishing.attempt import Attempt
from spark_eval.publishing.local import LocalStore
from spark_eval.results.rows import fold_rows
from spark_eval.results.subsets import SUBSET_TABLE, SubsetRow
from spark_eval.schema import Table
from spark_eval.splits.leakage import LEAKAGE, LeakageRow

TYPES = {
    "string": pa.string(),
    "int": pa.int32(),
    "long": pa.int64(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
}
HOSTILE = "</script><img src=x onerror=alert(1)>"
HOSTILE_VALUE = "\"'><svg/onload=alert(2)>&lt;{{7*7}}\u2028"
COUNTRIES = ("DE", "FR", HOSTILE_VALUE)
# What every object of JavaScript has already, and other words of its own.
WORDS = (
    *("__proto__", "constructor", "toString", "hasOwnProperty", "valueOf", "prototype", "__defineGetter__"),
    *("length", "then", "null", "undefined", "NaN", "0"),
)
MEASURES = (("ndcg", 5), ("ndcg", 10), ("recall", 5), ("recall", 10), ("mrr", None))
COLUMNS = {"ndcg": "ndcg_at_10", "recall": "recall_at_10"}
SCORES = {"auc": 0.8, "log_loss": 0.4, "confusion(label=0,predicted=1)": 30.0}
STAMP = "default; no_recommendations=zero; no_truth=drop; no_hits=zero; relevance>0"
DAY = 86_400_000_000
DDL = {
    Table.METRICS: METRICS,
    Table.COMPARISONS: COMPARISONS,
    Table.GATES: GATES,
    Table.CURVES: CURVES,
    Table.THRESHOLDS: THRESHOLDS,
    Table.ACCOUNTING: ACCOUNTING,
    Table.LEAKAGE: LEAKAGE,
    Table.SUBSETS: SUBSET_TABLE,
    Table.STAGES: STAGE_TABLE,
    Table.FUNNEL: FUNNEL,
}
BY_MODEL = (Table.METRICS, Table.CURVES, Table.THRESHOLDS)


def write(rows: Sequence[Any], ddl: str, folder: Path, *, by_model: bool) -> None:
    """Write rows as ``write_small`` does, which asks a JVM for the types."""
    fields = [tuple(field.split()) for field in ddl.split(", ")]
    table = pa.table(
        {name: pa.array([getattr(row, name) for row in rows], TYPES[kind]) for name, kind in fields}
    )
    parts = {folder: table}
    if by_model:
        parts = {
            folder / f"model={folder_name(model)}": table.filter(pc.equal(table["model"], model)).drop(
                "model"
            )
            for model in pc.unique(table["model"]).to_pylist()
        }
    for place, part in parts.items():
        place.mkdir(parents=True)
        pq.write_table(part, place / "part-0.parquet", write_page_checksum=True)


def publish(
    root: Path,
    run_id: str,
    verb: str,
    tables: Mapping[Table, Sequence[Any]],
    ddl: str | None = None,
    **facts: Any,
) -> None:
    """Publish rows as a verb would; ``per_user`` are Arrow tables by model."""
    with Attempt(LocalStore(root), run_id, verb) as attempt:
        written = dict[Table, int]()
        for table, rows in tables.items():
            folder = Path(attempt.staged(table))
            if table is Table.PER_USER:
                for model, users in rows:
                    place = folder / f"model={folder_name(model)}"
                    place.mkdir(parents=True)
                    pq.write_table(users, place / "part-0.parquet", write_page_checksum=True)
                written[table] = sum(len(users) for _, users in rows)
                continue
            schema = ddl if ddl and table is Table.METRICS else DDL[table]
            write(rows, schema, folder, by_model=table in BY_MODEL)
            written[table] = len(rows)
        known = {"config": {}, "fingerprint": "f" * 64, "versions": {"spark_eval": "0.1.0"}, "summary": {}}
        attempt.publish(written, {**known, **facts})


def mean(model: str, metric: str, k: int | None, segment: str, value: str, at: float, n: int) -> MetricRow:
    error = 0.3 / n**0.5
    interval = (error, at - 1.96 * error, at + 1.96 * error)
    return MetricRow(model, metric, k, segment, value, at, *interval, n, 0, STAMP)


def lists(
    root: Path,
    run_id: str,
    models: Sequence[str],
    measures: Sequence[tuple[str, int | None]] = MEASURES,
    values: Mapping[str, Sequence[str]] | None = None,
    n_users: int = 400,
    shift: float = 0.0,
    gap: int = 10**6,
) -> None:
    """Publish what ``evaluate`` does: the n-th model is 0.02 times n worse than the first.

    Of the rows of metrics and segments' values each ``gap``-th is left out.
    """
    values = {"country": COUNTRIES} if values is None else values
    rows = []
    for place, model in enumerate(models):
        for number, (metric, k) in enumerate(measures):
            at = 0.5 + shift - 0.02 * place + 0.01 * (number % 7)
            rows.append(mean(model, metric, k, "all", "all", at, n_users))
            for segment, of_segment in values.items():
                for n, value in enumerate(of_segment):
                    n_here = 9 if n == 2 else n_users // len(of_segment)
                    rows.append(mean(model, metric, k, segment, value, at + 0.03 * n, n_here))
            of_folds = [mean(model, metric, k, "fold", str(n), at + 0.01 * n, n_users // 3) for n in range(3)]
            rows += [*of_folds, *fold_rows(of_folds)]
    rows = [row for number, row in enumerate(rows, 1) if number % gap]
    draws = np.random.default_rng(7)
    users = [
        (
            model,
            pa.table(
                {"user": np.arange(n_users)}
                | {
                    column: np.where(draws.random(n_users) < 0.3, 0.0, draws.beta(2, 3 + place, n_users))
                    for column in COLUMNS.values()
                }
            ),
        )
        for place, model in enumerate(models)
    ]
    ends = [
        Entry("recommendations", model, outcome, reason, n, None)
        for model in models
        for outcome, reason, n in (
            ("in", None, 10 * n_users),
            ("used", None, 8 * n_users),
            ("filtered", "beyond_k", n_users),
            ("quarantined", "NULL_ID", n_users),
        )
    ]
    tables: dict[Table, Sequence[Any]] = {Table.METRICS: rows, Table.PER_USER: users, Table.ACCOUNTING: ends}
    summary = {"models": len(models), "users": n_users, "rows_in": 10 * n_users * len(models), "seconds": 1.5}
    config = {"recommendations": {"path": f"s3://key:secret@bucket/{HOSTILE}", "options": {"password": "x"}}}
    facts: dict[str, Any] = {
        "conventions": STAMP,
        "models": list(models),
        "truth_digest": "1",
        "summary": summary,
    }
    publish(root, run_id, "evaluate", tables, config=config, **facts)


def others(root: Path, run_id: str) -> None:
    """Publish metrics at cutoffs far apart, by deciles; a model has lists for 19 of 81 users alone."""
    deciles = [f"d{n}" for n in (1, 10, *range(2, 10))]
    rows = [
        mean(
            model,
            metric,
            k,
            segment,
            value,
            0.5 - 0.1 * place,
            19 if model == "few" and metric == "novelty" else 81,
        )
        for place, model in enumerate(("a", "b", "few"))
        for metric in ("ndcg", "novelty")
        for k in (1, 5, 10, 100)
        for segment, value in (("all", "all"), *(("activity", decile) for decile in deciles))
    ]
    publish(root, run_id, "evaluate", {Table.METRICS: rows}, conventions=STAMP)


def repeats(root: Path, run_id: str) -> None:
    """Publish means over four repeats of two models, with a row of each repeat."""
    rows = []
    for place, model in enumerate(("new loss", HOSTILE)):
        for metric, k in MEASURES[:2]:
            at = 0.5 - 0.03 * place
            whole = mean(model, metric, k, "all", "all", at, 400)
            rows.append(whole._replace(n_repeats=4, std_repeat=0.013, repeat_share=0.4 / (1 + place)))
            rows += [
                mean(model, metric, k, "repeat", f"seed {n}", at + 0.01 * (n - 2.5), 400) for n in range(1, 5)
            ]
    publish(root, run_id, "evaluate", {Table.METRICS: rows}, conventions=STAMP)


def windows(root: Path, run_id: str) -> None:
    """Publish what ``split`` does, in three windows of which the last has a leak."""
    found = [
        {"train_start": None, "train_end": n * DAY, "test_start": n * DAY, "test_end": (n + 7) * DAY}
        for n in (19_700, 19_707, 19_714)
    ]
    leaks = [
        LeakageRow(n, "test_at_or_before_train", 3 if n == 2 else 0, 1 if n == 2 else 0, n == 2)
        for n in range(3)
    ]
    ends_of_log = {"oldest": 19_300 * DAY, "newest": 19_720 * DAY}
    ends = [Entry("interactions", None, outcome, None, 900, None) for outcome in ("in", "used")]
    subsets = [
        row
        for n in range(3)
        for row in (
            SubsetRow(n, "train", 900, 80, 70, None, None, None),
            SubsetRow(n, "test", 100, 40, 30, "train", 21 + n, 3),
        )
    ]
    tables: dict[Table, Sequence[Any]] = {
        Table.LEAKAGE: leaks,
        Table.SUBSETS: subsets,
        Table.ACCOUNTING: ends,
    }
    publish(root, run_id, "split", tables, timeline={"windows": found, **ends_of_log})


def compared(
    root: Path,
    run_id: str,
    models: Sequence[str],
    *,
    passes: bool,
    values: Mapping[str, Sequence[str]] | None = None,
) -> None:
    """Publish what ``compare`` does: all models against the first, and a gate each."""
    values = {"country": COUNTRIES} if values is None else values
    baseline, *others = models
    rows = [
        ComparisonRow(
            baseline,
            model,
            metric,
            k,
            segment,
            value,
            n_users=400,
            baseline_value=0.5,
            candidate_value=0.5 + at,
            difference=at,
            std_error=0.01,
            ci_low=at - 0.02,
            ci_high=at + 0.02,
            test="t",
            statistic=at / 0.01,
            p_value=0.01,
            p_adjusted=0.02,
            family_size=9,
            correction="holm",
            wins=200 + place,
            ties=50,
            losses=150,
            effect_size=0.1,
            mde=0.03,
            conventions=STAMP,
        )
        for place, model in enumerate(others)
        for metric, k in MEASURES
        for segment, value in (("all", "all"), *((one, name) for one in values for name in values[one]))
        for at in (0.03 - 0.02 * place,)
    ]
    gates = [
        GateRow(
            *(
                "ndcg",
                10,
                model,
                None,
                baseline,
                0.01,
                "absolute",
                "non_inferior",
                0.95,
                "all",
                "all",
                100,
                0.9,
            ),
            *("user", 0.5, 0.48, -0.02, -0.04, 0.0, 400, "not_worse" if is_passed else "worse", is_passed),
            *(f"the drop of {model}", 0.01, 0.02, None),
        )
        for place, model in enumerate(others)
        for is_passed in (passes or place > 0,)
    ]
    tables: dict[Table, Sequence[Any]] = {Table.COMPARISONS: rows, Table.GATES: gates, Table.ACCOUNTING: []}
    publish(root, run_id, "compare", tables)


def predictions(
    root: Path, run_id: str, models: Sequence[str], metrics: Mapping[str, float] = SCORES, gap: int = 10**6
) -> None:
    """Publish what ``predictions`` does, with curves of a thousand points, less each ``gap``-th row."""
    rows = [
        PredictionRow(model, metric, None, segment, value, at, None, None, None, None, None, STAMP, 5_000)
        for model in models
        for segment, value in (("all", "all"), ("country", HOSTILE_VALUE))
        for metric, at in metrics.items()
    ]
    rows = [row for number, row in enumerate(rows, 1) if number % gap]
    steps = np.linspace(0, 1, 1001)
    curves: list[CurveRow] = []
    thresholds: list[ThresholdRow] = []
    for place, model in enumerate(models):
        power = 0.2 + 0.2 * place
        curves += [CurveRow(model, "roc", float(x), float(x**power), float(1 - x), None, 0.0) for x in steps]
        curves += [
            CurveRow(model, "pr", float(x), float(1 - x**2 * power), float(1 - x), None, 0.0) for x in steps
        ]
        curves += [
            CurveRow(model, "calibration", n / 10 + 0.05, n / 11, n / 10, 500.0, 0.0) for n in range(10)
        ]
        thresholds += [
            ThresholdRow(
                model, "all", "all", rule, at, 0.4, 0.7, 300.0, cost, 120.0, 180.0, 50.0, 4650.0, STAMP
            )
            for rule, at, cost in (("flags<=300", 0.5, 230.0), ("recall>=0.95", None, None))
        ]
    tables: dict[Table, Sequence[Any]] = {
        Table.METRICS: rows,
        Table.CURVES: curves,
        Table.THRESHOLDS: thresholds,
        Table.ACCOUNTING: [],
    }
    publish(root, run_id, "predictions", tables, PREDICTION_TABLE, conventions=STAMP, models=list(models))
