"""The fixture of a program with one run by an honest provider and one by each kind of cheat."""

import pytest

from moot.offchain.providers.run import Run
from tests.end_to_end.fixtures import LIARS, Case, draw_cheat, get_case

PROGRAM = "mlp"


@pytest.fixture(scope="session")
def case() -> Case:
    """A program, run honestly."""
    return get_case(PROGRAM)


@pytest.fixture(scope="session")
def liars(case: Case) -> dict[str, Run]:
    """A run of every cheat, by name; no two claim the same."""
    runs = {f"{name}-1": draw_cheat(case, name, seed) for seed, name in enumerate(LIARS, start=12)}
    assert len({cheating.history.top for cheating in runs.values()}) == len(LIARS)
    return runs
