"""What a convention is: an enumeration of choices, each of which says what it does and what it needs."""

from enum import StrEnum
from typing import Final, Self

# What a metric must see, beside the hits up to k, where such a choice is made: how many items a list has, so
# that repeats must be looked for also where they are no hits; or the hits beyond k; or the user's history; or
# of every item of a run the sum of 1 / length over the lists that hold it.
# Other words name facts of items (``metrics.registry.Fact``).
LENGTH: Final = "length"
WHOLE_LIST: Final = "whole list"
HISTORY: Final = "profile"
SLOTS: Final = "slots"


class Choice(StrEnum):
    """One choice of a convention: ``spark-eval metrics`` shows its ``meaning``; ``sees`` is what it needs."""

    meaning: str
    sees: tuple[str, ...]

    def __new__(cls, value: str, meaning: str, *sees: str) -> Self:
        """Return the member, a string with its meaning."""
        member = str.__new__(cls, value)
        member._value_ = value
        member.meaning = meaning
        member.sees = sees
        return member
