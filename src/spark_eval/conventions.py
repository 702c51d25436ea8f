"""Every fork in a definition, as an enumerated choice with one name; a preset fixes them all at once.

Conventions travel as one value and are stamped on every output row.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from typing import Any, Final, TypeVar

from spark_eval.errors import ConfigError

Choice = TypeVar("Choice", bound=StrEnum)


class Gain(StrEnum):
    """What a relevant item is worth in DCG: its relevance, 2^relevance - 1, or 1."""

    LINEAR = "linear"
    EXP2 = "exp2"
    BINARY = "binary"


class ApDenominator(StrEnum):
    """What the sum of precisions at the hits is divided by: m relevant items, k positions, h hits."""

    MIN_RELEVANT_K = "min_relevant_k"
    RELEVANT = "relevant"
    HITS = "hits"
    K = "k"


class Ties(StrEnum):
    """Who goes first among equal scores. All three are independent of row order and partitioning."""

    ITEM_DESC = "item_desc"
    ITEM_ASC = "item_asc"
    HASH = "hash"


class TruthDuplicates(StrEnum):
    """The relevance of an item that a user has in several truth rows."""

    MAX = "max"
    SUM = "sum"
    LAST = "last"
    COUNT = "count"


class NoRecommendations(StrEnum):
    """Users with truth but without recommendations: counted with 0, or left out."""

    ZERO = "zero"
    DROP = "drop"


class NoTruth(StrEnum):
    """Users with recommendations but without truth: left out, or counted with 0."""

    DROP = "drop"
    ZERO = "zero"


class Checks(StrEnum):
    """Count repeated items and ranks among the hits only, or among all recommendations (a shuffle more)."""

    HITS = "hits"
    FULL = "full"


@dataclass(frozen=True)
class Conventions:
    """One choice for every fork. The defaults are those of the preset ``default``."""

    gain: Gain = Gain.LINEAR
    ap_denominator: ApDenominator = ApDenominator.MIN_RELEVANT_K
    ties: Ties = Ties.ITEM_DESC
    truth_duplicates: TruthDuplicates = TruthDuplicates.MAX
    preset: str = "default"

    def stamp(self) -> str:
        """``default``, or ``default, gain=exp2`` where single forks differ from the preset."""
        preset = PRESETS[self.preset]
        changed = [
            f"{fork}={getattr(self, fork)}" for fork in FORKS if getattr(self, fork) != getattr(preset, fork)
        ]
        return ", ".join([self.preset, *changed])


FORKS: Final = tuple(field.name for field in fields(Conventions) if field.name != "preset")
PRESETS: Final[dict[str, Conventions]] = {"default": Conventions()}


def parse_conventions(value: "Conventions | str | Mapping[str, str]") -> Conventions:
    """A preset's name, or a mapping ``{preset: ..., fork: choice}`` with single forks changed.

    Raises ConfigError UNKNOWN_PRESET, UNKNOWN_CONVENTION or INVALID_CHOICE with what is allowed.
    """
    if isinstance(value, Conventions):
        return value
    forks = {"preset": value} if isinstance(value, str) else dict(value)
    preset = forks.pop("preset", "default")
    if preset not in PRESETS:
        raise ConfigError.unknown("UNKNOWN_PRESET", "preset", preset, PRESETS, "evaluate.conventions")
    chosen: dict[str, Any] = {}
    for fork, choice in forks.items():
        if fork not in FORKS:
            raise ConfigError.unknown("UNKNOWN_CONVENTION", "convention", fork, FORKS, "evaluate.conventions")
        chosen[fork] = parse_choice(type(getattr(PRESETS[preset], fork)), choice, f"conventions.{fork}")
    return replace(PRESETS[preset], **chosen)


def parse_choice(choices: type[Choice], value: str, where: str) -> Choice:
    """The member of an enumeration with this value; ConfigError INVALID_CHOICE with those allowed."""
    if value not in set(choices):
        raise ConfigError.unknown("INVALID_CHOICE", "choice", str(value), choices, where)
    return choices(value)
