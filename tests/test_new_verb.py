"""The guide to a new verb, done literally: its files go into a copy of the package, and the verb runs."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
from tests.pages.blocks import REPOSITORY, blocks

GUIDE = "docs/architecture.md"
# The first line of a block names its file, and for a part of a file the line that it stands above.
FILE = re.compile(r"(?:# |<!-- )([\w./]+?\.(?:py|yaml|md))(?:, above: (.*?))?(?: -->)?\n")
ALL = """
import sys
from spark_eval.cli.commands import main

for words in sys.stdin.read().splitlines():
    try:
        main(words.split())
    except SystemExit as end:
        print("exit", end.code)
"""
COMMANDS = """\
validate --config conf/repeats.yaml --verb repeats
repeats --config conf/repeats.yaml --run-id first
repeats --config conf/repeats.yaml --run-id first
report --path out --run-id first
status --config conf/repeats.yaml
"""


def apply_guide(home: Path) -> set[str]:
    """Write the files of the guide; return their names."""
    names = set[str]()
    for block in blocks(GUIDE):
        if found := FILE.match(block.text):
            file, text = home / found[1], block.text[found.end() :]
            if found[2] is not None:
                whole = file.read_text(encoding="utf-8")
                assert whole.count(f"\n{found[2]}") == 1, found[2]
                gap = "\n\n" if found[2].startswith("class") else ""
                text = whole.replace(f"\n{found[2]}", f"\n{text}{gap}{found[2]}")
            file.parent.mkdir(exist_ok=True)
            file.write_text(text, encoding="utf-8")
            names.add(found[1])
    return names


def test_a_new_verb_is_two_new_files_of_code_and_parts_of_three_others(tmp_path: Path) -> None:
    shutil.copytree(REPOSITORY / "src", tmp_path / "src")
    names = apply_guide(tmp_path)
    code = {name for name in names if name.startswith("src/")}
    assert names - code == {"conf/repeats.yaml", "docs/repeats.md"}
    assert {name for name in code if not (REPOSITORY / name).exists()} == {
        "src/spark_eval/splits/repeats.py",
        "src/spark_eval/verbs/repeats.py",
    }
    assert len(code) == 5
    ruff = [sys.executable, "-m", "ruff", "--config", str(REPOSITORY / "pyproject.toml")]
    files = sorted(name for name in names if name.endswith(".py"))
    for how in (["check"], ["format", "--check"]):
        done = subprocess.run(
            [*ruff[:3], *how, *ruff[3:], *files], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout


@pytest.mark.slow
def test_a_new_verb_runs_from_the_command_line(tmp_path: Path) -> None:
    shutil.copytree(REPOSITORY / "src", tmp_path / "src")
    apply_guide(tmp_path)
    pairs = [(1, 7)] * 5 + [(1, 8)] * 2 + [(2, 7)] * 2 + [(3, 9), (4, 9), (None, 9)]
    log = pd.DataFrame(pairs, columns=["userId", "item"]).astype("Int64")
    log.assign(timestamp=pd.Timestamp("2024-05-01")).to_parquet(tmp_path / "log.parquet", index=False)
    done = subprocess.run(
        [sys.executable, "-c", ALL],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(tmp_path / "src")},
        input=COMMANDS,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert re.findall(r"^exit (\d)", done.stdout, re.MULTILINE) == ["0"] * 5, done.stdout + done.stderr
    assert "inputs checked: interactions" in done.stdout
    assert len(re.findall(r"^\W+rows\W+pairs\W+$", done.stdout, re.MULTILINE)) == 2
    assert "already published, nothing to do" in done.stdout
    rows = pd.read_parquet(tmp_path / "out" / "repeats")[["n_rows", "n_pairs"]]
    assert rows.values.tolist() == [[1, 2], [2, 2], [3, 1]]
    counts = pd.read_parquet(tmp_path / "out" / "accounting").set_index("outcome")["rows"]
    assert counts.to_dict() == {"in": 12, "used": 11, "dropped": 1}
    page = (tmp_path / "out" / "report" / "first.html").read_text(encoding="utf-8")
    assert "Other tables" in page
