"""Comparisons and gates as lines of tables on a terminal."""

from collections.abc import Iterable, Sequence
from typing import Final

from spark_eval.comparing.sentences import Row, baseline_of_row, decimals_for, in_run, short, where

TextLines = list[list[str]]
COMPARED: Final = ("candidate", "baseline", "metric", "test", "difference", "interval", "win/tie/loss", "p")
GATED: Final = ("gate", "candidate", "baseline", "difference", "bounds", "decision", "passed")


def compared_lines(rows: Iterable[Row]) -> TextLines:
    """Return a line per row of ``comparisons``; p is that after correction."""
    lines = []
    for row in rows:
        low, high = row["ci_low"], row["ci_high"]
        decimals = decimals_for(row)
        interval = "-" if low is None else f"{short(low, decimals)} to {short(high, decimals)}"
        counts = "/".join(f"{row[name]:,}" for name in ("wins", "ties", "losses"))
        p = "-" if row["p_adjusted"] is None else f"{row['p_adjusted']:.3g}"
        difference = short(row["difference"], decimals)
        lines.append(
            [row["candidate"], baseline_of_row(row), where(row), row["test"], difference, interval, counts, p]
        )
    return lines


def gated_lines(rows: Iterable[Row]) -> TextLines:
    """Return a line per row of ``gates``."""
    lines = []
    for row in rows:
        low, high = row["bound_low"], row["bound_high"]
        bounds = "-" if low is None else f"{short(low)} to {short(high)}"
        against = in_run(row["against_model"], row["against_run"])
        passed = "yes" if row["passed"] else "NO"
        difference = short(row["difference"])
        lines.append([where(row), row["model"], against, difference, bounds, row["decision"], passed])
    return lines


def told(texts: Sequence[str], most: int) -> list[str]:
    """Return as many of these as a terminal shows, and how many more there are."""
    more = len(texts) - most
    return [*texts[:most], *([f"and {more:,} more in the table comparisons"] if more > 0 else [])]
