"""Stores to publish tables in: a local folder, a store that Spark reaches, or a schema of a catalog."""

from collections.abc import Iterable
from pathlib import Path
from urllib.parse import urlparse

from spark_eval.config.inputs import Output
from spark_eval.errors import ConfigError
from spark_eval.publishing.attempt import Store
from spark_eval.publishing.catalog import CatalogStore
from spark_eval.publishing.commits import STAGING, commit_path
from spark_eval.publishing.local import LocalStore
from spark_eval.publishing.remote import RENAMES_WHOLE, HadoopStore
from spark_eval.runtime.any_session import OpenSession
from spark_eval.runtime.hadoop_files import HadoopFiles
from spark_eval.runtime.local_files import local_path, uri_of
from spark_eval.schema import REPORT
from spark_eval.tables.catalog_tables import CatalogTables


def store_of(output: Output, session: OpenSession) -> Store:
    """Return the store of all output; a session is opened if the path is not local.

    Raises ConfigError UNSUPPORTED_OUTPUT if tables would not appear in one step.
    """
    if output.table is not None:
        return CatalogStore(CatalogTables.of(session(), output.table, output.format))
    assert output.path is not None
    local = local_path(output.path)
    scheme = urlparse(output.path).scheme
    if not output.manifest and local is not None:
        return LocalStore(local.absolute())
    if not output.manifest and scheme not in RENAMES_WHOLE:
        message = f"output.path {output.path!r}: {scheme} does not rename a folder in one step; "
        message += "set output.manifest: true, and read with spark_eval.read_published"
        raise ConfigError("UNSUPPORTED_OUTPUT", message)
    return HadoopStore(HadoopFiles(session(), uri_of(output.path)), manifest=output.manifest)


def check_output_paths(root: Path, run_id: str, tables: Iterable[str]) -> None:
    """Check that these tables of a run, and all else that it writes, stay below a local root.

    Raises ConfigError UNSUPPORTED_OUTPUT if the root, or the nearest existing path above it, is a file or a
    dead link, and OUTSIDE_OUTPUT if a link leads out of the root.
    """
    nearest = next(path for path in (root, *root.parents) if path.is_symlink() or path.exists())
    if not nearest.is_dir():
        message = f"output.path {str(root)!r}: {str(nearest)!r} is not a folder; choose another path"
        raise ConfigError("UNSUPPORTED_OUTPUT", message)
    folders = [root / table / f"run_id={run_id}" for table in tables]
    files = (Path(commit_path(str(root), run_id)), root / REPORT / f"{run_id}.html")
    for folder in (*folders, root / STAGING, *files):
        if not folder.resolve().is_relative_to(root.resolve()):
            message = f"{folder} leads to {folder.resolve()}, out of output.path; remove the link"
            raise ConfigError("OUTSIDE_OUTPUT", message)
