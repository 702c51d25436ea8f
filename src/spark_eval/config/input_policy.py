"""A config is untrusted: YAML without its traps, no secrets, no servers to ask, no code to run."""

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import yaml
from yaml.nodes import MappingNode, Node, ScalarNode

from spark_eval.errors import ConfigError, is_secret, redacted
from spark_eval.names import CONTROL_CHARACTER
from spark_eval.runtime.local_files import SCHEMES

MAX_CHARACTERS: Final = 250_000
MAX_NODES: Final = 10_000
MAX_DEPTH: Final = 20
YAML_TYPES: Final = {
    "null": r"null|~|",
    "bool": r"true|false|True|False",
    "int": r"[-+]?(0|[1-9][0-9]*)",
    "float": r"[-+]?((0|[1-9][0-9]*)?\.[0-9]+|(0|[1-9][0-9]*)\.?)([eE][-+]?[0-9]+)?",
}
# What Spark looks up in a list; it would load any class of which it is given the whole name.
FORMAT: Final = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")
# Options that Hadoop and Parquet take for classes to load.
LOADS_CLASS: Final = re.compile(r"(?i)[._](class|classes|impl|factory)$")
# What stands in a URI of a file where others have a server.
HOST: Final = re.compile(r"(?i)file://(?P<host>[^/]+)/?")
TABLE: Final = re.compile(r"(\w[\w-]*|`[^`/:]+`)(\.(\w[\w-]*|`[^`/:]+`)){0,3}")


def place(text: str) -> str:
    """Return a text that can be a path, without the name of this machine; raise ValueError otherwise."""
    if CONTROL_CHARACTER.search(text):
        raise ValueError("holds a control character")
    on_host = HOST.match(text)
    if on_host is None or on_host["host"].lower() == "localhost":
        return HOST.sub("file:///", text)
    raise ValueError(f"{text!r} names a host, {on_host['host']!r}; a path of this machine is file:///...")


def check_reading(path: str | None, kind: str, options: Iterable[str]) -> None:
    """Raise ConfigError UNSUPPORTED_INPUT for what would ask a server, or run code, on the way."""
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


def check_secrets(tree: Any) -> None:
    """Raise ConfigError SECRET_IN_CONFIG for a value that is a credential, or holds one."""
    for keys, value in leaves(tree, ()):
        is_said = value not in (None, "") and not isinstance(value, bool)
        # The keys of ``columns`` are names of columns.
        by_key = "columns" not in keys and any(map(is_secret, keys))
        if is_said and (by_key or redacted(str(value)) != str(value)):
            message = f"{redacted('.'.join(keys))} holds a secret, which others would read; leave it to "
            message += "the environment, a Hadoop credential provider or the conf of spark-submit"
            raise ConfigError("SECRET_IN_CONFIG", message)


def leaves(tree: Any, keys: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield every value of a tree that is no mapping or list, with the keys that lead to it."""
    if isinstance(tree, Mapping):
        for key, value in tree.items():
            yield from leaves(value, (*keys, str(key)))
    elif isinstance(tree, list):
        for value in tree:
            yield from leaves(value, keys)
    else:
        yield keys, tree


def refused(message: str, node: Node | None) -> yaml.MarkedYAMLError:
    """Return the error of what is refused at a node."""
    return yaml.MarkedYAMLError(None, None, message, node.start_mark if node else None)


class StrictLoader(yaml.SafeLoader):
    """Text stays text unless it is clearly a number, a truth value or null; so do ``no``, 0123 and dates."""

    n_nodes = depth = 0

    def compose_node(self, parent: Node | None, index: int) -> Node | None:
        """Refuse aliases, a few lines of which can stand for millions of nodes, tags, and endless trees."""
        self.n_nodes += 1
        faults = {
            "aliases are not allowed": self.check_event(yaml.AliasEvent),
            "tags are not allowed": getattr(self.current_event, "tag", None) is not None,
            f"more than {MAX_NODES} values": self.n_nodes > MAX_NODES,
            "nested too deeply": self.depth > MAX_DEPTH,
        }
        for message, holds in faults.items():
            if holds:
                raise refused(message, parent)
        self.depth += 1
        node = super().compose_node(parent, index)
        self.depth -= 1
        return node

    def construct_mapping(self, node: MappingNode, deep: bool = False) -> dict[Any, Any]:
        """Refuse a key that comes twice."""
        seen = set[str]()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if not isinstance(key, str):
                raise refused(f"key {key!r} is no text", key_node)
            if key in seen:
                raise refused(f"key {key!r} comes twice", key_node)
            seen.add(key)
        return super().construct_mapping(node, deep)

    def construct_text(self, node: ScalarNode) -> str:
        """Refuse halves of characters, which no file and no table can hold."""
        text = self.construct_scalar(node)
        if not text.isascii() and any("\ud800" <= letter <= "\udfff" for letter in text):
            raise refused("half a character", node)
        return text

    def construct_number(self, node: ScalarNode) -> int | float:
        """Refuse what would become another number: beyond 64 bits, or beyond a double."""
        text = self.construct_scalar(node)
        value, is_whole = float(text), node.tag.endswith(":int")
        if math.isinf(value) or (is_whole and not -(2**63) <= int(text) < 2**63):
            raise refused(f"number {text[:20]!r} is too large; quote it if it is text", node)
        return int(text) if is_whole else value


StrictLoader.yaml_implicit_resolvers = {}
for name, pattern in YAML_TYPES.items():
    StrictLoader.add_implicit_resolver(f"tag:yaml.org,2002:{name}", re.compile(rf"(?:{pattern})\Z"), None)
StrictLoader.add_constructor("tag:yaml.org,2002:str", StrictLoader.construct_text)
for name in ("int", "float"):
    StrictLoader.add_constructor(f"tag:yaml.org,2002:{name}", StrictLoader.construct_number)


def load_yaml(text: str, where: str) -> Any:
    """Return the document as plain Python values; raise ConfigError INVALID_YAML with the fault's place."""
    if len(text) > MAX_CHARACTERS:
        raise ConfigError("INVALID_YAML", f"{where}: longer than {MAX_CHARACTERS} characters")
    try:
        return StrictLoader(text).get_single_data()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = "" if mark is None else f" at line {mark.line + 1}, column {mark.column + 1}"
        problem = ", ".join(part for part in (error.context, error.problem) if part)
        raise ConfigError("INVALID_YAML", f"{where}: {problem}{place}") from None  # its trace shows the text
    except yaml.YAMLError as error:
        raise ConfigError("INVALID_YAML", f"{where}: {error}") from None


def overlay(tree: Any, keys: list[str], value: Any) -> None:
    """Set a value deep in a tree of mappings, making those that lack."""
    for key in keys[:-1]:
        if not isinstance(tree, dict):
            break
        tree = tree.setdefault(key, {})
    if not isinstance(tree, dict):
        raise ConfigError("INVALID_SETTING", f"--set {'.'.join(keys)}: what it sets a key of is no mapping")
    tree[keys[-1]] = value
