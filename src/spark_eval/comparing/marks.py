"""Which model is the best of its metric and cutoff, and which are not certainly worse."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from spark_eval.metrics.values import formed, ranking_names
from spark_eval.schema import ALL, Direction
from spark_eval.stats.differences import signed_root, unpaired
from spark_eval.stats.intervals import Summary
from spark_eval.stats.significance import adjusted, p_of_t

BEST: Final = "*"
CLOSE: Final = "~"
CERTAIN: Final = 0.05
EXPLAINED: Final = (
    f"{BEST} the best of its k, {CLOSE} not certainly worse (95 %, as if models had users of their own; "
    "spark-eval compare tells more apart)"
)
# A model at a cutoff; None is no cutoff.
Line = tuple[str, int | None]


def list_direction(metric: str) -> Direction:
    """Return which values of a metric of lists are the better ones."""
    return ranking_names()[formed(metric)["name"]].direction


def marks_of(
    rows: Iterable[Mapping[str, Any]], better: Callable[[str], Direction] = list_direction
) -> dict[tuple[str, Line], str]:
    """Return the mark of each metric and line where several models have a value: BEST, CLOSE or none.

    Close is what a one-sided test of Welch does not tell from the best; its p-values of a metric and k are
    corrected by Holm. Means without an error have no models close to the best. ``better`` tells the direction
    of a metric, by default of one of lists.
    """
    groups: dict[tuple[str, int | None], dict[str, Summary]] = {}
    for row in rows:
        if row["segment"] == ALL and row["value"] is not None:
            mean = Summary(row["value"], row.get("std_error"), None, None, row["n_users"])
            groups.setdefault((row["metric"], row["k"]), {})[row["model"]] = mean
    marks = {}
    for (metric, k), of_models in groups.items():
        direction = better(metric)
        if direction is Direction.NONE or len(of_models) == 1:
            continue
        sign = -1 if direction is Direction.LOWER else 1
        best = of_models[max((sign * (one.value or 0), model) for model, one in of_models.items())[1]]
        chances = adjusted([p_behind(one, best, sign) for one in of_models.values()], "holm")
        for model, p in zip(of_models, chances, strict=True):
            is_equal = of_models[model].value == best.value
            if is_equal or (p is not None and p >= CERTAIN):
                marks[metric, (model, k)] = BEST if is_equal else CLOSE
    return marks


def p_behind(one: Summary, best: Summary, sign: int) -> float | None:
    """Return the one-sided p of a mean below the best one; None for the best itself, and without errors."""
    between = unpaired(best.value, best.std_error, best.n, one.value, one.std_error, one.n)
    if one is best or between.value is None or not between.variance:
        return None
    return p_of_t(signed_root(sign * between.value, between.variance), between.freedom, "less")
