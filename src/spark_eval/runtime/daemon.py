"""Spark's daemon of Python workers, with what they all import loaded before it forks them.

Spark puts archives on their path: PySpark zipped, and a jar. Zipped modules are compiled at every import,
and each new worker reads the directories of all archives again. The archives are taken off the path where the
same PySpark is installed as files. Workers search all objects for garbage after every task; ``gc.freeze``
exempts what was loaded before they were forked.
"""

import gc
import sys
from importlib import import_module
from pathlib import Path

LOADED = ("pyspark.worker", "pyarrow.dataset", "spark_eval.transforms.exchange")


def archives() -> list[str]:
    """Return the entries of the path that lie within a PySpark that is on the path itself."""
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
