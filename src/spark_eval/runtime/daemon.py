"""Spark's daemon of Python workers, with what they all import loaded before it forks them.

Spark puts archives on their path: PySpark zipped, and a jar. Zipped modules are compiled whenever they are
imported, and a new worker reads the directories of all archives again. Where that PySpark is installed as
files, too, these do without. The daemon's workers search all their objects for garbage after every task; what
was loaded before they were forked is not looked at again.
"""

import gc
import sys
from importlib import import_module
from pathlib import Path

LOADED = ("pyspark.worker", "pyarrow.dataset", "spark_eval.transforms.exchange")


def archives() -> list[str]:
    """The entries of the path that lie within a PySpark that is on the path itself."""
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
