"""How often whoever has promised a result looks: seldom, and in time for every demand."""

from hypothesis import given
from hypothesis import strategies as st

from moot.contracts.model.answers import Demand, Promise, Subject
from moot.contracts.model.delivery import Premium
from moot.contracts.reasons import DemandStatus, Part, PremiumStatus, Status
from moot.offchain.disputes.availability.delivery import (
    LEAST_ANSWER_BLOCKS,
    LOOKS,
    Delivery,
    Sharer,
)
from moot.offchain.disputes.availability.demands import Place, Promised
from moot.offchain.disputes.play.players import Move

CLIENT, SHARERS = "0xc1", ("0xa1", "0xa2", "0xa3")
SUBJECT = Subject("0xee", 0, 0, 8, 0, 0, bytes(32), bytes(32), bytes(32))
FIRST, GRACE = 100, 3
"""The block in which the result is promised; and how many more are played."""


def play(answer_blocks: int, window_blocks: int, asked: list[int], place: int) -> list[int]:
    """Play a sharer that looks no oftener than it has to, alone, and return when it looks.

    Each demand is answered with a quarter of its time left, and the premium is taken in time.
    """
    last_block = FIRST + window_blocks
    premium = Premium(CLIENT, 1, 1, answer_blocks, window_blocks, 0, PremiumStatus.PROMISED)
    promise = Promise(CLIENT, 1, 1, answer_blocks, last_block, sharers=3)
    own, demands, looks = SHARERS[place], dict[Place, Demand](), list[int]()
    sharer, next_block = Sharer(own, lambda it: Move("show", it)), FIRST + 1
    for block in range(FIRST + 1, last_block + answer_blocks + GRACE):
        if block >= next_block:
            looks.append(block)
            promised = Promised(SUBJECT, promise, dict(demands), block)
            view = Delivery(
                SUBJECT, premium, Status.WON, promised, SHARERS, frozenset({own}), block
            )
            next_block = view.find_next_look()
            for call in sharer.act(view):
                if call.name == "take":
                    assert not promised.list_open()
                    return looks
                asked_place: Place = call.args[1:]
                demand = demands[asked_place]
                assert 4 * (demand.deadline - block) >= answer_blocks - 4
                demands[asked_place] = Demand(CLIENT, demand.deadline, DemandStatus.SHOWN)
        for index, at in enumerate(asked):
            if FIRST + at == block <= last_block:
                demands[Part.START, index, 0] = Demand(CLIENT, block + answer_blocks)
    raise AssertionError("the premium was not taken")


@given(
    answer_blocks=st.integers(LEAST_ANSWER_BLOCKS, 200),
    windows=st.integers(1, 4),
    asked=st.lists(st.integers(1, 400), max_size=3),
    place=st.integers(0, 2),
)
def test_every_demand_is_seen_in_time(
    answer_blocks: int, windows: int, asked: list[int], place: int
) -> None:
    """Whatever the times are, and whoever answers; a few demands fit into one block."""
    looks = play(answer_blocks, windows * answer_blocks, asked, place)
    last_block = FIRST + windows * answer_blocks
    assert looks[-1] == last_block + 1 or asked


def test_whoever_has_nothing_to_show_looks_seldom() -> None:
    """Eight looks within the time of an answer, and one when the premium is due."""
    looks = play(1_800, 7_200, [], 0)
    assert len(looks) == 4 * LOOKS + 1
    assert looks[-1] == FIRST + 7_200 + 1
