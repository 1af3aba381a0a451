"""All states of a small service, with every invariant and what a client relies on."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.referee.service_search import Search, hasty

QUICK = (
    {"coins": 2, "most_signed": 1, "last_block": 5},
    {"coins": 1, "most_signed": 2, "last_block": 3},
    {"coins": 1, "most_signed": 1, "last_block": 4, "has_batches": True},
    {"coins": 1, "most_signed": 0, "last_block": 6, "has_client": True},
)
LONG = (
    {"coins": 2, "most_signed": 2, "last_block": 3},
    {"coins": 1, "most_signed": 2, "last_block": 4, "has_batches": True},
    {"coins": 1, "most_signed": 1, "last_block": 5, "has_client": True, "has_batches": True},
)


@pytest.fixture(autouse=True)
def _in_haste() -> Iterator[None]:
    with hasty():
        yield


@pytest.mark.parametrize("sizes", QUICK)
def test_no_state_breaks_what_a_client_relies_on(sizes: dict[str, Any]) -> None:
    """Whatever is done, in whatever order, an accepted receipt is covered, or a fault is shown."""
    found = Search(**sizes).run()
    assert found.states > 100
    assert found.refused > found.accepted.total() > 50
    assert found.covered > 0 or not sizes["most_signed"]
    if sizes["most_signed"] == 2:
        assert found.faulty > 0
        assert found.accepted["prove_conflict"] > 0


@pytest.mark.slow
@pytest.mark.parametrize("sizes", LONG)
def test_no_state_of_larger_services_does(sizes: dict[str, Any]) -> None:
    """As above, with more coins, receipts, blocks and calls."""
    assert Search(**sizes).run().states > 10_000
