"""The verbs that make runs: every module here is one verb, whose record is its ``VERB``."""

from collections.abc import Mapping
from importlib import import_module
from operator import attrgetter
from pkgutil import iter_modules
from typing import Final

from spark_eval.runs.verb import Verb
from spark_eval.schema import Table

found: list[Verb] = [import_module(f"{__name__}.{module.name}").VERB for module in iter_modules(__path__)]
# In the usual order of work.
VERBS: Final[Mapping[str, Verb]] = {verb.name: verb for verb in sorted(found, key=attrgetter("order"))}


def table_names() -> list[str]:
    """Return the names of all tables that verbs publish, and of the quarantine."""
    names = [table.name for verb in VERBS.values() for table in verb.tables]
    return list(dict.fromkeys([*names, Table.QUARANTINE]))
