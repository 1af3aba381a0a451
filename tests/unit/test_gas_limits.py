"""What calls are offered is measured, with a margin that covers refunds and longer data."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offchain.chain.receipts import GAS_LIMIT
from offchain.disputes.crowds import BLOCK_GAS_SHARE, count_calls
from offchain.disputes.gas import (
    END_GAS,
    MATCH_GAS,
    MEASURED_BYTES,
    MOST_GAS,
    MOST_SIDE_MOVES,
    calculate_crowd_gas,
    calculate_floor,
    calculate_gas_limit,
)
from sim.gas.snapshot import NAME, Line, read

SNAPSHOT = Path(__file__).parents[2] / NAME
REFUNDED = 5
"""A refund is at most one part in so many of the gas before it (EIP-3529)."""
BLOCK_GAS = 30_000_000


def get_call(line: Line) -> str:
    """Return the name of the function that a line is about."""
    return line.call.rpartition(".")[2].removesuffix("-longest").removesuffix("-later")


def read_most() -> dict[str, int]:
    """Return the most gas of each call in any scenario."""
    most: dict[str, int] = {}
    for line in read(SNAPSHOT):
        call = get_call(line)
        most[call] = max(most.get(call, 0), line.maximum)
    return most


def test_gas_of_a_call_is_the_most_of_the_snapshot() -> None:
    """The table is the recorded one, for every call that it has, and it has the referee's."""
    most = read_most()
    assert {call: most[call] for call in MOST_GAS} == MOST_GAS
    assert {get_call(line) for line in read(SNAPSHOT) if "." in line.call} <= {*MOST_GAS}


def test_what_is_offered_is_enough_before_refunds() -> None:
    """A call needs at first what it gets back at its end, and is offered that and more."""
    for line in read(SNAPSHOT):
        call = get_call(line)
        if call in MOST_GAS:
            assert calculate_gas_limit(call, b"") * (REFUNDED - 1) > line.maximum * REFUNDED


@given(call=st.sampled_from(sorted(MOST_GAS)), zeros=st.integers(0, 2**14), more=st.integers(0, 9))
def test_longer_data_are_offered_more(call: str, zeros: int, more: int) -> None:
    """What is offered grows with the data, and never falls below the floor of EIP-7623."""
    data = bytes(zeros) + b"\x01" * zeros
    offered = calculate_gas_limit(call, data)
    assert calculate_floor(data) <= max(offered, GAS_LIMIT)
    assert offered <= calculate_gas_limit(call, data + b"\xff" * more) <= GAS_LIMIT


@pytest.mark.parametrize("share", [1, 2, 10])
def test_no_call_is_kept_out_by_what_it_asks_for(share: int) -> None:
    """Each call of a match fits what is left of a block that is 95% full.

    As many as a side counts on fit its share of a block. What a call asks for and does not use
    makes it cheap to keep it out.
    """
    data = bytes(MEASURED_BYTES)
    moves = {*MOST_GAS} - {"open_job", "register", "show_chunk", "show_operator"}
    assert max(calculate_gas_limit(it, data) for it in moves) < BLOCK_GAS // 20
    calls = count_calls(BLOCK_GAS // share)
    dearest = max(calculate_gas_limit(it, data) for it in moves)
    assert calls * dearest <= BLOCK_GAS // share // BLOCK_GAS_SHARE


def test_no_side_of_a_recorded_match_pays_more_than_a_match_may() -> None:
    """All calls of both sides of any recorded match are less than twice the gas of one side."""
    around = {"open_job", "commit", "reveal", "join", "settle", "collect"}
    totals: dict[str, int] = {}
    for line in read(SNAPSHOT):
        call = line.call.partition(".")[2]
        if call and call not in around and line.scenario not in {"two-liars", "two-members"}:
            totals[line.scenario] = totals.get(line.scenario, 0) + line.count * line.median
    assert max(totals.values()) < 2 * MATCH_GAS


def test_a_crowd_costs_at_least_the_matches_with_it() -> None:
    """What is set aside grows with the crowd by a match and more, and covers the job."""
    assert calculate_crowd_gas(0) > END_GAS + MOST_GAS["commit"] + MOST_GAS["reveal"]
    for crowd in range(5):
        assert calculate_crowd_gas(crowd + 1) - calculate_crowd_gas(crowd) > MATCH_GAS
    assert (MOST_SIDE_MOVES + 1) * max(MOST_GAS["leaf"], MOST_GAS["enter_tensor"]) > MATCH_GAS
