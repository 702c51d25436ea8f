"""Stratified samples of pairs for review, and the labels that come back."""

from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from typing import Final, Unpack

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_eval.accounting import Entry, check_closed
from spark_eval.errors import DataError
from spark_eval.linkage.estimates import Stratum
from spark_eval.linkage.given import relations_of
from spark_eval.linkage.plan import SampleOptions, SamplePlan, Sources, make_sample_plan
from spark_eval.linkage.relations import Pairs, Relations, check_columns, empty_input
from spark_eval.linkage.specs import LABELLED, REVIEWS, spec_of
from spark_eval.options import checked_call, documented
from spark_eval.runners.door import open_given
from spark_eval.runners.local_rows import LocalTable
from spark_eval.runtime import events
from spark_eval.schema import LABEL, REVIEWER, A, B, Outcome, Reason, Row
from spark_eval.tables.arrow_frames import Frame

MATCH: Final = "match"
NON_MATCH: Final = "non_match"
UNSURE: Final = "unsure"
LABELS: Final = (MATCH, NON_MATCH, UNSURE)
PREDICTED: Final = "predicted"
CANDIDATES: Final = "candidates"
PREDICTED_PAIRS: Final = "predicted"
OTHER_PAIRS: Final = "not predicted"
SAMPLE_COLUMNS: Final = (A, B, "stratum", "stratum_size", "sampled", "weight")


@events.timed_call("sample_pairs")
@documented(SampleOptions)
@checked_call
def sample_pairs(
    candidates: Frame, predicted: Frame, *, engine: str | None = None, **options: Unpack[SampleOptions]
) -> pa.Table:
    """Draw equally many pairs for review from each stratum, a score band of predicted or other pairs.

    The pairs of a stratum with the lowest hashes are drawn: the same pairs, whatever the order of rows.

    Args:
        candidates: The pairs to draw from: ``a``, ``b``, and ``score`` if there are bands. A pandas, polars
            or Spark frame, an Arrow table, or the path of Parquet files.
        predicted: The predicted links: pairs, or clusters (``record``, ``cluster``).
        engine: ``local`` for this process, ``spark``, or ``auto``: this process for pandas, polars and Arrow
            frames and for files of this machine, otherwise Spark. By default that of the environment variable
            ``SPARK_EVAL_ENGINE``, otherwise ``auto``.

    Returns:
        An Arrow table: ``a``, ``b``, ``stratum``, ``stratum_size`` (pairs of the stratum), ``sampled`` (pairs
        drawn of it) and ``weight`` (their ratio).

    Raises:
        ConfigError: NOT_A_FRAME, NEEDS_SPARK, or an option is invalid.
        DataError: MISSING_COLUMN, ID_IS_FLOAT, ID_TYPE_UNSUPPORTED, UNSUPPORTED_TYPE, ID_TYPE_MISMATCH or
            RECORD_IN_TWO_CLUSTERS.

    Examples:
        >>> import pandas as pd
        >>> from spark_eval import sample_pairs
        >>> candidates = pd.DataFrame({"a": [1, 1, 2, 4], "b": [2, 3, 3, 3], "score": [0.9, 0.8, 0.2, 0.1]})
        >>> drawn = sample_pairs(candidates, candidates[:2], strata=[0.5], per_stratum=1)
        >>> drawn.select(["stratum", "stratum_size", "weight"]).to_pylist()[0]
        {'stratum': 'not predicted, score below 0.5', 'stratum_size': 2, 'weight': 2.0}
    """
    given = {CANDIDATES: candidates, PREDICTED: predicted}
    plan = make_sample_plan(**options)
    tables = open_given(given, spec_of, engine)
    with ExitStack() as resources:
        return draw_sample(relations_of(tables, resources, plan.sources, CANDIDATES), plan)[0]


def draw_sample(relations: Relations, plan: SamplePlan) -> tuple[pa.Table, list[Entry]]:
    """Return the sample of the tables ``candidates`` and ``predicted``, and the accounting."""
    pairs, entries = relations.tables[CANDIDATES], list(relations.entries)
    if not isinstance(pairs, Pairs):
        raise DataError("MISSING_COLUMN", "candidates: pairs are reviewed; give a and b")
    if plan.strata and not pairs.has_scores:
        raise DataError("MISSING_COLUMN", "candidates has no column score; sample.strata are bands of scores")
    drawn = pairs.draw(relations.tables[PREDICTED], plan)
    n_drawn = np.minimum(drawn.sizes, plan.per_stratum)
    names = [stratum_name(number, plan.strata) for number in range(plan.n_strata)]
    table = pa.table(
        {
            A: drawn.least,
            B: drawn.greatest,
            "stratum": pa.array([names[number] for number in drawn.strata.tolist()], pa.string()),
            "stratum_size": pa.array(drawn.sizes, pa.int64()),
            "sampled": pa.array(n_drawn, pa.int64()),
            "weight": pa.array(drawn.sizes / n_drawn, pa.float64()),
        }
    )
    check_closed(entries)
    return table, entries


def shown_strata(rows: Iterable[Row]) -> list[tuple[str, str, str, str]]:
    """Return name, pairs, drawn pairs and weight of each stratum as text."""
    strata = {row["stratum"]: row for row in rows}
    return [
        (name, f"{row['stratum_size']:,}", f"{row['sampled']:,}", f"{row['weight']:g}")
        for name, row in sorted(strata.items())
    ]


def stratum_name(number: int, edges: Sequence[float]) -> str:
    """Return the name of a stratum: ``predicted, score from 0.5 to 0.9``.

    Edges have all their digits, so that different strata have different names.

    >>> [stratum_name(number, (0.5, 0.9)) for number in (0, 3, 5)]
    ['not predicted, score below 0.5', 'predicted, score from 0.5 to 0.9', 'predicted, score from 0.9']
    """
    band, kind = number // 2, PREDICTED_PAIRS if number % 2 else OTHER_PAIRS
    if not edges:
        return kind
    if band == 0:
        return f"{kind}, score below {shortest(edges[0])}"
    end = f" to {shortest(edges[band])}" if band < len(edges) else ""
    return f"{kind}, score from {shortest(edges[band - 1])}{end}"


def shortest(number: float) -> str:
    """Return the shortest text that only this double has.

    >>> [shortest(number) for number in (0.5, 1000001.0)]
    ['0.5', '1000001']
    """
    return repr(number).removesuffix(".0")


def check_same_links(relations: Relations, sample: pa.Table, sources: Sources) -> None:
    """Raise DataError LINKS_DIFFER unless the links hold just the sampled pairs of predicted strata.

    Estimates take their strata from the sample, so after a change of the links they would be of the old ones.
    """
    drawn = LocalTable.of(sample.select([A, B])).table()
    check_columns({PREDICTED: relations.kinds[PREDICTED], "sample": drawn.schema}, sources)
    is_predicted = pc.starts_with(sample["stratum"], PREDICTED_PAIRS)
    predicted, other = drawn.filter(is_predicted), drawn.filter(pc.invert(is_predicted))
    links = relations.tables[PREDICTED]
    n_distinct = len({pair_of(row, sources) for row in predicted.to_pylist()})
    n_lost, n_new = (
        n_distinct - relations.listed(predicted).agreement(links).n_held,
        relations.listed(other).agreement(links).n_held,
    )
    if n_lost + n_new:
        message = f"{n_lost + n_new} of {len(sample)} sampled pairs were drawn with other predicted links"
        raise DataError("LINKS_DIFFER", f"{message}; give those links, or draw and review a new sample")


def valid_rows(name: str, table: pa.Table, columns: Sequence[str]) -> pa.Table:
    """Return the rows without a null, of these columns; raise DataError MISSING_COLUMN or EMPTY_INPUT."""
    lacking = [column for column in columns if column not in table.column_names]
    if lacking:
        raise DataError("MISSING_COLUMN", f"{name} has no column {', '.join(lacking)}")
    valid = table.select(columns).drop_null()
    if not len(valid):
        raise empty_input(name, len(table))
    return valid


def check_strata(sample: pa.Table) -> None:
    """Raise DataError STRATA_ALIKE for several strata of one name, whose pairs cannot be told apart."""
    by_name = sample.group_by("stratum", use_threads=False)
    counted = by_name.aggregate([("stratum_size", "distinct"), ("sampled", "max"), (A, "count")])
    for row in counted.sort_by("stratum").to_pylist():
        sizes = sorted(row["stratum_size_distinct"])
        if len(sizes) > 1:
            found = f"has several sizes: {', '.join(map(str, sizes))}"
        elif row[f"{A}_count"] > row["sampled_max"]:
            found = f"has {row[f'{A}_count']} pairs, of {row['sampled_max']} sampled"
        else:
            continue
        message = f"sample: stratum {row['stratum']!r} {found}; it is several strata"
        raise DataError("STRATA_ALIKE", f"{message}: draw the sample again")


def reviewed_strata(
    sample: pa.Table, reviews: pa.Table, sources: Sources
) -> tuple[list[Stratum], dict[str, dict[tuple[str, str], str]], list[Entry]]:
    """Return the strata with their decided pairs, the labels of each reviewer, and the accounting of reviews.

    ``sample`` has valid rows only. A pair is decided by the majority of match and non_match; ties are
    undecided. Labels of pairs that are not in the sample are left out.

    Raises DataError MISSING_COLUMN, EMPTY_INPUT, STRATA_ALIKE, UNKNOWN_LABEL, or DUPLICATE_REVIEW for two
    labels of a reviewer and pair.
    """
    check_strata(sample)
    valid = valid_rows(REVIEWS, reviews, [one.name for one in LABELLED])
    strata = {pair_of(row, sources): row["stratum"] for row in sample.to_pylist()}
    sizes = dict(zip(sample["stratum"].to_pylist(), sample["stratum_size"].to_pylist(), strict=True))
    unknown = sorted(set(map(str, pc.unique(valid[LABEL]).to_pylist())) - set(LABELS))
    if unknown:
        message = f"reviews have labels {', '.join(unknown)}; labels are {', '.join(LABELS)}"
        raise DataError("UNKNOWN_LABEL", message)
    labels: dict[str, dict[tuple[str, str], str]] = {}
    n_used = 0
    for row in valid.to_pylist():
        pair, of_one = pair_of(row, sources), labels.setdefault(str(row[REVIEWER]), {})
        if pair not in strata:
            continue
        if pair in of_one:
            message = f"reviewer {row['reviewer']!r} has two labels of {pair[0]!r} and {pair[1]!r}"
            raise DataError("DUPLICATE_REVIEW", f"{message}; keep one")
        of_one[pair] = row[LABEL]
        n_used += 1
    votes: dict[tuple[str, str], int] = {}
    for of_one in labels.values():
        for pair, label in of_one.items():
            votes[pair] = votes.get(pair, 0) + {MATCH: 1, NON_MATCH: -1, UNSURE: 0}[label]
    decided = Counter(strata[pair] for pair, sum_of_votes in votes.items() if sum_of_votes)
    matches = Counter(strata[pair] for pair, sum_of_votes in votes.items() if sum_of_votes > 0)
    found = [
        Stratum(name, name.startswith(PREDICTED_PAIRS), sizes[name], decided[name], matches[name])
        for name in sorted(sizes)
    ]
    return found, labels, review_entries(len(reviews), len(valid), n_used, len(votes), decided.total())


def review_entries(n_in: int, n_valid: int, n_used: int, n_pairs: int, n_decided: int) -> list[Entry]:
    """Return the accounting of reviews, and of the pairs that they decide."""
    lines = [
        ("reviews", Outcome.IN, None, n_in),
        ("reviews", Outcome.USED, None, n_used),
        ("reviews", Outcome.DROPPED, Reason.NULL_VALUE, n_in - n_valid),
        ("reviews", Outcome.DROPPED, Reason.NOT_SAMPLED, n_valid - n_used),
        ("reviewed pairs", Outcome.IN, None, n_pairs),
        ("reviewed pairs", Outcome.USED, None, n_decided),
        ("reviewed pairs", Outcome.DROPPED, Reason.UNDECIDED, n_pairs - n_decided),
    ]
    always = (Outcome.IN, Outcome.USED)
    return [
        Entry(source, None, outcome, reason, n, None)
        for source, outcome, reason, n in lines
        if n or outcome in always
    ]


def pair_of(row: Row, sources: Sources) -> tuple[str, str]:
    """Return the records of a pair as text, the same in either order if there is one source."""
    one, other = str(row[A]), str(row[B])
    return (other, one) if sources is Sources.ONE and other < one else (one, other)
