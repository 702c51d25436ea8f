"""What the program says of itself. Of this ring, only this file names modules of the package."""

import ast
import dataclasses
import inspect
import json
import re
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import yaml
from tests import reference

import spark_eval
from spark_eval import errors
from spark_eval.cli.commands import program
from spark_eval.errors import ConfigError, SparkEvalError
from spark_eval.runs.sections import Config, parse_config

REPOSITORY = Path(__file__).parents[2]
ERRORS = REPOSITORY / "docs" / "errors.md"
CODE = re.compile(r"[A-Z]+(?:_[A-Z0-9]+)*")
# Parts of the page on errors, and how the errors named there end the program.
ENDS = {"| quarantined as": "a row", **{f"Exit {code}": f"exit {code}" for code in (1, 2, 3, 4, 5)}}
SECTION = "section"
# What results are asked for; their other attributes are parts of the package.
RESULTS = {
    "Evaluation": (
        *("per_user", "metrics", "accounting", "stages", "funnel", "models", "unpersist"),
        *("leaderboard", "plot", "to_pandas", "write", "log_mlflow"),
    ),
    "Split": (
        *("rows", "subset", "train", "validation", "test"),
        *("accounting", "leakage", "subsets", "plot", "to_pandas"),
    ),
    "Experiments": ("experiments", "checks", "decisions", "accounting", "to_pandas", "write"),
    "Predictions": (
        *("metrics", "thresholds", "curves", "accounting", "models"),
        *("plot", "to_pandas", "write", "log_mlflow"),
    ),
}


def named_errors() -> dict[str, Any]:
    """Return the exit code of each class of errors, and how each code ends the program.

    Codes are those that a class is called with in the source, or that stand beside it in a tuple, and those
    of the page on errors; another test holds the page and the source equal.
    """
    classes = {
        name: f"exit {kind.exit_code}"
        for name, kind in vars(errors).items()
        if isinstance(kind, type) and issubclass(kind, SparkEvalError)
    }
    found: dict[str, set[str]] = {}
    for code, end in documented():
        found.setdefault(code, set()).add(end)
    for folder in spark_eval.__path__:
        for path in Path(folder).rglob("*.py"):
            for name, code in beside_names(ast.parse(path.read_text(encoding="utf-8"))):
                if name in classes:
                    found.setdefault(code, set()).add(classes[name])
    return {"classes": classes, "codes": {code: ", ".join(sorted(ends)) for code, ends in found.items()}}


def documented() -> Iterator[tuple[str, str]]:
    """Yield each code of the page on errors, and how it ends the program."""
    end = ""
    for line in ERRORS.read_text(encoding="utf-8").splitlines():
        if line.startswith("#"):
            end = ""
        end = next((how for start, how in ENDS.items() if line.startswith(start)), end)
        shown = line.split("|")[1] if line.startswith("|") else line.partition(",")[0]
        if end:
            yield from ((code, end) for code in re.findall(rf"`({CODE.pattern})`", shown))


def beside_names(tree: ast.AST) -> Iterator[tuple[str, str]]:
    """Yield constants that look like codes, with the name that is called with them or stands beside them."""
    for node in ast.walk(tree):
        parts: list[ast.expr] = []
        if isinstance(node, ast.Call) and node.args:
            owner = node.func.value if isinstance(node.func, ast.Attribute) else node.func
            parts = [owner, node.args[0]]
        elif isinstance(node, ast.Tuple) and len(node.elts) == 2:
            parts = node.elts
        match parts:
            case [ast.Name(id=name), ast.Constant(value=str(code))] if CODE.fullmatch(code):
                yield name, code


def commands() -> dict[str, dict[str, str]]:
    """Return each command with its options: type, default, and whether it is needed or may be repeated."""
    return {
        name: {" ".join(option.opts): option_in_words(option.to_info_dict()) for option in command.params}
        for name, command in {"": program, **reference.commands()}.items()
    }


def option_in_words(option: Mapping[str, Any]) -> str:
    """Return what click says of an option, in a line."""
    kind = [str(option["type"][key]) for key in ("name", "choices", "min", "max") if key in option["type"]]
    flags = [flag for flag in ("required", "multiple", "is_flag") if option.get(flag)]
    return f"{' '.join([*kind, *flags])}: {option.get('default')}"


def config_keys() -> dict[str, str]:
    """Return every key of the config with its type and default."""
    schema = Config.model_json_schema()
    return dict(keys_below(schema, schema["$defs"], ""))


def keys_below(node: Mapping[str, Any], known: Mapping[str, Any], path: str) -> Iterator[tuple[str, str]]:
    """Yield the keys of a part of a JSON schema, sections of a list with ``[]``."""
    for section in sections_of(node, known):
        for key, value in section["properties"].items():
            place = f"{path}.{key}".strip(".")
            default = "required" if key in section.get("required", ()) else json.dumps(value.get("default"))
            kind = type_of(value, known)
            yield place, kind if kind == SECTION else f"{kind}: {default}"
            yield from keys_below(value, known, place + ("[]" if value.get("type") == "array" else ""))


def sections_of(node: Mapping[str, Any], known: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield the mappings of known keys that may stand at a place."""
    if "$ref" in node:
        node = known[node["$ref"].rpartition("/")[2]]
    if "properties" in node:
        yield node
    for part in (*node.get("anyOf", ()), *([node["items"]] if "items" in node else ())):
        yield from sections_of(part, known)


def type_of(node: Mapping[str, Any], known: Mapping[str, Any]) -> str:
    """Return the type of a value, with its bounds and choices."""
    if "anyOf" in node:
        return " | ".join(type_of(part, known) for part in node["anyOf"])
    if "$ref" in node:
        return SECTION
    inner = node.get("items") or node.get("additionalProperties")
    of = f" of {type_of(inner, known)}" if isinstance(inner, Mapping) else ""
    bounds = {key: node[key] for key in ("enum", "const", "minimum", "maximum", "minLength") if key in node}
    return f"{node.get('type')}{of}{f' {json.dumps(bounds)}' if bounds else ''}"


def split_options() -> dict[str, Any]:
    """Return each method of split that ``conf/`` shows: what it needs, and the whole of it after defaults."""
    found = {}
    for path in sorted((REPOSITORY / "conf").glob("*.yaml")):
        options = yaml.safe_load(path.read_text(encoding="utf-8")).get("split")
        if options:
            method = options.pop("method")
            needed = {name: options[name] for name in options if not is_whole(method, options, name)}
            found[method] = {"needed": sorted(needed), "whole": whole_split(method, needed)}
    return found


def is_whole(method: str, options: Mapping[str, Any], without: str) -> bool:
    """Return whether a method takes these options without one of them."""
    try:
        whole_split(method, {name: value for name, value in options.items() if name != without})
    except ConfigError:
        return False
    return True


def whole_split(method: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the section of a method with its defaults, as a commit record keeps it."""
    config = parse_config({"output": {"path": "out"}, "split": {"method": method, **options}})
    return config.split.model_dump(mode="json")


def kind_of(value: object) -> str:
    """Return what a name stands for; a class is a type, whatever its own metaclass is."""
    return "type" if isinstance(value, type) else type(value).__name__


def python_names() -> dict[str, Any]:
    """Return the names that ``spark_eval`` offers with their signatures, and what users ask of results."""
    found: dict[str, Any] = {}
    for name in spark_eval.__all__:
        value = getattr(spark_eval, name)
        found[name] = signature(value) if inspect.isfunction(value) else kind_of(value)
    for name, asked in RESULTS.items():
        kind = getattr(spark_eval, name)
        fields = {field.name: "value" for field in dataclasses.fields(kind)}
        found[name] = {one: fields.get(one) or attribute(getattr(kind, one, None)) for one in asked}
    return found


def attribute(value: Any) -> Any:
    """Return what an attribute of a class is: a method with its signature, a value, or nothing."""
    if inspect.isfunction(value):
        return signature(value)
    return "value" if isinstance(value, property | cached_property) else str(value)


def signature(function: Callable[..., Any]) -> list[str]:
    """Return each parameter and what is returned; of the names of types the package, without the modules."""
    found = inspect.signature(function)
    parts = [f"{parameter.kind.description} {parameter}" for parameter in found.parameters.values()]
    parts.append(f"returns {inspect.formatannotation(found.return_annotation)}")
    return [re.sub(r"\b(\w+)\.(?:[a-z_]\w*\.)+(?=[A-Z])", r"\1.", part) for part in parts]
