"""The guides of CONTRIBUTING.md, each done literally in a copy of the tree."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

REPOSITORY: Final = Path(__file__).parents[1]
GUIDE: Final = re.compile(r"^### (Add [^\n]*)\n(.*?)(?=^##|\Z)", re.MULTILINE | re.DOTALL)
BLOCK: Final = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# First lines of blocks that change a file.
NEW: Final = re.compile(r"# new file (\S+)\n")
END: Final = re.compile(r"# at the end of (\S+)\n")
WITHIN: Final = re.compile(r"# in (\S+), (?:below `([^`]*)`, )?after `([^`]*)`\n")
BEFORE: Final = re.compile(r"# in (\S+), before `([^`]*)`\n")
# A guide without blocks only points to a page; ``test_new_verb`` does that of verbs.
GUIDES: Final = {
    title: text
    for title, text in GUIDE.findall((REPOSITORY / "CONTRIBUTING.md").read_text(encoding="utf-8"))
    if BLOCK.search(text)
}


def apply(text: str, tree: Path) -> bool:
    """Make the change that the first line of a block names; False if it names none."""
    if found := NEW.match(text):
        (tree / found[1]).parent.mkdir(parents=True, exist_ok=True)
        (tree / found[1]).write_text(text[found.end() :], encoding="utf-8")
    elif found := END.match(text):
        path = tree / found[1]
        path.write_text(path.read_text(encoding="utf-8") + text[found.end() :], encoding="utf-8")
    elif found := WITHIN.match(text):
        path, (scope, anchor) = tree / found[1], (found[2] or "", found[3])
        before = path.read_text(encoding="utf-8")
        line_end = before.index("\n", before.index(anchor, before.index(scope))) + 1
        path.write_text(before[:line_end] + text[found.end() :] + before[line_end:], encoding="utf-8")
    elif found := BEFORE.match(text):
        path = tree / found[1]
        before, anchor, after = path.read_text(encoding="utf-8").partition(found[2])
        path.write_text(before + text[found.end() :] + anchor + after, encoding="utf-8")
    return found is not None


def run(command: list[str], tree: Path) -> None:
    """Run a command in the copy, with the packages of this environment."""
    paths = os.pathsep.join(map(str, (tree / "src", tree)))
    environment = os.environ | {"PYTHONPATH": paths, "SPARK_LOCAL_IP": "127.0.0.1"}
    done = subprocess.run(command, cwd=tree, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"


def test_there_are_guides() -> None:
    assert GUIDES.keys() >= {
        *("Add a ranking metric", "Add a kind of online metric", "Add a split rule", "Add a column")
    }


@pytest.mark.slow
@pytest.mark.parametrize("title", GUIDES)
def test_a_guide_done_literally_works(title: str, tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    for name in ("src", "tests", "docs", "conf", "jobs", "benchmarks", "pyproject.toml", "CONTRIBUTING.md"):
        given = REPOSITORY / name
        if given.is_dir():
            shutil.copytree(given, tree / name, ignore=shutil.ignore_patterns("__pycache__", "*.png"))
        else:
            shutil.copy(given, tree / name)
    for language, text in BLOCK.findall(GUIDES[title]):
        if language == "sh":
            for line in text.replace(".venv/bin/python", sys.executable).splitlines():
                run(line.split(), tree)
        elif not apply(text, tree):
            (tree / "see.py").write_text(text, encoding="utf-8")
            run([sys.executable, "see.py"], tree)
