"""The log that the libraries are asked about holds every case in which variants beyond accuracy differ."""

import pytest
from beyond_cases import CATALOG, ITEMS, KS, Log, draw_log, log_of

LOG = draw_log()
TRAINED = {item for _, item in LOG.train}
RECOMMENDED = {item for items in LOG.lists.values() for item in items}


def test_it_is_drawn_the_same_each_time() -> None:
    assert draw_log() == LOG


@pytest.mark.parametrize("k", KS[1:])
def test_lists_are_shorter_and_longer_than_each_k(k: int) -> None:
    sizes = [len(items) for items in LOG.lists.values()]
    assert sum(size < k for size in sizes) >= 25
    assert sum(size > k for size in sizes) >= 25


def test_items_are_unknown_in_every_way() -> None:
    for some in (RECOMMENDED - TRAINED, TRAINED - RECOMMENDED, RECOMMENDED - set(CATALOG)):
        assert some
    assert {item for item in RECOMMENDED if not any(LOG.vectors[item])}
    assert {item for item in RECOMMENDED if not LOG.words[item]}
    # Coverage grows with k, and never to all.
    assert len({items[0] for items in LOG.lists.values()}) < len(RECOMMENDED) < len(ITEMS)


def test_users_lack_what_they_may_lack() -> None:
    trained = {user for user, _ in LOG.train}
    for lacking in (
        LOG.truth.keys() - LOG.lists.keys(),
        LOG.lists.keys() - trained,
        LOG.lists.keys() - LOG.base.keys(),
        trained - LOG.truth.keys(),
        {user for user, items in LOG.lists.items() if not set(items) & set(LOG.truth[user])},
    ):
        assert len(lacking) >= 10


def test_training_repeats_and_is_recommended_again() -> None:
    assert len(LOG.train) > 1.1 * len(set(LOG.train))
    assert len(known_again(LOG)) >= 100
    assert not known_again(log_of("recommenders"))


def known_again(log: Log) -> set[tuple[str, str]]:
    """Pairs of training that a list holds."""
    return set(log.train) & {(user, item) for user, items in log.lists.items() for item in items}
