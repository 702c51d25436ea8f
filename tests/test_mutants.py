"""The mutants of ``make mutants`` change code that is there."""

from pathlib import Path

from tests.mutants import MUTANTS


def test_every_mutant_changes_the_code_in_one_place() -> None:
    assert [str(mutant) for mutant in MUTANTS if not mutant.is_current] == []
    assert len(set(MUTANTS)) == len(MUTANTS) > 40
    tests = Path(__file__).parent
    assert [one for mutant in MUTANTS for one in mutant.tests.split() if not (tests / one).exists()] == []
