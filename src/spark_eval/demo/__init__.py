"""End-to-end demo on simulated data: simulate a log, split it, recommend, evaluate.

``simulate``, ``popularity``, ``recent_popularity`` and ``als`` are for examples of your own, too.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from spark_eval.demo.models import als, popularity, recent_popularity
    from spark_eval.demo.simulation import simulate

__all__ = ["als", "popularity", "recent_popularity", "simulate"]

_MODULES: Final = {name: "simulation" if name == "simulate" else "models" for name in __all__}


def __getattr__(name: str) -> Any:
    if name in _MODULES:  # the models need Spark, the log does not
        return getattr(import_module(f"spark_eval.demo.{_MODULES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
