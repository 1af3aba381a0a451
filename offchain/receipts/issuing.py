"""The signing of receipts: a claim about a run becomes a receipt that the standing bond covers."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Self

from moot.contracts.model.receipts import MAX_WINDOW_BLOCKS, Receipt
from moot.contracts.model.types import MIN_BOND_WEI, ZERO, Address
from moot.offchain.commitments.tree import Digest
from moot.offchain.errors import UsageError
from moot.offchain.programs.roots import ProgramHeader
from moot.offchain.receipts.book import Answer, Book, Sign
from moot.offchain.receipts.packed import SignedReceipt

USUAL_S = 12.0
"""Seconds of a block, for which the usual conditions are."""
MOST_TIMES = 128
"""How many times as many blocks a receipt's times have at most, where blocks are faster."""
JOINING_S = 60.0
"""The least seconds in which others may join a challenge."""


@dataclass(frozen=True, slots=True)
class Claimed:
    """A run, and what its provider claims of it; nobody opened a job for it.

    Attributes:
        header: the program's commitment.
        start_root: the root of the start state.
        steps: how many steps were run.
        checkpoint_every: steps between checkpoints.
        history: the top of the history that is claimed.
        answer_slot: the slot of the state that is the answer.
        answer: the root of the tensor in it, in the last state.
        data_top: the top of the tree over the batches; zeros if there are none.
    """

    header: ProgramHeader
    start_root: Digest
    steps: int
    checkpoint_every: int
    history: Digest
    answer_slot: int
    answer: Digest
    data_top: Digest = ZERO


@dataclass(frozen=True, slots=True)
class Conditions:
    """The conditions of a provider's receipts; times are in blocks, amounts in wei.

    Attributes:
        stake_wei: what each answer is backed with.
        last_blocks: for how long a receipt may be challenged.
        window_blocks: for how long others may join a challenge.
        clock_blocks: the clock of either side of a match, which each move gives increment_blocks.
        token_price_wei: the price of a token that was read or written.
    """

    stake_wei: int = MIN_BOND_WEI
    last_blocks: int = 300
    window_blocks: int = 64
    clock_blocks: int = 64
    increment_blocks: int = 4
    token_price_wei: int = 0

    @classmethod
    def choose(cls, block_seconds: float, stake_wei: int, token_price_wei: int = 0) -> Self:
        """Return conditions with as much time as the usual ones, however fast blocks are.

        To compute an answer again, and to look at one, takes time, not blocks.
        """
        usual = cls(stake_wei, token_price_wei=token_price_wei)
        times = min(max(1.0, USUAL_S / max(block_seconds, 1e-3)), MOST_TIMES)
        names = ("last_blocks", "clock_blocks", "increment_blocks")
        wanted = {name: math.ceil(getattr(usual, name) * times) for name in names}
        window = max(usual.window_blocks, math.ceil(times * JOINING_S / USUAL_S))
        return replace(usual, window_blocks=window, **wanted)

    def __post_init__(self) -> None:
        if not 1 <= self.last_blocks <= MAX_WINDOW_BLOCKS:
            raise UsageError(
                f"a receipt may be challenged for 1 to {MAX_WINDOW_BLOCKS:,} blocks, "
                f"not {self.last_blocks:,}"
            )


@dataclass(frozen=True, slots=True)
class Standing:
    """A provider's standing, as of the latest block that it knows.

    Attributes:
        block: the number of that block.
        bond_wei: what stands of its bond up to the last block of a receipt that is issued now.
    """

    block: int
    bond_wei: int


class Issuer:
    """Signs receipts by a provider's book, on its conditions.

    Its methods may be called from several threads.

    Args:
        book: where the receipts are kept.
        sign: signs with the provider's key.
        conditions: what each receipt is backed with, and for how long.
        look: returns how the provider stands, for receipts that end so many blocks later.
    """

    def __init__(
        self, book: Book, sign: Sign, conditions: Conditions, look: Callable[[int], Standing]
    ) -> None:
        self.book, self.conditions = book, conditions
        self._sign, self._look = sign, look

    def issue(
        self,
        claimed: Claimed,
        client: Address,
        tokens: int,
        request: bytes,
        answer: Answer | None = None,
    ) -> SignedReceipt:
        """Return the receipt of an answer, which is on the disk then.

        Args:
            claimed: what was run, and what came of it.
            client: who asked, a checksummed address; it pays by vouchers.
            tokens: how many were read and written.
            request: what is needed to run it again.
            answer: what is kept beside the receipt.

        Raises:
            BondExhausted: the bond does not cover it beside those that have not ended.
            StoreError: the disk refuses.
            ChainError: the chain can't be looked at.
        """
        given, standing = self.conditions, self._look(self.conditions.last_blocks)
        header = claimed.header
        draft = Receipt(
            layout=header.layout,
            program_top=header.top,
            start_root=claimed.start_root,
            data_top=claimed.data_top,
            history=claimed.history,
            answer=claimed.answer,
            operators=header.operators,
            state_slots=header.state_slots,
            batch_slots=header.batch_slots,
            answer_slot=claimed.answer_slot,
            steps=claimed.steps,
            checkpoint_every=claimed.checkpoint_every,
            window_blocks=given.window_blocks,
            clock_blocks=given.clock_blocks,
            increment_blocks=given.increment_blocks,
            client=client,
            provider=self.book.provider,
            number=0,
            issued_block=standing.block,
            last_block=standing.block + given.last_blocks,
            stake_wei=given.stake_wei,
            total_wei=0,
            released_wei=0,
            price_wei=tokens * given.token_price_wei,
        )
        return self.book.issue(draft, standing.bond_wei, request, self._sign, answer)
