"""The engine of a call: this process, or Spark."""

import os
from collections.abc import Iterable
from enum import StrEnum
from typing import Any, Final

from spark_eval.errors import ConfigError
from spark_eval.runners.rows import SparkRows
from spark_eval.runtime import events

# Environment variable with the engine of calls that name none.
ENGINE: Final = "SPARK_EVAL_ENGINE"
# Environment variable that spark-submit sets.
SUBMITTED: Final = "PYSPARK_GATEWAY_PORT"


class Engine(StrEnum):
    """Engine of a call; ``auto`` is this process if the tables allow it, otherwise Spark."""

    AUTO = "auto"
    LOCAL = "local"
    SPARK = "spark"


def parse_engine(given: str | None) -> Engine:
    """Return the engine by its name, that of the environment if None; ConfigError INVALID_ENGINE."""
    name = given or os.environ.get(ENGINE) or Engine.AUTO.value
    if name not in set(Engine):
        raise ConfigError.unknown("INVALID_ENGINE", "engine", name, set(Engine), "engine")
    return Engine(name)


def reason_for_spark(engine: Engine, frames: Iterable[tuple[str, Any]]) -> str | None:
    """Return why a call runs on Spark whatever its tables hold; None if this process may take them.

    Raises ConfigError NEEDS_SPARK if the engine is ``local``.
    """
    if engine is Engine.SPARK:
        return "as asked"
    of_spark = [
        name
        for name, frame in frames
        if isinstance(frame, SparkRows) or type(frame).__module__.startswith("pyspark.")
    ]
    if of_spark:
        return refuse_or_explain(engine, f"{of_spark[0]} is a Spark frame")
    if engine is Engine.AUTO and SUBMITTED in os.environ:
        return "under spark-submit"
    return None


def refuse_or_explain(engine: Engine, reason: str) -> str:
    """Return why a call runs on Spark; raise ConfigError NEEDS_SPARK if it may not."""
    if engine is Engine.LOCAL:
        raise ConfigError("NEEDS_SPARK", f"{reason}; choose engine: auto, or spark")
    return reason


def say_spark(reason: str) -> None:
    """Log that a call runs on Spark, and why."""
    events.say("engine", f"engine: spark ({reason})", engine=Engine.SPARK.value, reason=reason)


def say_local(n_rows: int, source: str = "frames") -> None:
    """Log that a call runs in this process, and what it reads."""
    message = f"engine: local ({source}, {n_rows:,} rows)"
    events.say("engine", message, engine=Engine.LOCAL.value, rows=n_rows)
