"""What a comparison is asked: checked choices, as one value."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final, TypedDict

from spark_eval.options import Option

DEFAULT_RESAMPLES: Final = 1_000
# Pairs of models that are compared unasked.
MOST_PAIRS: Final = 1_000


class CompareOptions(TypedDict, total=False):
    """What ``compare`` compares, and how: also the keys of the config's section ``compare``."""

    models: Annotated[Sequence[str] | None, Option(None, "names of the candidates' models; None: all.")]
    metrics: Annotated[
        Sequence[str] | None, Option(None, "names, each perhaps with its k: ndcg@10; None: all measured.")
    ]
    segments: Annotated[
        Sequence[str], Option((), "segments of the candidate's users that are compared by themselves, too.")
    ]
    tests: Annotated[
        Sequence[str],
        Option(("t",), "t, sign, wilcoxon, randomization, bootstrap, bca; each has rows of its own."),
    ]
    interval: Annotated[
        str, Option("t", "whose interval rows without one of their own show: t, bootstrap or bca.")
    ]
    confidence: Annotated[float, Option(0.95, "of the intervals.")]
    correction: Annotated[
        str, Option("holm", "of p-values over all of one test in this call: holm, bonferroni, bh or none.")
    ]
    alternative: Annotated[str, Option("two_sided", "two_sided, or the candidate is greater, or less.")]
    zeros: Annotated[str, Option("pratt", "equal users in wilcoxon: pratt, wilcox or zsplit.")]
    equivalence: Annotated[
        float | None, Option(None, "a difference that does not matter: adds rows of the test tost.")
    ]
    resamples: Annotated[int, Option(DEFAULT_RESAMPLES, "replicates of bootstrap, bca and randomization.")]
    seed: Annotated[int, Option(0, "of the draws, which follow from it and the user alone.")]
    test_train_ratio: Annotated[
        float | None, Option(None, "rows of test per row of train in a fold; None: as in k folds.")
    ]
    max_pairs: Annotated[int, Option(MOST_PAIRS, "so many pairs of models are compared at most.")]


@dataclass(frozen=True)
class ComparePlan:
    """The options of a comparison, checked; see CompareOptions."""

    models: Sequence[str] | None
    metrics: Sequence[str] | None
    segments: Sequence[str]
    tests: Sequence[str]
    interval: str
    confidence: float
    correction: str
    alternative: str
    zeros: str
    equivalence: float | None
    resamples: int
    seed: int
    test_train_ratio: float | None
    max_pairs: int
    gates: Sequence[Mapping[str, Any]] = ()
