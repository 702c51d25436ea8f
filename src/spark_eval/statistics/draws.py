"""Random draws from a user's hash: Poisson weights of replicates, and random signs.

The hash is ``xxhash64(seed, text(user))`` (``arrow.xxhash64.id_hashes``), the state of the user's own
SplitMix64 generator. So a user's draws do not depend on other users, their order or their partitions.
"""

from collections.abc import Callable
from typing import Final

import numpy as np
from numpy.typing import NDArray

from spark_eval.statistics.exact import Floats, Ints

# Constants of SplitMix64: Steele, Lea and Flood, OOPSLA 2014.
GOLDEN: Final = 0x9E3779B97F4A7C15
MIXERS: Final = (0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
# Number of the 65,536 lanes below each step of the distribution of Poisson(1); the last step is 8.
POISSON_STEPS: Final = (24109, 48218, 60273, 64291, 65296, 65497, 65530, 65535)
# Number of users drawn at once: their draws fit the processor's cache.
USERS_AT_ONCE: Final = 512

# Function from the hashes (n,) of users to draws (n, replicates), integers from -8 to 8.
Draw = Callable[[NDArray[np.uint64], int], NDArray[np.int8]]


def poisson_weights(hashes: NDArray[np.uint64], n_replicates: int) -> NDArray[np.int8]:
    """Return the weight of each of n users in each replicate: Poisson(1); shape (n, n_replicates).

    Replicate b uses 16 bits: lane b mod 4 (the lowest first) of output b div 4. Its weight is the number of
    POISSON_STEPS that are at most the lane.

    >>> poisson_weights(np.array([358500231933474740], dtype=np.uint64), 12).tolist()
    [[3, 3, 1, 1, 1, 2, 0, 0, 0, 2, 1, 1]]

    Source: Chamandy, Muralidharan, Najmi, Naidu, Estimating uncertainty for massive data streams, 2012.
    """
    lanes = splitmix64(hashes, -(-n_replicates // 4)).view("<u2")[:, :n_replicates]
    weights = np.zeros(lanes.shape, dtype=np.int8)
    for step in POISSON_STEPS:
        weights += (lanes >= np.uint16(step)).view(np.int8)
    return weights


def weights_of_repeats(state: np.uint64, n_repeats: int, n_replicates: int) -> Ints:
    """Return the number of draws of each repeat; shape (1 + n_replicates, n_repeats), 1 in row 0.

    A replicate draws one repeat fewer than there are, with replacement: the variance of its mean is then
    that of the mean over repeats. ``state`` is that of a generator SplitMix64.

    >>> weights_of_repeats(np.uint64(1234567), 3, 2).tolist()
    [[1, 1, 1], [1, 1, 0], [1, 1, 0]]

    Source: Rao, Wu, Resampling inference with complex survey data, 1988.
    """
    weights = np.ones((1 + n_replicates, n_repeats), dtype=np.int64)
    if n_repeats > 1:
        words = splitmix64(np.array([state]), n_replicates * (n_repeats - 1)).reshape(n_replicates, -1)
        drawn = (words >> np.uint64(32)).astype(np.int64) * n_repeats >> 32
        weights[1:] = (drawn[:, :, np.newaxis] == np.arange(n_repeats)).sum(axis=1)
    return weights


def flips(hashes: NDArray[np.uint64], n_replicates: int) -> NDArray[np.int8]:
    """Return the sign, 1 or -1, of each of n users in each replicate; shape (n, n_replicates).

    Replicate b uses bit b mod 64 (the lowest first) of output b div 64: -1 if it is set.

    >>> flips(np.array([1234567], dtype=np.uint64), 8).tolist()  # 6457827717110365317 ends in 10000101
    [[-1, 1, -1, 1, 1, 1, 1, -1]]
    """
    words = splitmix64(hashes, -(-n_replicates // 64)).view(np.uint8)
    bits = np.unpackbits(words, axis=1, count=n_replicates, bitorder="little")
    return 1 - 2 * bits.view(np.int8)


def splitmix64(states: NDArray[np.uint64], n_outputs: int) -> NDArray[np.uint64]:
    """Return the first outputs of SplitMix64 from each of n states; shape (n, n_outputs), little-endian.

    >>> splitmix64(np.array([1234567], dtype=np.uint64), 1).tolist()
    [[6457827717110365317]]
    """
    steps = np.arange(1, n_outputs + 1, dtype=np.uint64) * np.uint64(GOLDEN)
    return splitmix64_finalize(states[:, None] + steps).astype("<u8", copy=False)


def splitmix64_finalize(numbers: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Scramble numbers in place, one to one, as SplitMix64 does with its states."""
    for shift, mixer in zip((30, 27), MIXERS, strict=True):
        numbers ^= numbers >> np.uint64(shift)
        numbers *= np.uint64(mixer)
    numbers ^= numbers >> np.uint64(31)
    return numbers


def resampled_sums(draw: Draw, hashes: NDArray[np.uint64], columns: Floats, n_replicates: int) -> Ints:
    """Return exact sums of columns (n, c): plain in row 0, weighted by the draws of replicate b in row b + 1.

    Columns contain integers up to 2^31 in size. Sums have shape (1 + n_replicates, c) and can be added: those
    of 2^32 draws of 1 fit 64 bits. They do not depend on the order of users or of BLAS operations.

    >>> resampled_sums(poisson_weights, np.array([358500231933474740], dtype=np.uint64), np.array([[5.0]]), 3)
    array([[ 5],
           [15],
           [15],
           [ 5]])
    """
    sums = np.zeros((1 + n_replicates, columns.shape[1]), dtype=np.int64)
    for start in range(0, len(hashes), USERS_AT_ONCE):
        block = slice(start, start + USERS_AT_ONCE)
        drawn = draw(hashes[block], n_replicates).astype(np.float64)
        # Sums are below 512 * 8 * 2^31 = 2^43.
        sums[0] += columns[block].sum(axis=0).astype(np.int64)
        sums[1:] += (drawn.T @ columns[block]).astype(np.int64)
    return sums
