"""The fixture of a chain with a referee and the model beside it, both reset after each test."""

from collections.abc import Iterator

import pytest

from moot.contracts.deployment import deploy_referee
from moot.offchain.chain import Chain, Contract, connect
from tests.attacks.twin import Twin


@pytest.fixture(scope="session")
def deployed() -> Iterator[tuple[Chain, Contract]]:
    """A chain with a referee on it."""
    with connect(accounts=10) as chain:
        yield chain, deploy_referee(chain, chain.accounts[-1])


@pytest.fixture
def referee(deployed: tuple[Chain, Contract]) -> Iterator[Twin]:
    """A referee without jobs, twice: the model and the contract."""
    twin = Twin(*deployed)
    with twin.branch():
        yield twin
