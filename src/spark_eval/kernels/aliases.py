"""Aliases of metric names: the other names used in the field; case is ignored."""

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any, Final, TypeVar

from spark_eval.errors import ConfigError

Known = TypeVar("Known")

# Aliases by registered name, of rankings or of predictions. Case, "_" and "-" are ignored.
ALIASES: Final[Mapping[str, Sequence[str]]] = {
    "precision": ("P", "prec", "positive_predictive_value"),
    "recall": ("R", "sensitivity", "true_positive_rate"),
    "f1": ("f1_score", "f_score", "f_measure"),
    "hit_rate": ("HR", "hit", "hits", "hit_ratio", "success"),
    "ap": ("average_precision",),
    "map": ("mean_average_precision",),
    "ar": ("average_recall",),
    "mar": ("mean_average_recall",),
    "rr": ("recip_rank", "reciprocal_rank"),
    "mrr": ("mean_reciprocal_rank",),
    "rhr": ("reciprocal_hit_rate", "reciprocal_hit_rank"),
    "arhr": ("average_reciprocal_hit_rate", "average_reciprocal_hit_rank"),
    "r_precision": ("r_prec",),
    "cg": ("cumulative_gain",),
    "dcg": ("discounted_cumulative_gain",),
    "ndcg": ("ndcg_cut", "normalized_discounted_cumulative_gain", "normalised_discounted_cumulative_gain"),
    "alpha_ndcg": ("a_ndcg",),
    "err_ia": ("intent_aware_err",),
    "p_ia": ("precision_ia", "intent_aware_precision"),
    "ap_ia": ("map_ia", "intent_aware_map"),
    "subtopic_recall": ("s_recall", "srecall", "strec", "intent_recall"),
    "catalog_coverage": ("catalogue_coverage", "item_coverage"),
    "gini_catalog": ("gini", "gini_index"),
    "entropy": ("shannon_entropy", "distributional_coverage"),
    "personalization": ("personalisation", "inter_list_diversity"),
    "user_coverage": ("prediction_coverage", "coverage_of_users"),
    "arp": ("average_recommendation_popularity", "average_popularity", "avg_rec_popularity"),
    "novelty": ("mean_self_information", "mean_inv_user_freq"),
    "long_tail": ("APLT", "average_percentage_of_long_tail"),
    "epc": ("expected_popularity_complement",),
    "efd": ("expected_free_discovery",),
    "ild": ("intra_list_distance", "intra_list_diversity"),
    "pop_lift": ("popularity_lift",),
    "calibration_kl": ("miscalibration", "KL_calibration"),
    "auc": ("ROC_AUC", "AUROC", "area_under_roc"),
    "gauc": ("group_auc", "grouped_auc"),
    "fcp": ("fraction_of_concordant_pairs",),
    "accuracy": ("acc",),
    "mean_class_accuracy": ("balanced_accuracy",),
    "confusion": ("confusion_matrix",),
    "log_loss": ("cross_entropy", "binary_cross_entropy", "BCE", "NLL"),
    "auprc": ("PR_AUC", "AUPR", "area_under_pr", "average_precision"),
    "ece": ("expected_calibration_error",),
    "mae": ("mean_absolute_error",),
    "mse": ("mean_squared_error", "brier", "brier_score"),
    "rmse": ("root_mean_squared_error",),
    "mape": ("mean_absolute_percentage_error",),
    "r2": ("r_squared", "r2_score"),
}


def find_name(name: str, known: Mapping[str, Known]) -> Known | None:
    """Look up a name or an alias among the ``known`` names; None if it is unknown.

    >>> metrics = {"hit_rate": 1, "auprc": 2}
    >>> find_name("HR", metrics), find_name("Average-Precision", metrics), find_name("hrr", metrics)
    (1, 2, None)
    """
    by_plain = {bare_name(alias): name for name in known for alias in ALIASES.get(name, ())}
    by_plain |= {bare_name(name): name for name in known}
    canonical = by_plain.get(bare_name(name))
    return None if canonical is None else known[canonical]


def metric_named(name: str, known: Mapping[str, Known], where: str) -> Known:
    """Look up a name or an alias; raise ConfigError UNKNOWN_METRIC with the nearest known name."""
    metric = find_name(name, known)
    if metric is None:
        raise ConfigError.unknown("UNKNOWN_METRIC", "metric", name, known, where)
    return metric


@cache
def bare_name(name: str) -> str:
    """Return a name in lower case, without underscores, hyphens and a final ``AtK``."""
    return re.sub("[_-]", "", name.casefold()).removesuffix("atk")


def as_list(given: Any) -> list[Any]:
    """Convert to a list; a single text, number or mapping becomes a list of one.

    >>> as_list("ndcg"), as_list(5), as_list(("map", "mrr"))
    (['ndcg'], [5], ['map', 'mrr'])
    """
    is_many = isinstance(given, Iterable) and not isinstance(given, str | Mapping)
    return list(given) if is_many else [given]
