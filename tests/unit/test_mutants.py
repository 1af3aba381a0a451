"""The mutants' generator, and the reasons for those that survive."""

import pytest

from moot.offchain.arithmetic.table import ARITHMETICS
from tests.mutants.generate import make_mutants
from tests.mutants.run import SUBJECTS, list_mutants, read_reasons
from tests.mutants.semantic import make_semantic

SOURCE = """
LIMIT = 2


def move(turn, count):
    require(count <= LIMIT, "too many")
    turn.level -= 1
    turn.rest >>= 4
    return turn
"""


def test_each_operator_and_statement_is_changed_once() -> None:
    """Comparisons and numbers have their mutants; checks and assignments are left out once."""
    mutants = list(make_mutants("turns.py", SOURCE))
    changes = [(m.function, m.name.split(" | ")[1]) for m in mutants]
    assert sorted(changes) == [
        ("", "2 -> 3"),
        ("move", "1 -> 0"),
        ("move", "1 -> 2"),
        ("move", "4 -> 5"),
        ("move", "<= -> <"),
        ("move", "<= -> >"),
        ("move", "without"),
        ("move", "without"),
        ("move", "without"),
    ]
    texts = {m.text for m in mutants}
    assert len(texts) == len(mutants)
    assert SOURCE not in texts


@pytest.mark.parametrize("subject", SUBJECTS)
def test_no_two_mutants_are_alike(subject: str) -> None:
    """No mutant is counted twice, by its name or by what it changes."""
    mutants = list(list_mutants(subject, None))
    assert len({m.name for m in mutants}) == len(mutants)
    assert len({(m.file, m.text) for m in mutants}) == len(mutants)


def test_reasons_are_of_mutants_that_there_are() -> None:
    """Whoever changes a line changes the reasons why its mutants survive."""
    listed = [list_mutants(subject, None) for subject in SUBJECTS]
    # A patch of semantic.json names the file of every arithmetic.
    listed += [list_mutants(it, None, make_semantic) for it in SUBJECTS if it not in ARITHMETICS]
    names = {mutant.name for mutants in listed for mutant in mutants}
    assert set(read_reasons()) <= names
