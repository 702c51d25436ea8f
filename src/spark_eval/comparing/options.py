"""What a comparison is asked: checked choices, as one value."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final, TypedDict, Unpack

from spark_eval.comparing.gates import Gate, make_gates
from spark_eval.conventions.choice import Choice
from spark_eval.errors import ConfigError
from spark_eval.metrics.aliases import several
from spark_eval.metrics.options import check_draws
from spark_eval.metrics.values import UNCUT, formed, has_cutoff, parse_k, published_name
from spark_eval.options import Option, check_ranges, completed
from spark_eval.presets import parse_choice
from spark_eval.stats.resampling import DEFAULT_RESAMPLES

COMPARE: Final = "compare"
# Pairs of models that are compared unasked.
MOST_PAIRS: Final = 1_000


class PairTest(Choice):
    """What is tested of the differences of users; sign and wilcoxon are not about the mean."""

    T = "t", "paired t: the mean difference is 0"
    SIGN = "sign", "as many users go up as down; not about the mean"
    WILCOXON = "wilcoxon", "signed ranks: differences lie symmetrically about 0; not about the mean"
    RANDOMIZATION = "randomization", "signs of differences are flipped by chance"
    BOOTSTRAP = "bootstrap", "users are drawn again; interval by percentiles"
    BCA = "bca", "the same, corrected for bias and skewness"


# Tests and intervals that are defined for weighted means, which are no means of users' differences.
OF_WEIGHTED_MEANS: Final = (PairTest.T, PairTest.BOOTSTRAP)
# Tests that take a user's rows of several folds together.
OVER_FOLDS: Final = (PairTest.T, PairTest.RANDOMIZATION, PairTest.BOOTSTRAP, PairTest.BCA)


class Interval(Choice):
    """Whose interval the rows of other tests show."""

    T = "t", "mean -+ t * std_error"
    BOOTSTRAP = "bootstrap", "percentiles of resampled means"
    BCA = "bca", "the same, corrected for bias and skewness"


class Correction(Choice):
    """How p-values of one test are corrected for their number."""

    HOLM = "holm", "no more than 1 - confidence that any is a false alarm"
    BONFERRONI = "bonferroni", "the same, by their number alone"
    BH = "bh", "the expected share of false alarms (Benjamini-Hochberg)"
    NONE = "none", "as they are"


class Alternative(Choice):
    """What speaks against no difference."""

    TWO_SIDED = "two_sided", "a difference to either side"
    GREATER = "greater", "the candidate's values are greater"
    LESS = "less", "the candidate's values are less"


class Zeros(Choice):
    """What wilcoxon does with users without a difference."""

    PRATT = "pratt", "they are ranked, then left out"
    WILCOX = "wilcox", "they are left out, then the others are ranked"
    ZSPLIT = "zsplit", "they are ranked, and count half to either side"


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
        float | None,
        Option(None, "rows of test per row of train in a fold; None: as in the run's split."),
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
    gates: Sequence[Gate] = ()


def make_compare_plan(
    gates: Sequence[Mapping[str, Any]] = (), **options: Unpack[CompareOptions]
) -> ComparePlan:
    """Return the checked choices; raise ConfigError with the nearest allowed one.

    A single name of ``models``, ``metrics``, ``segments`` and ``tests`` means a list of one. ``gates`` are as
    ``make_gates`` takes them.

    >>> plan = make_compare_plan(metrics="NDCG@10", tests=["t", "sign"])
    >>> plan.metrics, plan.tests, str(plan.correction)
    (('ndcg@10',), ('t', 'sign'), 'holm')
    """
    chosen: dict[str, Any] = {**completed(CompareOptions, options)}
    chosen |= {name: names_of(name, chosen[name]) for name in ("models", "metrics", "segments", "tests")}
    chosen |= {name: chosen[name] or () for name in ("segments", "tests")}
    for name in chosen["tests"]:
        if name not in set(PairTest):
            raise ConfigError.unknown("UNKNOWN_TEST", "test", name, PairTest, f"{COMPARE}.tests")
    check_numbers(chosen)
    if chosen["metrics"] is not None:
        chosen["metrics"] = tuple(dict.fromkeys(map(as_published, chosen["metrics"])))
    kinds = {"interval": Interval, "correction": Correction, "alternative": Alternative, "zeros": Zeros}
    chosen |= {name: parse_choice(kind, chosen[name], f"{COMPARE}.{name}") for name, kind in kinds.items()}
    return ComparePlan(**chosen, gates=make_gates(gates))


def names_of(name: str, given: Sequence[str] | None) -> tuple[str, ...] | None:
    """Return the distinct names of an option; raise ConfigError EMPTY_COMPARISON where it leaves nothing."""
    if given is None:
        return None
    chosen = tuple(dict.fromkeys(map(str, several(given))))
    if not chosen and name != "segments":
        raise ConfigError("EMPTY_COMPARISON", f"{COMPARE}.{name} is empty; name one, or leave the key out")
    return chosen


def as_published(text: str) -> str:
    """Return a metric as its rows name it, with the cutoff that the text has: ``map@5`` for ``AP@5``."""
    key = f"{COMPARE}.metrics"
    name, form = published_name(text, key), formed(text, key)
    if not has_cutoff(form):
        return name
    k = parse_k(form["k"])
    return f"{name}@{UNCUT if k is None else k}"


def check_numbers(chosen: Mapping[str, Any]) -> None:
    """Raise ConfigError OUT_OF_RANGE for a number that an option cannot have."""
    names = ("confidence", "equivalence", "test_train_ratio", "max_pairs")
    confidence, delta, ratio, most = (chosen[name] for name in names)
    claims = {
        "confidence": (confidence, 0 < confidence < 1, "a number between 0 and 1"),
        "equivalence": (delta, delta is None or 0 < delta < math.inf, "a number above 0"),
        "test_train_ratio": (ratio, ratio is None or 0 < ratio < math.inf, "a number above 0"),
        "max_pairs": (most, most >= 1, "1 or more"),
    }
    check_ranges(COMPARE, claims)
    check_draws(chosen["resamples"], chosen["seed"], COMPARE)
