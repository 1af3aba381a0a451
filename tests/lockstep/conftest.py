"""A chain with a referee on it, brought back to its beginning after each test."""

from collections.abc import Iterator

import pytest

from contracts.deployment import deploy_referee
from offchain.chain import Chain, Contract, connect
from tests.lockstep.harness import Lockstep


@pytest.fixture(scope="session")
def deployed() -> Iterator[tuple[Chain, Contract, dict[str, list[int]]]]:
    """A chain, a referee on it, and the gas of all calls by their names."""
    with connect(accounts=10) as chain:
        gas: dict[str, list[int]] = {}
        yield chain, deploy_referee(chain, chain.accounts[-1]), gas


@pytest.fixture
def referee(deployed: tuple[Chain, Contract, dict[str, list[int]]]) -> Iterator[Lockstep]:
    """A new referee, twice: the model and the contract."""
    lockstep = Lockstep(*deployed)
    with lockstep.branch():
        yield lockstep
