"""Base class of conventions: an enumeration of choices with their meanings and inputs."""

from enum import StrEnum
from typing import Final, Self

# Inputs that a choice can need in addition to the hits up to k: the number of items in a list (then repeated
# items are searched among all items, not only hits); hits beyond k; the user's history; for every item of a
# run, the sum of 1 / length over its lists. Other words are item attributes (``metrics.registry.Fact``).
LENGTH: Final = "length"
WHOLE_LIST: Final = "whole list"
HISTORY: Final = "profile"
SLOTS: Final = "slots"


class Choice(StrEnum):
    """A choice of a convention; ``spark-eval metrics`` prints its ``meaning``, ``sees`` are its inputs."""

    meaning: str
    sees: tuple[str, ...]

    def __new__(cls, value: str, meaning: str, *sees: str) -> Self:
        """Create the member, a string with its meaning."""
        member = str.__new__(cls, value)
        member._value_ = value
        member.meaning = meaning
        member.sees = sees
        return member
