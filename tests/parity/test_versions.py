"""Where a text names a version of a library, it is the one that the presets were compared with."""

import re
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
LOCK = (REPOSITORY / "requirements" / "parity.txt").read_text()
# How texts name the distributions of the lock.
NAMES = {
    "bcubed-metrics": "bcubed-metrics",
    "er-evaluation": "er-evaluation",
    "evidently": "evidently",
    "lenskit": "lenskit",
    "pytrec_eval": "pytrec-eval-terrier",
    "pytrec_eval-terrier": "pytrec-eval-terrier",
    "ranx": "ranx",
    "recommenders": "recommenders",
    "rectools": "rectools",
    "replay": "replay-rec",
    "replay-rec": "replay-rec",
    "scikit-learn": "scikit-learn",
    "statsmodels": "statsmodels",
}
TEXTS = [
    *REPOSITORY.glob("*.md"),
    *(REPOSITORY / "docs").rglob("*.md"),
    *(REPOSITORY / "src").rglob("*.py"),
]
# A name, perhaps in other letters, and a version behind it.
MENTION = re.compile(
    rf"\b({'|'.join(sorted(NAMES, key=len, reverse=True))})`? v?(\d+\.\d[\d.]*\d)", re.IGNORECASE
)


def locked(distribution: str) -> str:
    """Its version in the lock."""
    found = re.search(rf"^{re.escape(distribution)}==(\S+)", LOCK, re.MULTILINE)
    assert found is not None, distribution
    return found[1]


@pytest.mark.parametrize("text", TEXTS, ids=lambda text: str(text.relative_to(REPOSITORY)))
def test_versions_named_are_those_compared_with(text: Path) -> None:
    named = {(name, number) for name, number in MENTION.findall(text.read_text())}
    assert {(name, locked(NAMES[name.lower()])) for name, _ in named} == named


def test_a_version_is_recognised() -> None:
    assert MENTION.findall("RePlay 0.22.0, `ranx` 0.3.21; LensKit's 3 metrics") == [
        ("RePlay", "0.22.0"),
        ("ranx", "0.3.21"),
    ]
