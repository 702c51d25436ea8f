"""Restrictions on configs: no secrets, no requests to servers, no code to run."""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from spark_eval.errors import ConfigError, is_secret, redacted
from spark_eval.names import CONTROL_CHARACTER
from spark_eval.runtime.local_files import SCHEMES

# Short names of data sources; Spark would load any class that is given by its full name.
FORMAT: Final = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")
# Options that name classes for Hadoop and Parquet to load.
LOADS_CLASS: Final = re.compile(r"(?i)[._](class|classes|impl|factory)$")
# Host in the URI of a file.
HOST: Final = re.compile(r"(?i)file://(?P<host>[^/]+)/?")
# Options of older releases of Iceberg that name a snapshot.
OLD_TRAVEL: Final = ("snapshot-id", "as-of-timestamp", "branch", "tag")
SCHEMA: Final = re.compile(r"\w+(\.\w+)+")
TABLE: Final = re.compile(r"(\w[\w-]*|`[^`/:]+`)(\.(\w[\w-]*|`[^`/:]+`)){0,3}")


def local_uri(text: str) -> str:
    """Return a path without this machine's name; raise ValueError for other hosts and control characters."""
    if CONTROL_CHARACTER.search(text):
        raise ValueError("holds a control character")
    on_host = HOST.match(text)
    if on_host is None or on_host["host"].lower() == "localhost":
        return HOST.sub("file:///", text)
    raise ValueError(f"{text!r} names a host, {on_host['host']!r}; a path of this machine is file:///...")


def check_reading(path: str | None, kind: str, options: Iterable[str]) -> None:
    """Raise ConfigError UNSUPPORTED_INPUT for an input that would contact a server or run code."""
    scheme, colon, _ = (path or "").partition(":")
    if colon and "/" not in scheme and scheme.lower() not in SCHEMES:
        message = f"path {path!r}: no file system {scheme!r}; allowed: {', '.join(SCHEMES)}"
        raise ConfigError("UNSUPPORTED_INPUT", f"{message}; or a table of the catalog")
    if not FORMAT.fullmatch(kind) or "jdbc" in kind.lower():
        message = f"format {kind!r} is not read: it would run code or SQL"
        raise ConfigError("UNSUPPORTED_INPUT", f"{message}; export the rows as files, or name a table")
    for name in options:
        if LOADS_CLASS.search(name):
            message = f"option {name!r} names a class to load"
            raise ConfigError("UNSUPPORTED_INPUT", f"{message}; leave it to the conf of spark-submit")
        if name.lower() in OLD_TRAVEL:
            message = (
                f"option {name!r} is not read; versionAsOf takes the id of a snapshot, a tag or a branch"
            )
            raise ConfigError("UNSUPPORTED_INPUT", f"{message}, timestampAsOf a time")


def check_secrets(tree: Any) -> None:
    """Raise ConfigError SECRET_IN_CONFIG for a key or value that is or contains a credential."""
    for keys, value in leaves(tree, ()):
        is_said = value not in (None, "") and not isinstance(value, bool)
        # Keys below ``columns`` are names of columns.
        by_key = is_said and "columns" not in keys and any(map(is_secret, keys))
        if by_key or any(redacted(text) != text for text in (*keys, str(value))):
            message = f"{redacted('.'.join(keys))} holds a secret, which others would read; leave it to "
            message += "the environment, a Hadoop credential provider or the conf of spark-submit"
            raise ConfigError("SECRET_IN_CONFIG", message)


def leaves(tree: Any, keys: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield every scalar of a tree of mappings and lists, with the keys that lead to it."""
    if isinstance(tree, Mapping):
        for key, value in tree.items():
            yield from leaves(value, (*keys, str(key)))
    elif isinstance(tree, list):
        for value in tree:
            yield from leaves(value, keys)
    else:
        yield keys, tree
