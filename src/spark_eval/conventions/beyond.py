"""The conventions of metrics beyond accuracy: popularity, distances, histories."""

from spark_eval.conventions.choice import HISTORY, Choice


class CoveredPlaces(Choice):
    """Which lists cover their user."""

    ANY = "any", "those that hold an item in the top k"
    ALL = "all", "those that hold k items in the top k"


class Popularity(Choice):
    """What the popularity of an item counts."""

    USERS = "users", "its distinct training users"
    ROWS = "rows", "its training interactions, repeated ones too"


class ArpScale(Choice):
    """The unit of the mean popularity of recommended items."""

    COUNT = "count", "as counted"
    SHARE = "share", "as a share of the sum over all items"
    MAX = "max", "as a share of the most popular item's"


class ArpUnseen(Choice):
    """Recommended items without training interactions, in their mean popularity."""

    ZERO = "zero", "count with popularity 0"
    DROP = "drop", "are left out"


class NoveltyUnseen(Choice):
    """Recommended items without training interactions, in novelty."""

    ONE = "one", "are as novel as an item with one user (or interaction, where these are counted)"
    DROP = "drop", "are left out"
    ZERO = "zero", "count with 0"


class NoveltyScale(Choice):
    """The unit of novelty."""

    BITS = "bits", "bits"
    SHARE = "share", "the bits of an item with one user (or interaction, where these are counted)"


class NoveltyDenominator(Choice):
    """What the sum of the novelties of a list is divided by."""

    LENGTH = "length", "the items that count"
    K = "k", "k places, also those that a short list leaves empty"


class Distance(Choice):
    """How far two items of a list are apart."""

    COSINE = "cosine", "1 - cosine of their vectors; 1 where one is all zeros", "vectors"
    EUCLID = "euclid", "Euclidean distance of their vectors", "vectors"
    JACCARD = "jaccard", "1 - shared features / features of either", "features"
    HAMMING = "hamming", "how many features one of them has and the other has not", "features"


class DistanceAverage(Choice):
    """What the sum of the distances within a list is divided by."""

    PAIRS = "pairs", "the pairs of items"
    LENGTH = "length", "the items"


class ShortList(Choice):
    """The distance within a list of one item; longer lists without two items to compare are undefined."""

    UNDEFINED = "undefined", "no value; the user counts in n_undefined"
    ZERO = "zero", "0"


class NoFeatures(Choice):
    """Items of which no features, or no vector, are known, where items are compared."""

    DROP = "drop", "are left out"
    UNLIKE = "unlike", "have nothing in common with any item: distance 1, similarity 0"


class UnexpectednessDenominator(Choice):
    """What the items that two lists share are divided by."""

    K = "k", "k places"
    LENGTH = "length", "the items in the top k"


class NoBase(Choice):
    """Unexpectedness for users to whom the baseline model recommends nothing."""

    UNDEFINED = "undefined", "no value; the user counts in n_undefined"
    ZERO = "zero", "0"
    ONE = "one", "1: nothing is shared"


class SerendipityVariant(Choice):
    """What a hit of a serendipitous list is far from."""

    RECTOOLS = (
        "rectools",
        "its place among all items by popularity: the mean of how much higher it was ranked",
        "catalog",
        "popularity",
    )
    RECOMMENDERS = (
        "recommenders",
        "the user's history, by common training users: the mean of 1 - similarity",
        HISTORY,
        "takers",
    )
    RECOMMENDERS_COSINE = (
        "recommenders_cosine",
        "the user's history, by the cosine of vectors: the mean of 1 - similarity",
        HISTORY,
        "vectors",
    )
    EVIDENTLY = (
        "evidently",
        "the user's history, by the cosine of vectors: 1 - the sum over hits; without a hit no value",
        HISTORY,
        "vectors",
    )


class CalibrationWeights(Choice):
    """How items of a list weigh in the groups that it holds."""

    UNIFORM = "uniform", "the same at all ranks"
    DISC = "disc", "1 / log2(rank + 1)"
