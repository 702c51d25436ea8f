"""Worked examples of metrics of intents; items belong to the groups that ``users.groups_of`` gives them."""

from typing import Final

from textbook import Row
from textbook_graded import SECOND

from users import User, user

# Items 1a 2ab 3b 4bc 5c 6ac 7a 8c, and 9bd 10ac 11bc 12b.
ONE: Final = user([4, 5, 6], [5])
TWO: Final = user([3, 4, 9], [4, 7])
THREE: Final = user([2, 5], [2, 3])
FOUR: Final = user([3, 6, 4], [3, 4, 8])
NO_LIST: Final = user([], [1])
NO_TRUTH: Final = user([1, 2], [])
# The item that gains most at first, 11, leaves less for those behind it than 9 and 10 do.
BETTER: Final = User([9, 10, 11, 12], dict.fromkeys(range(9, 13), 1))
# In the ideal of FOUR, 4 gains 2, then each other item one half.
IDEAL: Final = 2 + SECOND / 2 + 1 / 4

INTENTS: Final = [
    Row("alpha_ndcg@3", "1 at rank 2, best at rank 1", ONE, SECOND),
    Row("alpha_ndcg@3", "2 at rank 2; 4 gains 2, then 7 gains 1", TWO, 2 * SECOND / (2 + SECOND)),
    Row("alpha_ndcg@all", "2 at rank 1; 3 would gain 1/2 behind it", THREE, 2 / (2 + SECOND / 2)),
    Row("alpha_ndcg@3", "3 gains 1; 4 gains 1/2 for b, 1 for c", FOUR, 1.75 / IDEAL),
    Row("alpha_ndcg@1", "3 gains 1, 4 would gain 2", FOUR, 1 / 2),
    Row("alpha_ndcg@3", "no list", NO_LIST, 0),
    Row("alpha_ndcg@3", "no truth", NO_TRUTH, 0),
    Row("alpha_ndcg(ideal_ties=item_desc)@3", "row 28", BETTER, (2.5 + 2 * SECOND) / (2.75 + 1.5 * SECOND)),
    Row("alpha_ndcg(ideal_ties=text)@3", "9 comes first, as text", BETTER, 1),
    Row("alpha_ndcg(ideal_ties=item_desc)@all", "1 at rank 2", ONE, SECOND),
    Row("err_ia@3", "1/2 over 1 + 1/4 + 1/12", ONE, 3 / 8),
    Row("err_ia@3", "2/2 over 3 (1 + 1/4 + 1/12)", TWO, 1 / 4),
    Row("err_ia@all", "2 over 2 (1 + 1/4)", THREE, 4 / 5),
    Row("err_ia@3", "1 + 1.5/3 over 2 (1 + 1/4 + 1/12)", FOUR, 9 / 16),
    Row("err_ia@1", "1 over 2", FOUR, 1 / 2),
    Row("err_ia@all", "no list", NO_LIST, 0),
    Row("nerr_ia@3", "1/2 over 1", ONE, 1 / 2),
    Row("nerr_ia@3", "1 over 2 + 1/2", TWO, 2 / 5),
    Row("nerr_ia@all", "2 over 2 + 1/4", THREE, 8 / 9),
    Row("nerr_ia@3", "3/2 over 2 + 1/4 + 1/6", FOUR, 18 / 29),
    Row("nerr_ia@3", "no list", NO_LIST, 0),
    Row("nerr_ia(ideal_ties=item_desc)@3", "10/3 over 2 + 1.5/2 + 1.5/3", BETTER, 40 / 39),
    Row("nerr_ia(ideal_ties=text)@3", "9 comes first, as text", BETTER, 1),
    Row("p_ia@3", "one place of three", ONE, 1 / 3),
    Row("p_ia@3", "4 serves two of three intents", TWO, 2 / 9),
    Row("p_ia@all", "2 serves both intents, of two places", THREE, 1 / 2),
    Row("p_ia@3", "3 serves one, 4 both", FOUR, 1 / 2),
    Row("p_ia@3", "no list", NO_LIST, 0),
    Row("subtopic_recall@2", "c", ONE, 1),
    Row("subtopic_recall@1", "none", ONE, 0),
    Row("subtopic_recall@3", "b and c, not a", TWO, 2 / 3),
    Row("subtopic_recall@all", "a and b", THREE, 1),
    Row("ap_ia@3", "1/2 over 1", ONE, 1 / 2),
    Row("ap_ia@3", "b and c 1/2 each, a nothing", TWO, 1 / 3),
    Row("ap_ia@all", "a 1 over 1, b 1 over 2", THREE, 3 / 4),
    Row("ap_ia@3", "b (1 + 2/3) / 2, c (1/3) / 2", FOUR, 1 / 2),
    Row("ap_ia@2", "b 1 over 2, c nothing", FOUR, 1 / 4),
]
