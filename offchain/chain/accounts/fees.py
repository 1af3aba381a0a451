"""The fees of EIP-1559 that a transaction offers: at first, and when it is stuck."""

from dataclasses import dataclass

from moot.offchain.errors import UsageError

GWEI = 10**9
RAISE = (9, 8)
"""A transaction takes another's place for fees that are an eighth higher, 12.5 %."""
SLOWNESS = 8
"""A base fee changes by one part in so many a block at most (EIP-1559)."""
HEADROOM = 2
"""The base fee may grow so many times before a transaction no longer pays it: six full blocks."""


@dataclass(frozen=True, slots=True)
class Fees:
    """What a transaction offers for a unit of gas, in wei; the maximum includes the tip."""

    max_fee_wei: int
    tip_wei: int


@dataclass(frozen=True, slots=True)
class FeePolicy:
    """What an account pays, and for what it waits.

    Attributes:
        max_fee_wei: the ceiling: the most that a unit of gas may ever cost.
        tip_wei: what the maker of a block is offered for a unit of gas.
        stuck_blocks: blocks that pass before a transaction is replaced at a higher fee.
        confirmations: blocks, its own included, after which a transaction is final.
    """

    max_fee_wei: int = 200 * GWEI
    tip_wei: int = GWEI
    stuck_blocks: int = 3
    confirmations: int = 8

    def __post_init__(self) -> None:
        if self.max_fee_wei < 1 or not 0 <= self.tip_wei <= self.max_fee_wei:
            raise UsageError(
                f"a tip of {self.tip_wei} wei does not fit a highest fee of {self.max_fee_wei} wei;"
                " the fee is positive and includes the tip"
            )
        if self.stuck_blocks < 1 or self.confirmations < 1:
            raise UsageError("stuck_blocks and confirmations are positive numbers of blocks")


def calculate_fees(base_fee_wei: int, policy: FeePolicy) -> Fees:
    """Return the fees of a new transaction after a block whose successor has this base fee."""
    max_fee_wei = _leave_room(HEADROOM * base_fee_wei + policy.tip_wei, policy)
    return Fees(max_fee_wei, min(policy.tip_wei, max_fee_wei))


def raise_fees(old: Fees, base_fee_wei: int, policy: FeePolicy) -> Fees | None:
    """Return the fees of a transaction that replaces one; None where the ceiling forbids it."""
    least = Fees(raise_wei(old.max_fee_wei), raise_wei(old.tip_wei))
    if least.max_fee_wei > policy.max_fee_wei:
        return None
    wanted = calculate_fees(base_fee_wei, policy)
    max_fee_wei = _leave_room(max(least.max_fee_wei, wanted.max_fee_wei), policy)
    return Fees(max_fee_wei, max(least.tip_wei, wanted.tip_wei))


def is_below(fees: Fees, base_fee_wei: int) -> bool:
    """Whether no block of this base fee takes a transaction of these fees."""
    return fees.max_fee_wei < base_fee_wei


def raise_wei(fee_wei: int) -> int:
    """Return the least fee that replaces this one."""
    more, than = RAISE
    return -(-fee_wei * more // than)


def _leave_room(fee_wei: int, policy: FeePolicy) -> int:
    """Return a fee, or the ceiling where it could not be raised once more below that.

    Whatever is offered pays every base fee that the ceiling allows, or can be replaced. What lies
    between would be stuck as soon as the base fee passes it.
    """
    return fee_wei if raise_wei(fee_wei) <= policy.max_fee_wei else policy.max_fee_wei
