"""Receipts and their service, on the models and on the bytecode in lock-step."""

import pytest

from moot.contracts.model.types import MIN_BOND_WEI
from moot.contracts.reasons import Reason
from tests.referee.services import (
    ACCOUNTS,
    OTHER,
    ChallengeContract,
    Services,
    make_receipt,
)


@pytest.fixture
def both() -> Services:
    """A service, twice."""
    return Services(ChallengeContract(ACCOUNTS))


def test_a_first_try(both):
    assert both.stake(3 * MIN_BOND_WEI) is None
    assert both.challenge(make_receipt()) is None
    assert both.refute(make_receipt(answer=OTHER)) is None
    assert both.stake(1) == Reason.AT_FAULT
