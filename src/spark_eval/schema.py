"""Names of columns, tables, subsets, outcomes and faults; each is spelled here only."""

from collections.abc import Collection, Mapping
from enum import StrEnum
from typing import Any, Final, get_args, get_type_hints

USER: Final = "user"
ITEM: Final = "item"
REQUEST: Final = "request"
REPEAT: Final = "repeat"
MODEL: Final = "model"
SCORE: Final = "score"
RANK: Final = "rank"
RELEVANCE: Final = "relevance"
TIMESTAMP: Final = "timestamp"
LABEL: Final = "label"
WEIGHT: Final = "weight"
VARIANT: Final = "variant"
EXPERIMENT: Final = "experiment"
KIND: Final = "kind"
VALUE: Final = "value"
EVENT_ID: Final = "id"
UNIT: Final = "unit"
A: Final = "a"
B: Final = "b"
RECORD: Final = "record"
CLUSTER: Final = "cluster"
REVIEWER: Final = "reviewer"
# Columns of interleaved lists: the list, the team that drafted an item, the team that began, the item's
# position, 1 if it was clicked, and its rank in the list of each team.
IMPRESSION: Final = "impression"
TEAM: Final = "team"
FIRST_PICK: Final = "first_pick"
POSITION: Final = "position"
CLICKED: Final = "clicked"
ITEM_RANKS: Final = ("rank_a", "rank_b")
SUBSET: Final = "subset"
FOLD: Final = "fold"
N_RELEVANT: Final = "n_relevant"
N_RECOMMENDED: Final = "n_recommended"
# Columns of segment values in intermediate tables, by the segment's index.
SEGMENT_COLUMN: Final = "segment_{}"
# Column that is true for a decimal score that a double rounds.
INEXACT: Final = "inexact"

# Value of a cell, and row of a table by column.
Value = Any
Row = Mapping[str, Value]
VERSION: Final = "0.1.0"

# Error and fix for text that cannot be read.
NO_TEXT: Final = "has text that is not valid UTF-8; write it as UTF-8, or name its encoding in options"
# Fault code of an invalid row, or reason of a filtered one; null for used rows.
FAULT: Final = "fault"
# Number of equal input rows combined in a row.
N_ROWS: Final = "n_rows"
# In microseconds; Spark and Hive may have shifted earlier timestamps, and logs are rarely older.
EPOCH_1900: Final = -2_208_988_800_000_000
# A double represents every integer up to this one exactly.
LARGEST_EXACT: Final = 2**53
# Largest effect of an experiment, and of its error.
LARGEST_EFFECT: Final = 1e30
# Doubles distinguish decimals of up to this many digits, wherever the point is.
EXACT_DIGITS: Final = 15
# Text ids that look like others: with a control character, leading or trailing blanks, a detached accent, or
# a letter that NFC replaces. The pattern means the same in Java and RE2.
ODD_ID: Final = (
    r"[\x00-\x1F\x7F]|\A[\x20\x{A0}\x{FEFF}\x{3000}]|[\x20\x{A0}\x{FEFF}\x{3000}]\z|[\x{300}-\x{36F}"
    r"\x{1100}-\x{11FF}\x{1AB0}-\x{1AFF}\x{1DC0}-\x{1DFF}\x{20D0}-\x{20FF}\x{2126}\x{212A}\x{212B}"
    r"\x{3099}\x{309A}\x{F900}-\x{FAFF}\x{FE20}-\x{FE2F}]"
)
# Number of training interactions of a user, and True if an item has any.
N_INTERACTIONS: Final = "n_interactions"
IN_TRAIN: Final = "in_train"
# Columns of the table of items in addition to the id; number of an item's training users.
GROUPS: Final = "groups"
FEATURES: Final = "features"
VECTOR: Final = "vector"
PROPENSITY: Final = "propensity"
N_TAKERS: Final = "n_takers"
# A boolean column of items, by its name in the table.
FLAG: Final = "flag_{}"

# Our columns of each input; ``columns`` maps them to the user's names. Segments keep the user's names.
EVENT_COLUMNS: Final = (USER, ITEM, TIMESTAMP, RELEVANCE)
LINK_COLUMNS: Final = (A, B, SCORE, RECORD, CLUSTER)
INPUT_COLUMNS: Final[dict[str, tuple[str, ...]]] = {
    "interactions": EVENT_COLUMNS,
    "train": (*EVENT_COLUMNS, FOLD),
    "truth": (*EVENT_COLUMNS, FOLD, REQUEST),
    "recommendations": (USER, ITEM, SCORE, RANK, MODEL, FOLD, REQUEST, REPEAT),
    "predictions": (LABEL, SCORE, USER, ITEM, MODEL, WEIGHT, FOLD),
    "exposures": (USER, VARIANT, TIMESTAMP, EXPERIMENT, UNIT),
    "events": (USER, TIMESTAMP, KIND, VALUE, EVENT_ID, UNIT),
    "predicted": LINK_COLUMNS,
    "true": LINK_COLUMNS,
    "candidates": LINK_COLUMNS,
    "reviews": (A, B, REVIEWER, LABEL),
    "interleaving": (
        *(IMPRESSION, USER, ITEM, POSITION, TEAM, FIRST_PICK, CLICKED),
        *(EXPERIMENT, *ITEM_RANKS),
    ),
    "users": (USER, REQUEST),
    "items": (ITEM, GROUPS, FEATURES, VECTOR, PROPENSITY),
}


class Direction(StrEnum):
    """Direction of better values of a metric; ``none`` if neither direction is better."""

    HIGHER = "higher"
    LOWER = "lower"
    NONE = "none"


class Subset(StrEnum):
    """Labels of rows.

    Four are of ``global_local_ranker``, where global_train consists of the first three; all other methods
    have train, validation and test. ``input`` are later rows of a user before the target of the test.
    """

    LOCAL_TRAIN = "local_train"
    RANKER_TRAIN = "ranker_train"
    RANKER_TEST = "ranker_test"
    GLOBAL_TEST = "global_test"
    TRAIN = "train"
    VALIDATION = "validation"
    INPUT = "input"
    TEST = "test"


# Labels, and names for several labels together, for a source's ``subset``.
SUBSETS: Final[dict[str, tuple[Subset, ...]]] = {
    **{subset.value: (subset,) for subset in Subset},
    "local_test": (Subset.RANKER_TRAIN, Subset.RANKER_TEST),
    "global_train": (Subset.LOCAL_TRAIN, Subset.RANKER_TRAIN, Subset.RANKER_TEST),
}


class Table(StrEnum):
    """Tables written under the output root, each as ``<table>/run_id=<id>/``."""

    SPLITS = "splits"
    SUBSETS = "subsets"
    PER_USER = "per_user"
    METRICS = "metrics"
    SUMS = "sums"
    ACCOUNTING = "accounting"
    QUARANTINE = "quarantine"
    LEAKAGE = "leakage"
    CURVES = "curves"
    THRESHOLDS = "thresholds"
    COMPARISONS = "comparisons"
    SLICES = "slices"
    GATES = "gates"
    STAGES = "stages"
    FUNNEL = "funnel"
    EXPERIMENTS = "experiments"
    CHECKS = "checks"
    DECISIONS = "decisions"
    LINKAGE = "linkage"
    SAMPLE = "sample"
    CALIBRATION = "calibration"
    PROGRAMME = "programme"
    FORECASTS = "forecasts"
    INTERLEAVINGS = "interleavings"
    USER_DAYS = "user_days"
    ITEM_SEGMENTS = "item_segments"


# Below the output root: commit records of what is published, and a page for each run that has a report.
COMMITS: Final = "_commits"
REPORT: Final = "report"
# Columns of 32-bit integers; other integers have 64 bits.
SHORT_COLUMNS: Final = ("k", FOLD, UNIT)


def ddl_of(row: Any) -> str:
    """Return the columns of a table as Spark DDL, from the fields of its rows, a NamedTuple."""
    kinds = {str: "string", float: "double", bool: "boolean", int: "long", list[str]: "array<string>"}
    hints = {name: known_kind(hint, kinds) for name, hint in get_type_hints(row).items()}
    return ", ".join(
        f"{name} {'int' if name in SHORT_COLUMNS else kinds[hint]}" for name, hint in hints.items()
    )


def known_kind(hint: Any, kinds: Collection[Any]) -> Any:
    """Return the type of a field; for ``X | None`` it is X."""
    return hint if hint in kinds else get_args(hint)[0]


class Outcome(StrEnum):
    """Outcome of an input row; ``in`` is the exact sum of all others."""

    IN = "in"
    USED = "used"
    FILTERED = "filtered"
    DEDUPLICATED = "deduplicated"
    QUARANTINED = "quarantined"
    DROPPED = "dropped"
    # Outcomes that count users or lists only: their ``rows`` is 0.
    NO_RECOMMENDATIONS = "no_recommendations"
    TIES_AT_CUT = "ties_at_cut"
    RANK_GAPS = "rank_gaps"
    ODD_IDS = "odd_ids"
    LARGEST = "largest"
    DISTINCT = "distinct"
    BEFORE_1900 = "before_1900"
    MOVED = "moved"
    EMPTY_LISTS = "empty_lists"
    OUTSIDE_CATALOG = "outside_catalog"
    UNSEEN_ITEMS = "unseen_items"
    WITHOUT_GROUPS = "without_groups"
    WITHOUT_FEATURES = "without_features"
    WITHOUT_VECTORS = "without_vectors"
    WITHOUT_FLAGS = "without_flags"
    WITHOUT_VALUE = "without_value"


class Fault(StrEnum):
    """Codes of invalid rows: written to ``quarantine`` and counted, unless they are FATAL."""

    NULL_ID = "NULL_ID"
    NULL_SCORE = "NULL_SCORE"
    SCORE_NOT_FINITE = "SCORE_NOT_FINITE"
    NULL_RANK = "NULL_RANK"
    NULL_RELEVANCE = "NULL_RELEVANCE"
    RELEVANCE_NOT_FINITE = "RELEVANCE_NOT_FINITE"
    NULL_TIMESTAMP = "NULL_TIMESTAMP"
    NULL_LABEL = "NULL_LABEL"
    LABEL_NOT_FINITE = "LABEL_NOT_FINITE"
    UNKNOWN_CLASS = "UNKNOWN_CLASS"
    NOT_A_PROBABILITY = "NOT_A_PROBABILITY"
    NO_DISTRIBUTION = "NO_DISTRIBUTION"
    NULL_WEIGHT = "NULL_WEIGHT"
    WEIGHT_OUT_OF_RANGE = "WEIGHT_OUT_OF_RANGE"
    NULL_VARIANT = "NULL_VARIANT"
    NULL_EXPERIMENT = "NULL_EXPERIMENT"
    NULL_KIND = "NULL_KIND"
    VALUE_OUT_OF_RANGE = "VALUE_OUT_OF_RANGE"
    NEGATIVE_VALUE = "NEGATIVE_VALUE"
    # A single row with one of these makes the whole table invalid.
    NULL_MODEL = "NULL_MODEL"
    NULL_REPEAT = "NULL_REPEAT"
    RANK_NOT_INTEGER = "RANK_NOT_INTEGER"
    RANK_BASE = "RANK_BASE"
    DUPLICATE_RANK = "DUPLICATE_RANK"
    NEGATIVE_RELEVANCE = "NEGATIVE_RELEVANCE"
    RELEVANCE_NOT_EXACT = "RELEVANCE_NOT_EXACT"
    SCORE_NOT_EXACT = "SCORE_NOT_EXACT"


# Faults of recommendations; a row has the first one that applies.
ROW_FAULTS: Final = (
    Fault.NULL_MODEL,
    Fault.NULL_REPEAT,
    Fault.NULL_ID,
    Fault.NULL_RANK,
    Fault.RANK_NOT_INTEGER,
    Fault.RANK_BASE,
    Fault.NULL_SCORE,
    Fault.SCORE_NOT_FINITE,
    Fault.DUPLICATE_RANK,
)

# Messages of the faults that make a table invalid.
FATAL: Final[dict[Fault, str]] = {
    Fault.NULL_MODEL: "rows without a model name; fill the model column, or name one model in the config",
    Fault.NULL_REPEAT: "rows without a repeat; fill the column repeat, or leave it out",
    Fault.RANK_NOT_INTEGER: (
        "rows with a rank that is no whole number; rank without ties, in pandas "
        ".rank(method='first', ascending=False).astype(int)"
    ),
    Fault.RANK_BASE: "rows with a rank below 1; ranks start at 1",
    Fault.DUPLICATE_RANK: "relevant items that share their rank with another; ranks must be distinct",
    Fault.NEGATIVE_RELEVANCE: "rows with a negative relevance; relevance is 0 or more",
    Fault.RELEVANCE_NOT_EXACT: "rows with a relevance that a double cannot hold; divide it, or cast it",
    Fault.SCORE_NOT_EXACT: "rows with a score that a double cannot hold; subtract, divide, or cast it",
}


class Reason(StrEnum):
    """Reason why a valid row is not used."""

    BEYOND_K = "beyond_k"
    BELOW_THRESHOLD = "below_threshold"
    NOT_RELEVANT = "not_relevant"
    REPEATED_ITEM = "repeated_item"
    NO_TRUTH = "no_truth"
    NO_HITS = "no_hits"
    NO_RECOMMENDATIONS = "no_recommendations"
    GAP = "gap"
    BEFORE_START = "before_start"
    AFTER_END = "after_end"
    AFTER_TARGET = "after_target"
    COLD_USER = "cold_user"
    COLD_ITEM = "cold_item"
    SEEN = "seen"
    ONLY_HERE = "only_here"
    UNPAIRED = "unpaired"
    BELOW_MIN_USERS = "below_min_users"
    OTHER_KIND = "other_kind"
    OTHER_EXPERIMENT = "other_experiment"
    OUTSIDE_PERIOD = "outside_period"
    NOT_ASSIGNED = "not_assigned"
    NOT_EXPOSED = "not_exposed"
    CROSSOVER = "crossover"
    BOT = "bot"
    PRE_PERIOD = "pre_period"
    BEFORE_EXPOSURE = "before_exposure"
    AFTER_WINDOW = "after_window"
    NULL_VALUE = "null_value"
    SELF_PAIR = "self_pair"
    REPEATED_PAIR = "repeated_pair"
    REPEATED_RECORD = "repeated_record"
    NOT_IN_BOTH = "not_in_both"
    NOT_SAMPLED = "not_sampled"
    UNDECIDED = "undecided"
    INCONSISTENT = "inconsistent"
    NO_RUN = "no_run"


SEGMENT: Final = "segment"
# The segment of the mean and the standard deviation over folds; the folds themselves are the segment
# ``fold``. Also the accounting source for the rows of a log, counted once per fold that uses them.
FOLDS: Final = "folds"
SEGMENT_VALUE: Final = "segment_value"
# The segment of item groups, for metrics with a value per group.
GROUP: Final = "group"
# The segment of all users, and the value of users without one.
ALL: Final = "all"
MISSING: Final = "(missing)"
# Mode of a gate that judges a day by the days before.
WATCH: Final = "watch"
# The value of users without training interactions, in both built-in segments.
NO_TRAIN: Final = "no_train"


class BuiltIn(StrEnum):
    """Built-in segments, computed from training interactions; all others are columns of ``users``."""

    KNOWN = "known"
    ACTIVITY = "activity"


# Upper bound of the number of values of a segment; a column with more has ids or measurements.
MOST_SEGMENT_VALUES: Final = 1_000


class ItemBuiltIn(StrEnum):
    """Built-in segments of items, computed from training interactions; others are columns of ``items``."""

    POPULARITY = "popularity"
    COLD = "cold"


# Segments of items are named by their attribute after this.
OF_ITEMS: Final = "item:"


# Upper bound of the number of folds; more are a mistake, or too much to write.
MOST_FOLDS: Final = 1_000
# Curves of predictions.
ROC: Final = "roc"
PR: Final = "pr"
CALIBRATION: Final = "calibration"
