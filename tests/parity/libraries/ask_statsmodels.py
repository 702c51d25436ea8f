"""statsmodels: adjusted p-values, means of users with several rows, tests of equivalence, parts of variance.

Cases come as JSON on stdin, numbers go as JSON to stdout, in the order of the cases.
"""

import json
import sys
from importlib.metadata import version

import numpy as np
import pandas as pd
import statsmodels.api as sm
import statsmodels.formula.api as smf
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.weightstats import ttost_paired

METHODS = {"holm": "holm", "bonferroni": "bonferroni", "bh": "fdr_bh"}


def clustered(users: list[int], differences: list[float]) -> list[float]:
    """Mean, standard error, t and p."""
    model = sm.OLS(np.array(differences), np.ones(len(differences)))
    fitted = model.fit(cov_type="cluster", cov_kwds={"groups": np.array(users)}, use_t=True)
    return [float(part[0]) for part in (fitted.params, fitted.bse, fitted.tvalues, fitted.pvalues)]


def crossed(values: list[list[float]]) -> dict[str, list[float]]:
    """Variances of users, repeats and the residual: by mean squares, and by REML of random effects."""
    n_repeats, n_users = len(values), len(values[0])
    table = pd.DataFrame(
        {
            "value": np.array(values).ravel(),
            "user": np.tile(np.arange(n_users), n_repeats),
            "repeat": np.repeat(np.arange(n_repeats), n_users),
            "one": 1,
        }
    )
    squares = sm.stats.anova_lm(smf.ols("value ~ C(user) + C(repeat)", table).fit())["mean_sq"]
    rest = squares["Residual"]
    moments = [(squares["C(user)"] - rest) / n_repeats, (squares["C(repeat)"] - rest) / n_users, rest]
    effects = {"user": "0 + C(user)", "repeat": "0 + C(repeat)"}
    model = sm.MixedLM.from_formula("value ~ 1", table, groups="one", vc_formula=effects).fit(reml=True)
    parts = dict(zip(model.model.exog_vc.names, model.vcomp, strict=True))
    reml = [parts["user"], parts["repeat"], model.scale]
    return {"moments": [float(part) for part in moments], "reml": [float(part) for part in reml]}


if __name__ == "__main__":
    cases = json.load(sys.stdin)
    numbers = {
        "adjusted": [
            {name: multipletests(family, method=method)[1].tolist() for name, method in METHODS.items()}
            for family in cases["families"]
        ],
        "clustered": [clustered(*case) for case in cases["clusters"]],
        "requests": [clustered(*case)[:2] for case in cases["requests"]],
        "equivalence": [
            float(ttost_paired(np.array(candidate), np.array(baseline), -delta, delta)[0])
            for baseline, candidate, delta in cases["pairs"]
        ],
        "crossed": [crossed(values) for values in cases["crossed"]],
    }
    json.dump({"version": version("statsmodels"), "numbers": numbers}, sys.stdout)
