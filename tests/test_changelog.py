"""The changelog has the form that its readers, and docs/releases.md, count on."""

import re
import tomllib
from itertools import pairwise
from pathlib import Path
from typing import Final

REPOSITORY: Final = Path(__file__).parents[1]
TEXT: Final = (REPOSITORY / "CHANGELOG.md").read_text(encoding="utf-8")
SECTIONS: Final = ("Added", "Changed", "Fixed", "Removed", "Breaking", "Numbers")
# The heading of each version, and all below it.
VERSIONS: Final = [
    (part.partition("\n")[0], part.partition("\n")[2])
    for part in re.split(r"^## ", TEXT, flags=re.MULTILINE)[1:]
]


def sections_of(text: str) -> dict[str, str]:
    """The sections of a version, which may begin with what it does."""
    parts = re.split(r"^### ", text, flags=re.MULTILINE)[1:]
    return {part.partition("\n")[0]: part.partition("\n")[2].strip() for part in parts}


def test_versions_come_newest_first_with_their_dates() -> None:
    unreleased, *released = (heading for heading, _ in VERSIONS)
    assert unreleased == "Unreleased"
    found = [re.fullmatch(r"(\d+)\.(\d+)\.(\d+) \((\d{4}-\d\d-\d\d)\)", heading) for heading in released]
    assert None not in found
    keys = [(tuple(map(int, match.groups()[:3])), match[4]) for match in found if match]
    assert all(newer[0] > older[0] and newer[1] >= older[1] for newer, older in pairwise(keys))
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert released[0].split()[0] == project["version"]


def test_every_version_has_known_sections_in_one_order_and_none_is_empty() -> None:
    for heading, text in VERSIONS:
        sections = sections_of(text)
        assert list(sections) == [name for name in SECTIONS if name in sections], heading
        assert all("\n- " in f"\n{lines}" for lines in sections.values()), heading
        assert text.count("\n### ") + text.startswith("### ") == len(sections), f"{heading}: a section twice"


def test_every_line_is_in_a_section_but_for_the_summary_of_a_version() -> None:
    for heading, text in VERSIONS:
        above = text.partition("### ")[0]
        assert heading != "Unreleased" or not above.strip()


def test_the_policy_names_every_section_of_the_changelog() -> None:
    policy = (REPOSITORY / "docs" / "releases.md").read_text(encoding="utf-8")
    assert {name for name in SECTIONS if name not in policy} == set()
