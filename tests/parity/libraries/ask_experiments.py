"""gbstats, tea-tasting and statsmodels: values, differences and lifts of experiments.

Cases come as JSON on stdin: for each arm, control first, lists by user of clicks, views, watch, and of the
pre-period. Numbers go as JSON to stdout, in the order of the cases.
"""

import json
import sys
from importlib.metadata import version
from typing import Any

import numpy as np
import pandas as pd
import statsmodels.api as sm
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
from statsmodels.stats.weightstats import CompareMeans

Arm = dict[str, list[int]]


def tea_tasting(arms: list[Arm]) -> dict[str, dict[str, float]]:
    """The ratio and the mean, with and without the pre-period as a covariate."""
    users = pd.concat([pd.DataFrame(arm).assign(variant=number) for number, arm in enumerate(arms)])
    experiment = tt.Experiment(
        {
            "watch raw": tt.Mean("watch"),
            "watch cuped": tt.Mean("watch", "pre_watch"),
            "ctr raw": tt.RatioOfMeans("click", "view"),
            "ctr cuped": tt.RatioOfMeans("click", "view", "pre_click", "pre_view"),
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


def statsmodels(arms: list[Arm]) -> dict[str, dict[str, float]]:
    """Welch's test of means, of residuals from the pre-period, and robust errors of weighted regressions."""
    watch, past = ([np.array(arm[name], float) for arm in arms] for name in ("watch", "pre_watch"))
    fitted = sm.OLS(np.concatenate(watch), sm.add_constant(np.concatenate(past))).fit()
    residuals = np.split(fitted.resid, [len(watch[0])])
    found = {"watch raw": welch(watch), "watch cuped": {"theta": float(fitted.params[1]), **welch(residuals)}}
    found["ctr raw"] = {}
    for name, arm in zip(("control", "treatment"), arms, strict=True):
        clicks, views = np.array(arm["click"], float), np.array(arm["view"], float)
        rates = np.divide(clicks, views, out=np.zeros(len(clicks)), where=views > 0)
        ratio = sm.WLS(rates, np.ones(len(rates)), views).fit(cov_type="HC1")
        found["ctr raw"] |= {f"{name}_value": float(ratio.params[0]), f"{name}_se": float(ratio.bse[0])}
    return found


def welch(arms: list[Any]) -> dict[str, float]:
    """Treatment - control with its test and interval."""
    compared = CompareMeans.from_data(*arms[::-1])
    statistic, p_value, freedom = compared.ttest_ind(usevar="unequal")
    low, high = compared.tconfint_diff(usevar="unequal")
    numbers = {"statistic": statistic, "p_value": p_value, "df": freedom, "ci_low": low, "ci_high": high}
    return {name: float(number) for name, number in numbers.items()}


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
    libraries = {"tea_tasting": tea_tasting, "gbstats": gbstats, "statsmodels": statsmodels}
    numbers = {name: list(map(ask, cases)) for name, ask in libraries.items()}
    versions = {name: version(name) for name in ("gbstats", "tea-tasting", "statsmodels")}
    json.dump({"versions": versions, "numbers": numbers}, sys.stdout)
