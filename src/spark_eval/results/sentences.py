"""Text of comparisons and gates: lines of tables, and sentences on the better model."""

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Any, Final

from spark_eval.conventions.comparison import Correction, PairTest, Question, Role, SliceVerdict
from spark_eval.results.leaderboard import list_direction, measure_of
from spark_eval.schema import ALL, FOLD, FOLDS, OF_ITEMS, Direction, Row

# Columns of comparisons: numbers of repeats.
OF_REPEATS: Final = ("baseline_repeats", "candidate_repeats")
SEEDS_ALONE: Final = (
    "seeds were not varied: this is about these lists, and models that are made again may differ otherwise "
    "(column repeat)"
)
SEEDS_FIXED: Final = (
    "repeats count as fixed: this is about these lists (question: recipe is about the models)"
)
TextLines = list[list[str]]
COMPARED: Final = ("candidate", "baseline", "metric", "test", "difference", "interval", "win/tie/loss", "p")
SLICED: Final = (
    "slice that loses",
    "candidate",
    "baseline",
    "metric",
    "difference",
    "interval",
    "users",
    "part",
)
GATED: Final = ("gate", "candidate", "baseline", "difference", "room left", "decision", "passed")
MOST_SENTENCES: Final = 20
# Maximum number of lines of segments in a table, and of segments that the sentence on losers names.
MOST_SEGMENTS: Final = 10
MOST_LOST: Final = 3
# Values of fewer users are marked.
FEW: Final = 30
FEW_EXPLAINED: Final = f"(few): fewer than {FEW} users"
SEEMS_CERTAIN: Final = (
    "an interval that leaves out 0 beside a p of .05 or more: the interval is of one comparison alone, p is "
    "adjusted for all of them"
)
# Meanings of the values of our own segments.
MEANINGS: Final[Mapping[str, str]] = {
    "activity": "activity: the higher the decile, the more rows in train; 10 are the most active users",
}
# Maximum number of slices that are shown outside the table.
MOST_SLICES: Final = 10
# Significance level of the sentences.
RARE: Final = 0.05
OVERLAPPING: Final = "a user is in the slice of each of their items: parts do not add up to the whole"
NUMBER: Final = re.compile(r"[+-]?\d+(\.\d+)?")
DIGITS_OF_TEXT: Final = re.compile(r"(\d+)")
LEAST_DECIMALS: Final = 3
LEAST_P: Final = 0.001
MOST_DECIMALS: Final = 6
# Gain of a model, as a share of its baseline: ``users_needed`` assumes it if a gate allows no drop.
ASSUMED_GAIN: Final = Fraction(1, 20)
# Of intervals: more decimals than any difference of doubles needs.
MOST_SHOWN: Final = 12


def compared_table(
    rows: Iterable[Row], better: Callable[[str], Direction] = list_direction
) -> tuple[Sequence[str], TextLines]:
    """Return header and lines of ``comparisons``: all users, and the segments that matter most.

    The numbers of users are a column if there are segments.
    """
    chosen = important(rows, better)
    lines = compared_lines(chosen)
    if not any(is_of_segment(row) for row in chosen):
        return COMPARED, lines
    header = (*COMPARED[:-1], "users", COMPARED[-1])
    users = [few_marked(row["n_users"]) for row in chosen]
    return header, [[*line[:-1], n, line[-1]] for line, n in zip(lines, users, strict=True)]


def important(rows: Iterable[Row], better: Callable[[str], Direction] = list_direction) -> list[Row]:
    """Return the rows over all users and folds, and at most MOST_SEGMENTS of segments, in natural order.

    Segments that certainly lose come first, then those with another certain difference, then all others.
    """
    rows = list(rows)
    weights = {
        at: (not is_lost(row, better), not is_certain(row), at)
        for at, row in enumerate(rows)
        if is_of_segment(row)
    }
    chosen = {*sorted(weights, key=lambda at: weights[at])[:MOST_SEGMENTS]}
    lines = [row for at, row in enumerate(rows) if at not in weights or at in chosen]
    order = {key: at for at, key in enumerate(dict.fromkeys(map(pair_and_segment, lines)))}
    return sorted(lines, key=lambda row: (order[pair_and_segment(row)], number_order(row["segment_value"])))


def pair_and_segment(row: Row) -> tuple[Any, ...]:
    """Return the models, metric and segment of a row."""
    return tuple(row[name] for name in ("baseline", "candidate", "metric", "k", "segment"))


def is_of_segment(row: Row) -> bool:
    """Return True for a row of a segment value, False for all users and folds."""
    return row["segment"] not in (ALL, FOLD, FOLDS)


def is_certain(row: Row) -> bool:
    """Return True if the interval of a row excludes 0 and its adjusted p-value is small or missing."""
    low, high = interval_of(row)
    p = row["p_adjusted"]
    return low is not None and not low <= 0 <= high and (p is None or p < RARE)


def seems_certain(row: Row) -> bool:
    """Return True if the interval of a row excludes 0, but its adjusted p-value is not small."""
    low, high = interval_of(row)
    p = row["p_adjusted"]
    return low is not None and p is not None and p >= RARE and not low <= 0 <= high


def is_lost(row: Row, better: Callable[[str], Direction] = list_direction) -> bool:
    """Return True if the candidate is certainly worse."""
    return row["difference"] is not None and is_certain(row) and verb_of(row, better) == "falls behind"


def lost_sentences(rows: Iterable[Row], better: Callable[[str], Direction] = list_direction) -> list[str]:
    """Return a sentence on the segments that certainly lose, the largest difference first; none without any.

    >>> row = dict(candidate="als", baseline="popular", baseline_run=None, metric="ndcg", k=10, test="t")
    >>> row |= dict(segment="age", segment_value="45", n_users=103, p_adjusted=0.004)
    >>> row |= dict(difference=-0.114, ci_low=-0.15, ci_high=-0.077)
    >>> lost_sentences([row])
    ['1 of 1 by segment certainly lost: ndcg@10 (age 45), als against popular: -.11 (103 users)']
    """
    cells = dict[tuple[str, ...], Row]()
    for row in rows:
        if is_of_segment(row) and row["test"] in set(PairTest):
            cells.setdefault((row["candidate"], row["baseline"], where(row)), row)
    if not cells:
        return []
    lost = [row for row in cells.values() if is_lost(row, better)]
    lost.sort(key=lambda row: -abs(row["difference"]))
    n = f"of {len(cells):,} by segment certainly lost"
    if not lost:
        return [f"none {n}"]
    names = [
        f"{where(row)}, {row['candidate']} against {in_run(row['baseline'], row['baseline_run'])}: "
        f"{short(row['difference'], 2)} ({few_marked(row['n_users'])} users)"
        for row in lost[:MOST_LOST]
    ]
    more = [f"and {len(lost) - MOST_LOST:,} more"] if len(lost) > MOST_LOST else []
    return [f"{len(lost):,} {n}: {'; '.join([*names, *more])}"]


def segment_notes(rows: Iterable[Row], better: Callable[[str], Direction] = list_direction) -> list[str]:
    """Return notes on the segments in the lines of ``compared_table``."""
    rows = list(rows)
    chosen = important(rows, better)
    n_more = len(rows) - len(chosen)
    more = f"{n_more:,} more lines of segments are in the table comparisons"
    few = any(is_of_segment(row) and row["n_users"] < FEW for row in chosen)
    return [
        *([more] if n_more else []),
        *([SEEMS_CERTAIN] if any(map(seems_certain, chosen)) else []),
        *([FEW_EXPLAINED] if few else []),
        *meanings_of_segments(row["segment"] for row in chosen),
    ]


def meanings_of_segments(segments: Iterable[str]) -> list[str]:
    """Return the meanings of values of our own segments.

    >>> meanings_of_segments(["country", "activity"])
    ['activity: the higher the decile, the more rows in train; 10 are the most active users']
    """
    return [MEANINGS[name] for name in dict.fromkeys(segments) if name in MEANINGS]


def few_marked(n: int) -> str:
    """Return a number of users, marked if it is small: ``12 (few)``."""
    return f"{n:,} (few)" if n < FEW else f"{n:,}"


def compared_lines(rows: Iterable[Row]) -> TextLines:
    """Return a line per row of ``comparisons``, with adjusted p-values."""
    lines = []
    for row in rows:
        decimals = decimals_for(row)
        interval = interval_text(row["ci_low"], row["ci_high"], decimals)
        counts = "/".join(f"{row[name]:,}" for name in ("wins", "ties", "losses"))
        p = "-" if row["p_adjusted"] is None else f"{row['p_adjusted']:.3g}"
        difference = short(row["difference"], decimals)
        pair = [row["candidate"], in_run(row["baseline"], row["baseline_run"])]
        lines.append([*pair, where(row), row["test"], difference, interval, counts, p])
    return lines


def standing(rows: Iterable[Row]) -> list[Row]:
    """Return the slices that lose and stand for themselves, the largest contribution first."""
    own = [row for row in rows if row["role"] == Role.OWN]
    return sorted(own, key=lambda row: -abs(row["contribution"] or 0.0))


def sliced_lines(rows: Iterable[Row]) -> TextLines:
    """Return a line per slice of ``standing``; at most MOST_SLICES. The last column is the contribution."""
    lines = []
    for row in standing(rows)[:MOST_SLICES]:
        decimals = decimals_for(row)
        interval = interval_text(row["ci_low"], row["ci_high"], decimals)
        pair = [row["candidate"], in_run(row["baseline"], row["baseline_run"])]
        numbers = [short(row["difference"], decimals), interval, f"{row['n_users']:,}"]
        part = short(row["contribution"], decimals)
        lines.append([slice_name(row), *pair, measure_of(row), *numbers, part])
    return lines


def slice_name(row: Row) -> str:
    """Return a slice as text.

    >>> slice_name({"attributes": ["country", "device"], "values": ["SE", "tv"]})
    'country=SE, device=tv'
    """
    named = zip(row["attributes"], row["values"], strict=True)
    return ", ".join(f"{name}={value}" for name, value in named)


def slice_sentences(rows: Iterable[Row]) -> list[str]:
    """Return a sentence per pair and metric on the slices that lose."""
    of_pairs: dict[tuple[str, str, str], list[Row]] = {}
    for row in rows:
        pair = (row["candidate"], in_run(row["baseline"], row["baseline_run"]), measure_of(row))
        of_pairs.setdefault(pair, []).append(row)
    texts = []
    for (candidate, baseline, measure), of_pair in of_pairs.items():
        n_losing, n_own = sum(row["verdict"] == SliceVerdict.LOSES for row in of_pair), len(standing(of_pair))
        tested = f"of {len(of_pair):,} slices of {of_pair[0]['min_users']:,} users and more"
        what = f"{candidate} certainly loses against {baseline} in {measure}"
        alone = f"; {n_own:,} stand for themselves" if n_own else ""
        texts.append(f"{n_losing:,} {tested}: {what}{alone}" if n_losing else f"in none {tested} {what}")
    names = {name for of_pair in of_pairs.values() for row in of_pair for name in row["attributes"]}
    if any(name.startswith(OF_ITEMS) for name in names):
        texts.append(OVERLAPPING)
    return texts


def gated_lines(rows: Iterable[Row]) -> TextLines:
    """Return a line per row of ``gates``."""
    lines = []
    for row in rows:
        bounds = interval_text(row["bound_low"], row["bound_high"], bound_decimals(row))
        against = in_run(row["against_model"], row["against_run"])
        passed = "yes" if row["passed"] else "NO"
        difference = short(row["difference"])
        lines.append([where(row), row["model"], against, difference, bounds, row["decision"], passed])
    return lines


def shortened(texts: Sequence[str], most: int) -> list[str]:
    """Return the first ``most`` texts, and a note on the number of others."""
    more = len(texts) - most
    return [*texts[:most], *([f"and {more:,} more in the table comparisons"] if more > 0 else [])]


def sentences(rows: Iterable[Row], better: Callable[[str], Direction] = list_direction) -> list[str]:
    """Return a sentence per pair and metric over all users, from the first available test.

    ``better`` returns the direction of a metric, by default of a list metric.
    """
    of_pairs: dict[tuple[str, ...], str] = {}
    for row in rows:
        key = (row["candidate"], row["baseline"], where(row))
        if row["segment"] == ALL and row["test"] in set(PairTest):
            of_pairs.setdefault(key, sentence(row, better))
    return list(of_pairs.values())


def seed_sentences(rows: Iterable[Row]) -> list[str]:
    """Return a sentence if lists are compared as they are, although other seeds would give others.

    >>> seed_sentences([{"question": "recipe", "baseline_repeats": 3}])
    []
    """
    of_artefacts = [row for row in rows if row.get("question") == Question.ARTEFACT]
    if not of_artefacts:
        return []
    is_alone = any((row.get(name) or 1) == 1 for row in of_artefacts for name in OF_REPEATS)
    return [SEEDS_ALONE if is_alone else SEEDS_FIXED]


def sentence(row: Row, better: Callable[[str], Direction] = list_direction) -> str:
    """Return a row as a sentence: the better model, the difference, and the adjusted p-value.

    >>> row = dict(candidate="als", baseline="popular", baseline_run=None, metric="ndcg", k=10, segment="all")
    >>> row |= dict(difference=0.0214, ci_low=0.0153, ci_high=0.0275, p_adjusted=0.004, family_size=3)
    >>> sentence(row)
    'als beats popular in ndcg@10 by .021 ± .006; p = .004, adjusted for 3 comparisons'
    """
    candidate, metric = row["candidate"], where(row)
    baseline = in_run(row["baseline"], row["baseline_run"])
    difference, p = row["difference"], row["p_adjusted"]
    low, high = interval_of(row)
    if difference is None:
        return f"{candidate} and {baseline} have no user in common with a value of {metric}"
    decimals = decimals_for(row)
    if low == high and (low is not None or p is None):
        chance = "; how surely, one user cannot tell" if low is None else ", for every user the same"
        return f"{candidate} differs from {baseline} in {metric} by {short(difference, decimals)}{chance}"
    spread = "" if low is None else f" ± {short((high - low) / 2, decimals)}"
    chance = "" if p is None else f"; {p_text(row)}"
    has_zero = low is not None and low <= 0 <= high
    if has_zero or (p is not None and p >= RARE):
        pair = f"{candidate} and {baseline} do not certainly differ in {metric}"
        why = "" if low is None or has_zero else f" ({why_not(row)})"
        return f"{pair}: {short(difference, decimals)}{spread}{chance}{why}"
    amount = f"{short(abs(difference), decimals)}{spread}{chance}"
    return f"{candidate} {verb_of(row, better)} {baseline} in {metric} by {amount}"


def p_text(row: Row) -> str:
    """Return the adjusted p-value and the family size: ``p = .004, adjusted for 3 comparisons``."""
    p, size = row["p_adjusted"], row["family_size"]
    text = f"p < {short(LEAST_P, LEAST_DECIMALS)}" if p < LEAST_P else f"p = {short(p, LEAST_DECIMALS)}"
    if size == 1:
        return text
    is_adjusted = row.get("correction") != Correction.NONE
    return f"{text}, {'' if is_adjusted else 'not '}adjusted for {size:,} comparisons"


def why_not(row: Row) -> str:
    """Return the reason that a difference is not significant although its interval excludes 0."""
    if row["p_value"] < RARE:
        return "the interval of this pair alone, which is not adjusted, leaves out 0"
    return "the interval leaves out 0; its confidence, or what it assumes, is another"


def verb_of(row: Row, better: Callable[[str], Direction]) -> str:
    """Return the verb for the candidate: ``beats``, ``falls behind``, ``is above`` or ``is below``."""
    is_higher = row["difference"] > 0
    match better(row["metric"]):
        case Direction.NONE:
            return "is above" if is_higher else "is below"
        case direction:
            return "beats" if is_higher == (direction is Direction.HIGHER) else "falls behind"


def where(row: Row) -> str:
    """Return metric, cutoff and segment of a row: ``ndcg@10 (country DE)``."""
    of = "" if row["segment"] == ALL else f" ({row['segment']} {row['segment_value']})"
    return measure_of(row) + of


def undecided_text(max_drop: float, n_users: int, needed: int | None) -> str:
    """Return the reason that a gate is undecided, with the number of users that would decide it.

    With enough users for an equal model, the difference is too close to the limit.

    >>> undecided_text(0.01, 656, 2400)
    'not enough users to tell: 656; about 2,400 would do'
    >>> undecided_text(0.0, 656, 3190)
    'not enough users to tell: 656; about 3,190 would show a gain of 5 %'
    >>> undecided_text(0.01, 5000, 2400)
    'too close to the limit to tell with 5,000 users; a model as good as the baseline needs about 2,400'
    """
    gain = f"{float(100 * ASSUMED_GAIN):g} %"
    if needed is not None and needed <= n_users:
        model = "as good as the baseline" if max_drop else f"better by {gain}"
        few = f"too close to the limit to tell with {n_users:,} users"
        return f"{few}; a model {model} needs about {needed:,}"
    would = "would do" if max_drop else f"would show a gain of {gain}"
    more = "" if needed is None else f"; about {needed:,} {would}"
    return f"not enough users to tell: {n_users:,}{more}"


def number_order(text: str) -> tuple[bool, float, list[str | float]]:
    """Return the sort key of a value of a segment: numbers by size, then texts by the numbers in them.

    >>> sorted(["10", "9", "-1", "age 18", "age 9", "DE"], key=number_order)
    ['-1', '9', '10', 'DE', 'age 9', 'age 18']
    """
    is_number = NUMBER.fullmatch(text) is not None
    parts = [float(part) if at % 2 else part for at, part in enumerate(DIGITS_OF_TEXT.split(text))]
    return not is_number, float(text) if is_number else 0.0, parts


def in_run(model: str, run: str | None) -> str:
    """Return the name of a model, with its run if given."""
    return model if run is None else f"{model} of {run}"


def decimals_for(row: Row) -> int:
    """Return the number of decimals that show the interval's half width."""
    low, high = interval_of(row)
    half = abs(row["difference"] or 0) if low is None or low == high else (high - low) / 2
    digits = -math.floor(math.log10(half)) if half > 0 else LEAST_DECIMALS
    return min(max(digits, LEAST_DECIMALS), MOST_SHOWN)


def interval_of(row: Row) -> tuple[Any, Any]:
    """Return both ends of the interval of a difference; None if either is unknown."""
    ends = row["ci_low"], row["ci_high"]
    return (None, None) if None in ends else ends


def bound_decimals(row: Row) -> int:
    """Return the number of decimals that tell the bounds of a gate apart.

    >>> bound_decimals({"bound_low": 0.00102, "bound_high": 0.00104})
    6
    """
    low, high = row["bound_low"], row["bound_high"]
    least = MOST_DECIMALS - 2
    if low is None or not low < high:
        return least
    return max(least, 1 - math.floor(math.log10(high - low)))


def interval_text(low: float | None, high: float | None, decimals: int = MOST_DECIMALS - 2) -> str:
    """Return an interval, ``-`` if there is none: ``.015 to .028``."""
    return "-" if low is None else f"{short(low, decimals)} to {short(high, decimals)}"


def short(value: float | None, decimals: int = MOST_DECIMALS - 2) -> str:
    """Return a number without its leading zero, ``-`` if missing: ``.021``."""
    if value is None:
        return "-"
    return f"{value:.{decimals}f}".replace("0.", ".", 1) if abs(value) < 1 else f"{value:.{decimals}f}"


def short_each(values: Sequence[float | None], decimals: int = MOST_DECIMALS - 2) -> list[str]:
    """Return ``short`` of each number, in a fraction of the time that one by one takes.

    >>> short_each([0.0214, None, -0.5, 12.0])
    ['.0214', '-', '-.5000', '12.0000']
    """
    known = tuple(value for value in values if value is not None)
    together = f"\n%.{decimals}f" * len(known) % known
    texts = iter(together.replace("\n0.", "\n.").replace("\n-0.", "\n-.").split("\n")[1:])
    return ["-" if value is None else next(texts) for value in values]
