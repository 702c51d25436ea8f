"""AUC of each user's rows, and their sums over users: all users of a bucket at once."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from spark_eval.arrow.hashes import Ids, bucket_of, changes
from spark_eval.pointwise.amounts import in_doubles
from spark_eval.pointwise.totals import Addend, Cell, Grouping, Totals
from spark_eval.stats.exact import Floats, Ints, two_product


@dataclass(frozen=True)
class UserRows:
    """Rows of users, and the cells they are in; ``amounts`` (n, limbs) of None are 1 each."""

    groupings: Sequence[Grouping]
    users: pa.Array
    scores: Floats
    labels: NDArray[Any]
    amounts: Ints | None

    def in_buckets(self, n_buckets: int) -> Iterator[tuple[int, "UserRows"]]:
        """Yield the rows of each bucket of users."""
        buckets = bucket_of(Ids.of(self.users).hash, n_buckets)
        for bucket in np.unique(buckets).tolist():
            yield bucket, self.take(np.flatnonzero(buckets == bucket))

    def take(self, places: Ints) -> "UserRows":
        """Return the rows at these places."""
        return UserRows(
            [replace(one, codes=one.codes[places]) for one in self.groupings],
            self.users.take(pa.array(places)),
            self.scores[places],
            self.labels[places],
            None if self.amounts is None else self.amounts[places],
        )


def totals_of_users(parts: Sequence[UserRows]) -> Totals:
    """Return the sums over the users of a bucket, of whom all rows are here."""
    totals = Totals()
    users = Ids.of(pa.concat_arrays([part.users for part in parts])).key
    scores = np.concatenate([part.scores for part in parts])
    labels = np.concatenate([part.labels for part in parts])
    ones = [np.ones((len(part.scores), 1), dtype=np.int64) for part in parts]
    amounts = np.concatenate(
        [one if part.amounts is None else part.amounts for part, one in zip(parts, ones, strict=True)]
    )
    for groupings in zip(*(part.groupings for part in parts), strict=True):
        add_users(totals, united(groupings), users, scores, labels, amounts)
    return totals


def united(groupings: Sequence[Grouping]) -> Grouping:
    """Return groupings of parts end to end."""
    places: dict[Cell, int] = {}
    codes = []
    for grouping in groupings:
        of_cell = [places.setdefault(cell, len(places)) for cell in grouping.cells]
        codes.append(np.array(of_cell, dtype=np.int64)[grouping.codes])
    return Grouping(np.concatenate(codes), list(places))


def add_users(
    totals: Totals, grouping: Grouping, users: Ints, scores: Floats, labels: Ints, amounts: Ints
) -> None:
    """Add the users' AUC of every cell to its sums; rows (n,) with their amounts (n, limbs)."""
    order = np.lexsort((scores, users, grouping.codes))
    codes, users, scores = grouping.codes[order], users[order], scores[order]
    of_label = amounts[order] * (labels[order] == np.array([[0], [1]]))[..., np.newaxis]
    new_user = changes(users) | changes(codes)
    firsts = np.flatnonzero(new_user | changes(scores))
    negatives, positives = (np.add.reduceat(part, firsts, axis=0) for part in of_label)
    starts = np.flatnonzero(new_user[firsts])
    user = np.cumsum(new_user[firsts]) - 1
    running = np.vstack([np.zeros_like(negatives[:1]), np.cumsum(negatives, axis=0)])
    below = in_doubles(running[:-1] - running[:-1][starts][user])
    pairs = in_doubles(positives) * (below + in_doubles(negatives) / 2)
    n, p = (in_doubles(np.add.reduceat(part, starts, axis=0)) for part in (negatives, positives))
    # In one order, whatever the others are: by score.
    won = np.bincount(user, pairs, minlength=len(starts))
    is_defined = (n > 0) & (p > 0)
    auc = np.divide(won, n * p, out=np.zeros(len(n)), where=is_defined)
    # What the rounding of a square takes away is added to the same sum, which is exact so.
    squares, lost = two_product(auc, auc)
    addends = [
        Addend("users"),
        Addend("users_defined", is_defined.astype(np.float64)),
        Addend("users_auc", auc),
        Addend("users_squares", squares),
        Addend("users_squares", lost),
        Addend("users_impressions", np.where(is_defined, n + p, 0.0)),
        Addend("users_positives", np.where(is_defined, p, 0.0)),
        Addend("users_auc_by_impressions", auc * (n + p)),
        Addend("users_auc_by_positives", auc * p),
    ]
    totals.add([Grouping(codes[firsts][starts], grouping.cells)], addends)
