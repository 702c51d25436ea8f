"""Windows of days: the same as one job over all days, in any order; what is refused, and what is named."""

import math
import shutil
from collections.abc import Mapping, Sequence
from fractions import Fraction

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from tests.history.days import OfDay, UserDay, publish_day, sums_of

from spark_eval.evaluation.summary import metric_rows
from spark_eval.history.plan import make_window_plan
from spark_eval.history.window import merge_days
from spark_eval.publishing.local import LocalStore
from spark_eval.runs.windows import day_of

DAYS = ["2024-02-28", "2024-02-29", "2024-03-01"]
ENDS = {"first": DAYS[0], "last": DAYS[-1]}
VALUES = st.none() | st.floats(0, 1) | st.sampled_from([0.0, 1.0, 1 / 3, 1e-300])
WHOLE = st.integers(1, 9).map(float)
ROWS = st.builds(UserDay, st.just(""), st.sampled_from([None, "DE", "FR"]), VALUES, VALUES, WHOLE)
LISTS = st.dictionaries(st.sampled_from("abcdef"), ROWS, min_size=1).map(
    lambda rows: [
        row._replace(user=user, pairs=0.0 if row.fcp is None else row.pairs) for user, row in rows.items()
    ]
)
MODELS = st.fixed_dictionaries({"als": LISTS, "pop/ular": LISTS})


def plain_error(x: Sequence[Fraction], w: Sequence[Fraction]) -> float | None:
    """The standard error of sum(x) / sum(w) over users, as the sandwich estimator is written in textbooks."""
    n = len(x)
    if n < 2 or not sum(w):
        return None
    ratio = sum(x) / sum(w)
    spread = sum((a - ratio * b) ** 2 for a, b in zip(x, w, strict=True))
    return math.sqrt(Fraction(n, n - 1) * spread / sum(w) ** 2)


def plain_errors(days: Sequence[OfDay], model: str, country: str) -> Mapping[str, float | None]:
    """The clustered standard errors of the means of a model, user by user."""
    rows = [row for day in days for row in day[model] if country in ("all", row.country or "(missing)")]
    found = {}
    for name in ("map", "fcp", "fcp_micro"):
        x, w = dict[str, Fraction](), dict[str, Fraction]()
        for row in rows:
            value = row.ap if name == "map" else row.fcp
            if value is not None:
                weight = row.pairs if name == "fcp_micro" else 1.0
                x[row.user] = x.get(row.user, Fraction()) + Fraction(value * weight)
                w[row.user] = w.get(row.user, Fraction()) + Fraction(weight)
        found[name] = plain_error(list(x.values()), list(w.values()))
    return found


@settings(max_examples=25, deadline=None, phases=[Phase.explicit, Phase.generate])
@given(days=st.lists(MODELS, min_size=3, max_size=3), order=st.permutations(range(3)))
def test_a_window_is_one_job_over_all_days_in_any_order(
    days: list[dict[str, list[UserDay]]], order: list[int], tmp_path_factory: pytest.TempPathFactory
) -> None:
    root = tmp_path_factory.mktemp("days")
    for run_id, models in zip(DAYS, days, strict=True):
        publish_day(root, run_id, models)
    plan = make_window_plan(**ENDS)
    merged = merge_days([day_of(LocalStore(root), DAYS[at]) for at in order], plan)
    together = {model: [row for day in days for row in day[model]] for model in days[0]}
    whole = sums_of(together)
    assert merged.sum_rows == whole
    one_job = {row[:5]: row for row in metric_rows(whole)}
    for row in merged.metric_rows:
        assert (row.value, row.n_users, row.n_undefined) == (
            one_job[row[:5]].value,
            one_job[row[:5]].n_users,
            one_job[row[:5]].n_undefined,
        )
        expected = plain_errors(days, row.model, row.segment_value)[row.metric]
        assert (row.std_error is None) == (expected is None)
        assert row.std_error is None or math.isclose(
            row.std_error, expected or 0, rel_tol=1e-9, abs_tol=1e-12
        )
    again = merge_days([day_of(LocalStore(root), run_id) for run_id in DAYS], plan)
    assert again == merged
    shutil.rmtree(root)
