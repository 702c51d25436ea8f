"""Options of a comparison, validated as one plan."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Final, TypedDict, Unpack

from spark_eval.comparison.gates import Gate, make_gates
from spark_eval.comparison.rows import is_of_predictions
from spark_eval.conventions.comparison import (
    Alternative,
    Correction,
    Interval,
    PairTest,
    Question,
    SliceCorrection,
    Zeros,
)
from spark_eval.errors import ConfigError
from spark_eval.evaluation.plan import ListWeight
from spark_eval.kernels.parsers import RESAMPLES, Seed, as_tuple
from spark_eval.kernels.values import UNCUT, has_cutoff, parse_k, published_name, split_metric_text
from spark_eval.options import (
    ABOVE_0,
    AT_LEAST_1,
    INSIDE_0_AND_1,
    check_keys,
    checked,
    declared,
    whole_numbers,
)
from spark_eval.schema import OF_ITEMS
from spark_eval.statistics.resampling import DEFAULT_RESAMPLES

COMPARE: Final = "compare"
# Default maximum number of model pairs.
MOST_PAIRS: Final = 1_000


# Tests and intervals for weighted means; these are not means of users' differences.
OF_WEIGHTED_MEANS: Final = (PairTest.T, PairTest.BOOTSTRAP)
# Tests and intervals for metrics of predictions, which are functions of sums.
OF_VALUES: Final = (PairTest.T, PairTest.SIGN)
# Tests that treat a user's rows of several folds as one cluster.
OVER_FOLDS: Final = (PairTest.T, PairTest.RANDOMIZATION, PairTest.BOOTSTRAP, PairTest.BCA)


def chosen_names(given: Any, where: str) -> tuple[str, ...]:
    """Return the distinct names of an option; raise ConfigError EMPTY_COMPARISON for an empty list."""
    names = tuple(dict.fromkeys(map(str, as_tuple(given, where))))
    if not names and given is not None:
        raise ConfigError("EMPTY_COMPARISON", f"{where} is empty; name one, or leave the key out")
    return names


def parse_tests(given: Any, where: str) -> tuple[str, ...]:
    """Return the names of tests; raise ConfigError UNKNOWN_TEST."""
    tests = chosen_names(given, where)
    for name in tests:
        if name not in set(PairTest):
            raise ConfigError.unknown("UNKNOWN_TEST", "test", name, PairTest, where)
    return tests


def as_published(text: str) -> str:
    """Return the published name of a metric, with the cutoff of the text: ``map@5`` for ``AP@5``."""
    key = f"{COMPARE}.metrics"
    if is_of_predictions(text):
        return text
    name, form = published_name(text, key), split_metric_text(text, key)
    if not has_cutoff(form):
        return name
    k = parse_k(form["k"])
    return f"{name}@{UNCUT if k is None else k}"


def parse_metrics(given: Any, where: str) -> tuple[str, ...]:
    """Return the distinct published names of metrics."""
    return tuple(dict.fromkeys(map(as_published, chosen_names(given, where))))


class SliceOptions(TypedDict, total=False):
    """Keys of ``slices``."""

    of: Annotated[Sequence[str], "segments that were evaluated, of users, requests or items.", (), as_tuple]
    cross: Annotated[int, "maximum number of attributes that a slice has values of.", 2, whole_numbers(1, 3)]
    min_users: Annotated[
        int, "slices of fewer common users are counted, not tested.", 200, whole_numbers(2, 2**63 - 1)
    ]
    correction: Annotated[
        str, "of the p-values of the slices of a pair and metric: holm or bh.", "holm", SliceCorrection
    ]


@dataclass(frozen=True)
class SlicePlan:
    """Validated slices of a comparison; see SliceOptions."""

    of: Sequence[str]
    cross: int
    min_users: int
    correction: str


def parse_slices(given: Any, where: str) -> SlicePlan:
    """Return the validated slices; raise ConfigError for an unknown key, or without attributes."""
    check_keys(given, list(declared(SliceOptions)), where)
    plan = SlicePlan(**checked(SliceOptions, given, where))
    plan = replace(plan, of=tuple(dict.fromkeys(map(str, plan.of))))
    if not plan.of:
        raise ConfigError("EMPTY_COMPARISON", f"{where}.of is empty; name the attributes of users")
    return plan


class CompareOptions(TypedDict, total=False):
    """Options of ``compare``; also keys of the config's section ``compare``."""

    models: Annotated[Sequence[str] | None, "names of the candidates' models; None: all.", None, chosen_names]
    metrics: Annotated[
        Sequence[str] | None,
        "names, each perhaps with its k: ndcg@10; None: all measured.",
        None,
        parse_metrics,
        as_published,
    ]
    segments: Annotated[
        Sequence[str],
        "segments, of the candidate's users or of items (item:NAME), that are also compared separately.",
        (),
        as_tuple,
    ]
    tests: Annotated[
        Sequence[str],
        "t, sign, wilcoxon, randomization, bootstrap, bca; each has rows of its own.",
        ("t",),
        parse_tests,
    ]
    interval: Annotated[
        str, "interval of rows whose test has none of its own: t, bootstrap or bca.", "t", Interval
    ]
    confidence: Annotated[float, "confidence of the intervals.", 0.95, INSIDE_0_AND_1]
    correction: Annotated[
        str,
        "correction of the p-values of each test in this call: holm, bonferroni, bh or none.",
        "holm",
        Correction,
    ]
    alternative: Annotated[str, "two_sided, or the candidate is greater, or less.", "two_sided", Alternative]
    zeros: Annotated[str, "equal users in wilcoxon: pratt, wilcox or zsplit.", "pratt", Zeros]
    equivalence: Annotated[
        float | None, "a difference that does not matter: adds rows of the test tost.", None, ABOVE_0
    ]
    resamples: Annotated[int, "replicates of bootstrap, bca and randomization.", DEFAULT_RESAMPLES, RESAMPLES]
    seed: Seed
    weight: Annotated[
        str | None,
        "of lists by request: requests or users; None: as evaluated, requests of frames.",
        None,
        ListWeight,
    ]
    test_train_ratio: Annotated[
        float | None, "rows of test per row of train in a fold; None: as in the run's split.", None, ABOVE_0
    ]
    max_pairs: Annotated[int, "maximum number of pairs of models.", MOST_PAIRS, AT_LEAST_1]
    slices: Annotated[
        Mapping[str, Any] | None,
        "{of, cross, min_users, correction}: slices of users, tested together; None: none.",
        None,
        parse_slices,
    ]
    question: Annotated[
        str | None,
        "of lists with repeats: recipe, or artefact, which compares these lists; None: recipe if it can.",
        None,
        Question,
    ]
    paired_repeats: Annotated[
        bool, "repeats of one name belong together, such as those of one seed or of one day's data.", False
    ]


@dataclass(frozen=True)
class ComparePlan:
    """Validated options of a comparison; see CompareOptions."""

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
    weight: ListWeight | None
    test_train_ratio: float | None
    max_pairs: int
    slices: SlicePlan | None = None
    question: Question | None = None
    paired_repeats: bool = False
    gates: Sequence[Gate] = ()

    @property
    def sliced(self) -> Sequence[str]:
        """Attributes of slices."""
        return () if self.slices is None else self.slices.of

    @property
    def reads_items(self) -> bool:
        """True if segments of items are compared."""
        return any(name.startswith(OF_ITEMS) for name in self.named_segments)

    @property
    def named_segments(self) -> Collection[str]:
        """Segments, attributes of slices, and segments of gates."""
        return {*self.segments, *self.sliced, *(gate.segment for gate in self.gates)}


def make_compare_plan(
    gates: Sequence[Mapping[str, Any]] = (), **options: Unpack[CompareOptions]
) -> ComparePlan:
    """Return the validated options; raise ConfigError with the nearest allowed choice.

    A single name in ``models``, ``metrics``, ``segments`` and ``tests`` means a list of one. ``gates`` are
    mappings as in ``make_gates``.

    >>> plan = make_compare_plan(metrics="NDCG@10", tests=["t", "sign"])
    >>> plan.metrics, plan.tests, str(plan.correction)
    (('ndcg@10',), ('t', 'sign'), 'holm')
    """
    plan = ComparePlan(**checked(CompareOptions, options, COMPARE), gates=make_gates(gates))
    for gate in plan.gates:
        if gate.every_slice and plan.slices is None:
            raise ConfigError("INVALID_GATE", f"{gate}: every_slice needs {COMPARE}.slices")
    return plan
