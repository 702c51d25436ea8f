"""The verbs that make runs, a module each, whose record is its ``VERB``; it is loaded when it is used."""

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from spark_eval.runs.verb import Verb

# The first sentence of each verb's help, in the usual order of work; lists of commands need no more.
SENTENCES: Final[Mapping[str, str]] = {
    "split": "Label the interactions by a rule; publish splits, subsets, leakage and accounting.",
    "evaluate": "Measure recommendations against the truth; publish per_user, metrics and accounting.",
    "predictions": "Measure predictions against their labels; "
    "publish metrics, sums, curves, thresholds, accounting.",
    "compare": "Compare models of published runs, user by user; publish comparisons, gates and accounting.",
    "window": "Merge the evaluations or predictions of days into a window; "
    "publish metrics, sums, accounting.",
    "online": "Compare the variants of online experiments, or interleaved rankers; publish what is decided.",
    "watch": "Judge a published day by the days before; publish gates. Exit code 5 for an alarm.",
    "calibrate": "Tell which offline metric has predicted the effects of experiments; publish calibration.",
    "sample": "Draw pairs of records for review from the candidates; publish sample and accounting.",
    "linkage": "Evaluate predicted links of records, pairs or clusters; publish linkage and accounting.",
}


class Verbs(Mapping[str, "Verb"]):
    """The records of the verbs by name, in the usual order of work."""

    def __getitem__(self, name: str) -> "Verb":
        if name not in SENTENCES:
            raise KeyError(name)
        verb: Verb = import_module(f"{__name__}.{name}").VERB
        return verb

    def __iter__(self) -> Iterator[str]:
        return iter(SENTENCES)

    def __len__(self) -> int:
        return len(SENTENCES)


VERBS: Final = Verbs()
