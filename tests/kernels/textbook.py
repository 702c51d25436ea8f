"""Numbers that a person can check with pencil and paper: metrics of hits and misses, a row per case.

A row's metric is written as in a config; its value is that of one user.
"""

from typing import Final, NamedTuple

from users import User, graded, hits


class Row(NamedTuple):
    """One metric of one user, with the sum that gives its value."""

    metric: str
    case: str
    user: User
    value: float


NAN: Final = float("nan")

# Hits at ranks 1 and 3; C got only 3 items.
A = hits([1, 3], length=5, n_relevant=8)
B = hits([1, 3], length=5, n_relevant=3)
C = hits([1, 3], length=3, n_relevant=8)
# The second hit lies at rank 4.
D = hits([1, 4], length=6, n_relevant=2)
E = hits([1, 4], length=4, n_relevant=5)
NO_LIST = hits([], length=0, n_relevant=3)
NO_TRUTH = hits([], length=3, n_relevant=0)
# Three items tie, the one at rank 2 is the only hit.
TIED = graded([0, 1, 0], scores=[7, 7, 7])
# One item stands before two that tie, the last of which is a hit.
TIED_BELOW = graded([1, 0, 1], scores=[9, 7, 7])


def of_hits(name: str, *, at_2: float, whole: float, best: float, worst: float) -> list[Row]:
    """A metric of hits alone, without choices: of A, and of the only hit of TIED at rank 1 and at rank 3."""
    return [
        Row(f"{name}@2", "the hit at rank 1", A, at_2),
        Row(f"{name}@all", "hits at ranks 1 and 3", A, whole),
        Row(f"{name}(tie_order=best)@3", "the hit first", TIED, best),
        Row(f"{name}(tie_order=worst)@3", "the hit last", TIED, worst),
    ]


BINARY: Final = [
    Row("precision@5", "2 of 5 places, two of them empty", C, 2 / 5),
    Row("precision@all", "2 of 5 items", A, 2 / 5),
    Row("precision@all", "no list", NO_LIST, 0),
    Row("precision(denominator=k)@5", "as by default", C, 2 / 5),
    Row("precision(denominator=min_k_length)@5", "2 of 3 items", C, 2 / 3),
    Row("precision(denominator=min_k_length)@2", "1 of 2 places", C, 1 / 2),
    Row("precision(tie_order=best)@1", "the hit first", TIED, 1),
    Row("precision(tie_order=worst)@2", "the hit last", TIED, 0),
    Row("recall@5", "2 of 8", A, 2 / 8),
    Row("recall@2", "only the hit at rank 1", B, 1 / 3),
    Row("recall@all", "2 of 3", B, 2 / 3),
    Row("recall@5", "no truth", NO_TRUTH, 0),
    Row("recall(denominator=min_relevant_k)@5", "2 of 5 places, m = 8", A, 2 / 5),
    Row("recall(denominator=min_relevant_k)@all", "2 of 8", A, 2 / 8),
    Row("recall(denominator=retrieved)@2", "1 of the 2 in the list", A, 1 / 2),
    Row("recall(tie_order=best)@1", "the hit first", TIED, 1),
    Row("recall(tie_order=worst)@2", "the hit last", TIED, 0),
    Row("recall_capped@5", "2 of 5 places, m = 8", A, 2 / 5),
    Row("recall_capped@5", "2 of 3, m = 3", B, 2 / 3),
    Row("recall_capped@all", "2 of 8", A, 2 / 8),
    Row("recall_capped(tie_order=best)@1", "the hit first", TIED, 1),
    Row("recall_capped(tie_order=worst)@2", "the hit last", TIED, 0),
    Row("f1@5", "P = 2/5, R = 2/8", A, 4 / 13),
    Row("f1@5", "P = 2/5, R = 2/3", B, 1 / 2),
    Row("f1@all", "P = 2/3, R = 2/8", C, 4 / 11),
    Row("f1(precision_denominator=min_k_length)@5", "P = 2/3, R = 2/8", C, 4 / 11),
    Row("f1(recall_denominator=min_relevant_k)@5", "P = R = 2/5", A, 2 / 5),
    Row("f1(recall_denominator=retrieved)@2", "P = R = 1/2", A, 1 / 2),
    Row("f1(tie_order=best)@1", "P = R = 1", TIED, 1),
    Row("f1(tie_order=worst)@2", "P = R = 0", TIED, 0),
    Row("hit_rate@2", "the hit is at rank 3", graded([0, 0, 1]), 0),
    Row("hit_rate@1", "the first of two hits", A, 1),
    Row("hit_rate@all", "two hits are one", A, 1),
    Row("hit_rate(tie_order=best)@1", "the hit first", TIED, 1),
    Row("hit_rate(tie_order=worst)@2", "the hit last", TIED, 0),
    Row("ap@5", "1/1 + 2/3 over min(8, 5)", A, 1 / 3),
    Row("ap@5", "1/1 + 2/3 over min(3, 5)", B, 5 / 9),
    Row("ap@all", "1/1 + 2/3 over 8", A, 5 / 24),
    Row("ap@5", "no truth", NO_TRUTH, 0),
    Row("ap(denominator=relevant)@5", "over 8", A, 5 / 24),
    Row("ap(denominator=hits)@5", "over 2 hits", A, 5 / 6),
    Row("ap(denominator=hits)@2", "1/1 over 1 hit", A, 1),
    Row("ap(denominator=k)@5", "over 5", B, 1 / 3),
    Row("ap(denominator=k)@all", "over 3 places", C, 5 / 9),
    Row("ap(denominator=min_relevant_length)@5", "over min(8, 3)", C, 5 / 9),
    Row("ap(denominator=min_relevant_length)@2", "1/1 over min(8, 3, 2)", C, 1 / 2),
    Row("ap(denominator=retrieved)@3", "1/1 over the 2 in the list", E, 1 / 2),
    Row("ap(denominator=retrieved)@all", "1/1 + 2/4 over 2", E, 3 / 4),
    Row("ap(variant=gated)@5", "as by default", A, 1 / 3),
    Row("ap(variant=window)@5", "(1/1 + 1/2 + 2/3 + 2/4 + 2/5) / 5", C, 46 / 75),
    Row("ap(variant=window)@all", "(1/1 + 1/2 + 2/3) / 3", C, 13 / 18),
    Row("ap(tie_order=best)@3", "the hit first", TIED, 1),
    Row("ap(tie_order=worst)@3", "the hit last", TIED, 1 / 3),
    Row("ap(tie_order=shared)@3", "1 hit of 3 items", TIED, 1 / 3),
    Row("ap(tie_order=shared)@all", "1/1 + 2/3 over 2", TIED_BELOW, 5 / 6),
    Row("ap(tie_order=shared)@2", "1/1 over 2", TIED_BELOW, 1 / 2),
    Row("ar@6", "1/2 + 2/2 over 2", D, 3 / 4),
    Row("ar@3", "1/2 over 2", D, 1 / 4),
    Row("ar@5", "1/8 + 2/8 over min(8, 5)", A, 3 / 40),
    Row("ar@all", "1/8 + 2/8 over 8", A, 3 / 64),
    Row("ar(denominator=min_relevant_k)@5", "as by default", A, 3 / 40),
    Row("ar(denominator=relevant)@5", "over 8", A, 3 / 64),
    Row("ar(denominator=hits)@5", "over 2 hits", A, 3 / 16),
    Row("ar(denominator=k)@5", "1/3 + 2/3 over 5", B, 1 / 5),
    Row("ar(denominator=min_relevant_length)@5", "1/8 + 2/8 over min(8, 3)", C, 1 / 8),
    Row("ar(denominator=retrieved)@3", "1/2 over the 2 in the list", E, 1 / 4),
    Row("ar(variant=gated)@3", "as by default", D, 1 / 4),
    Row("ar(variant=window)@6", "(1/2 + 1/2 + 1/2 + 1 + 1 + 1) / 6", D, 3 / 4),
    Row("ar(variant=window)@3", "(1/2 + 1/2 + 1/2) / 3", D, 1 / 2),
    Row("ar(variant=window)@5", "(1/8 + 1/8 + 2/8 + 2/8 + 2/8) / 5, two places empty", C, 1 / 5),
    Row("ar(variant=window)@all", "(1/8 + 1/8 + 2/8) / 3", C, 1 / 6),
    Row("ar(denominator=retrieved, variant=window)@3", "1/2 at every rank", E, 1 / 2),
    Row("ar(tie_order=best)@1", "1/1 over 1", TIED, 1),
    Row("ar(tie_order=worst)@2", "no hit", TIED, 0),
    Row("rr@3", "the second hit does not matter", A, 1),
    Row("rr@all", "at rank 3", graded([0, 0, 1, 1]), 1 / 3),
    Row("rr@2", "at rank 3", graded([0, 0, 1, 1]), 0),
    Row("rr(tie_order=best)@3", "the hit first", TIED, 1),
    Row("rr(tie_order=worst)@3", "the hit last", TIED, 1 / 3),
    Row("rhr@5", "1/1 + 1/3", A, 4 / 3),
    *of_hits("rhr", at_2=1, whole=4 / 3, best=1, worst=1 / 3),
    Row("rhr@all", "1/1 + 1/4", D, 5 / 4),
    Row("rhr(tie_order=best)@2", "1/1 + 1/2", TIED_BELOW, 3 / 2),
    Row("rhr_norm@5", "(1/1 + 1/3) / (1 + 1/2 + 1/3 + 1/4 + 1/5)", A, 80 / 137),
    Row("rhr_norm@6", "(1/1 + 1/4) / (1 + 1/2)", D, 5 / 6),
    Row("rhr_norm@all", "(1/1 + 1/3) / (1 + 1/2 + 1/3)", B, 8 / 11),
    Row("rhr_norm(tie_order=best)@3", "the hit first", TIED, 1),
    Row("rhr_norm(tie_order=worst)@3", "the hit last", TIED, 1 / 3),
    Row("r_precision@1", "1 of the top 3, m = 3, whatever k", hits([1, 4], length=5, n_relevant=3), 1 / 3),
    Row("r_precision@all", "1 of the top 2, m = 2", D, 1 / 2),
    Row("r_precision@5", "2 of 8, the list ends before", A, 2 / 8),
    Row("r_precision(tie_order=best)@3", "the hit first", TIED, 1),
    Row("r_precision(tie_order=worst)@3", "the hit last", TIED, 0),
]
