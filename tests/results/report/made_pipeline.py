"""A run with stages and with metrics beyond accuracy, published without Spark."""

from pathlib import Path
from typing import Any, Final

from tests.results.report.made_runs import STAMP, mean, publish

from spark_eval.evaluation.stages.rows import FunnelRow, StageRow
from spark_eval.evaluation.summary import MetricRow
from spark_eval.schema import Table

MODELS: Final = ("popular", "similar", "taste", "ruled")
ACCURACY: Final = {"ndcg": (0.05, 0.06, 0.07, 0.066), "recall": (0.06, 0.06, 0.081, 0.073)}
# Of the whole run, without an interval.
OF_RUN: Final = {
    "catalog_coverage": (0.02, 0.4, 0.35, 0.38),
    "personalization": (0.1, 0.9, 0.8, 0.85),
    "gini_catalog": (0.99, 0.7, 0.8, 0.75),
}
OF_LISTS: Final = {"novelty": (2.0, 6.0, 5.0, 5.5), "calibration_kl": (0.9, 0.3, 0.2, 0.25)}
GROUPS: Final = {"Comedy": 0.5, "Drama": 0.3, "(missing)": 0.2}
STEPS: Final = (
    *(("with_truth", 646, 3816), ("with_candidates", 646, 3816), ("with_relevant_candidate", 550, 1913)),
    *(("with_hit_in_ranking", 401, 991), ("with_hit_in_final", 199, 295), ("kept", 199, 295)),
    *(("lost_reranking", 356, 696), ("promoted", 0, 0), ("lost_ranking", 425, 922)),
    *(("lost_candidates", 561, 1902), ("outside_candidates", 1, 1)),
)
Quantity = tuple[str, str | None, str, int, float | None, float | None]
QUANTITIES: Final[tuple[Quantity, ...]] = (
    ("candidates", None, "stage_recall", 200, 0.491, 0.013),
    ("candidates", "popular", "stage_recall", 200, 0.336, 0.012),
    ("candidates", "popular", "added_recall", 200, 0.053, 0.005),
    ("candidates", "similar", "stage_recall", 200, 0.438, 0.013),
    ("candidates", "similar", "added_recall", 200, 0.154, 0.008),
    ("candidates", None, "oracle_recall", 10, 0.491, 0.013),
    ("candidates", None, "oracle_ndcg", 10, 0.581, 0.012),
    ("ranking", "taste", "stage_recall", 50, 0.253, 0.011),
    ("ranking", "taste", "recall", 10, 0.081, 0.006),
    ("ranking", "taste", "ndcg", 10, 0.070, 0.005),
    ("ranking", "taste", "conditional_recall", 10, 0.145, 0.010),
    ("ranking", "taste", "conditional_ndcg", 10, 0.106, 0.007),
    ("ranking", "taste", "efficiency_recall", 10, 0.165, None),
    ("ranking", "taste", "efficiency_ndcg", 10, 0.121, None),
    ("final", "ruled", "stage_recall", 10, 0.073, 0.005),
    ("final", "ruled", "recall", 10, 0.073, 0.005),
    ("final", "ruled", "ndcg", 10, 0.066, 0.005),
    ("final", "ruled", "conditional_recall", 10, 0.134, 0.009),
    ("final", "ruled", "conditional_ndcg", 10, 0.100, 0.007),
    ("final", "ruled", "efficiency_recall", 10, None, None),
    ("final", "ruled", "efficiency_ndcg", 10, None, None),
)


def pipeline(root: Path, run_id: str) -> None:
    """Publish what ``evaluate`` does with stages and items, by the numbers of docs/stages.md."""
    tables: dict[Table, list[Any]] = {
        Table.METRICS: metrics(),
        Table.STAGES: [
            StageRow(stage, model, metric, k, *cell, at, error, *ends(at, error), 646, 0, STAMP)
            for cell in (("all", "all"), ("country", "DE"))
            for stage, model, metric, k, at, error in QUANTITIES
        ],
        Table.FUNNEL: [
            FunnelRow(*cell, step, users, pairs, STAMP)
            for cell in (("all", "all"), ("country", "DE"))
            for step, users, pairs in STEPS
        ],
        Table.ACCOUNTING: [],
    }
    publish(root, run_id, "evaluate", tables, conventions=STAMP, models=list(MODELS))


def ends(at: float | None, error: float | None) -> tuple[float | None, float | None]:
    """The ends of an interval; none without an error."""
    return (None, None) if at is None or error is None else (at - 1.96 * error, at + 1.96 * error)


def metrics() -> list[MetricRow]:
    """Means with and values without an interval, and shares of groups of items."""
    rows = []
    for place, model in enumerate(MODELS):
        for k in (5, 10):
            for metric, values in (ACCURACY | OF_LISTS).items():
                rows.append(mean(model, metric, k, "all", "all", values[place] * k / 10, 10_000))
                rows.append(mean(model, metric, k, "country", "DE", values[place] * k / 10, 5_000))
            for metric, values in OF_RUN.items():
                rows.append(of_run(model, metric, k, "all", "all", values[place]))
            for number, (group, of_catalog) in enumerate(GROUPS.items()):
                shown = of_catalog + (place - 1) * (0.1, -0.05, -0.05)[number]
                rows.append(of_run(model, "exposure(weights=log2)", k, "group", group, shown))
                rows.append(of_run(model, "exposure_catalog(weights=log2)", k, "group", group, of_catalog))
    return rows


def of_run(model: str, metric: str, k: int, segment: str, value: str, at: float) -> MetricRow:
    """A value that belongs to no user."""
    return MetricRow(model, metric, k, segment, value, at, None, None, None, 646, 0, STAMP)
