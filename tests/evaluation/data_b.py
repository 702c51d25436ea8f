"""Data B of five users and nine items: training, lists, truth, groups and vectors of items."""

from typing import Final

TRAIN: Final = {1: [1, 2, 3], 2: [1, 2], 3: [1, 4], 4: [1, 2, 5], 6: [4, 6]}
LISTS: Final = {1: [4, 5, 6], 2: [3, 4, 9], 3: [2, 5], 4: [3, 6, 4]}
TRUTH: Final = {1: [5], 2: [4, 7], 3: [2, 3], 4: [3, 4, 8], 5: [1]}
GROUPS: Final = {1: "a", 2: "ab", 3: "b", 4: "bc", 5: "c", 6: "ac", 7: "a", 8: "c"}
VECTORS: Final = {
    1: (1.0, 0.0),
    2: (1.0, 1.0),
    3: (0.0, 1.0),
    4: (0.0, 2.0),
    5: (2.0, 1.0),
    6: (-1.0, 1.0),
    7: (1.0, 2.0),
    8: (3.0, 4.0),
}
