"""The rule for clocks and crowds, against an adversary that times a crowd's moves at its best."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from random import Random

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from moot.contracts.model.types import MAX_BLOCKS
from moot.offchain.disputes.referee.crowds import (
    SIDE_MOVES,
    Pace,
    _count_for_ever,
    _count_in_all,
    calculate_least_clock,
    count_calls,
    count_censored,
    count_withstood,
)
from moot.offchain.disputes.referee.gas import MOST_SIDE_MOVES, MOVE_GAS
from moot.offchain.disputes.referee.terms import Stakes

ENDLESS = 10**9


@dataclass(slots=True)
class Clock:
    """The clock of one match: the blocks that its honest side has left, and whose turn it is."""

    spare: int
    left: int
    deadline: int = 0
    moved: int = 0
    is_ours: bool = False


Timing = Callable[[int, int, list[Clock], Random], bool]
"""Whether the liar of a match (by its number) moves in a block."""


def at_once(block: int, number: int, clocks: list[Clock], rng: Random) -> bool:
    """Move as soon as one can."""
    del block, number, clocks, rng
    return True


def together(block: int, number: int, clocks: list[Clock], rng: Random) -> bool:
    """Wait until nobody is behind, and then move with all others."""
    del block, number, rng
    return not any(clock.is_ours for clock in clocks)


def half_together(block: int, number: int, clocks: list[Clock], rng: Random) -> bool:
    """Half of the crowd presses, the others strike when the clocks are low."""
    del rng
    low = min(clock.spare for clock in clocks)
    return number % 2 == 0 or low <= 2 or block % 50 == 0


def by_chance(block: int, number: int, clocks: list[Clock], rng: Random) -> bool:
    """Move now and then."""
    del block, number, clocks
    return rng.random() < 0.3


TIMINGS = (at_once, together, half_together, by_chance)


def is_survived(
    crowd: int, clock: int, increment: int, pace: Pace, timing: Timing, moves: int, blocks: int
) -> bool:
    """Play the clocks of a crowd's matches; return whether every answer came in time."""
    rng = Random(crowd)
    clocks = [Clock(clock, moves) for _ in range(crowd)]
    for block in range(blocks):
        waiting = [c for c in clocks if c.is_ours and block >= c.moved + pace.delay_blocks]
        for one in sorted(waiting, key=lambda c: c.deadline)[: pace.calls]:
            if block > one.deadline:
                return False
            one.spare = min(clock, one.deadline - block + increment)
            one.is_ours, one.left = False, one.left - 1
        moving = [timing(block, number, clocks, rng) for number in range(crowd)]
        for one, is_moving in zip(clocks, moving, strict=True):
            if not one.is_ours and one.left and is_moving:
                one.is_ours, one.moved, one.deadline = True, block, block + one.spare
    return all(block <= one.deadline for one in clocks if one.is_ours)


CASES = [
    (clock, increment, Pace(calls, delay))
    for clock in (1, 5, 16, 64)
    for increment in (1, 2, 4, 7)
    for calls in (1, 3)
    for delay in (1, 2, 3)
    if increment <= clock
]


@pytest.mark.parametrize("timing", TIMINGS)
def test_no_timing_of_a_crowd_beats_the_rule(timing: Timing) -> None:
    """As many matches as the rule says are never lost by the clock, however their moves come."""
    for clock, increment, pace in CASES:
        endless = _count_for_ever(clock, increment, pace)
        assert is_survived(endless, clock, increment, pace, timing, ENDLESS, 150)
        bounded = min(_count_in_all(clock, increment, pace), 40)
        assert is_survived(bounded, clock, increment, pace, timing, MOST_SIDE_MOVES, 400)


def test_a_burst_above_what_a_clock_has_room_for_beats_everybody() -> None:
    """The rule is not empty: more moves at once than blocks have room for before the deadline."""
    for clock, increment, pace in CASES:
        usable = clock - pace.delay_blocks + 1
        burst = pace.calls * max(usable, 0) + 1
        assert count_withstood(clock, increment, pace) < burst
        assert not is_survived(burst, clock, increment, pace, together, 1, clock + 5)


@given(
    crowd=st.integers(1, 5000),
    increment=st.integers(1, 40),
    calls=st.integers(1, 200),
    delay=st.integers(1, 10),
)
def test_the_least_clock_is_enough_and_no_shorter_one_is(
    crowd: int, increment: int, calls: int, delay: int
) -> None:
    """The inverse of the rule is its inverse: with a block less it says too few."""
    pace = Pace(calls, delay)
    least = calculate_least_clock(crowd, increment, pace)
    assert count_withstood(least, increment, pace) >= crowd
    assert least == increment or count_withstood(least - 1, increment, pace) < crowd


@given(
    purse=st.integers(0, 10**21),
    more=st.integers(0, 10**20),
    offered=st.integers(21_000, 2**24),
    less=st.integers(0, 2**20),
    base=st.integers(0, 10**12),
    higher=st.integers(0, 10**11),
)
def test_a_smaller_purse_a_smaller_call_and_dearer_gas_end_a_censor_sooner(
    *, purse: int, more: int, offered: int, less: int, base: int, higher: int
) -> None:
    """What keeps a call out for so long does so with more money, for a larger call, and cheaper."""
    gas = 30_000_000
    blocks = count_censored(purse, block_gas=gas, offered_gas=offered, base_fee_wei=base)
    assert blocks <= count_censored(
        purse + more, block_gas=gas, offered_gas=offered, base_fee_wei=base
    )
    asking = max(21_000, offered - less)
    assert blocks >= count_censored(purse, block_gas=gas, offered_gas=asking, base_fee_wei=base)
    dearer = base + higher
    assert blocks >= count_censored(purse, block_gas=gas, offered_gas=offered, base_fee_wei=dearer)


def test_the_default_stakes_withstand_more_than_the_default_crowd() -> None:
    """With blocks of 30 million gas, and an answer in the block after the next."""
    stakes = Stakes()
    pace = Pace(count_calls(30_000_000))
    assert count_withstood(stakes.clock_blocks, stakes.increment_blocks, pace) >= 168


@pytest.mark.parametrize(("gas", "calls"), [(0, 1), (4 * MOVE_GAS - 1, 1), (4 * MOVE_GAS, 2)])
def test_a_side_counts_on_half_of_a_block(gas: int, calls: int) -> None:
    """For as many of the dearest calls as it has room for, and for one at least."""
    assert count_calls(gas) == calls
    assert (SIDE_MOVES, Pace(1).delay_blocks) == (22, 2)


@given(
    gas=st.integers(2, 60_000_000),
    asked=st.integers(1, 2**25),
    fees=st.lists(st.integers(0, 10**11), min_size=1, max_size=1),
    blocks=st.integers(0, 40),
)
@example(gas=30_000_000, asked=15_000_001, fees=[10**9], blocks=3)  # half of each block
def test_a_censor_pays_each_block_that_it_fills(
    gas: int, asked: int, fees: list[int], blocks: int
) -> None:
    """The bill of so many blocks, by EIP-1559, buys so many, and a wei less buys one less."""
    (fee_wei,) = fees
    filled, target, bill_wei, base_wei = max(0, gas - asked + 1), gas // 2, 0, fee_wei
    for _ in range(blocks):
        bill_wei += filled * (base_wei + 10**9 + 1)
        off = base_wei * abs(filled - target) // target // 8
        base_wei = base_wei + max(1, off) if filled > target else base_wei - off
    known = {"block_gas": gas, "offered_gas": asked, "base_fee_wei": fee_wei}
    if not filled:
        assert count_censored(0, **known) == MAX_BLOCKS
        return
    assert count_censored(bill_wei, **known) == blocks
    assert count_censored(bill_wei - 1, **known) == blocks - 1 or not blocks


def test_a_censor_begins_where_it_is_cheap() -> None:
    """Nothing else said, the base fee is one gwei and the call the dearest move."""
    first_wei = (30_000_000 - MOVE_GAS + 1) * (2 * 10**9 + 1)
    assert [count_censored(wei, block_gas=30_000_000) for wei in (first_wei - 1, first_wei)] == [
        0,
        1,
    ]


@given(
    longer=st.integers(0, 500),
    increment=st.integers(1, 40),
    calls=st.integers(1, 50),
    delay=st.integers(1, 10),
)
def test_the_rule_is_that_of_the_docs(
    *, longer: int, increment: int, calls: int, delay: int
) -> None:
    """For ever: what increments allow; in all: what 24 moves of each match leave idle."""
    clock = increment + longer
    pace, usable, spare = Pace(calls, delay), clock - delay + 1, increment - delay + 1
    endless = 0
    if usable >= 1 and spare >= 1:
        rate = Fraction(usable * increment, usable + increment - 1)
        endless = min(calls * spare, math.floor(calls * rate))
    idle = clock + 23 * min(increment, delay) - 24 * delay
    bounded = math.ceil(Fraction(calls * (idle + 1), 24)) if idle >= 0 else 0
    assert _count_for_ever(clock, increment, pace) == endless
    assert _count_in_all(clock, increment, pace) == bounded
    assert count_withstood(clock, increment, pace) == max(endless, bounded)


def test_a_clock_may_have_to_be_longer_than_a_job_can_have() -> None:
    """Up to twice the longest that there is, it is found, and it is told from what fits."""
    pace = Pace(1, 1)
    longest = count_withstood(MAX_BLOCKS, 1, pace)
    assert calculate_least_clock(longest, 1, pace) <= MAX_BLOCKS
    assert MAX_BLOCKS < calculate_least_clock(longest + 1, 1, pace) < 2 * MAX_BLOCKS
    assert calculate_least_clock(2**60, 1, pace) == 2 * MAX_BLOCKS
