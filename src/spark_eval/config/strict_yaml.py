"""Strict YAML: the types of YAML 1.2; no tags, anchors, aliases, duplicate keys or dates.

Values that this module writes are read back unchanged.
"""

import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import yaml
from yaml.nodes import MappingNode, Node, ScalarNode

from spark_eval.errors import ConfigError, escape_control_characters

MAX_CHARACTERS: Final = 250_000
MAX_NODES: Final = 10_000
MAX_DEPTH: Final = 20
# Text that is written without quotes, unless it is a word such as null.
UNQUOTED: Final = re.compile(r"[A-Za-z_./][\w./=-]*", re.ASCII)
# Column of comments in written lines.
COMMENTS_AT: Final = 44
# Prefix of YAML's own types.
TAG: Final = "tag:yaml.org,2002:"
YAML_TYPES: Final = {
    "null": r"null|~|",
    "bool": r"true|false|True|False",
    "int": r"[-+]?(0|[1-9][0-9]*)",
    "float": r"[-+]?((0|[1-9][0-9]*)?\.[0-9]+|(0|[1-9][0-9]*)\.?)([eE][-+]?[0-9]+)?",
}


def refused(message: str, node: Node | None) -> yaml.MarkedYAMLError:
    """Return the error for rejected YAML at a node."""
    return yaml.MarkedYAMLError(None, None, message, node.start_mark if node else None)


class StrictLoader(yaml.SafeLoader):
    """YAML loader that keeps text unless it is clearly a number, a boolean or null.

    ``no``, 0123 and dates are text.
    """

    n_nodes = depth = 0

    def compose_document(self) -> Node | None:
        """Reject directives that declare tags."""
        if self.check_event() and getattr(self.current_event, "tags", None):
            raise refused("tags are not allowed", None)
        return super().compose_document()

    def compose_node(self, parent: Node | None, index: int) -> Node | None:
        """Reject tags, anchors, aliases, and trees that are too large or too deep.

        A few lines of aliases can expand to millions of nodes.
        """
        self.n_nodes += 1
        self.check_event()  # reads the next event
        faults = {
            "anchors and aliases are not allowed": getattr(self.current_event, "anchor", None) is not None,
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
        """Reject duplicate keys, and keys that are not text; the key ``true`` is."""
        seen = set[str]()
        for key_node, _ in node.value:
            if key_node.value == "true":  # as a key it is the section of linkage, not a boolean
                key_node.tag = f"{TAG}str"
            key = self.construct_object(key_node, deep=True)
            if not isinstance(key, str):
                raise refused(f"key {key!r} is not text", key_node)
            if key in seen:
                raise refused(f"key {key!r} comes twice", key_node)
            seen.add(key)
        return super().construct_mapping(node, deep)

    def construct_text(self, node: ScalarNode) -> str:
        """Reject lone surrogates, which files and tables cannot store."""
        text = self.construct_scalar(node)
        if not text.isascii() and any("\ud800" <= letter <= "\udfff" for letter in text):
            raise refused("half a character", node)
        return text

    def construct_number(self, node: ScalarNode) -> int | float:
        """Reject integers beyond 64 bits and numbers beyond a double, which would change in value."""
        text = self.construct_scalar(node)
        value, is_whole = float(text), node.tag.endswith(":int")
        if math.isinf(value) or (is_whole and not -(2**63) <= int(text) < 2**63):
            raise refused(f"number {text[:20]!r} is too large; quote it if it is text", node)
        return int(text) if is_whole else value


StrictLoader.yaml_implicit_resolvers = {}
for name, pattern in YAML_TYPES.items():
    StrictLoader.add_implicit_resolver(f"{TAG}{name}", re.compile(rf"(?:{pattern})\Z"), None)
StrictLoader.add_constructor(f"{TAG}str", StrictLoader.construct_text)
for name in ("int", "float"):
    StrictLoader.add_constructor(f"{TAG}{name}", StrictLoader.construct_number)


def load_yaml(text: str, where: str) -> Any:
    """Return the document as plain Python values; raise ConfigError INVALID_YAML with line and column."""
    if len(text) > MAX_CHARACTERS:
        raise ConfigError("INVALID_YAML", f"{where}: longer than {MAX_CHARACTERS} characters")
    try:
        return StrictLoader(text).get_single_data()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        position = "" if mark is None else f" at line {mark.line + 1}, column {mark.column + 1}"
        problem = ", ".join(part for part in (error.context, error.problem) if part)
        raise ConfigError(
            "INVALID_YAML", f"{where}: {problem}{position}"
        ) from None  # the trace shows the text
    except yaml.YAMLError as error:
        raise ConfigError("INVALID_YAML", f"{where}: {error}") from None


def overlay(tree: Any, keys: Sequence[str], value: Any) -> None:
    """Set a value deep in a tree of mappings, creating missing ones; raise ConfigError INVALID_SETTING."""
    if len(keys) > MAX_DEPTH:
        raise ConfigError("INVALID_SETTING", f"--set {keys[0]}.…: {len(keys)} keys, at most {MAX_DEPTH}")
    for key in keys[:-1]:
        if not isinstance(tree, dict):
            break
        tree = tree.setdefault(key, {})
    if not isinstance(tree, dict):
        raise ConfigError("INVALID_SETTING", f"--set {'.'.join(keys)}: above {keys[-1]!r} is not a mapping")
    tree[keys[-1]] = value


def line(key: str, value: Any, comment: str = "") -> str:
    """Return a key and its value as a line of YAML, with an optional comment."""
    text = f"{key}:" if value is None else f"{key}: {scalar(value)}"
    return f"{text:<{COMMENTS_AT - 2}}  # {escape_control_characters(comment)}" if comment else text


def scalar(value: Any) -> str:
    """Return a value as one line of YAML that this module reads back unchanged."""
    match value:
        case str():
            if UNQUOTED.fullmatch(value) and load_yaml(value, value) == value:
                return value
            # Non-printable characters are escaped.
            shown = value.isprintable()
            return yaml.dump(value, default_style='"', width=math.inf, allow_unicode=shown).rstrip("\n")
        case Mapping():
            return "{" + ", ".join(f"{scalar(key)}: {scalar(one)}" for key, one in value.items()) + "}"
        case list():
            return "[" + ", ".join(map(scalar, value)) + "]"
    return json.dumps(value)
