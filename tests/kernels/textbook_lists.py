"""Numbers to check with pencil and paper: whole lists and histories, in the first fold of ``world``.

Its training has five users and twelve pairs: p of the items 1 to 6 is 4, 3, 1, 2, 1, 1. Item 9 is unknown.
"""

from math import log, log2, sqrt
from typing import Final

from textbook import NAN, Row

from users import user

U1: Final = user([4, 5, 6], [5], history=[1, 2, 3], base=[4, 1, 2])
U2: Final = user([3, 4, 9], [4, 7], history=[1, 2], base=[4, 3, 9])
U3: Final = user([2, 5], [2, 3], history=[1, 4])
U4: Final = user([3, 6, 4], [3, 4, 8], history=[1, 2, 5], base=[])
U5: Final = user([], [1], base=[1])
EVERYBODY: Final = [U1, U2, U3, U4, U5]
# The second fold: six users and sixteen rows, of which three repeat another.
OTHER: Final = user([2, 9, 1], [2], history=[3], fold=1)
ONE_ITEM: Final = user([4], [4], history=[1, 4], base=[4])
RARE: Final = user([1], [1, 2, 3], fold=1)
SECOND: Final = 1 / log2(3)
ROOT: Final = sqrt(2)

POPULAR: Final = [
    Row("user_coverage@3", "two items", U3, 1),
    Row("user_coverage@3", "none", U5, 0),
    Row("user_coverage(places=any)@3", "two items", U3, 1),
    Row("user_coverage(places=all)@3", "two items", U3, 0),
    Row("user_coverage(places=all)@2", "two items", U3, 1),
    Row("user_coverage(places=all)@all", "one item", ONE_ITEM, 1),
    Row("user_coverage(places=all)@all", "none", U5, 0),
    Row("arp@3", "(2 + 1 + 1) / 3", U1, 4 / 3),
    Row("arp@2", "(2 + 1) / 2", U1, 3 / 2),
    Row("arp@all", "(1 + 2 + 0) / 3", U2, 1),
    Row("arp@3", "no item", U5, NAN),
    Row("arp(unseen=zero)@3", "as by default", U2, 1),
    Row("arp(unseen=drop)@3", "(1 + 2) / 2", U2, 3 / 2),
    Row("arp(unseen=one)@3", "(1 + 2 + 1) / 3", U2, 4 / 3),
    Row("arp(unseen=drop)@1", "no item with training", user([9], []), NAN),
    Row("arp(scale=count)@3", "as by default", U2, 1),
    Row("arp(scale=share)@3", "(3 + 1) / 2 / 12", U3, 1 / 6),
    Row("arp(scale=max)@3", "(3 + 1) / 2 / 4", U3, 1 / 2),
    Row("arp(popularity=users)@all", "(2 + 0 + 3) / 3", OTHER, 5 / 3),
    Row("arp(popularity=rows)@all", "(5 + 0 + 4) / 3: two of item 2 repeat, one of item 1", OTHER, 8.0 / 3),
    Row("novelty@2", "(log2(5/2) + log2 5) / 2", U1, (log2(2.5) + log2(5)) / 2),
    Row("novelty@all", "item 9 counts as one with one user", U2, (2 * log2(5) + log2(2.5)) / 3),
    Row("novelty@3", "no item", U5, NAN),
    Row("novelty(popularity=users)@1", "2 of 6 users", OTHER, log2(3)),
    Row("novelty(popularity=rows)@1", "4 of 16 rows", OTHER, 2),
    Row("novelty(unseen=one)@3", "as by default", U2, (2 * log2(5) + log2(2.5)) / 3),
    Row("novelty(unseen=drop)@3", "two items", U2, (log2(5) + log2(2.5)) / 2),
    Row("novelty(unseen=drop)@1", "no item with training", user([9], []), NAN),
    Row("novelty(unseen=zero)@3", "item 9 counts with 0", U2, (log2(5) + log2(2.5)) / 3),
    Row("novelty(scale=bits)@1", "as by default", U2, log2(5)),
    Row("novelty(scale=share)@2", "log2(5) of log2(5), log2(5/2) of it", U2, (1 + log2(2.5) / log2(5)) / 2),
    Row("novelty(denominator=length)@3", "two items", U3, (log2(5 / 3) + log2(5)) / 2),
    Row("novelty(denominator=k)@3", "three places", U3, (log2(5 / 3) + log2(5)) / 3),
    Row("novelty(denominator=k)@all", "two items", U3, (log2(5 / 3) + log2(5)) / 2),
    Row("snips_recall@3", "3 and 4 of 3, 4, 8: 2 and 2^.5 of these and 10", U4, (2 + ROOT) / (12 + ROOT)),
    Row("snips_recall@1", "3 alone", U4, 2 / (12 + ROOT)),
    Row("snips_recall@all", "as by three", U4, (2 + ROOT) / (12 + ROOT)),
    Row("snips_recall@3", "no item", U5, 0),
    Row("snips_recall@3", "no truth", user([1, 2], []), 0),
    Row("snips_recall(propensity=popularity)@3", "as by default", U4, (2 + ROOT) / (12 + ROOT)),
    Row("snips_recall(propensity=given)@3", "4 and 10 (1 / .05 is floored) of 15", U4, 14 / 15),
    Row("snips_recall(propensity=given)@3", "of item 9 it is not known", user([9], [9]), NAN),
    Row("snips_recall(propensity_power=sqrt)@1", "as by default", U4, 2 / (12 + ROOT)),
    Row("snips_recall(propensity_power=linear)@2", "2 of 2 and 3: 4/3 of this and 4", U3, 1 / 4),
    Row("snips_recall(propensity_power=gamma_1_5)@2", "to 5/4", U3, 1 / (1 + 3**1.25)),
    Row("snips_recall(propensity_power=gamma_2)@2", "to 3/2", U3, 1 / (1 + 3**1.5)),
    Row("snips_recall(propensity_power=gamma_2_5)@2", "3 is floored", U3, 1 / (1 + 10 * 0.75**1.75)),
    Row("snips_recall(propensity_power=gamma_3)@2", "3 is floored", U3, 1 / (1 + 10 * 0.75**2)),
    Row("snips_recall(propensity_floor=tenth)@1", "as by default", U4, 2 / (12 + ROOT)),
    Row("snips_recall(propensity_floor=hundredth)@1", "8 counts 100", U4, 2 / (102 + ROOT)),
    Row("snips_recall(propensity_floor=thousandth)@1", "8 counts 1000", U4, 2 / (1002 + ROOT)),
    Row("snips_recall(propensity_floor=none)@1", "8 counts as 3", U4, 2 / (4 + ROOT)),
    Row("snips_recall(popularity=users)@1", "3, 2 and 1 users", RARE, 1 / (1 + sqrt(1.5) + sqrt(3))),
    Row("snips_recall(popularity=rows)@1", "4, 4 and 1 rows", RARE, 1 / 4),
    Row("outside_catalog@3", "1 to 8 are the catalogue", U1, 0),
    Row("outside_catalog@3", "9 of 3, 4, 9", U2, 1 / 3),
    Row("outside_catalog@3", "no item", U5, NAN),
    Row("outside_catalog@all", "9 of 3, 4, 9", U2, 1 / 3),
    Row("violations@all", "4 of 3, 4; 9 is available, too", U2, 1 / 3),
    Row("violations@3", "4 of 4, 5, 6", U1, 1 / 3),
    Row("violations@2", "4 of 3, 4", U2, 1 / 2),
    Row("violations@1", "of item 8 it is not known", user([8], []), NAN),
    Row("violations@3", "no item", U5, NAN),
    Row("long_tail@3", "5 of 4, 5, 6; the head is 1, 2, 4, 6", U1, 1 / 3),
    Row("long_tail@2", "3 of 3, 6", U4, 1 / 2),
    Row("long_tail@all", "3 and 9 of 3, 4, 9", U2, 2 / 3),
    Row("long_tail@3", "no item", U5, NAN),
    Row("pop_lift@3", "4/3 over 8/3", U1, -1 / 2),
    Row("pop_lift@all", "1 over 7/2", U2, -5 / 7),
    Row("pop_lift@1", "no history", user([1], []), NAN),
    Row("pop_lift@1", "no item", U5, NAN),
    Row("pop_lift(popularity=users)@1", "2 over 1", OTHER, 1),
    Row("pop_lift(popularity=rows)@1", "4 over 1", OTHER, 3),
    Row("epc@3", "(4/5 .63093) / 2.13093, a hit at rank 2", U1, 0.8 * SECOND / (1.5 + SECOND)),
    Row("epc@1", "no hit", U1, 0),
    Row("epc@3", "no item", U5, 0),
    Row("epc@all", "2/5 / 1.63093", U3, 0.4 / (1 + SECOND)),
    Row("efd@3", "(log2(12) .63093) / 2.13093", U1, log2(12) * SECOND / (1.5 + SECOND)),
    Row("efd@all", "2 / 1.63093", U3, 2 / (1 + SECOND)),
    Row("efd@1", "unseen: as the rarest", user([9], [9]), log2(12)),
]

DIVERSE: Final = [
    Row("ild@2", "(0, 2) and (2, 1)", U1, 1 - 1 / sqrt(5)),
    Row("ild@all", "(0, 1) and (0, 2), item 9 is left out", U2, 0),
    Row("ild@1", "no pair", U1, NAN),
    Row("ild(distance=cosine)@2", "as by default", U1, 1 - 1 / sqrt(5)),
    Row("ild(distance=cosine)@2", "no direction", user([10, 1], []), 1),
    Row("ild(distance=euclid)@2", "(0, 2) and (2, 1)", U1, sqrt(5)),
    Row("ild(distance=jaccard)@2", "bc and c", U1, 1 / 2),
    Row("ild(distance=hamming)@3", "bc, c; bc, ac; c, ac", U1, (1 + 2 + 1) / 3),
    Row("ild(average=pairs)@3", "as by default", U3, 1 - 3 / sqrt(10)),
    Row("ild(average=length)@3", "one pair over two items", U3, (1 - 3 / sqrt(10)) / 2),
    Row("ild(short=undefined)@3", "one item", ONE_ITEM, NAN),
    Row("ild(short=zero)@3", "one item", ONE_ITEM, 0),
    Row("ild(short=zero)@3", "no item", U5, NAN),
    Row("ild(short=zero)@3", "one item of which something is known, of two", user([4, 9], []), NAN),
    Row("ild(short=zero)@3", "one item, of which nothing is known", user([9], []), 0),
    Row("ild(no_features=drop)@3", "as by default", U2, 0),
    Row("ild(no_features=unlike)@3", "0, 1 and 1", U2, 2 / 3),
]

FOUND: Final = [
    Row("unexpectedness@3", "one of three", U1, 2 / 3),
    Row("unexpectedness@2", "3 and 4", U2, 0),
    Row("unexpectedness@all", "one of three", U1, 2 / 3),
    Row("unexpectedness@2", "2 is below the baseline's top 2", user([2, 3], [], base=[4, 1, 2]), 1),
    Row("unexpectedness@3", "the baseline has no list", U3, NAN),
    Row("unexpectedness@3", "no item", U5, NAN),
    Row("unexpectedness@3", "the baseline's list is empty", U4, 1),
    Row("unexpectedness(denominator=k)@3", "one of three places", ONE_ITEM, 2 / 3),
    Row("unexpectedness(denominator=length)@3", "one of one", ONE_ITEM, 0),
    Row("unexpectedness(no_base=undefined)@3", "as by default", U3, NAN),
    Row("unexpectedness(no_base=zero)@3", "the baseline has no list", U3, 0),
    Row("unexpectedness(no_base=one)@3", "the baseline has no list", U3, 1),
    Row("unexpectedness(no_base=one)@3", "no item, and no list of the baseline", user([], [1]), NAN),
    Row("serendipity@3", "rank 2 of 8, by popularity 4: 2/8 over 3", U1, 1 / 12),
    Row("serendipity@all", "ranks 1 and 3, by popularity 4 and 3: 3/8 over 3", U4, 1 / 8),
    Row("serendipity@3", "no item", U5, 0),
    Row("serendipity(popularity=users)@1", "rank 1 of 8, by popularity 2: 1/8", OTHER, 1 / 8),
    Row("serendipity(popularity=rows)@1", "items 1 and 2 have four rows: both are first", OTHER, 0),
    Row("serendipity(variant=rectools)@1", "rank 1, unseen comes last: 1", user([9], [9]), 1),
    Row("serendipity(variant=recommenders)@2", "1 - 3/sqrt(12), 1, over 2", U3, (1 - sqrt(3) / 4) / 2),
    Row("serendipity(variant=recommenders)@3", "no history", user([1], [1]), NAN),
    Row("serendipity(variant=recommenders_cosine)@3", "45 degrees, over 2", U3, (1 - sqrt(0.5)) / 2),
    Row("serendipity(variant=evidently)@3", "45 degrees from both", U3, 1 - sqrt(0.5)),
    Row("serendipity(variant=evidently)@1", "no hit", U1, NAN),
    Row(
        "serendipity(variant=recommenders_cosine, no_features=drop)@3",
        "two items; cosines 0 and .7071",
        U2,
        (1 - sqrt(0.5) / 2) / 2,
    ),
    Row(
        "serendipity(variant=recommenders_cosine, no_features=unlike)@3",
        "three items",
        U2,
        (1 - sqrt(0.5) / 2) / 3,
    ),
    Row("calibration_kl@1", "a and b, all c: ln 100", user([5], [], history=[1, 3]), log(100)),
    Row("calibration_kl@2", "half a, half b, twice", user([3, 1], [], history=[1, 3]), 0),
    Row("calibration_kl@all", "a list without groups", user([9], [], history=[1]), log(100)),
    Row("calibration_kl@2", "no group in the history", user([1], [], history=[9]), NAN),
    Row("calibration_kl@3", "no item", U5, NAN),
    Row("calibration_kl(weights=uniform)@2", "as by default", user([3, 1], [], history=[1, 3]), 0),
    Row(
        "calibration_kl(weights=disc)@2",
        "a at rank 2: .63093 of 1.63093",
        user([3, 1], [], history=[1]),
        -log(0.99 * SECOND / (1 + SECOND) + 0.01),
    ),
]

WEIGHED_LISTS: Final = [
    Row("novelty_items@3", "three", U1, 3),
    Row("novelty_items(unseen=drop)@all", "two with training", U2, 2),
    Row("novelty_items@all", "three", U2, 3),
    Row("novelty_items(denominator=k)@3", "three places", U3, 3),
    Row("novelty_items@3", "no item", U5, NAN),
    Row("snips_recall_weight@3", "2, 2^.5 and 10", U4, 12 + ROOT),
    Row("snips_recall_weight@all", "2, 2^.5 and 10", U4, 12 + ROOT),
    Row("pop_lift_profile@3", "(4 + 3 + 1) / 3", U1, 8 / 3),
    Row("pop_lift_profile@all", "(4 + 3) / 2", U2, 7 / 2),
    Row("pop_lift_profile@3", "no item", U5, NAN),
]
