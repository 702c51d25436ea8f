"""Text of experiments: a line per goal and guardrail, percent first; what won, fell and is not ruled out."""

import math
from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from typing import Final

from spark_eval.schema import ALL, Direction, Row

SHOWN: Final = ("experiment", "treatment", "metric", "change", "p", "result", "values", "difference")
LEAST_P: Final = 0.001
# Methods of rows that decide on a goal, the first of those that an experiment has.
DECIDING: Final = ("sequential", "z_pooled", "raw")
NON_INFERIORITY: Final = "non_inferiority"
GATE: Final = "gate"


class Finding(StrEnum):
    """Finding of a row that decides: of the two-sided test of a goal, or of a one-sided test."""

    WINS = "wins"
    LOSES = "loses"
    FLAT = "flat"
    HOLDS = "holds"
    NOT_RULED_OUT = "not_ruled_out"
    BREACHED = "breached"
    UNKNOWN = "unknown"


def effect_lines(rows: Iterable[Row]) -> list[tuple[str, ...]]:
    """Return a line of SHOWN for each metric of a treatment, over all units; guardrails by their own test."""
    lines = list[tuple[str, ...]]()
    for row in deciding_rows(rows):
        values = f"{three_digits(row['control_value'])} → {three_digits(row['treatment_value'])}"
        names = (row["experiment"], row["treatment"], metric_of(row))
        numbers = (change(row), p_cell(p_of(row)), result(row), values)
        lines.append((*names, *numbers, difference(row)))
    return lines


def deciding_rows(rows: Iterable[Row]) -> list[Row]:
    """Return the rows over all units that decide: one per metric of a treatment, and one per gate."""
    of_pairs: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        if row["segment"] == ALL and row["method"] in (*DECIDING, NON_INFERIORITY, GATE):
            of_pairs.setdefault((row["experiment"], row["treatment"], row["metric"]), []).append(row)
    chosen = []
    for of_pair in of_pairs.values():
        by_method = {row["method"]: row for row in of_pair}
        chosen.append(next(by_method[name] for name in (NON_INFERIORITY, *DECIDING) if name in by_method))
        chosen += [row for row in of_pair if row["method"] == GATE]
    return chosen


def decision_lines(rows: Iterable[Row]) -> list[str]:
    """Return a sentence for each row of ``decisions``.

    >>> row = dict(experiment="home", treatment="b", decision="win", reason="ctr won: +5.3 % (3.3 to 7.3)")
    >>> decision_lines([row])
    ['home, b: win: ctr won: +5.3 % (3.3 to 7.3)']
    """
    return [f"{row['experiment']}, {row['treatment']}: {row['decision']}: {row['reason']}" for row in rows]


def metric_of(row: Row) -> str:
    """Return the metric of a row, with its test if that is not the usual one."""
    method = row["method"]
    return f"{row['metric']}{'' if method in ('raw', NON_INFERIORITY) else f' ({method})'}"


def p_of(row: Row) -> float | None:
    """Return the p-value that decides: the adjusted one if there is one."""
    p_value: float | None = row["p_value"] if row["p_adjusted"] is None else row["p_adjusted"]
    return p_value


def change(row: Row) -> str:
    """Return the change in percent with its interval; of a margin in units, the difference.

    >>> row = dict(lift=0.0531, lift_low=0.0329, lift_high=0.0732, difference=9.1, ci_low=5.6, ci_high=12.5)
    >>> change(row)
    '+5.3 % (3.3 to 7.3)'
    >>> change(row | dict(lift=None))
    '+9.1 (5.6 to 12.5)'
    """
    lift, low, high = row["lift"], row["lift_low"], row["lift_high"]
    if lift is None or is_in_units(row):
        return signed(difference(row))
    if None in (low, high):
        return f"{signed(three_digits(100 * lift))} %, {signed(difference(row))}"
    decimals = decimals_of(50 * (high - low))
    middle, *ends = (f"{round(100 * value, decimals) + 0.0:.{decimals}f}" for value in (lift, low, high))
    return f"{signed(middle)} % ({' to '.join(ends)})"


def difference(row: Row) -> str:
    """Return the difference with its interval, in the unit of the metric."""
    ends = (row["ci_low"], row["ci_high"])
    interval = "" if None in ends else f" ({' to '.join(map(three_digits, ends))})"
    return three_digits(row["difference"]) + interval


def is_in_units(row: Row) -> bool:
    """Return True if a row has a margin in the unit of the metric."""
    return bool(row.get("margin")) and row["margin_kind"] != "relative"


def result(row: Row) -> str:
    """Return the finding of a row in words; of other rows the reason that nothing is known, if any."""
    if not row["trusted"]:
        return "not trusted"
    # Runs of earlier versions have no findings.
    match row.get("finding"):
        case Finding.WINS | Finding.LOSES as found:
            return str(found)
        case Finding.FLAT:
            return "no certain change"
        case Finding.HOLDS:
            return f"{margin_of(row)}: holds"
        case Finding.NOT_RULED_OUT:
            return f"{margin_of(row)}: a {fall(row)}{beyond(row)} is not ruled out"
        case Finding.BREACHED:
            return f"{margin_of(row)}: {fall(row)}s{beyond(row, 'by ')}"
    return row["reason"] or ""


def sentence(row: Row) -> str:
    """Return the finding of a row as a sentence.

    >>> row = dict(metric="buys", direction="higher", margin=0.02, margin_kind="relative", reason=None)
    >>> row |= dict(lift=-0.024, lift_low=-0.06, lift_high=0.012, finding="not_ruled_out")
    >>> sentence(row)
    'buys may have fallen by more than 2 %: -2.4 % (-6.0 to 1.2)'
    """
    metric = row["metric"]
    match row["finding"]:
        case Finding.WINS | Finding.LOSES as found:
            return f"{metric} {'won' if found == Finding.WINS else 'lost'}: {change(row)}"
        case Finding.NOT_RULED_OUT:
            verb = "risen" if is_lower_better(row) else "fallen"
            return f"{metric} may have {verb}{beyond(row, 'by ')}: {change(row)}"
        case Finding.BREACHED:
            verb = "rose" if is_lower_better(row) else "fell"
            return f"{metric} {verb}{beyond(row, 'by ')}: {change(row)}"
        case Finding.UNKNOWN:
            return f"{metric} is unknown: {row['reason']}"
    return f"{metric} {change(row)}"


def margin_of(row: Row) -> str:
    """Return the margin as a limit of the change: ``margin -2 %``."""
    margin = limit(row)
    return f"margin {margin}" if margin == "0" else f"margin {'+' if is_lower_better(row) else '-'}{margin}"


def limit(row: Row) -> str:
    """Return the margin: ``2 %`` of the control's value, or ``.01`` in the metric's unit."""
    margin = row["margin"]
    if not margin:
        return "0"
    return f"{three_digits(100 * margin)} %" if row["margin_kind"] == "relative" else three_digits(margin)


def beyond(row: Row, by: str = "of ") -> str:
    """Return the limit that is exceeded: `` by more than 2 %``; nothing if nothing is allowed."""
    return f" {by}more than {limit(row)}" if row["margin"] else ""


def fall(row: Row) -> str:
    """Return the change that is bad: a fall, or a rise."""
    return "rise" if is_lower_better(row) else "fall"


def is_lower_better(row: Row) -> bool:
    """Return True if lower values are better."""
    return bool(row["direction"] == Direction.LOWER)


def p_cell(p_value: float | None) -> str:
    """Return a p-value with two digits.

    >>> p_cell(0.04634), p_cell(0.387), p_cell(3e-7)
    ('.046', '.39', '< .001')
    """
    if p_value is None:
        return ""
    if p_value < LEAST_P:
        return f"< {LEAST_P:g}".replace("0.", ".")
    return f"{p_value:.{max(2, 1 - math.floor(math.log10(p_value)))}f}".removeprefix("0")


def p_text(p_value: float) -> str:
    """Return a p-value as in a sentence: ``p = .046``, ``p < .001``."""
    cell = p_cell(p_value)
    return f"p {cell}" if cell.startswith("<") else f"p = {cell}"


def three_digits(value: float | None) -> str:
    """Return a number with three significant digits, and all digits of thousands.

    >>> three_digits(183.75), three_digits(0.0314159), three_digits(12345.6), three_digits(1.0)
    ('184', '.0314', '12,346', '1')
    """
    if value is None:
        return ""
    text = f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
    return text.replace("0.", ".", 1) if abs(value) < 1 and text != "0" else text


def signed(text: str) -> str:
    """Return a number with its sign."""
    return text if not text or text.startswith("-") else f"+{text}"


def decimals_of(half: float) -> int:
    """Return the number of decimals that show two digits of the half width of an interval."""
    return min(max(1 - math.floor(math.log10(half)), 0), 6) if 0 < half < math.inf else 1


def named_values(rows: Sequence[Row]) -> Iterator[str]:
    """Yield the change in the segment values of the strongest rise and of the strongest fall."""
    known = [row for row in rows if row["statistic"] is not None]
    if known:
        for row in (max(known, key=statistic_of), min(known, key=statistic_of)):
            percent = row["lift"] is not None
            amount = f"{100 * row['lift']:.0f} %" if percent else three_digits(row["difference"])
            yield f"{signed(amount)} in {row['segment_value']}"


def statistic_of(row: Row) -> float:
    """Return the statistic of a row."""
    return float(row["statistic"])
