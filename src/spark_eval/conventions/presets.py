"""Presets: conventions of this package, of ten libraries, and of five published texts, by name.

With a library's preset the same input gives the library's numbers; exceptions are in ``leaves_out``.
``spark-eval metrics --preset NAME`` and the table in docs/conventions.md print the texts below.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from spark_eval.conventions import CONVENTIONS, POPULATION, Conventions
from spark_eval.conventions.choice import Choice
from spark_eval.errors import ConfigError, parse_choice

CONVENTIONS_KEY: Final = "evaluate.conventions"


@dataclass(frozen=True)
class Preset:
    """Conventions of a source, with their differences from the default.

    ``differs`` explains different numbers; ``leaves_out`` lists parts of the library that are not reproduced.
    """

    source: str
    conventions: Conventions
    differs: str
    leaves_out: str = ""


def parse_convention(name: str, choice: object) -> Choice | float | None:
    """Parse one convention; raise ConfigError UNKNOWN_CONVENTION or INVALID_CHOICE."""
    where = f"{CONVENTIONS_KEY}.{name}"
    if name == "threshold":
        if choice is None:
            return None
        if isinstance(choice, int | float) and not isinstance(choice, bool) and 0 <= choice < math.inf:
            return float(choice)
        message = f"{where} is {choice!r}; give the smallest relevance of a relevant item, 0 or more"
        raise ConfigError("INVALID_CHOICE", f"{message}; without a threshold it is any above 0")
    if name not in CONVENTIONS:
        raise ConfigError.unknown(
            "UNKNOWN_CONVENTION", "convention", name, [*CONVENTIONS, "threshold"], CONVENTIONS_KEY
        )
    return parse_choice(CONVENTIONS[name], str(choice), where)


def with_choices(conventions: Conventions, choices: Mapping[str, object]) -> Conventions:
    """Change conventions by name, with choices as in a config."""
    return conventions.changed({name: parse_convention(name, choice) for name, choice in choices.items()})


def make_preset(source: str, differs: str, leaves_out: str = "", **choices: object) -> Preset:
    """Return a preset that differs from the default in these choices."""
    return Preset(source, with_choices(Conventions(), choices), differs, leaves_out)


PRESETS: Final[dict[str, Preset]] = {
    "default": make_preset(
        "spark-eval",
        "AP over min(m, k), so that a perfect top k scores 1; nDCG by the whole truth; users without "
        "recommendations count with 0.",
    ),
    "spark": make_preset(
        "Spark's RankingMetrics and RankingEvaluator",
        "nDCG is binary; users without truth count with 0.",
        "Spark counts repeated items of a list again (recall@3 of a, a, a is 3); its graded nDCG takes the "
        "ideal in the order of the truth's rows and can exceed 1. Neither is reproduced.",
        gain="binary",
        no_truth="zero",
    ),
    "trec_eval": make_preset(
        "trec_eval (pytrec_eval, ir_measures)",
        "AP over all m relevant items, so that k ranks may not be enough to reach 1; users without "
        "recommendations are left out; relevance below 1 is not relevant.",
        "Scores are 32-bit floats in trec_eval: doubles that differ by less tie there. A user whose "
        "judgements are all below 1 counts with 0 there and has no truth here. Its map, recip_rank and "
        "set_ measures are uncut: use k: all. Its -l cuts no relevances: nDCG keeps the gains of those "
        "below, which a threshold here leaves out.",
        ap_denominator="relevant",
        negative_relevance="irrelevant",
        no_recommendations="drop",
        threshold=1.0,
    ),
    "ranx": make_preset(
        "ranx",
        "AP over all m relevant items; relevance below 1 is not relevant.",
        "ranx sorts equal scores in no fixed order; here by item. A user whose judgements are all "
        "below 1 counts with 0 there and has no truth here.",
        ap_denominator="relevant",
        negative_relevance="irrelevant",
        threshold=1.0,
    ),
    "recommenders": make_preset(
        "Microsoft recommenders (map_at_k)",
        "nDCG is binary; users without recommendations are left out. Popularity counts rows; its novelty is "
        "novelty_micro; items without attributes are unlike any other; catalogue coverage is "
        "over the training items.",
        "Only its nDCG also counts users without recommendations, and its mean r-precision leaves out users "
        "without hits; here all metrics have one population. Equal scores keep the order of rows "
        "there. Repeated training rows count again in its serendipity. Not reproduced: diversity by common "
        "training users (that by vectors is ild).",
        gain="binary",
        no_recommendations="drop",
        popularity="rows",
        novelty_popularity="rows",
        novelty_unseen="zero",
        no_features="unlike",
        serendipity_variant="recommenders",
        catalog_coverage_variant="by_trained",
    ),
    "replay": make_preset(
        "RePlay",
        "nDCG is binary; in-list AUC is 0 without hits and 1 with hits only, and goes by rank, not by score. "
        "Its Surprisal is novelty over k ranks, as a share of that of an item with one user; catalogue "
        "coverage counts training items only.",
        "On pandas and Polars, RePlay counts repeated truth rows as relevant items of their own; on Spark it "
        "does not, and neither does this preset. Its MAP counts an item repeated in a list again. "
        "Users with an empty list count with 0 in its Surprisal and Unexpectedness, and have no value here. "
        "Its Novelty and CategoricalDiversity are not reproduced.",
        gain="binary",
        one_class="extremes",
        auc_ties="as_ranked",
        novelty_scale="share",
        novelty_denominator="k",
        unexpectedness_no_base="zero",
        catalog_coverage_variant="trained",
    ),
    "rectools": make_preset(
        "RecTools",
        "AP over all m relevant items; nDCG is binary and normalised by k hits, even if m < k. Popularity "
        "counts rows, but novelty users; diversity is by features that differ, 0 for a list of one item; "
        "catalogue coverage counts all recommended items; Intersection is 1 - unexpectedness.",
        "Repeated rows count as items of their own in RecTools. Its options: divide_by_k is "
        "ap_denominator: k, divide_by_achievable is ideal: truth, r_precision is recall_capped, "
        "normalize of AvgRecPopularity is arp(scale=share); SufficientReco is user_coverage(places=all). "
        "Serendipity is over users with a list: use no_recommendations: drop.",
        ap_denominator="relevant",
        gain="binary",
        ideal="positions",
        popularity="rows",
        ild_distance="hamming",
        ild_short="zero",
        unexpectedness_denominator="length",
        unexpectedness_no_base="one",
        catalog_coverage_variant="recommended",
    ),
    "lenskit": make_preset(
        "LensKit",
        "Precision over min(k, length), recall over min(m, k), AP over min(m, length): short lists are not "
        "penalised; DCG discounts ranks 1 and 2 alike; nDCG is binary; a gain field is gain: linear.",
        "A user who is absent from LensKit's run is not measured there; with an empty list they count with "
        "0, as here. Users without truth are an error there.",
        precision_denominator="min_k_length",
        recall_denominator="min_relevant_k",
        ap_denominator="min_relevant_length",
        gain="binary",
        discount="log2_clipped",
    ),
    "evidently": make_preset(
        "Evidently",
        "Evidently uses recommended rows only: relevant items that were not recommended do not exist, m and "
        "the ideal are those of the list, and users without a hit are left out. "
        "Items without training are left out of popularity, novelty and catalogue coverage, diversity "
        "divides by items, Gini divides by n - 1, personalization treats short lists as full.",
        "For lists shorter than k its MAP and MAR count the last item's relevance again at every empty "
        "rank and can exceed 1; its F-beta is that of the mean precision and recall. Neither is reproduced. "
        "normalize_arp is arp(scale=max). Its popularity, novelty and diversity are "
        "over all users with a list: use no_hits: zero with them. UserBias is not reproduced.",
        precision_denominator="min_k_length",
        recall_denominator="retrieved",
        ap_denominator="retrieved",
        ar_denominator="retrieved",
        ideal="list",
        no_recommendations="drop",
        no_hits="drop",
        arp_unseen="drop",
        novelty_unseen="drop",
        ild_average="length",
        ild_short="zero",
        serendipity_variant="evidently",
        catalog_coverage_variant="trained",
        gini_variant="n_minus_1",
        personalization_variant="full_lists",
    ),
    "elliot": make_preset(
        "Elliot",
        "MAP and MAR are means over all ranks up to k; DCG with 2^relevance - 1; users without "
        "recommendations are left out. APLT is long_tail, UserCoverageAtN user_coverage(places=all). Gini is "
        "1 - Gini by n - 1: higher is more even. Entropy lets all lists count the same.",
        "Its gain is 2^(relevance - t + 1) - 1 for its threshold t: as here for t = 1 and if relevances "
        "are all equal. Its coverages are counts, not shares; equally popular items keep the order of its "
        "numbers at the end of the head.",
        ap_variant="window",
        ar_variant="window",
        gain="exp2",
        no_recommendations="drop",
        gini_variant="equality",
        entropy_weights="slots",
    ),
    "warprec": make_preset(
        "WarpRec 2.2.8",
        "DCG with 2^(relevance + 1) - 1. Popularity counts interactions, and at least one. Gini is by n - 1. "
        "IPSRecall and SNIPSRecall have the propensities of popularity (power 1/2, at least 1/10): "
        "SNIPSRecall is snips_recall.",
        "Its lists are full, from scores of all items. Its entropy is in nats: ours times ln 2. The head of "
        "its APLT counts interactions, and equally popular items keep its order; its EPC divides these by "
        "users, and its EFD and EPC take an item without training as one with one interaction.",
        gain="exp2_plus_1",
        popularity="rows",
        arp_unseen="one",
        gini_variant="n_minus_1",
    ),
    "sklearn": make_preset(
        "scikit-learn (ndcg_score, dcg_score, average_precision_score)",
        "Equal scores share their ranks: DCG averages over their orders, AP takes them as one threshold. AP "
        "is uncut (k: all) and over all m relevant items. AUC is roc_auc_score; other metrics are refused.",
        "scikit-learn needs a score for every item; relevant items without one have none here.",
        ap_denominator="relevant",
        tie_order="shared",
    ),
    "seed000": make_preset(
        '"Evaluation Frameworks" (notes, with a sliding window)',
        "nDCG by the list's own relevances, as in its example.",
        "Its first formulas of AP and AR sum over all ranks and exceed 1.",
        ideal="list",
    ),
    "seed001": make_preset(
        "lecture on evaluation metrics (Wang Zhe, Geekbang)",
        "AP over the hits, without missed items.",
        ap_denominator="hits",
    ),
    "seed002": make_preset(
        '"Validation and Metrics" (book chapter)',
        "AP over all m relevant items; DCG with 2^relevance - 1, normalised by the list's own relevances.",
        "Its precision sorts scores ascending and gives -1 to a user without positives.",
        ap_denominator="relevant",
        gain="exp2",
        ideal="list",
    ),
    "seed003": make_preset(
        '"Evaluation Metrics and Their Limitations" (notes)', "Precision@k only, as in the default."
    ),
    "seed004": make_preset(
        '"Evaluation Metrics" (tutorial on embedding models)',
        "Recall over min(m, k); AP over the hits; nDCG is binary.",
        "The nDCG it prints passes document ids as scores.",
        recall_denominator="min_relevant_k",
        ap_denominator="hits",
        gain="binary",
    ),
}


# Start of the rules of lists by request in a stamp.
REQUESTS: Final = "requests: "
# Start of the part of a stamp about candidates.
CANDIDATES: Final = "candidates: "


def conventions_of(name: str) -> Conventions:
    """Return a preset's conventions; raise ConfigError UNKNOWN_PRESET with the nearest name."""
    if name not in PRESETS:
        raise ConfigError.unknown("UNKNOWN_PRESET", "preset", name, PRESETS, CONVENTIONS_KEY)
    return PRESETS[name].conventions.changed({"preset": name})


def parse_conventions(value: Conventions | str | Mapping[str, Any]) -> Conventions:
    """Parse conventions: the name of a preset, or ``{preset: ..., convention: choice, ...}``.

    Raises ConfigError UNKNOWN_PRESET, UNKNOWN_CONVENTION or INVALID_CHOICE with the allowed values.
    """
    if isinstance(value, Conventions):
        return value
    choices = {"preset": value} if isinstance(value, str) else dict(value)
    conventions = conventions_of(str(choices.pop("preset", "default")))
    return with_choices(conventions, choices)


def changed_choices(conventions: Conventions, base: Conventions) -> dict[str, Choice]:
    """Return the choices that differ between two conventions."""
    return {
        name: choice for name in CONVENTIONS if (choice := getattr(conventions, name)) != getattr(base, name)
    }


def stamp(
    conventions: Conventions, of_requests: Mapping[str, str] | None = None, candidates: str | None = None
) -> str:
    """Return the conventions as text for every output row: preset, changed choices, population rules.

    ``default, gain=exp2; no_recommendations=zero; no_truth=drop; no_hits=zero; relevance>=4.0``

    ``of_requests`` are the rules of lists by request, if any: ``requests: weight=users, truth=users``.
    ``candidates`` is given for lists that are not full rankings: ``candidates: sampled``.
    """
    own = changed_choices(conventions, conventions_of(conventions.preset))
    choices = [f"{name}={choice}" for name, choice in own.items() if name not in POPULATION]
    rules = [f"{name}={getattr(conventions, name)}" for name in POPULATION]
    relevance = "relevance>0" if conventions.threshold is None else f"relevance>={conventions.threshold}"
    if of_requests:
        rules.append(REQUESTS + ", ".join(f"{name}={choice}" for name, choice in of_requests.items()))
    if candidates:
        rules.append(CANDIDATES + candidates)
    return "; ".join([", ".join([conventions.preset, *choices]), *rules, relevance])


def request_rules(text: str) -> str:
    """Return the part of a stamp about lists by request; empty if users have one list each.

    >>> request_rules("default; no_hits=zero; requests: weight=users, truth=users; relevance>0")
    'requests: weight=users, truth=users'
    """
    return part_of(text, REQUESTS)


def part_of(text: str, start: str) -> str:
    """Return the part of a stamp with this start; empty if it has none."""
    return next((part for part in text.split("; ") if part.startswith(start)), "")


def parse_stamp(text: str) -> Conventions:
    """Parse a stamp to conventions, without its parts about requests and candidates.

    Raises ConfigError or ValueError for an invalid text.

    >>> own = parse_conventions({"preset": "spark", "gain": "exp2", "no_hits": "drop", "threshold": 4})
    >>> parse_stamp(stamp(own)) == own
    True
    """
    parts = (part for part in text.split("; ") if not part.startswith((REQUESTS, CANDIDATES)))
    [own, *rules, relevance] = parts
    preset, *choices = own.split(", ")
    threshold = None if relevance == "relevance>0" else float(relevance.removeprefix("relevance>="))
    chosen = dict(one.split("=", 1) for one in [*choices, *rules])
    return with_choices(conventions_of(preset), {**chosen, "threshold": threshold})
