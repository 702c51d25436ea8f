"""AUC of each user's rows, and their sums over users: all users of a bucket at once."""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from spark_eval.arrow.hashes import Ids, bucket_of, changes
from spark_eval.pointwise.amounts import in_doubles
from spark_eval.pointwise.totals import Addend, Grouping, Totals
from spark_eval.schema import USER
from spark_eval.stats.exact import Floats, Ints, two_product


def in_buckets(rows: pa.Table, n_buckets: int) -> Iterator[tuple[int, pa.Table]]:
    """Yield the rows of each bucket of users."""
    buckets = bucket_of(Ids.of(rows[USER].combine_chunks()).hash, n_buckets)
    for bucket in np.unique(buckets).tolist():
        yield bucket, rows.take(pa.array(np.flatnonzero(buckets == bucket)))


def add_users(
    totals: Totals, grouping: Grouping, users: Ints, scores: Floats, labels: Floats, amounts: Ints
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
