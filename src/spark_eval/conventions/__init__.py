"""The conventions of definitions, each an enumeration of choices; a line says what each choice does.

Conventions travel as one value and are stamped on every output row; ``presets`` fixes them all at once.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Final

from spark_eval.conventions import beyond
from spark_eval.conventions.choice import LENGTH, SLOTS, WHOLE_LIST, Choice


class PrecisionDenominator(Choice):
    """What precision divides its hits by."""

    K = "k", "k places, also those that a short list leaves empty"
    MIN_K_LENGTH = "min_k_length", "min(k, length of the list)", LENGTH


class RecallDenominator(Choice):
    """What recall divides its hits by."""

    RELEVANT = "relevant", "m, the user's relevant items"
    MIN_RELEVANT_K = "min_relevant_k", "min(m, k), what k places can hold"
    RETRIEVED = "retrieved", "the relevant items anywhere in the user's own list", WHOLE_LIST


class AverageDenominator(Choice):
    """What the sum of precisions, or of recalls, at the hits is divided by."""

    MIN_RELEVANT_K = "min_relevant_k", "min(m, k)"
    RELEVANT = "relevant", "m, the user's relevant items"
    HITS = "hits", "h, the hits in the top k"
    K = "k", "k places"
    MIN_RELEVANT_LENGTH = "min_relevant_length", "min(m, length of the list, k)", LENGTH
    RETRIEVED = "retrieved", "the relevant items anywhere in the user's own list, for m", WHOLE_LIST


class AverageVariant(Choice):
    """Which ranks average precision and average recall look at."""

    GATED = "gated", "the ranks of the hits"
    WINDOW = "window", "all ranks from 1 to k: the mean of the values at 1, ..., k"


class Gain(Choice):
    """What a relevant item is worth in DCG."""

    LINEAR = "linear", "its relevance"
    EXP2 = "exp2", "2^relevance - 1"
    BINARY = "binary", "1"


class Discount(Choice):
    """What DCG multiplies the gain at rank i by."""

    LOG2 = "log2", "1 / log2(i + 1)"
    LOG2_CLIPPED = "log2_clipped", "1 / log2(max(i, 2)): ranks 1 and 2 weigh the same"


class Ideal(Choice):
    """The list that nDCG is normalised by."""

    TRUTH = "truth", "the user's whole truth, best first, cut at k"
    POSITIONS = "positions", "all k places filled with the user's best gain"
    LIST = "list", "the relevant items of the user's own list, best first, cut at k", WHOLE_LIST


class TieOrder(Choice):
    """Where a metric sees hits whose score ties with other items of the list."""

    AS_RANKED = "as_ranked", "where the convention ties put them"
    BEST = "best", "before the items that they tie with: the most that luck can give", WHOLE_LIST
    WORST = "worst", "after the items that they tie with: the least", WHOLE_LIST
    SHARED = (
        "shared",
        "DCG: the mean discount of the places they share; AP: the precision behind them all",
        WHOLE_LIST,
    )


class OneClass(Choice):
    """In-list AUC of a list whose top k holds hits only, or none."""

    UNDEFINED = "undefined", "no value; the user counts in n_undefined"
    EXTREMES = "extremes", "1 for hits only, 0 for none"


class AucTies(Choice):
    """A hit and a miss of the same score, in in-list AUC."""

    HALF = "half", "count one half"
    AS_RANKED = "as_ranked", "count as the convention ties ranks them"


class IdealTies(Choice):
    """Which of two items with equal gains goes first in the greedy ideal of intents."""

    ITEM_DESC = "item_desc", "the larger item id"
    TEXT = "text", "the item id that is larger as text", "text_order"


class CoverageVariant(Choice):
    """Which items catalogue coverage counts, and what it divides them by."""

    CATALOG = "catalog", "recommended items of the catalogue / its items"
    RECOMMENDED = "recommended", "all recommended items / items of the catalogue: can pass 1"
    BY_TRAINED = "by_trained", "all recommended items / items of training: can pass 1", "popularity"
    TRAINED = "trained", "recommended items of training / these", "popularity"


class GiniVariant(Choice):
    """What Gini's mean of differences over n items is divided by."""

    N = "n", "n: at most 1 - 1/n"
    N_MINUS_1 = "n_minus_1", "n - 1: 1 if one item has all lists"
    EQUALITY = "equality", "n - 1, and the whole is taken from 1: higher is more even"


class EntropyWeights(Choice):
    """How often the information of an item counts in the entropy of a run."""

    LISTS = "lists", "once for each list that holds it"
    SLOTS = "slots", "1 / length for each list that holds it, so that all lists count the same", SLOTS


class PersonalizationVariant(Choice):
    """What two lists of fewer than k items share, in personalization."""

    EXACT = "exact", "the items that both hold"
    FULL_LISTS = "full_lists", "as if every list had k items: too high where some are shorter"


class ExposureWeights(Choice):
    """What a place of a list weighs in exposure."""

    EQUAL = "equal", "1, whatever its rank"
    DISC = "disc", "1 / log2(rank + 1)"


class Ties(Choice):
    """Who goes first among equal scores. All three are independent of row order and partitioning."""

    ITEM_DESC = "item_desc", "the larger item id"
    ITEM_ASC = "item_asc", "the smaller item id"
    HASH = "hash", "a seeded hash of the item id decides"


class TruthDuplicates(Choice):
    """The relevance of an item that a user has in several truth rows; it is judged after that."""

    MAX = "max", "the largest"
    SUM = "sum", "their sum"
    LAST = "last", "that of the latest row by timestamp, of equally late ones the largest"
    COUNT = "count", "how many rows there are, whatever their relevance"


class RecommendationDuplicates(Choice):
    """An item repeated in one list."""

    BEST_RANK = "best_rank", "counts once, at its best rank or score; repeats are counted in accounting"
    REFUSE = "refuse", "is an error"


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
    """Users with truth whose whole list holds nothing relevant."""

    ZERO = "zero", "count like everybody"
    DROP = "drop", "are left out"


class Checks(Choice):
    """Where repeated items and ranks are looked for. Not a convention: it changes what is counted, no metric.

    Metrics that ask how many items a list has look everywhere of themselves.
    """

    HITS = "hits", "among the hits"
    FULL = "full", "among all recommendations"


@dataclass(frozen=True)
class Conventions:
    """One choice for every convention. The defaults are those of the preset ``default``.

    ``threshold`` is the smallest relevance that counts as relevant, 0 or more; None: all above 0.
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
    ideal_ties: IdealTies = IdealTies.ITEM_DESC
    catalog_coverage_variant: CoverageVariant = CoverageVariant.CATALOG
    gini_variant: GiniVariant = GiniVariant.N
    entropy_weights: EntropyWeights = EntropyWeights.LISTS
    personalization_variant: PersonalizationVariant = PersonalizationVariant.EXACT
    exposure_weights: ExposureWeights = ExposureWeights.EQUAL
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
        """Return the same with single conventions chosen otherwise."""
        return replace(self, **choices) if choices else self

    @property
    def judges_rows(self) -> bool:
        """Whether an item is relevant exactly if one of its rows is: then rows are judged one by one."""
        return self.truth_duplicates is TruthDuplicates.MAX


# The conventions with enumerated choices, and the choices of each.
CONVENTIONS: Final[dict[str, type[Choice]]] = {
    field.name: type(field.default) for field in fields(Conventions) if isinstance(field.default, Choice)
}
# Who is in the mean: stamped on every row, whatever the preset.
POPULATION: Final = ("no_recommendations", "no_truth", "no_hits")
