"""Conventions of metrics beyond accuracy: popularity, distances, histories."""

from spark_eval.conventions.choice import Choice, Need


class Propensity(Choice):
    """Probability that an item had been seen by those who like it."""

    POPULARITY = (
        "popularity",
        "(popularity / the largest one) to a power; floored",
        Need.POPULARITY,
    )
    GIVEN = "given", "the column propensity of items; floored", Need.PROPENSITIES


class PropensityPower(Choice):
    """Power of popularity in a propensity, (gamma + 1) / 2 of Yang and others."""

    SQRT = "sqrt", "1/2"
    LINEAR = "linear", "1"
    GAMMA_1_5 = "gamma_1_5", "5/4"
    GAMMA_2 = "gamma_2", "3/2"
    GAMMA_2_5 = "gamma_2_5", "7/4"
    GAMMA_3 = "gamma_3", "2"


class PropensityFloor(Choice):
    """Smallest propensity; a lower one counts as this."""

    TENTH = "tenth", "1/10"
    HUNDREDTH = "hundredth", "1/100"
    THOUSANDTH = "thousandth", "1/1000"
    NONE = "none", "none; an item without training users counts as if it had one"


class CoveredPlaces(Choice):
    """Lists that cover their user."""

    ANY = "any", "lists with an item in the top k"
    ALL = "all", "lists with k items in the top k"


class Popularity(Choice):
    """Popularity of an item."""

    USERS = "users", "number of its distinct training users"
    ROWS = "rows", "number of its training interactions, including repeated ones"


class ArpScale(Choice):
    """Unit of the mean popularity of recommended items."""

    COUNT = "count", "as counted"
    SHARE = "share", "as a share of the sum over all items"
    MAX = "max", "as a share of the largest popularity"


class ArpUnseen(Choice):
    """Recommended items without training interactions, in mean popularity."""

    ZERO = "zero", "count with popularity 0"
    DROP = "drop", "are left out"
    ONE = "one", "count with popularity 1, as if they had one user (or interaction)"


class NoveltyUnseen(Choice):
    """Recommended items without training interactions, in novelty."""

    ONE = "one", "count like items with one user (or interaction, by the popularity)"
    DROP = "drop", "are left out"
    ZERO = "zero", "count with 0"


class NoveltyScale(Choice):
    """Unit of novelty."""

    BITS = "bits", "bits"
    SHARE = "share", "as a share of the bits of an item with one user (or interaction, by the popularity)"


class NoveltyDenominator(Choice):
    """Divisor of the sum of the novelties of a list."""

    LENGTH = "length", "number of items that count"
    K = "k", "the cutoff, even if the list is shorter"


class Distance(Choice):
    """Distance of two items of a list."""

    COSINE = "cosine", "1 - cosine of their vectors; 1 if one is all zeros", Need.VECTORS
    EUCLID = "euclid", "Euclidean distance of their vectors", Need.VECTORS
    JACCARD = "jaccard", "1 - shared features / features of either", Need.FEATURES
    HAMMING = "hamming", "number of features that only one of them has", Need.FEATURES


class DistanceAverage(Choice):
    """Divisor of the sum of the distances within a list."""

    PAIRS = "pairs", "number of pairs of items"
    LENGTH = "length", "number of items"


class ShortList(Choice):
    """Distance within a list of one item; longer lists without two comparable items have no value."""

    UNDEFINED = "undefined", "no value; the user counts in n_undefined"
    ZERO = "zero", "0"


class NoFeatures(Choice):
    """Items without features, or without a vector, if items are compared."""

    DROP = "drop", "are left out"
    UNLIKE = "unlike", "have nothing in common with any item: distance 1, similarity 0"


class UnexpectednessDenominator(Choice):
    """Denominator of the share of common items."""

    K = "k", "the cutoff"
    LENGTH = "length", "number of items in the top k"


class NoBase(Choice):
    """Unexpectedness for users without recommendations of the baseline model."""

    UNDEFINED = "undefined", "no value; the user counts in n_undefined"
    ZERO = "zero", "0"
    ONE = "one", "1: nothing is shared"


class SerendipityVariant(Choice):
    """Reference that the hits of a serendipitous list are far from."""

    RECTOOLS = (
        "rectools",
        "the rank by popularity: the mean lead over it",
        Need.CATALOG,
        Need.POPULARITY,
    )
    RECOMMENDERS = (
        "recommenders",
        "the user's history, by common training users: the mean of 1 - similarity",
        Need.HISTORY,
        Need.TAKERS,
    )
    RECOMMENDERS_COSINE = (
        "recommenders_cosine",
        "the user's history, by the cosine of vectors: the mean of 1 - similarity",
        Need.HISTORY,
        Need.VECTORS,
    )
    EVIDENTLY = (
        "evidently",
        "the user's history, by the cosine of vectors: 1 - the sum over hits; no value without a hit",
        Need.HISTORY,
        Need.VECTORS,
    )


class CalibrationWeights(Choice):
    """Weights of a list's items in the shares of its groups."""

    UNIFORM = "uniform", "the same at all ranks"
    DISC = "disc", "1 / log2(rank + 1)"
