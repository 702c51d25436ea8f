"""Cosine and Euclidean distances between arrays of vectors.

Components are summed in the same order on every processor, so the results are identical.
"""

import numpy as np

from spark_eval.statistics.exact import Floats


def cosine(one: Floats, other: Floats) -> Floats:
    """Return 1 - cosine of vectors (..., d) and (..., d), broadcast, from 0 to 2; shape (...).

    1 if one of the vectors is all zeros; NaN if one is NaN. Vectors of the same direction have distance 0,
    orthogonal ones 1, whatever their length. All pairs of two arrays (n, d) and (m, d):

    >>> one, other = np.array([[0.0, 1.0], [1.0, 10.0]]), np.array([[1.0, 0.0], [10.0, 100.0]])
    >>> cosine(one[:, None], other).round(6)
    array([[1.      , 0.004963],
           [0.900496, 0.      ]])

    Computed as half the squared distance of the unit vectors: unlike 1 - cosine, it loses no digits near 0.

    Source: Salton, Wong, Yang, A vector space model for automatic indexing, 1975.
    """
    one_length, other_length = lengths(one), lengths(other)
    apart = squares(units(one, one_length) - units(other, other_length)) / 2
    is_zero = (one_length == 0) | (other_length == 0)
    return np.where(is_zero & ~np.isnan(apart), 1.0, np.minimum(apart, 2.0))


def euclid(one: Floats, other: Floats) -> Floats:
    """Return the Euclidean distance of vectors (..., d) and (..., d), broadcast; shape (...).

    >>> euclid(np.array([[0.0, 1.0], [1.0, 10.0]]), np.array([[1.0, 0.0], [10.0, 100.0]])).round(6)
    array([ 1.414214, 90.448881])

    Source: Deza, Deza, Encyclopedia of distances, 2009.
    """
    return lengths(one - other)


def lengths(vectors: Floats) -> Floats:
    """Return the Euclidean length of vectors (..., d); shape (...)."""
    # Scaling by powers of two is exact: squares neither overflow nor vanish.
    _, exponent = np.frexp(np.abs(vectors).max(axis=-1, initial=0.0))
    scaled = np.ldexp(vectors, -exponent[..., None])
    return np.asarray(np.ldexp(np.sqrt(squares(scaled)), exponent), dtype=np.float64)


def units(vectors: Floats, length: Floats) -> Floats:
    """Scale vectors (..., d) of these lengths (...) to length 1; vectors of length 0 stay 0."""
    return vectors / np.where(length == 0, 1.0, length)[..., None]


def squares(vectors: Floats) -> Floats:
    """Return the squared length of vectors (..., d); shape (...)."""
    return np.asarray((vectors * vectors).sum(axis=-1))
