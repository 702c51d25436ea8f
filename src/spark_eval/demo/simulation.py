"""Simulate a realistic interaction log from a seed: 18 months of a film service.

Only numpy and pandas are needed. Users join over the whole time, come in sessions, and differ widely in
activity. Items appear over time; their popularity is long-tailed, rises and decays. So the last weeks have
new users and new items, and recent popularity differs from total popularity. Users and items are points in a
space of taste, and users drift in it. A user is shown popular items and takes the one that fits best.
``Mechanisms`` has all parameters.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import pandas as pd

from spark_eval.statistics.exact import Floats, Ints

DAY: Final = 86_400
DAYS_PER_WEEK: Final = 7
# Number of rows whose choices are drawn at once; bounds the memory at any scale to about 100 MB.
ROWS_PER_CHUNK: Final = 100_000


@dataclass(frozen=True)
class Mechanisms:
    """Parameters of the simulation at scale 1; times are in days unless the name says otherwise."""

    # 2023-01-01 00:00 UTC.
    start_epoch_seconds: int = 1_672_531_200
    days: int = 546

    # Users: the share of founders is there from the first day; the others join evenly over time.
    users: int = 2_000
    founders: float = 0.15
    mean_stay: float = 240.0
    # Interactions of a stay: exp(normal(log(median), spread)); fewer if the log ends before the stay.
    median_activity: float = 56.0
    activity_spread: float = 1.0

    rows_per_session: float = 6.0
    minutes_between_rows: float = 8.0

    # Items: they appear evenly over twice the log's time, half of it before the log; number ~ sqrt(scale).
    items: int = 1_200
    zipf_exponent: float = 1.0
    # Popularity climbs until this age and decays after it, to an evergreen share of its peak.
    peak_age: float = 45.0
    evergreen: float = 0.08

    # Taste: number of factors, number of items shown per choice, weight of taste relative to noise.
    factors: int = 6
    shown: int = 12
    taste_strength: float = 4.0
    # Distance between a user's first and last taste; a taste has length 1.
    drift: float = 0.7

    repeats: float = 0.05

    mean_rating: float = 3.4
    user_mildness: float = 0.3
    item_quality: float = 0.4
    taste_effect: float = 0.8
    rating_noise: float = 0.6


@dataclass(frozen=True)
class Viewers:
    """Users of the log; all arrays have shape (users,), tastes (users, factors)."""

    joined: Floats
    left: Floats
    activity: Ints
    mildness: Floats
    first_taste: Floats
    last_taste: Floats


@dataclass(frozen=True)
class Items:
    """Items of the log. ``popularity`` has shape (weeks, items): 0 before birth, rows sum to 1."""

    popularity: Floats
    quality: Floats
    position: Floats


MECHANISMS: Final = Mechanisms()


def simulate(scale: float = 1.0, seed: int = 7, mechanisms: Mechanisms = MECHANISMS) -> pd.DataFrame:
    """Simulate a log of ratings: the same arguments give the same bits, with one version of numpy.

    Args:
        scale: Factor of the number of users; items grow with its square root. Scale 1 has about
            68,000 rows of 2,000 users; scale 100 about 10 million rows of 200,000 users, in 1.6 GB of memory.
        seed: Random seed.
        mechanisms: Numbers and habits of users and items.

    Returns:
        A pandas frame by time: userId, movieId (int64, from 1), rating (0.5 .. 5), timestamp (epoch seconds).

    Raises:
        ValueError: ``scale`` is not positive.

    Examples:
        >>> simulate(scale=0.01).columns.tolist()
        ['userId', 'movieId', 'rating', 'timestamp']
    """
    if not scale > 0:
        raise ValueError(f"scale must be positive, not {scale}")
    random = np.random.default_rng(seed)
    people = draw_people(mechanisms, max(1, round(mechanisms.users * scale)), random)
    items = draw_items(mechanisms, max(1, round(mechanisms.items * scale**0.5)), random)
    world = World(mechanisms, people, items, random)
    user, time = world.visits()
    item = world.choices(user, time)
    first = ~pd.DataFrame({"user": user, "item": item}).duplicated().to_numpy()
    user, time = user[first], time[first]
    item = world.with_repeats(user, item[first])
    log = pd.DataFrame(
        {
            "userId": user + 1,
            "movieId": item + 1,
            "rating": world.ratings(user, item, time),
            "timestamp": mechanisms.start_epoch_seconds + (time * DAY).astype(np.int64),
        }
    )
    return log.sort_values(["timestamp", "userId", "movieId"], kind="stable", ignore_index=True)


def draw_people(mechanisms: Mechanisms, n_users: int, random: np.random.Generator) -> Viewers:
    """Draw the users: time of joining and leaving, activity, taste."""
    joined = random.uniform(0, mechanisms.days, n_users)
    joined[random.random(n_users) < mechanisms.founders] = 0
    stay = 1 + random.exponential(mechanisms.mean_stay, n_users)
    left = np.minimum(joined + stay, mechanisms.days)
    wanted = random.lognormal(np.log(mechanisms.median_activity), mechanisms.activity_spread, n_users)
    first_taste = directions(n_users, mechanisms.factors, random)
    change = directions(n_users, mechanisms.factors, random)
    return Viewers(
        joined=joined,
        left=left,
        activity=np.ceil(wanted * (left - joined) / stay).astype(np.int64),
        mildness=random.normal(0, mechanisms.user_mildness, n_users),
        first_taste=first_taste,
        last_taste=first_taste + mechanisms.drift * change,
    )


def draw_items(mechanisms: Mechanisms, n_items: int, random: np.random.Generator) -> Items:
    """Draw the items: popularity per week, quality, position in the space of taste."""
    # The oldest item exists from the first day, so that no week is without items.
    birth = random.uniform(-mechanisms.days, mechanisms.days, n_items)
    birth[0] = -mechanisms.days
    zipf = random.permutation(np.arange(1, n_items + 1) ** -mechanisms.zipf_exponent)
    week_start = np.arange(0, mechanisms.days, DAYS_PER_WEEK)
    age = (week_start[:, np.newaxis] - birth) / mechanisms.peak_age
    rise_and_decay = mechanisms.evergreen + (1 - mechanisms.evergreen) * age * np.exp(1 - age)
    popularity = np.where(age >= 0, zipf * rise_and_decay, 0.0)
    return Items(
        popularity=popularity / popularity.sum(axis=1, keepdims=True),
        quality=random.normal(0, mechanisms.item_quality, n_items),
        position=directions(n_items, mechanisms.factors, random),
    )


def directions(n: int, factors: int, random: np.random.Generator) -> Floats:
    """Draw n points uniformly from the unit sphere; shape (n, factors)."""
    return unit(random.normal(size=(n, factors)))


def unit(vectors: Floats) -> Floats:
    """Normalize vectors (n, factors) to length 1."""
    scaled: Floats = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return scaled


@dataclass(frozen=True)
class World:
    """Users, items and their interactions; arrays of rows have shape (rows,)."""

    mechanisms: Mechanisms
    people: Viewers
    items: Items
    random: np.random.Generator

    def visits(self) -> tuple[Ints, Floats]:
        """Draw user and time (in days) of each row, sorted by user, then time."""
        people, random = self.people, self.random
        user = np.repeat(np.arange(len(people.activity)), people.activity)
        sessions = np.ceil(people.activity / self.mechanisms.rows_per_session).astype(np.int64)
        offset = np.cumsum(sessions) - sessions
        session = offset[user] + (random.random(len(user)) * sessions[user]).astype(np.int64)
        session.sort()

        session_user = np.repeat(np.arange(len(sessions)), sessions)
        stay = (people.left - people.joined)[session_user]
        session_start = people.joined[session_user] + random.random(len(session_user)) * stay

        gap = random.exponential(self.mechanisms.minutes_between_rows / (24 * 60), len(user))
        elapsed = np.cumsum(gap)
        new_session = np.flatnonzero(np.diff(session, prepend=-1))
        rows = np.diff(new_session, append=len(session))
        time = session_start[session] + elapsed - np.repeat(elapsed[new_session], rows)

        within = time < self.mechanisms.days
        user, time = user[within], time[within]
        order = np.lexsort((time, user))
        return user[order], time[order]

    def choices(self, user: Ints, time: Floats) -> Ints:
        """Draw the item of each row.

        Items are shown with probabilities by their popularity in the week; the largest fit + Gumbel noise
        wins, which is a draw from the softmax of the fits.
        """
        n_weeks, n_items = self.items.popularity.shape
        # One ascending line for all weeks: week w covers [w, w + 1), and each item a share by its popularity.
        cumulative = np.cumsum(self.items.popularity, axis=1)
        line = (cumulative / cumulative[:, -1:] + np.arange(n_weeks)[:, np.newaxis]).ravel()

        chosen = np.empty(len(user), dtype=np.int64)
        for rows in chunks(len(user)):
            week = (time[rows] // DAYS_PER_WEEK).astype(np.int64)[:, np.newaxis]
            draws = self.random.random((len(week), self.mechanisms.shown))
            index = np.searchsorted(line, week + draws, side="right") - week * n_items
            shown = np.minimum(index, n_items - 1)
            fit = np.einsum("rf,rsf->rs", self.tastes(user[rows], time[rows]), self.items.position[shown])
            liking = self.mechanisms.taste_strength * fit + self.random.gumbel(size=fit.shape)
            chosen[rows] = np.take_along_axis(shown, liking.argmax(axis=1)[:, np.newaxis], axis=1)[:, 0]
        return chosen

    def tastes(self, user: Ints, time: Floats) -> Floats:
        """Interpolate the tastes of users at times between first and last; shape (rows, factors)."""
        way = (time / self.mechanisms.days)[:, np.newaxis]
        return unit((1 - way) * self.people.first_taste[user] + way * self.people.last_taste[user])

    def with_repeats(self, user: Ints, item: Ints) -> Ints:
        """Replace the items of some random rows by the item of an earlier row of the same user."""
        row = np.arange(len(user))
        first_row = np.searchsorted(user, user, side="left")
        earlier = row - first_row
        repeated = (self.random.random(len(user)) < self.mechanisms.repeats) & (earlier > 0)
        source = np.where(
            repeated, first_row + (self.random.random(len(user)) * earlier).astype(np.int64), row
        )
        # A source may itself be a repeat: follow it to the row that took the item first.
        while repeated[source].any():
            source = source[source]
        return item[source]

    def ratings(self, user: Ints, item: Ints, time: Floats) -> Floats:
        """Draw the rating of each row: 0.5, 1.0, ... 5.0."""
        mechanisms = self.mechanisms
        rating = mechanisms.mean_rating + self.people.mildness[user] + self.items.quality[item]
        for rows in chunks(len(user)):
            fit = np.einsum("rf,rf->r", self.tastes(user[rows], time[rows]), self.items.position[item[rows]])
            rating[rows] += mechanisms.taste_effect * fit
        rating += self.random.normal(0, mechanisms.rating_noise, len(user))
        return np.clip(np.round(rating * 2) / 2, 0.5, 5.0)


def chunks(n_rows: int) -> Iterator[slice]:
    """Yield consecutive slices that cover n_rows."""
    return (slice(start, start + ROWS_PER_CHUNK) for start in range(0, n_rows, ROWS_PER_CHUNK))
