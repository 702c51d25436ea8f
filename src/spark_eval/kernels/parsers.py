"""Parsers of options that several verbs share."""

from typing import Annotated, Any, Final

from spark_eval.errors import ConfigError
from spark_eval.kernels.aliases import as_list
from spark_eval.options import SEED, number_in_range
from spark_eval.statistics.resampling import MOST_RESAMPLES


def as_tuple(given: Any, _where: str) -> tuple[Any, ...]:
    """Convert an option to a tuple; a single value becomes a tuple of one, None an empty one."""
    return () if given is None else tuple(as_list(given))


def metric_texts(given: Any, where: str) -> list[str]:
    """Return the requested metrics; raise ConfigError NO_METRICS if there are none."""
    if texts := as_list(given):
        return texts
    raise ConfigError("NO_METRICS", f"{where} is empty; `spark-eval metrics` lists them")


# Options of resampling.
RESAMPLES: Final = number_in_range(f"1 to {MOST_RESAMPLES}", lambda given: 1 <= given <= MOST_RESAMPLES)


Seed = Annotated[int, "random seed; a user's draws depend on it and the user id only.", 0, SEED]
