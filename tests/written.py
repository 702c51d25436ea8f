"""Files that follow from the code: ``python -m tests.written`` writes them, and tests compare them.

A page has its generated parts between ``<!-- from the code: NAME -->`` and ``<!-- to here -->``.
"""

import ast
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final

from spark_eval.cli.metric_tables import markdown
from spark_eval.runs.verbs import VERBS

REPOSITORY: Final = Path(__file__).parents[1]
SOURCE: Final = REPOSITORY / "src" / "spark_eval"
PART: Final = re.compile(r"(<!-- from the code: (\w+) -->\n).*?(<!-- to here -->)", re.DOTALL)
JOB: Final = '''\
"""spark-submit jobs/{verb}.py --config FILE ...: equivalent to ``spark-eval {verb}``."""

import sys

from spark_eval.cli.commands import main

if __name__ == "__main__":
    main(["{verb}", *sys.argv[1:]])
'''


def layers() -> str:
    """Return the floors of the import contract, the highest first, with what each folder is."""
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = project["tool"]["importlinter"]["contracts"]
    house = next(one for one in contracts if one.get("containers") == ["spark_eval"])
    floors = [re.split(r"\s*[|:]\s*", floor) for floor in house["layers"]]
    rows = [
        [room, str(len(floors) - above), first_sentence(room)]
        for above, rooms in enumerate(floors)
        for room in rooms
    ]
    return markdown(("folder or module", "floor", "is"), rows)


def first_sentence(room: str) -> str:
    """Return the first sentence of the docstring of a folder or a module."""
    folder = SOURCE / room
    file = folder / "__init__.py" if folder.is_dir() else folder.with_suffix(".py")
    text = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or ""
    return " ".join(text.partition("\n\n")[0].split()).replace("``", "`").removesuffix(".")


def verbs() -> str:
    """Return a row per verb that makes a run: what it reads, its phases, what it publishes."""
    rows = [
        [
            verb.name,
            ", ".join(f"`{name}`" for name in verb.sections),
            ", ".join(verb.phases),
            ", ".join(f"`{table.name}`" for table in verb.tables),
        ]
        for verb in VERBS.values()
    ]
    return markdown(("verb", "sections of the config", "phases", "publishes"), rows)


PARTS: Final[Mapping[str, Callable[[], str]]] = {"layers": layers, "verbs": verbs}
PAGES: Final = ("docs/architecture.md",)


def written() -> Iterator[tuple[Path, str]]:
    """Yield each file that follows from the code, wholly or in parts, with its text."""
    for verb in [*VERBS, "report"]:
        yield REPOSITORY / "jobs" / f"{verb}.py", JOB.format(verb=verb)
    for name in PAGES:
        page = REPOSITORY / name
        text = page.read_text(encoding="utf-8")
        yield page, PART.sub(lambda found: f"{found[1]}\n{PARTS[found[2]]()}\n{found[3]}", text)


if __name__ == "__main__":
    for file, text in written():
        file.write_text(text, encoding="utf-8")
