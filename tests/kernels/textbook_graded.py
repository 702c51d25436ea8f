"""Numbers to check with pencil and paper: metrics of graded relevance and of pairs of items.

The discounts 1 / log2(rank + 1) of the ranks 1, 2, 3 are 1, .63093 and 1/2; seven of them sum to 3.7534.
"""

from math import log2
from typing import Final

from textbook import NAN, NO_LIST, NO_TRUTH, TIED, TIED_BELOW, C, Row

from users import graded

SECOND: Final = 1 / log2(3)
# A hit at rank 2 of 3, and one relevant item missed.
MISSED = graded([0, 1, 0], missed=[1])
MISSED_BETTER = graded([1], missed=[5])
GRADES = graded([3, 0, 2])
# The better of two items that tie stands second.
TIED_GRADES = graded([1, 3, 0], scores=[7, 7, 5])
HITS_AND_MISSES = graded([1, 0, 1, 0])

GRADED: Final = [
    Row("cg@3", "3 + 2 + 3", graded([3, 2, 3, 0, 1, 2]), 8),
    Row("cg@all", "all of them", graded([3, 2, 3, 0, 1, 2]), 11),
    Row("cg(tie_order=best)@1", "the better first", TIED_GRADES, 3),
    Row("cg(tie_order=worst)@1", "the better last", TIED_GRADES, 1),
    Row("dcg@3", "3 + 2/2", GRADES, 4),
    Row("dcg@2", "3", GRADES, 3),
    Row("dcg@all", "3 + 2/2", GRADES, 4),
    Row("dcg@3", "no truth", NO_TRUTH, 0),
    Row("dcg(gain=linear)@3", "as by default", GRADES, 4),
    Row("dcg(gain=exp2)@3", "7 + 3/2", GRADES, 8.5),
    Row("dcg(gain=exp2_plus_1)@3", "15 + 7/2", GRADES, 18.5),
    Row("dcg(gain=binary)@3", "1 + 1/2", GRADES, 1.5),
    Row("dcg(discount=log2)@3", "as by default", GRADES, 4),
    Row("dcg(discount=log2_clipped)@4", "1/1 + 1/2", graded([0, 1, 0, 1]), 1.5),
    Row("dcg(discount=log2_clipped)@1", "rank 1 weighs 1", graded([1, 1]), 1),
    Row("dcg(tie_order=best)@2", "3 + .63093", TIED_GRADES, 3 + SECOND),
    Row("dcg(tie_order=worst)@2", "1 + 3 * .63093", TIED_GRADES, 1 + 3 * SECOND),
    Row("dcg(tie_order=shared)@2", "(1 + 3) (1 + .63093) / 2", TIED_GRADES, 2 + 2 * SECOND),
    Row("dcg(tie_order=shared)@1", "(1 + 3) / 2", TIED_GRADES, 2),
    Row("dcg(tie_order=shared)@2", "(1 + .63093) / 3, the third place is beyond k", TIED, (1 + SECOND) / 3),
    Row("dcg(tie_order=shared)@1", "1, ties begin beyond k", TIED_BELOW, 1),
    Row("mdcg@3", "(1 + 1 + 1.5) / 3", C, 7 / 6),
    Row("mdcg@5", "(1 + 1 + 1.5 + 1.5 + 1.5) / 5, two places empty", C, 1.3),
    Row("mdcg@all", "(1 + 1 + 1.5) / 3", C, 7 / 6),
    Row("mdcg@all", "no list", NO_LIST, 0),
    Row("mdcg(gain=exp2)@3", "(7 + 7 + 8.5) / 3", GRADES, 7.5),
    Row("mdcg(gain=exp2_plus_1)@3", "(15 + 15 + 18.5) / 3", GRADES, 48.5 / 3),
    Row("mdcg(gain=binary)@3", "(1 + 1 + 1.5) / 3", GRADES, 7 / 6),
    Row("mdcg(discount=log2_clipped)@2", "(0 + 1) / 2", graded([0, 1]), 1 / 2),
    Row("mdcg(tie_order=best)@3", "the hit first", TIED, 1),
    Row("mdcg(tie_order=worst)@3", "(0 + 0 + 1/2) / 3", TIED, 1 / 6),
    Row("ndcg@1", "1/5, the best item is missed", MISSED_BETTER, 1 / 5),
    Row("ndcg@3", ".63093 / 1.63093", MISSED, SECOND / (1 + SECOND)),
    Row("ndcg@1", "no hit at rank 1", MISSED, 0),
    Row("ndcg@all", ".63093 / 1.63093", MISSED, SECOND / (1 + SECOND)),
    Row("ndcg@5", "no truth", NO_TRUTH, 0),
    Row("ndcg(gain=exp2)@1", "1/31", MISSED_BETTER, 1 / 31),
    Row("ndcg(gain=exp2_plus_1)@1", "3/63", MISSED_BETTER, 1 / 21),
    Row("ndcg(gain=binary)@1", "1/1", MISSED_BETTER, 1),
    Row("ndcg(gain=binary)@3", "1.5 / 1.63093", GRADES, 1.5 / (1 + SECOND)),
    Row("ndcg(discount=log2_clipped)@2", "rank 2 weighs as rank 1", graded([0, 1]), 1),
    Row("ndcg(ideal=truth)@3", "as by default", MISSED, SECOND / (1 + SECOND)),
    Row("ndcg(ideal=positions)@3", ".63093 / 2.13093", MISSED, SECOND / (1.5 + SECOND)),
    Row("ndcg(ideal=positions)@all", "the same, 3 places", MISSED, SECOND / (1.5 + SECOND)),
    Row("ndcg(ideal=positions)@1", "1/5, the best gain in every place", MISSED_BETTER, 1 / 5),
    Row("ndcg(ideal=list)@3", ".63093 / 1", MISSED, SECOND),
    Row("ndcg(ideal=list)@1", "1/3, the list's best lies beyond k", graded([1, 3]), 1 / 3),
    Row("ndcg(tie_order=best)@3", "the hit first", TIED, 1),
    Row("ndcg(tie_order=worst)@3", "the hit last", TIED, 1 / 2),
    Row("ndcg(tie_order=shared)@3", "(1 + .63093 + 1/2) / 3", TIED, (1.5 + SECOND) / 3),
    Row("ndcg(tie_order=shared, ideal=list)@1", "2/3", TIED_GRADES, 2 / 3),
]

PAIRS: Final = [
    Row("fcp@3", "(3, 1) and (3, 2), not (1, 2)", graded([3, 1, 2]), 2 / 3),
    Row("fcp@2", "(3, 1)", graded([3, 1, 2]), 1),
    Row("fcp@all", "all three", graded([3, 1, 2]), 2 / 3),
    Row("fcp@3", "one pair in the wrong order", graded([1, 0, 2]), 0),
    Row("fcp@3", "equal scores count for neither", graded([3, 1, 2], scores=[9, 8, 8]), 1),
    Row("fcp@3", "equal relevance is no pair", graded([2, 2, 1]), 1),
    Row("fcp@3", "no pair", graded([1, 1, 0]), NAN),
    Row("auc@4", "three of four pairs", HITS_AND_MISSES, 3 / 4),
    Row("auc@3", "one of two pairs", HITS_AND_MISSES, 1 / 2),
    Row("auc@all", "three of four pairs", HITS_AND_MISSES, 3 / 4),
    Row("auc@10", "the list ends before", HITS_AND_MISSES, 3 / 4),
    Row("auc@4", "2.5 of four pairs", graded([1, 0, 1, 0], scores=[9, 8, 7, 7]), 2.5 / 4),
    Row("auc@3", "the tie with rank 4 is beyond k", graded([1, 0, 1, 0], scores=[9, 8, 7, 7]), 1 / 2),
    Row("auc@3", "all tie", TIED, 1 / 2),
    Row("auc(ties=half)@3", "as by default", TIED, 1 / 2),
    Row("auc(ties=as_ranked)@3", "one miss above, one below", TIED, 1 / 2),
    Row("auc(ties=as_ranked)@2", "the miss above", TIED, 0),
    Row("auc(ties=as_ranked)@all", "both below", graded([1, 0, 0], scores=[7, 7, 7]), 1),
    Row("auc(ties=half)@4", "2.5 of four pairs", graded([1, 0, 1, 0], scores=[9, 8, 7, 7]), 2.5 / 4),
    Row("auc(ties=as_ranked)@4", "three of four pairs", graded([1, 0, 1, 0], scores=[9, 8, 7, 7]), 3 / 4),
    Row("auc(ties=as_ranked)@all", "three of four pairs", graded([1, 0, 1, 0], scores=[7] * 4), 3 / 4),
    Row("auc@1", "one class", HITS_AND_MISSES, NAN),
    Row("auc@3", "one class", NO_TRUTH, NAN),
    Row("auc(one_class=undefined)@1", "as by default", HITS_AND_MISSES, NAN),
    Row("auc(one_class=extremes)@1", "hits only", HITS_AND_MISSES, 1),
    Row("auc(one_class=extremes)@3", "misses only", NO_TRUTH, 0),
    Row("auc(one_class=extremes)@all", "no list", NO_LIST, 0),
    Row("auc(one_class=extremes)@4", "three of four pairs", HITS_AND_MISSES, 3 / 4),
]

# What weighs in the weighted means: the weight's name instead of the metric's.
WEIGHED: Final = [
    Row("fcp_pairs@3", "(3, 1), (3, 2) and (1, 2)", graded([3, 1, 2]), 3),
    Row("fcp_pairs@2", "(3, 1)", graded([3, 1, 2]), 1),
    Row("fcp_pairs@all", "equal scores are no pair", graded([3, 1, 2], scores=[9, 8, 8]), 2),
    Row("fcp_pairs@3", "none", graded([1, 1, 0]), NAN),
    Row("auc_impressions@3", "three places", HITS_AND_MISSES, 3),
    Row("auc_impressions@10", "four items", HITS_AND_MISSES, 4),
    Row("auc_impressions@all", "four items", HITS_AND_MISSES, 4),
    Row("auc_impressions@1", "one class", HITS_AND_MISSES, NAN),
    Row("auc_impressions(one_class=extremes)@1", "one place", HITS_AND_MISSES, 1),
    Row("auc_impressions(one_class=extremes)@1", "no list", NO_LIST, 0),
    Row("auc_positives(one_class=extremes)@3", "no hit", NO_TRUTH, 0),
    Row("auc_positives@3", "ranks 1 and 3", HITS_AND_MISSES, 2),
    Row("auc_positives@2", "rank 1", HITS_AND_MISSES, 1),
    Row("auc_positives@all", "ranks 1 and 3", HITS_AND_MISSES, 2),
    Row("auc_positives@1", "one class", HITS_AND_MISSES, NAN),
]
