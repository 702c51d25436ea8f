"""Tables of linkage: pairs, clusters, and reviews of pairs."""

from collections.abc import Sequence
from typing import Final

from spark_eval.linkage.relations import PAIR, form_of
from spark_eval.schema import CLUSTER, LABEL, RECORD, REVIEWER, SCORE, A, B
from spark_eval.tables.spec import Column, Kind, TableSpec

REVIEWS: Final = "reviews"
PAIRS: Final = (Column(A, Kind.ID), Column(B, Kind.ID), Column(SCORE, Kind.NUMBER, is_needed=False))
CLUSTERS: Final = (Column(RECORD, Kind.ID), Column(CLUSTER, Kind.ID))
LABELLED: Final = (*PAIRS[:2], Column(REVIEWER, Kind.TEXT), Column(LABEL, Kind.TEXT))


def spec_of(name: str, columns: Sequence[str]) -> TableSpec:
    """Return the spec of a table; raise DataError MISSING_COLUMN if it has neither pairs nor clusters."""
    if name == REVIEWS:
        return TableSpec(name, LABELLED)
    return TableSpec(name, PAIRS if form_of(name, columns) == PAIR else CLUSTERS)
