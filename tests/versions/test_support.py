"""The table of versions: one in both documents, of the lines that are tried, within what pip allows."""

import re
import tomllib

from tests.versions import matrix

RANGE = re.compile(r"([A-Za-z]+)>=([0-9.]+)(?:,<([0-9.]+))?")


def numbers(version: str) -> tuple[int, ...]:
    """A version to compare with; zeros at its end do not count."""
    return tuple(map(int, re.sub(r"(\.0)+$", "", version).split(".")))


def rows(table: str) -> list[list[str]]:
    """The cells of a table, below its header."""
    return [line.strip("| ").split(" | ") for line in table.splitlines()[2:]]


def test_the_page_shows_a_table_of_all_lines() -> None:
    table = matrix.quoted_table()
    tried = [[line.pyspark, line.python, line.pandas, line.pyarrow, line.numpy] for line in matrix.lines()]
    assert [row[:5] for row in rows(table)] == tried


def test_all_lines_passed_with_the_same_values() -> None:
    table = matrix.quoted_table()
    assert {"passed" in tests and "failed" not in tests for *_, tests, _, _ in rows(table)} == {True}
    # Tables may have had other columns on another day.
    values_of_days = {(day, values) for *_, values, day in rows(table)}
    assert len({day for day, _ in values_of_days}) == len(values_of_days)


def test_pip_allows_what_was_tried_and_nothing_below() -> None:
    project = tomllib.loads((matrix.REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    ranges = {name: bounds for name, *bounds in RANGE.findall(" ".join(project["dependencies"]))}
    for name in ("pyspark", "pandas", "pyarrow", "numpy"):
        tried = [numbers(getattr(line, name)) for line in matrix.lines()]
        lowest, above = ranges[name]
        assert min(tried) == numbers(lowest), name
        assert not above or max(tried) < numbers(above), name
    # The next minor release of Spark has not been tried.
    newest = max(numbers(line.pyspark)[:2] for line in matrix.lines())
    assert numbers(ranges["pyspark"][1]) == (newest[0], newest[1] + 1)


def test_all_that_each_line_runs_is_there() -> None:
    for name in matrix.TESTS:
        file, _, function = name.partition("::")
        assert function in (matrix.REPOSITORY / file).read_text(encoding="utf-8"), name
