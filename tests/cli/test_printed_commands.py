"""Every command that the program prints, in a message, a config or a result, does what it is printed for."""

import ast
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pandas as pd
import pytest
import yaml
from tests.cli.conftest import call
from tests.reference import commands
from tests.verbs.test_validate_sections import KEYS, OTHERS, TABLES

import spark_eval

pytestmark = pytest.mark.usefixtures("engine_of_users")

SOURCES: Final = Path(spark_eval.__file__).parent
# A command with its options, up to the end of a quote, a line or a sentence; {...} stands for any value.
COMMAND: Final = re.compile(r"spark-eval ((?:--?)?[a-z][\w-]*)((?: (?:--[\w-]+|[A-Z]{2,}|\{[^}]*\}))*)")
# Names, not commands: of a session, of threads, of a page, of the demo's run.
NAMES: Final = ("release", "demo", "report")


def texts_of(path: Path) -> Iterator[str]:
    """The texts of a module but its docstrings; what an f-string puts in is {}."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            yield "".join(str(one.value) if isinstance(one, ast.Constant) else "{}" for one in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            yield node.value


def test_every_command_that_is_named_is_there_with_its_options() -> None:
    found = set[str]()
    for path in sorted(SOURCES.rglob("*.py")):
        for text in texts_of(path) if "spark-eval " in path.read_text(encoding="utf-8") else ():
            for name, words in COMMAND.findall(text):
                if (name in NAMES and not words) or name.startswith("-"):
                    continue
                command = commands().get(name)
                assert command is not None, (path.name, text)
                options = {one for given in command.params for one in given.opts}
                given = re.findall(r"--[\w-]+", words)
                assert options.issuperset(given), (path.name, text)
                required = {one.opts[0] for one in command.params if one.required}
                assert not given or required.issubset(given), f"{path.name} lacks {required}: {text}"
                found.add(name)
    assert {"split", "online", "evaluate", "metrics", "compare", "validate"} <= found


def printed(text: str) -> list[list[str]]:
    """The words of the commands of a text: whole lines, in quotes, or behind a colon."""
    lines = re.findall(r"(?:^[# ]*|`|: )(spark-eval [^`\n]*)", text, re.MULTILINE)
    return [shlex.split(line)[1:] for line in lines]


def run_all(text: str, expected: list[str], **values: str) -> None:
    """Run the commands of a text, with these values for names in capitals; each must succeed."""
    commands = [[values.get(word, word) for word in words] for words in printed(text)]
    assert [words[0] for words in commands] == expected
    for words in commands:
        answer = call(*words)
        assert answer.code == 0, (words, answer.err)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder, with a blank in its name and all tables."""
    home = tmp_path / "my home"
    home.mkdir()
    monkeypatch.chdir(home)
    for name, columns in TABLES.items():
        pd.DataFrame(dict(columns)).to_parquet(f"{name}.parquet", index=False)
    log = {
        "user": [1, 2] * 20,
        "item": [*range(40)],
        "rating": 4.0,
        "timestamp": range(880_000_000, 880_000_040),
    }
    pd.DataFrame(log).to_parquet("log.parquet", index=False)
    lists = {"user": [1, 2], "item": [38, 39], "rank": [1, 1], "model": "m"}
    pd.DataFrame(lists).to_parquet("lists.parquet", index=False)
    pd.DataFrame(log).to_csv("log.csv", index=False)
    return home


def shown(*tables: str) -> list[str]:
    """The options of ``init`` for these tables."""
    files = {"interactions": "log", "recommendations": "lists"}
    return [word for name in tables for word in (f"--{name}", f"{files.get(name, name)}.parquet")]


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize(
    ("tables", "verbs"),
    [
        (("interactions",), ["split"]),
        (("interactions", "users"), ["split"]),
        (("interactions", "recommendations"), ["split", "evaluate"]),
        (("recommendations", "truth"), ["evaluate"]),
        (("interactions", "recommendations", "truth"), ["evaluate"]),
        (("recommendations", "truth", "train", "items", "users"), ["evaluate"]),
        (("predictions",), ["predictions"]),
        (("predictions", "interactions", "recommendations"), ["predictions", "split", "evaluate"]),
    ],
)
@pytest.mark.parametrize("where", ["printed", "in the config"])
def test_the_commands_that_init_prints_run(tables: tuple[str, ...], verbs: list[str], where: str) -> None:
    model = ["--model", "m"] if "predictions" in tables else []
    answer = call("init", "--config", "my first.yaml", *shown(*tables), *model)
    assert answer.code == 0, answer.err
    text = answer.out if where == "printed" else Path("my first.yaml").read_text()
    listed = ["metrics"] if where != "printed" and "evaluate" in verbs else []
    run_all(text, ["validate", *verbs, *listed])


@pytest.mark.slow
@pytest.mark.usefixtures("home", "spark")
def test_the_commands_that_init_prints_for_csv_run_on_spark() -> None:
    answer = call("init", "--config", "first.yaml", "--interactions", "log.csv")
    run_all(answer.out, ["validate", "split"])


@pytest.mark.usefixtures("home")
def test_the_commands_that_the_demo_of_an_experiment_prints_run() -> None:
    answer = call("demo", "--online", "--scale", "0.2", "--output", "my demo")
    assert answer.code == 0, answer.err
    run_all(answer.out, ["online"])


@pytest.mark.slow
@pytest.mark.usefixtures("home")
def test_the_commands_that_the_demo_prints_run() -> None:
    """In processes of their own: a JVM keeps the working folder that it began in."""
    answer = alone("demo", "--scale", "0.2", "--output", "my demo")
    *named, words = printed(answer)
    assert [*named, words[0]] == [["compare"], "evaluate"]
    alone(*words)


def alone(*words: str) -> str:
    """Run the program in a process of its own, which must succeed; return what it prints."""
    program = str(Path(sys.executable).parent / "spark-eval")
    done = subprocess.run([program, *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def config_of(*sections: str, **more: Any) -> str:
    """Write a config of these sections; return its name."""
    tree: dict[str, Any] = {"output": {"path": "out"}}
    tree |= {
        name: {"path": f"{name}.parquet", **KEYS.get(name, {})} if name in TABLES else OTHERS[name]
        for name in sections
    }
    Path("my config.yaml").write_text(yaml.safe_dump({**tree, **more}))
    return "my config.yaml"


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize("run_id", [(), ("--run-id", "first")])
def test_the_command_in_the_error_of_a_missing_split_fixes_it(run_id: tuple[str, ...]) -> None:
    log = {"path": "log.parquet", "timestamp_unit": "s"}
    lists = {"path": "lists.parquet"}
    file = config_of("split", "evaluate", interactions=log, recommendations=lists)
    refused = call("evaluate", "--config", file, *run_id)
    assert (refused.code, refused.error) == (3, "MISSING_SPLIT")
    run_all(refused.err, ["split"], FILE=file)
    done = call("evaluate", "--config", file, *run_id)
    assert done.code == 0, done.err


@pytest.mark.usefixtures("home")
def test_the_commands_in_the_error_of_missing_days_fix_it() -> None:
    file = config_of("exposures", "events", "online")
    days = ("--from", "2024-05-01", "--to", "2024-05-02")
    for _ in range(2):
        refused = call("online", "--config", file, *days)
        assert (refused.code, refused.error) == (3, "MISSING_DAYS")
        run_all(refused.err, ["online"], FILE=file)
    assert call("online", "--config", file, *days).code in (0, 5)


@pytest.mark.usefixtures("home")
def test_what_helps_in_errors_and_lists_runs() -> None:
    refused = call("evaluate", "--config", config_of("recommendations", "truth", evaluate={"metrics": []}))
    assert (refused.code, refused.error) == (2, "NO_METRICS")
    run_all(refused.err.replace("` lists", "`\n lists"), ["metrics"])
    shown = call("metrics", "ndcg", "--preset", "sklearn").out
    run_all(shown.replace("):", ""), ["metrics"])
    assert call("--help").code == 0
