"""What is refused of a comparison once its users were met, and the accounting of those who were."""

from collections.abc import Iterator, Sequence
from typing import Final

from spark_eval.accounting import Entry
from spark_eval.comparing.gating import ModelPair, UserCounts
from spark_eval.comparing.matching import Matched
from spark_eval.errors import DataError
from spark_eval.pairing.population import BASELINE, CANDIDATE, PairCounts
from spark_eval.schema import Outcome, Reason

# Pairs that an error names.
MOST_PAIRS_NAMED: Final = 3


def check_counts(pairs: Sequence[ModelPair], counts: PairCounts) -> None:
    """Raise DataError NO_COMMON_USERS, or TRUTH_DIFFERS where sides count other relevant items of a user."""
    if not counts.rows[:, 2].any():
        of_baseline, of_candidate, _ = counts.people.max(axis=0).tolist()
        message = f"{of_baseline} users of the baseline, {of_candidate} of the candidate, none of both"
        raise DataError("NO_COMMON_USERS", f"{message}; are their ids written alike?")
    others = counts.other_truth.tolist()
    differing = [f"{n} common users of {in_words(pair)}" for pair, n in zip(pairs, others, strict=True) if n]
    if differing:
        message = f"{', '.join(differing[:MOST_PAIRS_NAMED])} have another number of relevant items"
        raise DataError("TRUTH_DIFFERS", f"{message}; measure both against one truth")


def check_digests(candidate: str | None, baseline: str | None) -> None:
    """Raise DataError TRUTH_DIFFERS where both digests are known, and differ."""
    if candidate is not None and baseline is not None and candidate != baseline:
        message = f"truth_digest is {candidate} of the candidate, {baseline} of the baseline"
        raise DataError("TRUTH_DIFFERS", f"{message}; measure both against one truth")


def pair_entries(pairs: Sequence[ModelPair], counts: PairCounts, segments: Sequence[str]) -> Iterator[Entry]:
    """Yield which rows of either side of each pair are compared, and who is in another segment there."""
    rows, people, moved = counts.rows.tolist(), counts.people.tolist(), counts.moved.tolist()
    for place, pair in enumerate(pairs):
        name, used = in_words(pair), (rows[place][2], people[place][2])
        for side, n_rows, n_people in zip((BASELINE, CANDIDATE), rows[place], people[place], strict=False):
            yield Entry(side, name, Outcome.IN, None, n_rows, n_people)
            yield Entry(side, name, Outcome.USED, None, *used)
            if n_rows > used[0]:
                left = (n_rows - used[0], n_people - used[1])
                yield Entry(side, name, Outcome.DROPPED, Reason.ONLY_HERE, *left)
        for segment, of_pairs in zip(segments, moved, strict=True):
            if of_pairs[place]:
                yield Entry(CANDIDATE, name, Outcome.MOVED, segment, 0, of_pairs[place])


def model_entries(matched: Matched) -> Iterator[Entry]:
    """Yield how many models of each side have a counterpart on the other."""
    for side in (BASELINE, CANDIDATE):
        n_used = sum(one == side for one, _ in matched.models)
        n_unpaired = sum(one == side for one, _ in matched.unpaired)
        if n_unpaired:
            source = f"models of the {side}"
            yield Entry(source, None, Outcome.IN, None, n_used + n_unpaired, None)
            yield Entry(source, None, Outcome.USED, None, n_used, None)
            yield Entry(source, None, Outcome.DROPPED, Reason.UNPAIRED, n_unpaired, None)


def users_of(pairs: Sequence[ModelPair], counts: PairCounts) -> dict[ModelPair, UserCounts]:
    """Return the users of each pair: those of the baseline, of the candidate, and of both."""
    people = counts.people.tolist()
    return {pair: (own[0], own[1], own[2]) for pair, own in zip(pairs, people, strict=True)}


def in_words(pair: ModelPair) -> str:
    """Return the names of a pair."""
    baseline, candidate = pair
    return f"{candidate} against {baseline}"
