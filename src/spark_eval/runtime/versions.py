"""What runs here: Python, the libraries that compute or carry numbers, and this package's code."""

import hashlib
import platform
from collections.abc import Iterator
from importlib import import_module
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Final

from spark_eval.schema import VERSION

LIBRARIES: Final = ("pyspark", "pandas", "pyarrow", "numpy")


def versions() -> dict[str, str]:
    """Of everything that a number may depend on."""
    found = {name: import_module(name).__version__ for name in LIBRARIES}
    return found | {"python": platform.python_version(), "spark_eval": VERSION}


def code_version() -> str:
    """A hash of the package's code, the same from a folder and from a zip of it."""
    digest = hashlib.sha256()
    for source in sources_below(files("spark_eval")):
        digest.update(source)
    return digest.hexdigest()


def sources_below(folder: Traversable) -> Iterator[bytes]:
    """The Python files of a package, in one order everywhere."""
    for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if entry.is_dir():
            yield from sources_below(entry)
        elif entry.name.endswith(".py"):
            yield entry.read_bytes()
