# Written by tests/functions/stub.py from the registry of metrics.
from collections.abc import Mapping
from typing import Any

from pyspark.sql import Column

from spark_eval.conventions import Conventions
from spark_eval.functions.columns import ranking_metrics as ranking_metrics
from spark_eval.functions.columns import register as register

def precision(
    recommended: Column | str,
    relevant: Column | str,
    k: int | str,
    *,
    relevances: Column | str | None = None,
    scores: Column | str | None = None,
    conventions: Conventions | str | Mapping[str, Any] = "default",
    denominator: str | None = None,
    tie_order: str | None = None,
) -> Column:
    """Share of the k ranks with a relevant item; ranks beyond the end of a short list count."""

def recall(
    recommended: Column | str,
    relevant: Column | str,
    k: int | str,
    *,
    relevances: Column | str | None = None,
    scores: Column | str | None = None,
    conventions: Conventions | str | Mapping[str, Any] = "default",
    denominator: str | None = None,
    tie_order: str | None = None,
) -> Column:
    """Share of relevant items found in the top k; cannot reach 1 when a user has more relevant items than k."""

def recall_capped(
    recommended: Column | str,
    relevant: Column | str,
    k: int | str,
    *,
    relevances: Column | str | None = None,
    scores: Column | str | None = None,
    conventions: Conventions | str | Mapping[str, Any] = "default",
    tie_order: str | None = None,
) -> Column:
    """Recall relative to min(m, k), the most hits possible: a perfect top k scores 1 even if m > k."""

def f1(
    recommended: Column | str,
    relevant: Column | str,
    k: int | str,
    *,
    relevances: Column | str | None = None,
    scores: Column | str | None = None,
    conventions: Conventions | str | Mapping[str, Any] = "default",
    precision_denominator: str | None = None,
    recall_denominator: str | None = None,
    tie_order: str | None = None,
) -> Column:
    """Harmonic mean of this user's precision and recall, never of the means over users."""

def hit_rate(
    recommended: Column | str,
    relevant: Column | str,
    k: int | str,
    *,
    relevances: Column | str | None = None,
    scores: Column | str | None = None,
    conventions: Conventions | str | Mapping[str, Any] = "default",
    tie_order: str | None = None,
) -> Column:
    """1 if the top k has a relevant item, 0 otherwise."""

def ap(
    recommended: Column | str,
    relevant: Column | str,
    k: int | str,
    *,
    relevances: Column | str | None = None,
    scores: Column | str | None = None,
    conventions: Conventions | str | Mapping[str, Any] = "default",
    denominator: str | None = None,
    variant: str | None = None,
    tie_order: str | None = None,
) -> Column:
    """Mean of the precisions at the ranks of the hits; early hits count for more."""

def ar(
    recommended: Column | str,
    relevant: Column | str,
    k: int | str,
    *,
    relevances: Column | str | None = None,
    scores: Column | str | None = None,
    conventions: Conventions | str | Mapping[str, Any] = "default",
    denominator: str | None = None,
    variant: str | None = None,
    tie_order: str | None = None,
) -> Column:
    """Mean of the recalls at the ranks of the hits (*gated*): R@i counts only where rank i is a hit."""

def rr(
    recommended: Column | str,
    relevant: Column | str,
    k: int | str,
    *,
    relevances: Column | str | None = None,
    scores: Column | str | None = None,
    conventions: Conventions | str | Mapping[str, Any] = "default",
    tie_order: str | None = None,
) -> Column:
    """Reciprocal rank of the first relevant item; later hits do not matter."""

def rhr(
    recommended: Column | str,
    relevant: Column | str,
    k: int | str,
    *,
    relevances: Column | str | None = None,
    scores: Column | str | None = None,
    conventions: Conventions | str | Mapping[str, Any] = "default",
    tie_order: str | None = None,
) -> Column:
    """Sum of the reciprocal ranks of all hits; not bounded by 1."""

def rhr_norm(
    recommended: Column | str,
    relevant: Column | str,
    k: int | str,
    *,
    relevances: Column | str | None = None,
    scores: Column | str | None = None,
    conventions: Conventions | str | Mapping[str, Any] = "default",
    tie_order: str | None = None,
) -> Column:
    """Reciprocal hit rate as a share of the best possible in k ranks; a perfect list scores 1."""

def r_precision(
    recommended: Column | str,
    relevant: Column | str,
    k: int | str,
    *,
    relevances: Column | str | None = None,
    scores: Column | str | None = None,
    conventions: Conventions | str | Mapping[str, Any] = "default",
    tie_order: str | None = None,
) -> Column:
    """Precision where it equals recall, at rank m; the same for every k."""

def cg(
    recommended: Column | str,
    relevant: Column | str,
    k: int | str,
    *,
    relevances: Column | str | None = None,
    scores: Column | str | None = None,
    conventions: Conventions | str | Mapping[str, Any] = "default",
    tie_order: str | None = None,
) -> Column:
    """Relevance of the hits in the top k, whatever their ranks."""

def dcg(
    recommended: Column | str,
    relevant: Column | str,
    k: int | str,
    *,
    relevances: Column | str | None = None,
    scores: Column | str | None = None,
    conventions: Conventions | str | Mapping[str, Any] = "default",
    gain: str | None = None,
    discount: str | None = None,
    tie_order: str | None = None,
) -> Column:
    """Gain of the hits, discounted by the logarithm of the rank; the convention ``gain`` defines the gain."""

def mdcg(
    recommended: Column | str,
    relevant: Column | str,
    k: int | str,
    *,
    relevances: Column | str | None = None,
    scores: Column | str | None = None,
    conventions: Conventions | str | Mapping[str, Any] = "default",
    gain: str | None = None,
    discount: str | None = None,
    tie_order: str | None = None,
) -> Column:
    """DCG as a sliding window: its mean over all cutoffs from 1 to k."""

def ndcg(
    recommended: Column | str,
    relevant: Column | str,
    k: int | str,
    *,
    relevances: Column | str | None = None,
    scores: Column | str | None = None,
    conventions: Conventions | str | Mapping[str, Any] = "default",
    gain: str | None = None,
    discount: str | None = None,
    ideal: str | None = None,
    tie_order: str | None = None,
) -> Column:
    """DCG as a share of the best that any list of k items could reach for this user."""

def auc(
    recommended: Column | str,
    relevant: Column | str,
    k: int | str,
    *,
    relevances: Column | str | None = None,
    scores: Column | str | None = None,
    conventions: Conventions | str | Mapping[str, Any] = "default",
    one_class: str | None = None,
    ties: str | None = None,
) -> Column:
    """Probability that a hit ranks before a miss in the top k; equal scores count one half."""

def fcp(
    recommended: Column | str,
    relevant: Column | str,
    k: int | str,
    *,
    relevances: Column | str | None = None,
    scores: Column | str | None = None,
    conventions: Conventions | str | Mapping[str, Any] = "default",
) -> Column:
    """Share of the pairs of relevant items in the list that are in the order of their relevance."""

def user_coverage(
    recommended: Column | str,
    relevant: Column | str,
    k: int | str,
    *,
    relevances: Column | str | None = None,
    scores: Column | str | None = None,
    conventions: Conventions | str | Mapping[str, Any] = "default",
    places: str | None = None,
) -> Column:
    """1 if the user got a recommendation, 0 otherwise; with ``places=all``, 1 if they got k of them."""

map = ap
mar = ar
mrr = rr
arhr = rhr
arhr_norm = rhr_norm
gauc = auc
