"""Sizes of the subsets of a split: rows, users, items, and cold users and items."""

from collections.abc import Iterable, Mapping, Sequence

from spark_eval.results.subsets import SubsetRow
from spark_eval.schema import SUBSETS, Subset
from spark_eval.splits.rules.fold_rule import FoldRule

# By fold: pairs of a combination of subsets, and the number of users, items or rows in exactly these.
Combinations = Mapping[int, Sequence[tuple[frozenset[Subset], int]]]


def subset_rows(
    rule: FoldRule, n_folds: int, rows: Combinations, users: Combinations, items: Combinations
) -> list[SubsetRow]:
    """Return the rows of the table ``subsets``, fold by fold."""
    table = []
    for fold in range(n_folds):
        for name in rule.subset_names:
            subset, trained_on = SUBSETS[name], rule.trained_on.get(name)
            n_rows, n_users, n_items = (count(of.get(fold, ()), subset) for of in (rows, users, items))
            cold_users = cold_items = None
            if trained_on is not None:
                learnt = SUBSETS[trained_on]
                cold_users, cold_items = (count(of.get(fold, ()), subset, learnt) for of in (users, items))
            table.append(SubsetRow(fold, name, n_rows, n_users, n_items, trained_on, cold_users, cold_items))
    return table


def count(
    counted: Sequence[tuple[frozenset[Subset], int]], subset: Iterable[Subset], without: Iterable[Subset] = ()
) -> int:
    """Return the total number in at least one subset of ``subset`` and in no subset of ``without``."""
    return sum(
        number
        for subsets, number in counted
        if not subsets.isdisjoint(subset) and subsets.isdisjoint(without)
    )
