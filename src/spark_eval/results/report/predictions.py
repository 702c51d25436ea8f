"""Chapters on predictions: curves and chosen thresholds."""

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Final

from spark_eval.results.report.chapters import Chapter, Dataset, Form, Statement, View, chart, warning
from spark_eval.results.report.data import RunFacts, part_of
from spark_eval.schema import CALIBRATION, MODEL, PR, ROC, Row, Table

# Approximate maximum of curve points on a page. Each curve has one point per cell of a grid; the grid has
# COARSEST_GRID to FINEST_GRID columns.
MOST_POINTS: Final = 30_000
FINEST_GRID: Final = 300
COARSEST_GRID: Final = 40
AXES: Final = {
    ROC: ("ROC", "share of negatives that are flagged", "share of positives that are flagged"),
    PR: ("Precision and recall", "recall", "precision"),
}


def prediction_curves(facts: RunFacts) -> Chapter | None:
    """Return ROC, precision-recall and calibration curves, thinned to points that can be told apart."""
    rows = [row for row in facts.rows(Table.CURVES) if None not in (row["x"], row["y"])]
    if not rows:
        return None
    points = list(thinned(rows))
    names = list(dict.fromkeys(row["curve"] for row in points))
    dataset = Dataset.of("curves", points, (MODEL, "curve", "x", "y", "threshold", "weight"))
    views = [curve_view(name, dataset) for name in names]
    statements = [Statement("Areas and errors of these curves stand among the metrics above.")]
    if len(points) < len(rows):
        text = f"{len(points):,} of {len(rows):,} points are drawn; the table curves has all of them."
        statements.append(Statement(text))
    if bound := max(row["error_bound"] or 0.0 for row in rows):
        text = f"curves of many scores are published with a reduced number of points, within {bound:.2g}."
        statements.append(warning("Reduced", text))
    return Chapter("Curves of predictions", statements, views)


def curve_view(name: str, dataset: Dataset) -> View:
    """Return the chart of all curves of one kind."""
    is_calibration = name.startswith(CALIBRATION)
    title, x, y = AXES.get(name, (name.capitalize(), "mean score", "share of positives"))
    return chart(
        Form.LINES,
        title,
        dataset,
        f"{title}: {y} by {x}, a line for each model" + (", a point for each bin" if is_calibration else ""),
        where={"curve": [name]},
        is_small=True,
        y="y",
        x_title=x,
        y_title=y,
        is_unit=True,
        diagonal=name != PR,
        points=is_calibration,
    )


def thinned(rows: Sequence[Row]) -> Iterator[Row]:
    """Yield the first and last point of each curve, and the first in each grid cell in between.

    All points of calibration curves are kept.
    """
    of_curves = [list(group) for _, group in groupby(rows, key=lambda row: (row[MODEL], row["curve"]))]
    fineness = max(COARSEST_GRID, min(FINEST_GRID, MOST_POINTS // (2 * len(of_curves))))
    for points in of_curves:
        seen: set[tuple[int, int]] = set()
        for index, row in enumerate(points):
            cell = (int(row["x"] * fineness), int(row["y"] * fineness))
            is_calibration = row["weight"] is not None
            if is_calibration or cell not in seen or index == len(points) - 1:
                seen.add(cell)
                yield {**row, MODEL: row[MODEL] or ""}


def thresholds(facts: RunFacts) -> Chapter | None:
    """Return the chosen thresholds with their flagged rows, errors and costs."""
    rows = facts.rows(Table.THRESHOLDS)
    if not rows:
        return None
    errors = {
        "tp": "true positives",
        "fp": "false positives",
        "fn": "false negatives",
        "tn": "true negatives",
    }
    numbers = ("threshold", "precision", "recall", "flags", "cost", *errors)
    lines = [
        {
            **row,
            MODEL: row[MODEL] or "",
            "part": part_of(row),
            "choice": f"{row[MODEL] or ''} · {row['rule']}",
        }
        for row in rows
    ]
    shown = (MODEL, "part", "rule", *numbers)
    dataset = Dataset.of("thresholds", lines, ("choice", *shown), errors)
    views = [
        chart(
            Form.STACK,
            "Positives found and missed, and false alarms",
            dataset,
            "True positives, false negatives and false positives at each chosen threshold",
            label="choice",
            values=["tp", "fn", "fp"],
        ),
        View(Form.TABLE, "Thresholds with their costs", dataset, shown=shown),
    ]
    missing = sum(row["threshold"] is None for row in rows)
    statements = [warning("None", f"{missing} rules found no threshold that will do.")] if missing else []
    return Chapter("Thresholds", statements, views, ["part"])
