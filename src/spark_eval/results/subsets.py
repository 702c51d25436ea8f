"""Sizes of the subsets of a split, as rows and as sentences."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from spark_eval.schema import Row, Subset, ddl_of

# Warn if the share of cold users or items is larger than this.
MOST_COLD: Final = 0.5


class SubsetRow(NamedTuple):
    """Row of the table ``subsets``: a subset of a fold, or several subsets under one name.

    ``trained_on`` is the subset to train on for this one, None if there is none. Cold users and items have
    no row in it.
    """

    fold: int
    subset: str
    rows: int
    users: int
    items: int
    trained_on: str | None
    cold_users: int | None
    cold_items: int | None


SUBSET_HEADER: Final = ("subset", "rows", "users", "items", "trained on", "cold users", "cold items")
SUBSET_TABLE: Final = ddl_of(SubsetRow)


def subset_lines(rows: Iterable[Row], names_folds: bool) -> list[tuple[str, ...]]:
    """Return a line of SUBSET_HEADER per row of ``subsets``, with the fold in its name if ``names_folds``."""
    return [
        (
            f"fold {row['fold']} {row['subset']}" if names_folds else row["subset"],
            *(f"{row[name]:,}" for name in ("rows", "users", "items")),
            row["trained_on"] or "",
            *(with_share(row[f"cold_{kind}"], row[kind]) for kind in ("users", "items")),
        )
        for row in rows
    ]


def with_share(count: int | None, of: int) -> str:
    """Return a count with its share of ``of`` in percent; an empty text for None."""
    if count is None:
        return ""
    return f"{count:,} ({count / of:.0%})" if of else f"{count:,}"


def leaks_in_words(rows: Iterable[Row]) -> str:
    """Return the number of leaked rows, from rows of ``leakage``.

    >>> leaks_in_words([{"rows": 3, "leaked": False}])
    'no row leaks'
    """
    n_leaked = sum(row["rows"] for row in rows if row["leaked"])
    return f"LEAK: {n_leaked:,} leaked row{'s' * (n_leaked > 1)}" if n_leaked else "no row leaks"


def ways_to_train(trained_on: Mapping[str, str], sizes: Mapping[str, str] | None = None) -> list[str]:
    """Describe the subset to train on for each test, the last test first.

    >>> ways_to_train({"validation": "train", "test": "train"}, {"train": " (9 rows)"})
    ['train on train (9 rows) for validation and test']
    """
    tests: dict[str, list[str]] = {}
    for test, train in trained_on.items():
        if test in set(Subset):
            tests.setdefault(train, []).append(test)
    return [
        f"train on {train}{(sizes or {}).get(train, '')} for {' and '.join(of)}"
        for train, of in reversed(tests.items())
    ]


def counted_ways_to_train(rows: Sequence[Row]) -> list[str]:
    """Describe the subsets to train on, with their rows and users (from ``subsets``) if there is one fold."""
    trained_on = {row["subset"]: row["trained_on"] for row in rows if row["trained_on"] is not None}
    sizes = {row["subset"]: f" ({row['rows']:,} rows, {row['users']:,} users)" for row in rows}
    if any(row["fold"] for row in rows):
        sizes = dict.fromkeys(sizes, " of each fold")
    return ways_to_train(trained_on, sizes)


def cold_warnings(rows: Iterable[Row]) -> list[str]:
    """Return a sentence, about the worst fold, for each subset with mostly cold users or items."""
    worst: dict[tuple[str, str], tuple[float, str]] = {}
    for row in rows:
        for kind in ("users", "items"):
            n_cold, n_all = row[f"cold_{kind}"], row[kind]
            if n_cold is None or n_cold <= MOST_COLD * n_all or row["subset"] not in set(Subset):
                continue
            share = n_cold / n_all
            text = (
                f"{n_cold:,} of {n_all:,} {kind} of {row['subset']} ({share:.0%}) have no row in "
                f"{row['trained_on']}: no model can know them; `cold_{kind}: drop` leaves their rows out"
            )
            key = (row["subset"], kind)
            worst[key] = max(worst.get(key, (0.0, "")), (share, text))
    return [text for _, text in worst.values()]
