"""Conventions of metric definitions: enumerations of choices, each with a one-line meaning.

Conventions are passed as one value and written to every output row; ``presets`` sets all of them at once.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Final

from spark_eval.conventions import beyond
from spark_eval.conventions.choice import Choice, ColumnName, Need


class PrecisionDenominator(Choice):
    """Denominator of precision."""

    K = "k", "the cutoff, even if the list is shorter"
    MIN_K_LENGTH = "min_k_length", "min(k, length of the list)", Need.LENGTHS


class RecallDenominator(Choice):
    """Denominator of recall."""

    RELEVANT = "relevant", "m, the user's relevant items"
    MIN_RELEVANT_K = "min_relevant_k", "min(m, k), the most hits possible"
    RETRIEVED = "retrieved", "the relevant items anywhere in the user's own list", Need.WHOLE_LIST


class AverageDenominator(Choice):
    """Divisor of the sum of precisions, or of recalls, at the hits."""

    MIN_RELEVANT_K = "min_relevant_k", "min(m, k)"
    RELEVANT = "relevant", "m, the user's relevant items"
    HITS = "hits", "h, the hits in the top k"
    K = "k", "the cutoff"
    MIN_RELEVANT_LENGTH = "min_relevant_length", "min(m, length of the list, k)", Need.LENGTHS
    RETRIEVED = "retrieved", "the relevant items anywhere in the user's own list, for m", Need.WHOLE_LIST


class AverageVariant(Choice):
    """Ranks that average precision and average recall use."""

    GATED = "gated", "the ranks of the hits"
    WINDOW = "window", "all ranks from 1 to k: the mean of the values at 1, ..., k"


class Gain(Choice):
    """Gain of a relevant item in DCG."""

    LINEAR = "linear", "its relevance"
    EXP2 = "exp2", "2^relevance - 1"
    EXP2_PLUS_1 = "exp2_plus_1", "2^(relevance + 1) - 1"
    BINARY = "binary", "1"


class Discount(Choice):
    """Factor of the gain at rank i in DCG."""

    LOG2 = "log2", "1 / log2(i + 1)"
    LOG2_CLIPPED = "log2_clipped", "1 / log2(max(i, 2)): ranks 1 and 2 have the same discount"


class Ideal(Choice):
    """The list that nDCG is normalised by."""

    TRUTH = "truth", "the user's whole truth, best first, cut at k"
    POSITIONS = "positions", "the user's best gain at all k ranks"
    LIST = "list", "the relevant items of the user's own list, best first, cut at k", Need.WHOLE_LIST


class TieOrder(Choice):
    """Position of hits whose score ties with other items of the list."""

    AS_RANKED = "as_ranked", "as ranked by the convention ties"
    BEST = "best", "before the items that they tie with: the best case", Need.WHOLE_LIST, Need.TIES
    WORST = "worst", "after the items that they tie with: the worst case", Need.WHOLE_LIST, Need.TIES
    SHARED = (
        "shared",
        "DCG: the mean discount of the tied ranks; AP: the precision at the last of them",
        Need.WHOLE_LIST,
        Need.TIES,
    )


class OneClass(Choice):
    """In-list AUC of a list whose top k has only hits, or none."""

    UNDEFINED = "undefined", "no value; the user counts in n_undefined"
    EXTREMES = "extremes", "1 for hits only, 0 for no hits"


class AucTies(Choice):
    """Hit and miss of the same score, in in-list AUC."""

    HALF = "half", "count one half"
    AS_RANKED = "as_ranked", "count as ranked by the convention ties"


class IdealTies(Choice):
    """First of two items with equal gains in the greedy ideal of intents."""

    ITEM_DESC = "item_desc", "the larger item id"
    TEXT = "text", "the item id that is larger as text", Need.TEXT_ORDER


class CoverageVariant(Choice):
    """Items counted by catalogue coverage, and its denominator."""

    CATALOG = "catalog", "recommended items of the catalogue / its items"
    RECOMMENDED = "recommended", "all recommended items / items of the catalogue: can exceed 1"
    BY_TRAINED = "by_trained", "all recommended items / training items: can exceed 1", Need.POPULARITY
    TRAINED = "trained", "recommended training items / training items", Need.POPULARITY


class GiniVariant(Choice):
    """Divisor of Gini's mean of differences over n items."""

    N = "n", "n: at most 1 - 1/n"
    N_MINUS_1 = "n_minus_1", "n - 1: 1 if one item has all lists"
    EQUALITY = "equality", "n - 1, and the result is subtracted from 1: higher is more even"


class EntropyWeights(Choice):
    """Weight of an item's information in the entropy of a run."""

    LISTS = "lists", "1 for each list with the item"
    SLOTS = "slots", "1 / length for each list with the item, so that all lists count the same", Need.SLOTS


class PersonalizationVariant(Choice):
    """Items shared by two lists of fewer than k items, in personalization."""

    EXACT = "exact", "the items in both lists"
    FULL_LISTS = "full_lists", "as if every list had k items: too high if some are shorter"


class ExposureWeights(Choice):
    """Weight of a rank in exposure."""

    EQUAL = "equal", "1, whatever the rank"
    DISC = "disc", "1 / log2(rank + 1)"


class Ties(Choice):
    """Order of equal scores. All choices are independent of row order and partitioning."""

    ITEM_DESC = "item_desc", "the larger item id"
    ITEM_ASC = "item_asc", "the smaller item id"
    HASH = "hash", "by a seeded hash of the item id"


class TruthDuplicates(Choice):
    """Relevance of an item with several truth rows of a user; compared with the threshold afterwards."""

    MAX = "max", "the largest"
    SUM = "sum", "their sum"
    LAST = "last", "that of the latest row by timestamp; if several are latest, the largest"
    COUNT = "count", "the number of rows, whatever their relevance"


class RecommendationDuplicates(Choice):
    """Items repeated in a list."""

    BEST_RANK = "best_rank", "count once, at their best rank or score; repeats are counted in accounting"
    REFUSE = "refuse", "are an error"


class NegativeRelevance(Choice):
    """Truth rows with a relevance below 0."""

    REFUSE = "refuse", "are an error"
    IRRELEVANT = "irrelevant", "count like any other; an item whose relevance stays below 0 is not relevant"


class NoRecommendations(Choice):
    """Users with truth but without recommendations."""

    ZERO = "zero", "count with 0"
    DROP = "drop", "are left out"


class NoTruth(Choice):
    """Users with recommendations but without truth."""

    DROP = "drop", "are left out"
    ZERO = "zero", "count with 0"


class NoHits(Choice):
    """Users with truth but without a hit in the whole list."""

    ZERO = "zero", "count like other users"
    DROP = "drop", "are left out"


class Checks(Choice):
    """Search for repeated items and ranks. Not a convention: it changes counts, but no metric.

    Metrics that need the number of items in a list always search full lists.
    """

    HITS = "hits", "among the hits"
    FULL = "full", "among all recommendations"


# The default column of ``violations``.
AVAILABLE: Final = ColumnName("available")


@dataclass(frozen=True)
class Conventions:
    """One choice for every convention. The defaults are those of the preset ``default``.

    ``threshold`` is the smallest relevance of a relevant item, 0 or more; None: any above 0.
    ``violations_column`` is an option of ``violations`` alone: no preset and no config chooses it.
    """

    precision_denominator: PrecisionDenominator = PrecisionDenominator.K
    recall_denominator: RecallDenominator = RecallDenominator.RELEVANT
    ap_denominator: AverageDenominator = AverageDenominator.MIN_RELEVANT_K
    ap_variant: AverageVariant = AverageVariant.GATED
    ar_denominator: AverageDenominator = AverageDenominator.MIN_RELEVANT_K
    ar_variant: AverageVariant = AverageVariant.GATED
    gain: Gain = Gain.LINEAR
    discount: Discount = Discount.LOG2
    ideal: Ideal = Ideal.TRUTH
    tie_order: TieOrder = TieOrder.AS_RANKED
    one_class: OneClass = OneClass.UNDEFINED
    auc_ties: AucTies = AucTies.HALF
    user_coverage_places: beyond.CoveredPlaces = beyond.CoveredPlaces.ANY
    popularity: beyond.Popularity = beyond.Popularity.USERS
    arp_scale: beyond.ArpScale = beyond.ArpScale.COUNT
    arp_unseen: beyond.ArpUnseen = beyond.ArpUnseen.ZERO
    novelty_popularity: beyond.Popularity = beyond.Popularity.USERS
    novelty_unseen: beyond.NoveltyUnseen = beyond.NoveltyUnseen.ONE
    novelty_scale: beyond.NoveltyScale = beyond.NoveltyScale.BITS
    novelty_denominator: beyond.NoveltyDenominator = beyond.NoveltyDenominator.LENGTH
    ild_distance: beyond.Distance = beyond.Distance.COSINE
    ild_average: beyond.DistanceAverage = beyond.DistanceAverage.PAIRS
    ild_short: beyond.ShortList = beyond.ShortList.UNDEFINED
    no_features: beyond.NoFeatures = beyond.NoFeatures.DROP
    unexpectedness_denominator: beyond.UnexpectednessDenominator = beyond.UnexpectednessDenominator.K
    unexpectedness_no_base: beyond.NoBase = beyond.NoBase.UNDEFINED
    serendipity_variant: beyond.SerendipityVariant = beyond.SerendipityVariant.RECTOOLS
    calibration_kl_weights: beyond.CalibrationWeights = beyond.CalibrationWeights.UNIFORM
    propensity: beyond.Propensity = beyond.Propensity.POPULARITY
    propensity_power: beyond.PropensityPower = beyond.PropensityPower.SQRT
    propensity_floor: beyond.PropensityFloor = beyond.PropensityFloor.TENTH
    ideal_ties: IdealTies = IdealTies.ITEM_DESC
    catalog_coverage_variant: CoverageVariant = CoverageVariant.CATALOG
    gini_variant: GiniVariant = GiniVariant.N
    entropy_weights: EntropyWeights = EntropyWeights.LISTS
    personalization_variant: PersonalizationVariant = PersonalizationVariant.EXACT
    exposure_weights: ExposureWeights = ExposureWeights.EQUAL
    violations_column: ColumnName = AVAILABLE
    ties: Ties = Ties.ITEM_DESC
    truth_duplicates: TruthDuplicates = TruthDuplicates.MAX
    recommendation_duplicates: RecommendationDuplicates = RecommendationDuplicates.BEST_RANK
    negative_relevance: NegativeRelevance = NegativeRelevance.REFUSE
    no_recommendations: NoRecommendations = NoRecommendations.ZERO
    no_truth: NoTruth = NoTruth.DROP
    no_hits: NoHits = NoHits.ZERO
    threshold: float | None = None
    preset: str = "default"

    def changed(self, choices: Mapping[str, Any]) -> "Conventions":
        """Return a copy with some choices changed."""
        return replace(self, **choices) if choices else self

    @property
    def judges_rows(self) -> bool:
        """True if an item is relevant exactly if one of its rows is, so that rows are filtered one by one."""
        return self.truth_duplicates is TruthDuplicates.MAX


# The conventions with enumerated choices, and their enumerations.
CONVENTIONS: Final[dict[str, type[Choice]]] = {
    field.name: type(field.default) for field in fields(Conventions) if isinstance(field.default, Choice)
}
# Rules for the users in the mean, stamped on every row whatever the preset.
POPULATION: Final = ("no_recommendations", "no_truth", "no_hits")
