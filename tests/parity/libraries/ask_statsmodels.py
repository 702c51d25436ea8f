"""statsmodels: adjusted p-values, means of users with several rows, and tests of equivalence.

Cases come as JSON on stdin, numbers go as JSON to stdout, in the order of the cases.
"""

import json
import sys
from importlib.metadata import version

import numpy as np
import statsmodels.api as sm
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.weightstats import ttost_paired

METHODS = {"holm": "holm", "bonferroni": "bonferroni", "bh": "fdr_bh"}


def clustered(users: list[int], differences: list[float]) -> list[float]:
    """Mean, standard error, t and p."""
    model = sm.OLS(np.array(differences), np.ones(len(differences)))
    fitted = model.fit(cov_type="cluster", cov_kwds={"groups": np.array(users)}, use_t=True)
    return [float(part[0]) for part in (fitted.params, fitted.bse, fitted.tvalues, fitted.pvalues)]


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
    }
    json.dump({"version": version("statsmodels"), "numbers": numbers}, sys.stdout)
