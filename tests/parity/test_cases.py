"""The users that the libraries are asked about hold every case that presets differ in, many times over."""

from collections.abc import Callable

import pytest
from cases import KS, User, all_users, users_of

CASES: dict[str, Callable[[User], bool]] = {
    "a list and truth": lambda user: bool(user.scores and user.relevant),
    "a hit": lambda user: user.n_hits > 0,
    "no hit": lambda user: user.n_hits == 0 and bool(user.scores and user.relevant),
    "no recommendations": lambda user: not user.scores,
    "no truth": lambda user: not user.relevant,
    "everything found": lambda user: 0 < user.n_hits == len(user.relevant),
    "something missed": lambda user: 0 < user.n_hits < len(user.relevant),
    "equal scores": lambda user: len(set(user.scores.values())) < len(user.scores),
    "different scores": lambda user: len(set(user.scores.values())) == len(user.scores) > 1,
    "one score": lambda user: len(set(user.scores.values())) == 1 < len(user.scores),
    "several grades of hits": lambda user: len({user.relevant.get(item, 0) for item in user.scores}) > 2,
    "repeated truth rows": lambda user: len(user.truth) > len(dict(user.truth)),
    "judged irrelevant": lambda user: 0 in dict(user.truth).values(),
    "a short list that ends with a hit": lambda user: len(user.scores) < 5 and user.ends_with_a_hit,
}


@pytest.mark.parametrize("case", CASES)
def test_there_are_many_users_of_each_case(case: str) -> None:
    assert sum(map(CASES[case], all_users())) >= 25


@pytest.mark.parametrize("k", KS[1:])
def test_lists_and_truths_are_shorter_and_longer_than_each_k(k: int) -> None:
    for sizes in ([len(user.scores) for user in all_users()], [len(user.relevant) for user in all_users()]):
        assert sum(0 < size < k for size in sizes) >= 25
        assert sum(size > k for size in sizes) >= 25


def test_equal_scores_lie_on_both_sides_of_k() -> None:
    def is_torn(user: User, k: int) -> bool:
        return len(user.ranking) > k and user.scores[user.ranking[k - 1]] == user.scores[user.ranking[k]]

    for k in KS:
        assert sum(is_torn(user, k) for user in all_users()) >= 25


def test_users_are_drawn_the_same_each_time() -> None:
    assert all_users() == all_users()


def test_scikit_learn_is_asked_about_lists_that_hold_all_that_is_relevant() -> None:
    users = users_of("sklearn")
    assert len(users) >= 500
    assert all(user.relevant.keys() <= user.scores.keys() for user in users)
