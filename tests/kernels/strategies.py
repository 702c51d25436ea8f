"""Users for hypothesis: ties, gaps, short and empty lists, no truth, no hit, m below and above k."""

from dataclasses import replace
from itertools import accumulate
from random import Random

from choices import OF_USERS, Case, every_convention
from hypothesis import strategies as st

from users import User

ITEMS = range(14)

cutoffs = st.one_of(st.none(), st.integers(1, 12))
finite_cutoffs = st.integers(1, 12)
relevances = st.one_of(st.integers(1, 5).map(float), st.floats(1e-3, 10))
# With a threshold of 0 a relevant item may be worth nothing.
truths = st.dictionaries(st.sampled_from(ITEMS), st.one_of(relevances, st.just(0.0)))
orders = st.randoms(use_true_random=False)


@st.composite
def users_with(draw: st.DrawFn, longest: int, most_tied: int) -> User:
    """A user whose list has up to ``longest`` items, up to ``most_tied`` of which have the same score."""
    recommended = draw(st.lists(st.sampled_from(ITEMS), max_size=longest, unique=True))
    sizes = draw(st.lists(st.integers(1, most_tied), min_size=longest, max_size=longest))
    starts = set(accumulate(sizes))
    scores = list(accumulate(-float(rank in starts) for rank in range(len(recommended))))
    return User(
        recommended,
        draw(truths),
        draw(st.sampled_from([None, scores])),
        draw(st.lists(st.sampled_from(ITEMS), max_size=5, unique=True)),
        draw(st.none() | st.lists(st.sampled_from(ITEMS), max_size=longest, unique=True)),
        draw(st.integers(0, 1)),
    )


@st.composite
def users_with_gaps(draw: st.DrawFn) -> User:
    """A list of given ranks some of which nothing holds; the last place always holds an item."""
    one = draw(users_with(longest=len(ITEMS), most_tied=1))
    is_gap = draw(st.lists(st.booleans(), min_size=len(ITEMS), max_size=len(ITEMS)))
    last = len(one.recommended)
    items = [
        -rank if is_gap[rank - 1] and rank < last else item for rank, item in enumerate(one.recommended, 1)
    ]
    return replace(one, recommended=items, scores=None)


users = users_with(longest=len(ITEMS), most_tied=5)
# Few enough to try all orders of their ties.
small_users = users_with(longest=7, most_tied=4)
batches = st.lists(users, min_size=1, max_size=6)


def one_convention_each(seed: int) -> list[Case]:
    """Every metric of users under any choice of the conventions that it declares."""
    random = Random(seed)
    return [Case(name, random.choice(every_convention(name))) for name in OF_USERS]


# Users are costly to draw, metrics cheap to compute: each example asks for all metrics.
cases = st.integers(0, 2**31).map(one_convention_each)
