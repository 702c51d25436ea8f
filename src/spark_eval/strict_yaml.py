"""YAML without its traps: the types of YAML 1.2, no tags, no aliases, no repeated keys, no dates."""

import re
from typing import Any, Final

import yaml
from yaml.nodes import MappingNode, Node

from spark_eval.errors import ConfigError

MAX_CHARACTERS: Final = 1_000_000
INTEGER: Final = r"[-+]?(0|[1-9][0-9]{0,18})"
TYPES: Final = {
    "null": r"null|~|",
    "bool": r"true|false|True|False",
    "int": INTEGER,
    "float": r"[-+]?((0|[1-9][0-9]*)?\.[0-9]+|(0|[1-9][0-9]*)\.?)([eE][-+]?[0-9]+)?",
}


class StrictLoader(yaml.SafeLoader):
    """Text stays text unless it is clearly a number, a truth value or null; so do ``no``, 0123 and dates."""

    def compose_node(self, parent: Node | None, index: int) -> Node | None:
        """Refuse aliases, a few lines of which can stand for millions of nodes, and tags."""
        place = parent.start_mark if parent else None
        if self.check_event(yaml.AliasEvent):
            raise yaml.composer.ComposerError(None, None, "aliases are not allowed", place)
        if getattr(self.current_event, "tag", None) is not None:
            raise yaml.composer.ComposerError(None, None, "tags are not allowed", place)
        return super().compose_node(parent, index)

    def construct_mapping(self, node: MappingNode, deep: bool = False) -> dict[Any, Any]:
        """Refuse a key that comes twice."""
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]
        for key, (key_node, _) in zip(keys, node.value, strict=True):
            if not isinstance(key, str):
                raise yaml.constructor.ConstructorError(
                    None, None, f"key {key!r} is no text", key_node.start_mark
                )
            if keys.count(key) > 1:
                raise yaml.constructor.ConstructorError(
                    None, None, f"key {key!r} comes twice", key_node.start_mark
                )
        return super().construct_mapping(node, deep)


StrictLoader.yaml_implicit_resolvers = {}
for name, pattern in TYPES.items():
    StrictLoader.add_implicit_resolver(f"tag:yaml.org,2002:{name}", re.compile(f"^(?:{pattern})$"), None)


def load_yaml(text: str, where: str) -> Any:
    """The document as plain Python values; ConfigError INVALID_YAML with the place of the fault."""
    if len(text) > MAX_CHARACTERS:
        raise ConfigError("INVALID_YAML", f"{where}: longer than {MAX_CHARACTERS} characters")
    try:
        return StrictLoader(text).get_single_data()
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        reason = str(error) if not isinstance(error, RecursionError) else "nested too deeply"
        raise ConfigError("INVALID_YAML", f"{where}: {reason}") from error
