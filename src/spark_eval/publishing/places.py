"""Where tables are published: in a folder of this machine, or on a store that Spark reaches."""

from collections.abc import Callable, Iterable
from pathlib import Path
from urllib.parse import urlparse

from pyspark.sql import SparkSession

from spark_eval.config.sections import Output
from spark_eval.errors import ConfigError
from spark_eval.publishing.remote import RENAMES_WHOLE
from spark_eval.runtime.hadoop_files import HadoopFiles
from spark_eval.runtime.paths import local_path, uri_of


def store_of(output: Output, session: Callable[[], SparkSession]) -> HadoopFiles | None:
    """The store that everything is written to; None where it is a folder of this machine or a mounted one.

    Raises ConfigError UNSUPPORTED_OUTPUT where tables would not appear in one step.
    """
    local = local_path(output.path)
    scheme = urlparse(output.path).scheme
    if not output.manifest and local is not None:
        return None
    if not output.manifest and scheme not in RENAMES_WHOLE:
        message = f"output.path {output.path!r}: {scheme} does not rename a folder in one step; "
        message += "set output.manifest: true, and read with spark_eval.read_published"
        raise ConfigError("UNSUPPORTED_OUTPUT", message)
    return HadoopFiles(session(), uri_of(output.path))


def local_root(output: Output) -> Path:
    """The folder of this machine that everything is written under, where ``store_of`` names no other."""
    return (local_path(output.path) or Path(output.path)).absolute()


def check_folder(root: Path) -> None:
    """Raise ConfigError UNSUPPORTED_OUTPUT for a root in something that is no folder: a file, a dead link."""
    there = next(place for place in (root, *root.parents) if place.is_symlink() or place.exists())
    if not there.is_dir():
        message = f"output.path {str(root)!r}: {str(there)!r} is no folder; remove it, or choose another path"
        raise ConfigError("UNSUPPORTED_OUTPUT", message)


def check_inside(root: Path, folders: Iterable[Path]) -> None:
    """Raise ConfigError OUTSIDE_OUTPUT for a folder that a link leads out of the root."""
    for folder in folders:
        if not folder.resolve().is_relative_to(root.resolve()):
            message = f"{folder} leads to {folder.resolve()}, out of output.path; remove the link"
            raise ConfigError("OUTSIDE_OUTPUT", message)
