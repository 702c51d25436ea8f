"""One run of one verb: read the sources, call the data path, write and publish the tables."""

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from functools import reduce
from pathlib import Path
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import spark_eval
from spark_eval.config import Config, Source
from spark_eval.errors import ConfigError
from spark_eval.io import fingerprint, output_root, read_source
from spark_eval.ledger import ACCOUNTING, AccountingRow
from spark_eval.plan import Plan
from spark_eval.publish import Attempt
from spark_eval.scan import plain_recommendations, plain_truth
from spark_eval.schema import FAULT, MODEL, Fault, Outcome, Subset, Table
from spark_eval.segments import user_columns
from spark_eval.transforms.conform import (
    check_id_types,
    conform_interactions,
    conform_items,
    conform_recommendations,
    conform_train,
    conform_truth,
    conform_users,
)
from spark_eval.verbs.evaluate import measure_lists
from spark_eval.verbs.evaluation import Tables
from spark_eval.verbs.leakage import LEAKAGE, leakage_rows
from spark_eval.verbs.small import small_table
from spark_eval.verbs.split import split
from spark_eval.versions import code_version, versions

# What each verb publishes at least.
SPLIT_TABLES: Final = (Table.SPLITS, Table.LEAKAGE, Table.ACCOUNTING)
EVALUATE_TABLES: Final = (Table.PER_USER, Table.METRICS, Table.ACCOUNTING)
# What is relevant, unless the config says otherwise: the test part of this run's own split.
DEFAULT_TRUTH: Final = Source(subset=Subset.GLOBAL_TEST)


@dataclass(frozen=True)
class Run:
    """Where a verb's tables are, whether this very call wrote them, which dead attempts it cleared away."""

    root: Path
    run_id: str
    tables: Mapping[Table, Path]
    is_new: bool
    recovered: Sequence[str]


@dataclass(frozen=True)
class Job:
    """One verb of one config: what it reads, and so which run it is."""

    verb: str
    root: Path
    run_id: str
    fingerprint: str
    config: Mapping[str, Any]
    splits: Path
    timezone: str

    @classmethod
    def of(cls, verb: str, config: Config, run_id: str | None) -> "Job":
        """The job; without a given id, the run's is that of its content: same work, same id.

        A split that other verbs read lies under the same given id, or under the split's own one.
        """
        root = output_root(config.output.path)
        splits_id = run_id or (None if verb == "split" else cls.of("split", config, None).run_id)
        splits = root / Table.SPLITS / f"run_id={splits_id}"
        sections = {
            "split": ("interactions", "split"),
            "evaluate": ("recommendations", "truth", "train", "users", "items", "evaluate"),
        }[verb]
        settings = {name: config.model_dump(mode="json")[name] for name in sections}
        sources = [source for name in sections if isinstance(source := getattr(config, name), Source)]
        if verb == "evaluate" and config.truth is None:
            sources.append(DEFAULT_TRUTH)
        content = {
            "config": {name: without_plan(section) for name, section in settings.items()},
            "inputs": [fingerprint(source, splits) for source in sources],
            "code": code_version(),
        }
        digest = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
        timezone = config.split.rule().timezone
        return cls(verb, root, run_id or f"{verb[0]}-{digest[:16]}", digest, settings, splits, timezone)

    def attempt(self) -> Attempt:
        """A fresh try at it."""
        return Attempt(self.root, self.run_id, self.verb)

    def run(self, attempt: Attempt, tables: Iterable[Table], is_new: bool) -> Run:
        """What is told of it in the end."""
        places = {table: attempt.place(table) for table in tables}
        return Run(self.root, self.run_id, places, is_new, attempt.recovered)

    def record(self, **facts: Any) -> dict[str, Any]:
        """The commit record: config, fingerprint, versions and what else is to be known."""
        all_versions = versions() | {"spark_eval": spark_eval.__version__}
        return {"config": self.config, "fingerprint": self.fingerprint, "versions": all_versions, **facts}


def run_split(session: Callable[[], SparkSession], config: Config, run_id: str | None, replace: bool) -> Run:
    """Label the log and publish ``splits``, ``leakage`` and ``accounting``: one scan, one write."""
    source = needed(config.interactions, "interactions")
    job = Job.of("split", config, run_id)
    with job.attempt() as attempt:
        if attempt.is_published(job.fingerprint, SPLIT_TABLES, replace):
            return job.run(attempt, SPLIT_TABLES, is_new=False)
        spark, rule = session(), config.split.rule()
        log = read_source(spark, source, "interactions", job.splits, rule.timezone)
        parts = split(log, rule, columns=source.columns, timestamp_unit=source.timestamp_unit)
        facts = parts.write(attempt.staged(Table.SPLITS))
        ledger = facts.ledger()
        found = leakage_rows(parts.rows, facts, attempt.staged(Table.SPLITS))
        write(small_table(spark, found, LEAKAGE).coalesce(1), attempt, Table.LEAKAGE)
        tables = {
            Table.SPLITS: sum(facts.counts[part] for part in Subset),
            Table.LEAKAGE: len(found),
            Table.ACCOUNTING: write_accounting(spark, ledger, attempt),
            **write_quarantine({"interactions": parts.labelled}, ledger, attempt),
        }
        attempt.publish(tables, job.record(timeline=asdict(parts.timeline)))
        return job.run(attempt, tables, is_new=True)


def run_evaluate(
    session: Callable[[], SparkSession], config: Config, run_id: str | None, replace: bool
) -> Run:
    """Measure the recommendations and publish ``per_user``, ``metrics`` and ``accounting``."""
    needed(config.recommendations, "recommendations")
    plan = config.evaluate.checked()
    job = Job.of("evaluate", config, run_id)
    with job.attempt() as attempt:
        if attempt.is_published(job.fingerprint, EVALUATE_TABLES, replace):
            return job.run(attempt, EVALUATE_TABLES, is_new=False)
        tables = read_tables(session(), config, job, plan)
        evaluation = measure_lists(tables, plan, attempt.staged(Table.PER_USER))
        with closing(evaluation.kept):
            write(evaluation.metrics.coalesce(1), attempt, Table.METRICS, MODEL)
            ledger = [entry.row() for entry in evaluation.entries]
            written = {
                Table.PER_USER: evaluation.n_per_user,
                Table.METRICS: len(evaluation.metric_rows),
                Table.ACCOUNTING: write_accounting(evaluation.spark, ledger, attempt),
                **write_quarantine(tables.given(), ledger, attempt),
            }
            facts = {"conventions": plan.stamp, "plan": evaluation.reason, "models": list(evaluation.models)}
            attempt.publish(written, job.record(**facts))
        return job.run(attempt, written, is_new=True)


def read_tables(spark: SparkSession, config: Config, job: Job, plan: Plan) -> Tables:
    """What an evaluation reads, conformed."""
    source = needed(config.recommendations, "recommendations")
    sources = {
        "recommendations": source,
        "truth": config.truth or DEFAULT_TRUTH,
        "train": config.train,
        "users": config.users if user_columns(plan.segments) else None,
    }
    frames = {
        name: read_source(spark, table, name, job.splits, job.timezone)
        for name, table in sources.items()
        if table is not None
    }
    return Tables(
        **{name: conform(frame, name, sources[name], job.timezone, plan) for name, frame in frames.items()},
        model=source.model,
        files=plain_recommendations(frames["recommendations"], source.columns, source.model, source.layout),
        truth_files=plain_truth(frames["truth"], sources["truth"].columns, plan.conventions),
    )


def check_inputs(session: Callable[[], SparkSession], config: Config) -> list[str]:
    """Check columns and types of every source that exists already; returns their names."""
    rule, spark, frames = config.split.rule(), session(), {}
    plan, splits = config.evaluate.checked(), Job.of("evaluate", config, None).splits
    for name in ("interactions", "recommendations", "truth", "train", "users", "items"):
        source = getattr(config, name)
        if source is not None:
            frame = read_source(spark, source, name, splits, rule.timezone)
            frames[name] = conform(frame, name, source, rule.timezone, plan)
    check_id_types({name: frame for name, frame in frames.items() if name != "interactions"})
    return list(frames)


def conform(frame: DataFrame, name: str, source: Any, timezone: str, plan: Plan) -> DataFrame:
    """A source with our columns, each unusable row with its fault."""
    match name:
        case "recommendations":
            return conform_recommendations(frame, source.columns, source.model, source.layout)
        case "truth":
            return conform_truth(frame, source.columns, source.timestamp_unit, timezone, plan.conventions)
        case "train":
            return conform_train(frame, source.columns)
        case "users":
            return conform_users(frame, source.columns, plan.segments)
        case "items":
            return conform_items(frame, source.columns)
    return conform_interactions(frame, source.columns, source.timestamp_unit, timezone)


def needed(section: Any, name: str) -> Any:
    """The section, or ConfigError MISSING_SECTION."""
    if section is None:
        raise ConfigError("MISSING_SECTION", f"the config has no section {name!r}, which this verb reads")
    return section


def write(frame: DataFrame, attempt: Attempt, table: Table, *partitions: str) -> None:
    """Stage a table; nothing can be there yet."""
    frame.write.mode("errorifexists").partitionBy(*partitions).parquet(attempt.staged(table))


def write_accounting(spark: SparkSession, rows: Sequence[AccountingRow], attempt: Attempt) -> int:
    """Stage the ledger; the number of its rows."""
    write(small_table(spark, rows, ACCOUNTING).coalesce(1), attempt, Table.ACCOUNTING)
    return len(rows)


def write_quarantine(
    sources: Mapping[str, DataFrame], ledger: Sequence[AccountingRow], attempt: Attempt
) -> dict[Table, int]:
    """Stage the rows that could not be used, if there are any: source, code, and the row as JSON.

    Their number is that of the ledger.
    """
    bad = Counter[str]()
    for source, _, outcome, _, n_rows, _ in ledger:
        if outcome == Outcome.QUARANTINED:
            bad[source] += n_rows
    if not bad:
        return {}
    codes = [fault.value for fault in Fault]
    frames = [
        sources[source]
        .where(F.col(FAULT).isin(codes))
        .select(
            F.lit(source).alias("source"), F.col(FAULT).alias("code"), F.to_json(F.struct("*")).alias("row")
        )
        for source in sorted(bad)
    ]
    write(reduce(DataFrame.unionAll, frames).coalesce(1), attempt, Table.QUARANTINE)
    return {Table.QUARANTINE: bad.total()}


def without_plan(section: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """A section of the config less the physical plan, under all of which the numbers are the same."""
    return section and {key: value for key, value in section.items() if key != "plan"}
