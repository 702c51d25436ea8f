"""Spark's daemon of Python workers; it imports common modules before it forks the workers.

Spark adds archives to the workers' path: a zipped PySpark, and a jar. Zipped modules are compiled at every
import, and each new worker reads the directories of all archives again. If the same PySpark is installed as
files, the archives are removed from the path. Workers collect garbage after every task; ``gc.freeze`` exempts
the objects that were loaded before the fork.
"""

import gc
import sys
from importlib import import_module
from pathlib import Path

LOADED = ("pyspark.worker", "pyarrow.dataset", "spark_eval.evaluation.exchange")


def archives() -> list[str]:
    """Return the entries of ``sys.path`` that are inside an installed PySpark on the same path."""
    installed = {
        Path(entry, "pyspark") for entry in sys.path if Path(entry, "pyspark", "__init__.py").exists()
    }
    return [entry for entry in sys.path if installed & set(Path(entry).parents)]


if __name__ == "__main__":
    for archive in archives():
        sys.path.remove(archive)
        sys.path_importer_cache.pop(archive, None)
    for name in LOADED:
        import_module(name)
    gc.freeze()
    import_module("pyspark.daemon").manager()
