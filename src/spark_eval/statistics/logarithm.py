"""Natural logarithms of arrays, with the same bits on every processor.

numpy and the C library take other instructions on other processors, and their last bits differ. Here are only
additions, multiplications and divisions of doubles, which IEEE 754 rounds in one way.
"""

from typing import Final

import numpy as np

from spark_eval.statistics.exact import Floats

# log(2) as a head, whose multiples by exponents are exact, and a tail.
LOG_2_HEAD: Final = 6.93147180369123816490e-01
LOG_2_TAIL: Final = 1.90821492927058770002e-10
# Coefficients of z, z^2, …, z^7 in (log(1 + f) - f + f^2/2) / s - f^2/2 with s = f / (2 + f) and z = s^2.
SERIES: Final = (
    *(6.666666666666735130e-01, 3.999999999940941908e-01, 2.857142874366239149e-01, 2.222219843214978396e-01),
    *(1.818357216161805012e-01, 1.531383769920937332e-01, 1.479819860511658591e-01),
)

# Number of values whose intermediate results stay in the processor's cache: a third of the time.
BLOCK: Final = 4096


def log(values: Floats) -> Floats:
    """Return the natural logarithms of positive, normal doubles (n,), within one unit of the last place.

    A value is 2^k (1 + f) with 1 + f between the square roots of 1/2 and 2; a polynomial gives log(1 + f).

    >>> log(np.array([1.0, 0.5, 1e-300])).tolist() == [0.0, -0.6931471805599453, -690.7755278982137]
    True

    Source: the algorithm and coefficients of e_log.c in Sun's freely distributable C library (fdlibm), 1993.
    """
    logarithms = np.empty_like(values)
    for start in range(0, len(values), BLOCK):
        logarithms[start : start + BLOCK] = log_of_block(values[start : start + BLOCK])
    return logarithms


def log_of_block(values: Floats) -> Floats:
    """Return the logarithms of a few values."""
    mantissa, exponent = np.frexp(values)
    is_small = mantissa < np.sqrt(0.5)
    mantissa[is_small] *= 2
    k = exponent.astype(np.float64) - is_small
    f = mantissa - 1
    s = f / (2 + f)
    z = s * s
    rest = np.full_like(z, SERIES[-1])
    for coefficient in SERIES[-2::-1]:
        rest *= z
        rest += coefficient
    rest *= z
    half_square = 0.5 * f * f
    logarithms: Floats = k * LOG_2_HEAD - ((half_square - (s * (half_square + rest) + k * LOG_2_TAIL)) - f)
    return logarithms


def log1p(values: Floats) -> Floats:
    """Return log(1 + x) for each x (n,) above -1, within a few units of the last place for small x, too.

    >>> log1p(np.array([0.0, -1e-20, 1.0, -0.5])).tolist()
    [0.0, -1e-20, 0.6931471805599453, -0.6931471805599453]

    Source: Goldberg, What every computer scientist should know about floating-point arithmetic, theorem 4.
    """
    shifted = 1 + values
    lost = shifted - 1
    is_felt = lost != 0
    ratio = np.divide(values, lost, out=np.ones_like(lost), where=is_felt)
    return np.where(is_felt, log(shifted) * ratio, values)
