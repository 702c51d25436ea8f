"""Structure of the package, where a script can check it: folders, floors, sizes, no actions in transforms.

Names are unique within their module only: a module is a namespace, and two of them may share a plain word.
A module has no minimum size. A private helper needs no docstring where its name and types say all.
"""

import ast
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

import pytest
import yaml

REPOSITORY = Path(__file__).parents[1]
SOURCE = REPOSITORY / "src" / "spark_eval"
MODULES: Final = sorted(path for path in SOURCE.rglob("*.py"))
# Modules that make DataFrames of DataFrames; whoever calls them decides when a query runs.
TRANSFORMS: Final = {
    *("evaluation.exchange", "evaluation.specs"),
    *("predictions.measure", "runners.user_buckets"),
    *("splits.label", "splits.specs"),
    *("tables.inputs", "tables.partitions"),
}
TESTS = REPOSITORY / "tests"
# Folders of tests of more than one package, and what they have in common.
RINGS: Final = {
    "airflow": "the DAG in a real Airflow",
    "benchmarks": "the programs of benchmarks/",
    "cluster": "Spark's processes on several nodes",
    "examples": "the notebooks of examples/",
    "faults": "what breaks a run, from its input to its publication",
    "freeze": "what users rely on, in files",
    "pages": "README and docs/",
    "parity": "other libraries, in environments of their own",
    "stores": "servers of stores on this machine",
    "setup": "the environment and the wheel",
    "versions": "releases of Spark, Python and libraries",
}
# Modules that import each other in a circle, over all imports. None may be added.
CIRCLES: Final[tuple[set[str], ...]] = ()
# Imports of this package within functions. None may be added.
MOST_INNER_IMPORTS: Final = 15
# Modules that only some runs need: loading them would take a twentieth of the start of all others.
LATE: Final = {"runs.verdict", "verbs.report", "results.report.page", "results.report.plots"}
# Folders that may have more than 14 modules.
WIDE: Final = {"comparison": 15, "experiments": 15, "results.report": 15, "tables": 16}
# What runs a query, or brings rows to the driver.
ACTIONS: Final = {"collect", "toPandas", "toArrow", "toLocalIterator", "take", "first", "head", "foreach"}


@cache
def trees() -> dict[Path, ast.Module]:
    """Each module, parsed for the tests alone: all processes collect them, and one runs them."""
    return {path: ast.parse(path.read_text(encoding="utf-8")) for path in MODULES}


def name_of(path: Path) -> str:
    return ".".join(path.relative_to(SOURCE).with_suffix("").parts)


def room_of(path: Path) -> str:
    """The folder of a module, or the module itself where it stands in the root."""
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imports_of(tree: ast.AST) -> Iterator[str]:
    """The rooms that a module imports from."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("spark_eval"):
            _, *rest = (node.module or "").split(".")
            yield from [rest[0]] if rest else [alias.name for alias in node.names]


def modules_imported() -> dict[str, set[str]]:
    """Return the modules that each module imports: at its top, within functions, and by name.

    Imports for the type checker alone do not count.
    """
    names = {name_of(path).removesuffix(".__init__") for path in MODULES}
    found: dict[str, set[str]] = defaultdict(set)
    for path, tree in trees().items():
        module = name_of(path).removesuffix(".__init__")
        for node in statements_of(tree):
            imported: list[str] = []
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("spark_eval."):
                imported = [node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names)]
            elif isinstance(node, ast.ImportFrom) and node.module == "spark_eval":
                imported = [f"spark_eval.{alias.name}" for alias in node.names]
            found[module] |= {name.removeprefix("spark_eval.") for name in imported} & names
        if "import_module" in path.read_text(encoding="utf-8"):
            found[module] |= {name.removeprefix("spark_eval.") for name in imported_by_name(tree)} & names
    return found


def statements_of(tree: ast.AST) -> Iterator[ast.AST]:
    """Every statement, but for those that the type checker alone reads."""
    for part in ("body", "orelse", "finalbody", "handlers", "cases"):
        for node in getattr(tree, part, ()):
            if not isinstance(node, ast.If) or last_name(node.test) != "TYPE_CHECKING":
                yield node
                yield from statements_of(node)


def imported_by_name(tree: ast.AST) -> Iterator[str]:
    """The names that `import_module` is called with."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and last_name(node.func) == "import_module":
            yield from [str(name.value) for name in node.args[:1] if isinstance(name, ast.Constant)]


def last_name(node: ast.expr) -> str:
    """Return a name, or the last part of a dotted one."""
    return str(getattr(node, "attr", getattr(node, "id", "")))


def reached(start: str, graph: dict[str, set[str]]) -> set[str]:
    """Return the modules that a module imports, directly or by others."""
    seen, waiting = set[str](), [start]
    while waiting:
        new = graph[waiting.pop()] - seen
        seen |= new
        waiting += new
    return seen


def test_modules_import_each_other_in_no_circle() -> None:
    graph = modules_imported()
    below = {name: reached(name, graph) for name in list(graph)}
    circles = {frozenset(other for other in below[name] if name in below[other]) | {name} for name in below}
    circles = {circle for circle in circles if len(circle) > 1}
    assert circles == set(map(frozenset, CIRCLES))


def loads_spark(module: str, of_top: dict[str, set[str]]) -> bool:
    """Return True if a module imports pyspark at its top, itself or by others of this package."""
    return any("pyspark" in of_top[name] for name in {module, *reached(module, of_top)})


def imports_at_top() -> dict[str, set[str]]:
    """Return the modules that each module imports at its top, with ``pyspark`` for all of Spark's."""
    graph = defaultdict[str, set[str]](set)
    for path, tree in trees().items():
        names = [(node.module or "") for node in tree.body if isinstance(node, ast.ImportFrom)]
        names += [alias.name for node in tree.body if isinstance(node, ast.Import) for alias in node.names]
        own = {name.removeprefix("spark_eval.") for name in names if name.startswith("spark_eval.")}
        of_spark = {"pyspark" for name in names if name.split(".")[0] == "pyspark"}
        graph[name_of(path).removesuffix(".__init__")] = own | of_spark
    return graph


def test_imports_within_functions_keep_spark_and_pages_out_of_a_start() -> None:
    graph = imports_at_top()
    inner = {
        f"{name_of(path)}, line {node.lineno}": (node.module or "").removeprefix("spark_eval.")
        for path, tree in trees().items()
        for function in ast.walk(tree)
        if isinstance(function, ast.FunctionDef)
        for node in statements_of(function)
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "spark_eval"
    }
    assert {
        place: name for place, name in inner.items() if not (name in LATE or loads_spark(name, graph))
    } == {}
    assert len(inner) <= MOST_INNER_IMPORTS, "\n".join(sorted(inner))


def test_few_modules_are_in_the_root_and_in_each_folder() -> None:
    modules = defaultdict(list)
    for path in MODULES:
        modules[path.parent].append(path.name)
    assert len(modules.pop(SOURCE)) <= 8
    del modules[SOURCE / "verbs"]  # a module for each verb
    sizes = {name_of(folder): len(names) for folder, names in modules.items()}
    assert {name: n for name, n in sizes.items() if n > WIDE.get(name, 14)} == {}


def test_no_room_is_higher_than_the_eleventh_floor() -> None:
    below = defaultdict(set)
    for path, tree in trees().items():
        if path != SOURCE / "__init__.py":
            below[room_of(path)].update(set(imports_of(tree)) - {room_of(path)})

    @cache
    def floor(room: str) -> int:
        return 1 + max(map(floor, below[room]), default=0)

    # The jobs stand on the command line.
    assert max(map(floor, list(below))) < 11


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_a_module_has_at_most_500_lines(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) <= 500


def test_every_test_is_in_the_folder_of_the_package_that_it_tests() -> None:
    """Those of modules in the root, and of the tree itself, stand in ``tests``."""
    folders = {path.parent.relative_to(TESTS) for path in TESTS.rglob("test_*.py")}
    of_rings = {folder for folder in folders if folder.parts and folder.parts[0] in RINGS}
    assert {folder.parts[0] for folder in of_rings} == set(RINGS), "a ring without a test"
    assert {str(folder) for folder in folders - of_rings if not (SOURCE / folder).is_dir()} == set()
    packages = {path.parent.name for path in SOURCE.glob("*/__init__.py")}
    assert packages - {str(folder) for folder in folders} == set(), "a package without tests"


def actions_in(tree: ast.AST) -> set[str]:
    """Return the calls below a node that run a query."""
    calls = {
        node.func.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
    }
    return calls & ACTIONS


def test_what_makes_frames_of_frames_runs_nothing() -> None:
    assert set(map(name_of, MODULES)) >= TRANSFORMS
    of_modules = {
        name_of(path): actions_in(tree) for path, tree in trees().items() if name_of(path) in TRANSFORMS
    }
    assert {name: calls for name, calls in of_modules.items() if calls} == {}


def test_a_function_that_returns_a_frame_runs_nothing() -> None:
    makers = {
        f"{name_of(path)}.{node.name}": actions_in(node)
        for path, tree in trees().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef)
        and node.returns is not None
        and ast.unparse(node.returns).strip("'\"") in ("DataFrame", "list[DataFrame]", "Rows", "list[Rows]")
    }
    assert "evaluation.side_tables.counted_train" in makers
    assert {name: calls for name, calls in makers.items() if calls} == {}


def test_randomness_is_a_hash_and_no_window_holds_a_whole_table() -> None:
    called = {
        node.attr
        for tree in trees().values()
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id in ("F", "Window")
    }
    assert not called & {"rand", "randn", "uuid", "shuffle", "orderBy", "rowsBetween", "rangeBetween"}


def test_commits_are_checked_by_what_make_check_runs() -> None:
    makefile = (REPOSITORY / "Makefile").read_text(encoding="utf-8")
    recipe = makefile.split("\ncheck:")[1].split("\n\n")[0].splitlines()[1:]
    commands = [
        line.strip().removeprefix("@").replace("$(in_venv)", ".venv/bin/python -m") for line in recipe
    ]
    hooks = yaml.safe_load((REPOSITORY / ".pre-commit-config.yaml").read_text(encoding="utf-8"))
    assert [hook["entry"] for hook in hooks["repos"][0]["hooks"]] == commands


def test_what_is_cited_is_this_version() -> None:
    citation = yaml.safe_load((REPOSITORY / "CITATION.cff").read_text(encoding="utf-8"))
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert (citation["version"], citation["license"]) == (project["version"], project["license"])


def test_decisions_are_numbered_without_gaps() -> None:
    pages = sorted((REPOSITORY / "docs" / "decisions").glob("*.md"))
    assert [int(page.name[:4]) for page in pages] == list(range(1, len(pages) + 1))
    for page in pages:
        assert page.read_text(encoding="utf-8").startswith(f"# {page.name[:4]} "), page


def test_it_is_described_alike_wherever_it_is_described() -> None:
    about = "valuation of recommender systems, offline and online, in one process or on"
    described = ("pyproject.toml", "CITATION.cff", "mkdocs.yml", "src/spark_eval/__init__.py")
    for name in described:
        assert about in (REPOSITORY / name).read_text(encoding="utf-8"), name
