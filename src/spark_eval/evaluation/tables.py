"""The conformed tables of an evaluation, and their validation by counts before any value is returned.

Without it, values of unusable tables would be zeros.
"""

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from spark_eval.accounting import (
    Entry,
    ListCounts,
    TruthCounts,
    check_accounting,
    list_entries,
    rows_in,
    table_entries,
)
from spark_eval.arrow.files import Batches
from spark_eval.arrow.row_faults import FaultRule, judge_lists, judge_train, judge_truth
from spark_eval.conventions import RecommendationDuplicates
from spark_eval.errors import ConfigError, DataError
from spark_eval.evaluation.plan import LARGEST_DOUBLE, ListWeight, MeanInterval, Plan, RequestTruth
from spark_eval.evaluation.specs import COARSER, LISTS, Descriptions, coarser_names, without_coarser
from spark_eval.evaluation.summaries import Summaries
from spark_eval.kernels.stages import check_stage_models
from spark_eval.names import model_faults, repeat_faults
from spark_eval.runners.conformed import align_ids, check_id_types, id_type
from spark_eval.runners.quarantine import MOST_EXAMPLES, share_faults, unusable_rows
from spark_eval.runners.rows import Rows
from spark_eval.runtime import events
from spark_eval.schema import (
    FATAL,
    FAULT,
    FEATURES,
    FOLD,
    GROUPS,
    ITEM,
    MODEL,
    MOST_FOLDS,
    N_RECOMMENDED,
    N_RELEVANT,
    RANK,
    RELEVANCE,
    REPEAT,
    REQUEST,
    SCORE,
    SEGMENT,
    SEGMENT_VALUE,
    USER,
    VECTOR,
    Outcome,
    Reason,
    Table,
)
from spark_eval.statistics.exact import Ints

# Columns of conformed tables, in the order that Spark's frames have.
CONFORMED: Final = (
    *(MODEL, REPEAT, USER, ITEM, RELEVANCE, FOLD, REQUEST, RANK, SCORE),
    *(GROUPS, FEATURES, VECTOR, FAULT),
)
# Maximum number of folds in a message.
MOST_FOLDS_NAMED: Final = 10
# The sign of users that are requests is looked for in these first rows.
ROWS_LOOKED_AT: Final = 100_000


def warn_of_requests(lists: Rows, described: Descriptions) -> None:
    """Warn LOOKS_LIKE_REQUESTS if users of recommendations belong to coarser ids, which are users by name."""
    theirs = (described[LISTS].columns or {}).get(USER, USER)
    for other, of_table in coarser_names(described).items():
        name = COARSER.format(other)
        if name not in lists.columns:
            continue
        pairs = pa.Table.from_pylist(lists.as_typed.select(USER, name).first(ROWS_LOOKED_AT))
        if len(pairs) and is_finer(pairs):
            message = f"LOOKS_LIKE_REQUESTS: recommendations: several {theirs!r} belong to one {other!r}"
            message += f", {of_table}; map user to {other!r} and request to {theirs!r}"
            message += ", or standard errors are too small"
            events.say("looks_like_requests", message, logging.WARNING, column=theirs, user=other)


def is_finer(rows: pa.Table) -> bool:
    """Return True if each id of the first column has one of the second, and one of these has several."""
    pairs = (
        rows.rename_columns(["finer", "coarser"])
        .drop_null()
        .group_by(["finer", "coarser"], use_threads=False)
        .aggregate([])
    )
    n_finer, n_coarser = (pc.count_distinct(pairs[name]).as_py() for name in ("finer", "coarser"))
    return bool(n_coarser < n_finer == len(pairs))


@dataclass(frozen=True)
class Tables:
    """The conformed tables, and the plan of their evaluation.

    ``model`` is the name of the only model, if the lists have no column of model names. ``most_quarantined``
    is the largest share of rows that may be quarantined, by table; tables that are missing from it have no
    limit.
    """

    plan: Plan
    recommendations: Rows
    truth: Rows
    train: Rows | None = None
    users: Rows | None = None
    items: Rows | None = None
    model: str | None = None
    most_quarantined: Mapping[str, float] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        rows: Mapping[str, Rows],
        described: Descriptions,
        plan: Plan,
        most_quarantined: Mapping[str, float] | None = None,
    ) -> "Tables":
        """Return opened tables, with ids of one type. Raises DataError ID_TYPE_MISMATCH."""
        warn_of_requests(rows[LISTS], described)
        lists = without_coarser(rows[LISTS], described)
        model = described[LISTS].model
        given: dict[str, Any] = {**rows, LISTS: lists}
        return cls(plan, **given, model=model, most_quarantined=most_quarantined or {}).aligned()

    def given(self) -> dict[str, Rows]:
        """Return the tables that were given, by name."""
        names = ("recommendations", "truth", "train", "users", "items")
        return {name: frame for name in names if (frame := getattr(self, name)) is not None}

    def aligned(self) -> "Tables":
        """Return the tables with ids of one type. Raises DataError ID_TYPE_MISMATCH."""
        check_id_types(self.given())
        recommendations, truth = align_ids(self.recommendations, self.truth)
        return replace(self, recommendations=recommendations, truth=truth)

    @property
    def id_types(self) -> dict[str, pa.DataType]:
        """Arrow types of the engine's ids: text, or integers of 64 bits. Without requests, none for these."""
        ids = {name: id_type(self.truth, name) for name in (USER, ITEM)}
        return ids | ({REQUEST: id_type(self.recommendations, REQUEST)} if self.plan.by_request else {})

    @property
    def user_schemas(self) -> dict[str, pa.Schema]:
        """Schemas of ``per_user`` and, with segments of items, of ``item_segments``; ids keep their types."""
        plan, both = self.plan, {SEGMENT: pa.string(), SEGMENT_VALUE: pa.string()}
        schemas = {str(Table.PER_USER): self.schema_of_users({}, plan.columns)}
        if plan.item_segments:
            columns = [column for value in plan.item_metrics for column in value.columns]
            schemas[str(Table.ITEM_SEGMENTS)] = self.schema_of_users(both, columns)
        return schemas

    def schema_of_users(self, more: Mapping[str, pa.DataType], metrics: Sequence[str]) -> pa.Schema:
        """Return the schema of a table with a row per user; its ids keep their types."""
        plan = self.plan
        columns = {MODEL: pa.string()} | ({REPEAT: pa.string()} if plan.has_repeats else {})
        columns |= {USER: self.truth.kind(USER)}
        columns |= {REQUEST: self.recommendations.kind(REQUEST)} if plan.by_request else {}
        columns |= {N_RELEVANT: pa.int64(), N_RECOMMENDED: pa.int64()}
        columns |= {FOLD: pa.int32()} if plan.by_fold else {}
        columns |= {name: pa.string() for name in plan.segments if name != FOLD}
        return pa.schema(columns | dict(more) | dict.fromkeys(metrics, pa.float64()))

    @property
    def rules(self) -> dict[str, FaultRule]:
        """Rule of each table whose rows are validated in executors."""
        return {
            "recommendations": judge_lists,
            "truth": partial(judge_truth, conventions=self.plan.conventions),
        }

    def judged(self, entries: Iterable[Entry]) -> dict[str, Rows]:
        """Return the quarantined rows of the tables that have any, with codes in ``fault``."""
        bad = {entry.source for entry in entries if entry.outcome == Outcome.QUARANTINED}
        rules = self.rules
        return {
            name: as_conformed(unusable_rows(table, rules.get(name, judge_train)), name, self.model)
            for name, table in self.given().items()
            if name in bad
        }


def as_conformed(rows: Rows, name: str, model: str | None) -> Rows:
    """Return rows of a table with all of its columns, in one order and of the same types on both engines."""
    of_tables: dict[str, dict[str, Any]] = {"recommendations": {MODEL: model}, "truth": {RELEVANCE: 1.0}}
    constants = of_tables.get(name, {})
    kinds = {}
    for column in CONFORMED:
        kind = rows.kind(column) if column in rows.columns else None
        if column == MODEL and column in (*rows.columns, *constants):
            kinds[column] = pa.string()
        elif column == RELEVANCE and column in (*rows.columns, *constants):
            kinds[column] = pa.float64()
        elif column in (RANK, SCORE) and kind is not None:
            is_long = pa.types.is_integer(kind) and (column == RANK or kind == pa.int64())
            kinds[column] = pa.int64() if is_long else pa.float64()
        elif kind is not None:
            kinds[column] = kind
    schema = pa.schema(kinds)

    def conformed(batches: Batches) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            columns = [
                batch[column] if column in batch.schema.names else pa.repeat(constants[column], len(batch))
                for column in kinds
            ]
            yield from pa.table(columns, names=list(kinds)).cast(schema).to_batches()

    return rows.map(conformed, schema)


def truth_faults(entries: Sequence[Entry], counts: TruthCounts, plan: Plan) -> list[DataError]:
    """Return the errors of the truth, other than invalid rows: no relevant row, or gains beyond a double."""
    largest, faults = counts.max_relevance, []
    if not counts.n_users:
        left = unused(entries, "truth")
        message = f"truth: no relevant row is left{left}; see relevance.threshold, where and subset"
        faults.append(DataError("EMPTY_TRUTH", message))
    elif largest > LARGEST_DOUBLE:
        message = "truth: the sum of an item's relevances is larger than any double"
        faults.append(DataError("RELEVANCE_TOO_LARGE", f"{message}; scale relevances down"))
    elif largest > plan.most_relevance:
        message = f"truth: relevance {largest} is too large for gain=exp2; at most {plan.most_relevance}"
        faults.append(DataError("RELEVANCE_TOO_LARGE", message))
    return faults


def checked_entries(
    tables: Tables, of_training: Sequence[Entry], train_folds: Ints | None, summaries: Summaries
) -> list[Entry]:
    """Return the entries of the accounting; raise one DataError that lists the errors of all tables.

    Raises ConfigError UNKNOWN_MODEL if the base or a stage names a model without recommendations.
    """
    plan, entries = tables.plan, [*of_training, *table_entries("truth", summaries.truth)]
    of_truth = truth_faults(entries, summaries.truth, plan)
    of_folds = fold_faults(summaries) if plan.by_fold and not of_truth else []
    if train_folds is not None and plan.reads_items:
        of_folds += train_fold_faults(summaries, train_folds.tolist())
    entries += list_entries(summaries.lists, summaries.truth.n_users, plan.conventions, summaries.n_repeats)
    events.stage("measure", rows_in(entries, "truth") + rows_in(entries, "recommendations"), then="metrics")
    check_tables(tables, entries, summaries, [*of_truth, *of_folds])
    if plan.base is not None and plan.base not in summaries.models:
        raise ConfigError.unknown("UNKNOWN_MODEL", "model", plan.base, summaries.models, "evaluate.base")
    check_stage_models(plan.stages, summaries.models)
    return entries


def check_tables(
    tables: Tables,
    entries: Sequence[Entry],
    summaries: Summaries,
    faults: Sequence[DataError],
) -> None:
    """Check that the accounting closes; raise one DataError that lists the errors of all tables.

    ``faults`` are the errors already found. Errors of the lists, rows with
    fatal codes and excessive quarantine are added.
    """
    of_lists, shares = list_faults(tables, entries, summaries.lists, summaries.names), []
    if tables.most_quarantined:
        bad = tables.judged(entries)
        shares = share_faults(entries, bad, tables.most_quarantined)
    check_accounting(entries, [*faults, *of_lists, *shares])


def list_faults(
    tables: Tables,
    entries: Sequence[Entry],
    counts: Mapping[str | None, ListCounts],
    repeats: Sequence[str] = (),
) -> list[DataError]:
    """Return the errors of the recommendations, other than invalid rows.

    ``repeats`` are the names of models with their repeats. The errors are invalid names, no user in common
    with the truth, and repeated items if refused.
    """
    named = {model: count for model, count in counts.items() if model is not None}
    once_only = tables.plan.conventions.recommendation_duplicates is RecommendationDuplicates.REFUSE
    faults = [*model_faults(list(named)), *repeat_faults(repeats)]
    if not counts:
        message = "recommendations: not a single row; see their path, where and subset"
        faults.append(DataError("EMPTY_RECOMMENDATIONS", message))
    has_truth = any(entry.source == "truth" and entry.outcome == Outcome.USED for entry in entries)
    for model, count in named.items():
        lists = f"recommendations of model {model!r}"
        # If all lists are rejected for another reason, only that reason is reported.
        is_refused = not count.without_truth and any(count.rows[Outcome.QUARANTINED, one] for one in FATAL)
        if has_truth and not count.with_truth and not is_refused:
            left = unused(entries, "recommendations", model)
            owner = "user and request" if tables.plan.request_truth is RequestTruth.REQUESTS else "user"
            message = f"{lists}: no valid row has a {owner} of the truth{left}"
            if not any(fault.code == "NO_ID_OVERLAP" for fault in faults):
                for name in (USER, REQUEST)[: 1 + owner.count(REQUEST)]:
                    here, there = some_ids(tables.recommendations, name, model), some_ids(tables.truth, name)
                    message += f"; here {name}s are {here}, there {there}"
            faults.append(DataError("NO_ID_OVERLAP", f"{message}; write ids alike in both tables"))
        n_repeated = count.rows[Outcome.DEDUPLICATED, Reason.REPEATED_ITEM]
        if n_repeated and once_only:
            message = f"{lists}: {n_repeated} rows repeat an item of their list; remove them, or use "
            faults.append(DataError("REPEATED_ITEM", f"{message}recommendation_duplicates=best_rank"))
    return faults


def some_ids(rows: Rows, name: str, model: str | None = None) -> str:
    """Return a few users or requests of a table, or of a model's lists, as an example."""
    of_model = {} if model is None or MODEL not in rows.columns else {MODEL: model}
    ids = [one for one in some_values(rows, name, MOST_EXAMPLES + 1, of_model) if one is not None]
    return ", ".join(sorted(map(repr, ids[:MOST_EXAMPLES]))) or "null"


def some_values(table: Rows, name: str, most: int, equal: Mapping[str, str] | None = None) -> list[Any]:
    """Return a few distinct values of a column, of the rows with ``equal`` values."""
    for column, value in (equal or {}).items():
        table = table.where_in(column, [value])
    return table.distinct(name, most)


def unused(entries: Sequence[Entry], source: str, model: str | None = None) -> str:
    """Return the reasons for unused rows of a table or a model's lists, in parentheses; empty if none."""
    outcomes = (Outcome.QUARANTINED, Outcome.FILTERED, Outcome.DROPPED)
    lines = [entry for entry in entries if (entry.source, entry.model) == (source, model)]
    reasons = [f"{line.rows} {line.reason}" for line in lines if line.outcome in outcomes]
    return f" ({', '.join(reasons)})" if reasons else ""


def check_folds(tables: Tables) -> Tables:
    """Return the tables with a plan by fold if the recommendations have folds; otherwise without ``fold``.

    Raises DataError FOLDS_DIFFER if only some of the tables have folds.
    """
    has_folds, faults = FOLD in tables.recommendations.columns, []
    timed = {name: frame for name, frame in tables.given().items() if name in ("truth", "train")}
    for name, frame in timed.items():
        if has_folds and FOLD not in frame.columns:
            message = f"recommendations have a column {FOLD}, {name} has none; give it one, or rename theirs"
            faults.append(DataError("FOLDS_DIFFER", message))
        elif FOLD in frame.columns and not has_folds and len(some := some_folds(frame)) > 1:
            shown = " and ".join(some)
            message = f"{name} has several folds, such as {shown}, the recommendations tell none"
            message += f"; give them a column {FOLD}, or read one fold by {name}.{FOLD}"
            faults.append(DataError("FOLDS_DIFFER", message))
    DataError.raise_all(faults)
    if has_folds:
        return replace(tables, plan=replace(tables.plan, segments=(FOLD, *tables.plan.segments)))
    truth, train = tables.truth.drop(FOLD), tables.train and tables.train.drop(FOLD)
    return replace(tables, truth=truth, train=train)


def check_requests(tables: Tables) -> Tables:
    """Return the tables with a plan by request if the recommendations have requests.

    Raises DataError REQUESTS_DIFFER if only the truth has them, and ConfigError NOT_BY_REQUEST for bootstrap
    intervals of weighted means over users.
    """
    if REQUEST not in tables.recommendations.columns:
        if REQUEST in tables.truth.columns:
            message = f"truth has a column {REQUEST}, recommendations have none; give them one"
            raise DataError("REQUESTS_DIFFER", f"{message}, or leave it out of the truth")
        return tables if tables.users is None else replace(tables, users=tables.users.drop(REQUEST))
    plan = tables.plan
    is_over_users = plan.interval is MeanInterval.BOOTSTRAP and plan.weight is ListWeight.USERS
    if is_over_users and plan.weighted:
        message = f"no bootstrap of {plan.weighted[0].name} with weight: users; take interval: normal"
        raise ConfigError("NOT_BY_REQUEST", f"{message}, or weight: requests")
    owner = RequestTruth.REQUESTS if REQUEST in tables.truth.columns else RequestTruth.USERS
    return replace(tables, plan=replace(tables.plan, request_truth=owner))


def check_repeats(tables: Tables) -> Tables:
    """Return the tables with a plan by repeat if the recommendations have a column ``repeat``.

    Raises DataError REPEATS_AND_FOLDS, ConfigError NOT_BY_REPEAT for options that repeats do not have.
    """
    plan = tables.plan
    if REPEAT not in tables.recommendations.columns:
        return tables
    if FOLD in tables.recommendations.columns:
        message = f"recommendations have the columns {REPEAT} and {FOLD}, whose errors differ"
        raise DataError("REPEATS_AND_FOLDS", f"{message}; evaluate one fold, or leave one column out")
    is_by_user = REQUEST in tables.recommendations.columns and plan.weight is ListWeight.USERS
    for option, is_chosen, instead in (
        ("stages", bool(plan.stages), "evaluate one repeat"),
        ("base", plan.base is not None, "evaluate one repeat"),
        ("item_segments", bool(plan.item_segments), "evaluate one repeat"),
        ("weight: users", is_by_user, "take weight: requests"),
    ):
        if is_chosen:
            message = f"no {option} for lists with a column {REPEAT}; {instead}, or leave the column out"
            raise ConfigError("NOT_BY_REPEAT", message)
    return replace(tables, plan=replace(plan, has_repeats=True))


def fold_faults(summaries: Summaries) -> list[DataError]:
    """Return errors FOLDS_DIFFER: too many folds, or a fold without any list of a model."""
    folds = summaries.folds
    if len(folds) > MOST_FOLDS:
        return [DataError("FOLDS_DIFFER", f"truth: {len(folds)} folds; there are 1 to {MOST_FOLDS}")]
    faults = []
    for model, mine in summaries.folds_of_models.items():
        missing = [fold for fold in folds if fold not in mine]
        lists = f"recommendations of model {model!r}: no list in {len(missing)} of {len(folds)} folds"
        faults += missing_folds(lists, missing)
    return faults


def train_fold_faults(summaries: Summaries, folds: Sequence[int]) -> list[DataError]:
    """Return errors FOLDS_DIFFER for folds of the truth without any training interaction."""
    missing = [fold for fold in summaries.folds if fold not in set(folds)]
    return missing_folds(f"train: no valid row in {len(missing)} folds", missing)


def missing_folds(what: str, folds: Sequence[int]) -> list[DataError]:
    """Return an error FOLDS_DIFFER for folds of the truth that another table lacks; empty if none."""
    shown = ", ".join(map(str, folds[:MOST_FOLDS_NAMED]))
    fix = "add them, or leave these folds out of the truth"
    return [DataError("FOLDS_DIFFER", f"{what} of the truth, such as {shown}; {fix}")] if folds else []


def some_folds(table: Rows) -> list[str]:
    """Return up to two of a table's folds, as text."""
    return list(map(str, some_values(table, FOLD, 2)))
