"""What it costs to keep a call out of the chain, measured on the node for development.

    python -m tests.sending.censorship

A censor fills each block at a higher tip, so that less is left than the call is offered; where that
is more than half a block the base fee grows by an eighth a full block. Once it is above what the
call's sender pays, half a block keeps it there.
"""

# ruff: noqa: T201 - a script that prints

from dataclasses import dataclass, field

from moot.offchain.chain.accounts.fees import GWEI
from moot.offchain.chain.devnode.blocks import Blocks
from moot.offchain.chain.receipts import GAS_LIMIT, Address, Transaction
from moot.offchain.disputes.referee.crowds import TIP_WEI, count_censored
from moot.offchain.disputes.referee.gas import MOST_GAS, offer_gas

BURNER = bytes.fromhex("60fe60005360016000f3")
"""Makes a contract that takes all the gas of its call."""
TOP_WEI = 10**6 * GWEI
CALLS = ("leaf", "enter_tensor", "pick_element", "descend", "commit", "timeout")
CLOCKS = (16, 32, 64, 128)
NOBODY = Address("0x" + "0b" * 20)


class Censor:
    """An account that fills blocks."""

    def __init__(self, blocks: Blocks, address: Address) -> None:
        self._blocks, self._address, self._nonce = blocks, address, 0
        self._send(None, BURNER, 100_000, GWEI)
        blocks.make_block()
        place = blocks.find(blocks.list_hashes(blocks.get_block_number())[-1])
        assert place is not None
        assert place.contract is not None
        self._burner = Address("0x" + place.contract.hex())

    def fill(self, left: int, tip_wei: int) -> None:
        """Let the next block have so much gas left, if its maker takes what pays most."""
        self._send(self._burner, b"", self._blocks.get_block_gas() - left, tip_wei)

    def _send(self, to: Address | None, data: bytes, gas: int, tip_wei: int) -> None:
        chain_id = self._blocks.get_chain_id()
        filling = Transaction(chain_id, "fill", self._address, to, data, 0, gas)
        self._blocks.take_raw(self._blocks.sign(filling, self._nonce, (TOP_WEI, tip_wei)))
        self._nonce += 1


@dataclass
class Packed:
    """A call that a censor keeps out.

    Attributes:
        blocks: the chain; its first account is the censor's, its second the call's.
        transaction: the call, with what it is offered.
        ceiling_wei: the most that its sender pays for a unit of gas.
    """

    blocks: Blocks
    transaction: Transaction
    ceiling_wei: int = 50 * GWEI
    _first_fee_wei: int = field(default=0, init=False)

    def keep_out(self, clock_blocks: int) -> int:
        """Keep the call out for so many blocks, and return what that has cost, in wei."""
        blocks = self.blocks
        censor, victim = (blocks.get_accounts()[it] for it in (0, 1))
        filler = Censor(blocks, censor)
        self._first_fee_wei = blocks.next_base_fee()
        offer = (self.ceiling_wei, TIP_WEI)
        asked = Transaction(
            *(blocks.get_chain_id(), self.transaction.call, victim, NOBODY),
            *(self.transaction.data, 0, self.transaction.gas_limit),
        )
        waiting = blocks.take_raw(blocks.sign(asked, 0, offer))
        held_wei = blocks.get_balance(censor)
        for _ in range(clock_blocks):
            is_priced_out = blocks.next_base_fee() > self.ceiling_wei
            left = blocks.get_block_gas() // 2 if is_priced_out else asked.gas_limit - 1
            filler.fill(left, TIP_WEI + 1)
            blocks.make_block()
            assert blocks.find(waiting) is None
        return held_wei - blocks.get_balance(censor)

    def count_predicted(self, purse_wei: int) -> int:
        """Return for how many blocks the rule says that so much keeps the call out."""
        return count_censored(
            purse_wei,
            offered_gas=self.transaction.gas_limit,
            block_gas=self.blocks.get_block_gas(),
            base_fee_wei=self._first_fee_wei,
        )


def measure(offered: Transaction, clock_blocks: int, base_fee_wei: int) -> int:
    """Return what it costs to keep a call out for a clock, from this base fee on, in wei."""
    blocks = Blocks(2)
    blocks.least_base_fee = base_fee_wei
    return Packed(blocks, offered).keep_out(clock_blocks)


def main() -> None:
    """Print the table of `docs/explanation/security.md`."""
    heads = [f"{clock} blocks, ETH" for clock in CLOCKS]
    print("| call | offered | base fee, gwei |", " | ".join(heads), "|")
    print("|---|---:|---:|" + "---:|" * len(heads))
    chosen = [(call, offer_gas(_make(call))) for call in CALLS if call in MOST_GAS]
    for name, offered in [*chosen, ("2^24 gas", _make("leaf"))]:
        for gwei in (1, 10):
            costs = [measure(offered, clock, gwei * GWEI) / 10**18 for clock in CLOCKS]
            shown = " | ".join(f"{cost:,.2f}" for cost in costs)
            print(f"| `{name}` | {offered.gas_limit:,} | {gwei} | {shown} |", flush=True)


def _make(call: str) -> Transaction:
    return Transaction(
        1, call, NOBODY, NOBODY, bytes(3_300 if call == "leaf" else 1_500), 0, GAS_LIMIT
    )


if __name__ == "__main__":
    main()
