"""gbstats and tea-tasting: differences and lifts of experiments.

Cases come as JSON on stdin: for each arm, control first, lists by user of clicks, views, watch, and of the
pre-period. Numbers go as JSON to stdout, in the order of the cases.
"""

import json
import sys
from importlib.metadata import version
from typing import Any

import pandas as pd
import tea_tasting as tt
from gbstats.frequentist.tests import (
    FrequentistConfig,
    SequentialConfig,
    SequentialTwoSidedTTest,
    TwoSidedTTest,
)
from gbstats.models.statistics import (
    RatioStatistic,
    RegressionAdjustedStatistic,
    SampleMeanStatistic,
    compute_theta,
)

Arm = dict[str, list[int]]


def tea_tasting(arms: list[Arm]) -> dict[str, dict[str, float]]:
    """The ratio, and the mean with and without the pre-period as a covariate."""
    users = pd.concat([pd.DataFrame(arm).assign(variant=number) for number, arm in enumerate(arms)])
    experiment = tt.Experiment(
        {
            "watch raw": tt.Mean("watch"),
            "watch cuped": tt.Mean("watch", "pre_watch"),
            "ctr raw": tt.RatioOfMeans("click", "view"),
        }
    )
    return {
        name: {
            "control_value": found.control,
            "treatment_value": found.treatment,
            "difference": found.effect_size,
            "ci_low": found.effect_size_ci_lower,
            "ci_high": found.effect_size_ci_upper,
            "lift": found.rel_effect_size,
            "lift_low": found.rel_effect_size_ci_lower,
            "lift_high": found.rel_effect_size_ci_upper,
            "p_value": found.pvalue,
            "statistic": found.statistic,
        }
        for name, found in experiment.analyze(users, control=0).items()
    }


def sums(values: list[int]) -> SampleMeanStatistic:
    return SampleMeanStatistic(n=len(values), sum=sum(values), sum_squares=sum(x * x for x in values))


def ratio(arm: Arm) -> RatioStatistic:
    products = sum(x * y for x, y in zip(arm["click"], arm["view"], strict=True))
    return RatioStatistic(len(arm["click"]), sums(arm["click"]), sums(arm["view"]), products)


def adjusted(arm: Arm, theta: float = 0) -> RegressionAdjustedStatistic:
    products = sum(x * y for x, y in zip(arm["watch"], arm["pre_watch"], strict=True))
    return RegressionAdjustedStatistic(
        len(arm["watch"]), sums(arm["watch"]), sums(arm["pre_watch"]), products, theta
    )


def gbstats(arms: list[Arm]) -> dict[str, dict[str, float]]:
    """Lifts at one look and at every look; later releases have another variance of adjusted ones."""
    found = {}
    for name, statistics in (
        ("watch raw", [sums(arm["watch"]) for arm in arms]),
        ("ctr raw", list(map(ratio, arms))),
    ):
        single = TwoSidedTTest(*statistics, FrequentistConfig(difference_type="relative"))
        always = SequentialTwoSidedTTest(
            *statistics, SequentialConfig(difference_type="relative", sequential_tuning_parameter=50)
        )
        for test, method in ((single, name), (always, name.replace("raw", "sequential"))):
            result = test.compute_result()
            low, high = result.ci
            numbers = {"lift": result.expected, "lift_low": low, "lift_high": high, "p_value": result.p_value}
            found[method] = {key: float(number) for key, number in numbers.items()}
    theta = compute_theta(*map(adjusted, arms))
    test = TwoSidedTTest(*(adjusted(arm, theta) for arm in arms))
    found["watch cuped"] = {"theta": theta, "lift": test.compute_result().expected}
    return found


if __name__ == "__main__":
    cases: list[Any] = json.load(sys.stdin)
    numbers = {"tea_tasting": list(map(tea_tasting, cases)), "gbstats": list(map(gbstats, cases))}
    versions = {name: version(name) for name in ("gbstats", "tea-tasting")}
    json.dump({"versions": versions, "numbers": numbers}, sys.stdout)
