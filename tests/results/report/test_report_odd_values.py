"""Reports of odd values and of records that another version wrote: there is a page, whatever they hold."""

import copy
import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest

from spark_eval.publishing.local import LocalStore
from spark_eval.results.report import page
from spark_eval.results.report.data import RunFacts
from spark_eval.verbs.report import facts_of

RUNS: Final = ("lists", "clicks", "stages", "others")
ODD: Final = {"inf": math.inf, "-inf": -math.inf, "nan": math.nan, "null": None}


@pytest.fixture(scope="module", params=RUNS)
def facts(request: pytest.FixtureRequest, output: Path) -> RunFacts:
    """A run with all tables; that of lists stands beside the run before."""
    baseline = "before" if request.param == "lists" else None
    return facts_of(LocalStore(output), request.param, baseline)


def write_page(facts: RunFacts) -> None:
    """Make all of the page that depends on data; the library in it takes longer than all chapters."""
    chapters = {name: made for name, make in page.CHAPTERS.items() if (made := make(facts))}
    assert chapters
    for chapter in chapters.values():
        assert all(str(statement) for statement in chapter.statements)
    page.embedded(facts, chapters)
    page.headings_of(facts)


def doubles_of(facts: RunFacts) -> list[tuple[str, str]]:
    """Tables and their columns of doubles."""
    return [
        (table, name)
        for table, rows in facts.tables.items()
        for name in (rows[0] if rows else ())
        if any(isinstance(row[name], float) for row in rows)
    ]


@pytest.mark.parametrize("value", ODD.values(), ids=ODD)
def test_there_is_a_page_whatever_a_double_is(facts: RunFacts, value: float | None) -> None:
    failed = {}
    for table, name in doubles_of(facts):
        rows = [{**row, name: value} if not n % 2 else row for n, row in enumerate(facts.tables[table])]
        try:
            write_page(replace(facts, tables={**facts.tables, table: rows}))
        except Exception as error:
            failed[table, name] = repr(error)
    assert not failed


def paths_of(tree: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path of each key of nested mappings and of the first two elements of lists; others are alike."""
    items = tree.items() if isinstance(tree, dict) else enumerate(tree[:2]) if isinstance(tree, list) else ()
    for key, value in items:
        yield (*path, key)
        yield from paths_of(value, (*path, key))


def changed(tree: Any, path: tuple[Any, ...], *value: Any) -> Any:
    """A copy without what is at a path, or with another value of it."""
    tree = copy.deepcopy(tree)
    *above, last = path
    at = tree
    for key in above:
        at = at[key]
    if value:
        [at[last]] = value
    else:
        del at[last]
    return tree


@pytest.mark.parametrize("value", [(), (None,)], ids=["lacks", "null"])
def test_there_is_a_page_whatever_a_record_lacks_or_has(facts: RunFacts, value: tuple[Any, ...]) -> None:
    failed = {}
    records = {verb: {**record} for verb, record in facts.records.items()}
    for path in paths_of(records):
        if len(path) == 1:
            continue
        try:
            write_page(replace(facts, records=changed(records, path, *value)))
        except Exception as error:
            failed[path] = repr(error)
    assert not failed
