"""What calls are offered is measured, with a margin that covers refunds and longer data."""

import math
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from moot.offchain.chain.receipts import GAS_LIMIT, Address, Transaction
from moot.offchain.disputes.referee.crowds import BLOCK_GAS_SHARE, count_calls
from moot.offchain.disputes.referee.gas import (
    END_GAS,
    MATCH_GAS,
    MEASURED_BYTES,
    MOST_GAS,
    MOST_SIDE_MOVES,
    MOVE_GAS,
    calculate_crowd_gas,
    calculate_floor,
    calculate_gas_limit,
    offer_gas,
)
from moot.sim.gas.snapshot import NAME, Line, read

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
    moves = {*MOST_GAS} - {"open_job", "challenge", "register", "show_chunk", "show_operator"}
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


DEAR = ("enter_claimed", "enter_claimed", "enter_tensor", "enter_tensor", "pick_element", "leaf")
"""The moves that a side makes so often in a match."""


def add_margin(gas: int) -> int:
    """Return three eighths more, rounded up."""
    return math.ceil(gas * 11 / 8)


@example(call="take", length=2_048, zeros=0)
@example(call="leaf", length=2_049, zeros=0)
@example(call="leaf", length=5_000, zeros=9)
@given(call=st.sampled_from(sorted(MOST_GAS)), length=st.integers(0, 9_000), zeros=st.integers(0))
def test_an_offer_is_the_measured_gas_its_margin_and_its_longer_data(
    call: str, length: int, zeros: int
) -> None:
    """What is known of no call is offered a transaction's limit, and none is offered more."""
    zeros %= length + 1
    data = bytes(zeros) + b"\x01" * (length - zeros)
    floor = 21_000 + 10 * (zeros + 4 * (length - zeros))
    assert calculate_floor(data) == floor
    wanted = add_margin(MOST_GAS[call]) + 40 * max(0, length - 2_048)
    assert calculate_gas_limit(call, data) == max(wanted, floor)
    assert calculate_gas_limit(call, b"\x01" * 2**20) == GAS_LIMIT
    assert calculate_gas_limit("unknown", data) == GAS_LIMIT


def test_a_match_and_a_crowd_cost_what_their_calls_cost() -> None:
    """A match: its beginning and 24 moves; a member: a match, its margins and another's ending."""
    dear = sum(MOST_GAS[call] for call in DEAR)
    match = MOST_GAS["start_match"] + dear + 18 * MOST_GAS["pick_segment"]
    job = sum(MOST_GAS[call] for call in ("commit", "reveal", "settle", "collect"))
    liar = match + add_margin(dear) - dear
    others = add_margin(MOST_GAS["start_match"] + MOST_GAS["timeout"])
    assert (match, add_margin(MOST_GAS["leaf"])) == (MATCH_GAS, MOVE_GAS)
    assert MOST_GAS["settle"] + MOST_GAS["collect"] == END_GAS
    for crowd in (0, 1, 7):
        assert calculate_crowd_gas(crowd) == add_margin(job) + crowd * (liar + others)


def test_an_offer_changes_nothing_but_the_gas() -> None:
    """What is sent, by whom and to whom stays as it is."""
    payee = Address("0x" + "0a" * 20)
    call = Transaction(1, "leaf", payee, payee, b"\x01" * 3_000, 7, 0)
    assert offer_gas(call) == replace(call, gas_limit=calculate_gas_limit("leaf", call.data))
