"""The gas of calls: what each takes at most, what it is offered, and what a crowd may cost a side.

The one table of it; a test compares it with `gas-snapshot.txt`.
"""

from collections.abc import Iterable
from dataclasses import replace

from moot.offchain.chain.receipts import GAS_LIMIT, Transaction

MOST_GAS = {
    "open_job": 252_669,
    "commit": 56_884,
    "reveal": 60_754,
    "join": 59_678,
    "start_match": 80_433,
    "descend": 65_906,
    "enter_claimed": 84_123,
    "enter_tensor": 122_910,
    "enter_state": 50_191,
    "reach_chunk": 57_270,
    "pick_element": 88_080,
    "pick_segment": 105_200,
    "prove_sink": 63_568,
    "leaf": 193_383,
    "timeout": 50_295,
    "rule": 53_151,
    "settle": 41_632,
    "collect": 46_181,
    "promise": 99_702,
    "offer": 99_723,
    "register": 164_197,
    "demand": 112_799,
    "show_operator": 136_970,
    "show_chunk": 175_220,
    "break_promise": 46_868,
    "reclaim": 43_392,
    "call_for": 58_203,
    "take": 41_041,
    "withdraw": 65_635,
    "challenge": 411_068,
    "stake": 44_844,
    "unstake": 28_529,
    "take_stake": 34_825,
    "fund": 45_771,
    "defund": 29_437,
    "take_funds": 30_956,
    "redeem": 64_714,
    "publish": 68_675,
    "refute_answer": 109_758,
    "prove_conflict": 69_702,
    "prove_unlisted": 94_160,
}
"""Call -> the most gas that it takes in any scenario of the snapshot, in any arithmetic."""

MARGIN = (11, 8)
"""A call is offered so much more: refunds, a fifth at most, come after it; and a tenth."""
MEASURED_BYTES = 2_048
BYTE_GAS = 40
"""What a byte of calldata beyond those measured costs at most, with what is done about it."""
TOKEN_GAS, TOKENS, BASE_GAS = 10, 4, 21_000
"""EIP-7623's floor: gas of a token, tokens of a byte that is not zero, gas of a transaction."""

MOST_SIDE_MOVES = 24
"""Of the 48 moves that a match over wide accumulators can have, one side makes no more."""
_ONCE = ("enter_claimed", "enter_claimed", "enter_tensor", "enter_tensor", "pick_element", "leaf")
"""Moves that a side makes so often in a match; its others are at most as dear as `pick_segment`."""


def sum_gas(calls: Iterable[str]) -> int:
    """Return the most gas that calls take together."""
    return sum(MOST_GAS[call] for call in calls)


def add_margin(gas: int) -> int:
    """Return what is offered for so much gas."""
    more, than = MARGIN
    return -(-gas * more // than)


def calculate_gas_limit(call: str, data: bytes) -> int:
    """Return the gas that a call is offered, however it is decided: it never runs out.

    Calls that are not in the table have no clock, and are offered as much as a transaction may be.
    """
    if call not in MOST_GAS:
        return GAS_LIMIT
    longer = max(0, len(data) - MEASURED_BYTES)
    wanted = add_margin(MOST_GAS[call]) + BYTE_GAS * longer
    return min(GAS_LIMIT, max(wanted, calculate_floor(data)))


def offer_gas(transaction: Transaction) -> Transaction:
    """Return a transaction with the gas that its call is offered."""
    gas_limit = calculate_gas_limit(transaction.call, transaction.data)
    return replace(transaction, gas_limit=gas_limit)


def calculate_floor(data: bytes) -> int:
    """Return what a transaction with such calldata costs at least."""
    zeros = data.count(0)
    return BASE_GAS + TOKEN_GAS * (zeros + TOKENS * (len(data) - zeros))


MATCH_GAS = sum_gas(("start_match", *_ONCE, *["pick_segment"] * (MOST_SIDE_MOVES - len(_ONCE))))
"""The most gas that one side of a match pays: it begins it, and makes every move that it can."""
MOVE_GAS = add_margin(max(MOST_GAS[call] for call in (*_ONCE, "start_match", "pick_segment")))
"""What is offered for the dearest move, of a leaf whose evidence is as long as was measured."""
REVEAL_GAS = add_margin(MOST_GAS["reveal"])
"""What is offered for showing a claim."""
END_GAS = sum_gas(("settle", "collect"))
"""The gas of a job's end, for who makes both calls."""
_JOB_GAS = add_margin(sum_gas(("commit", "reveal", "settle", "collect")))
_LIAR_GAS = MATCH_GAS + add_margin(sum_gas(_ONCE)) - sum_gas(_ONCE)
_OTHERS_GAS = add_margin(sum_gas(("start_match", "timeout")))


def calculate_crowd_gas(crowd: int) -> int:
    """Return the most gas that a job takes of one side against so many members of other claims.

    It plays each of them once, where what is offered for the dear moves counts and not what they
    take: so much is reserved while they wait. And each match takes out one of its two at least, so
    that it begins and ends no more matches of others than there are members.
    """
    return _JOB_GAS + crowd * (_LIAR_GAS + _OTHERS_GAS)
