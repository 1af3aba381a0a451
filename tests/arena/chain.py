"""A simulated chain: a mempool that everybody sees, builders, base fees, reorganisations."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from moot.contracts.model.types import Address, Event
from moot.offchain.disputes.referee.port import Call
from tests.arena.ledger import Ledger, read_gas
from tests.arena.records import BLOCK_GAS, GWEI, TARGET_GAS, Block, Fill, Receipt, Sent, hash_words

KEPT_STATES = 16
"""A reorganisation can be no deeper."""
RAISE = (9, 8)
"""A base fee grows or shrinks by an eighth a block at most, and a replacement pays so much more."""
ROOM = 2
"""A call is kept out of a block that has less room than so many times what it takes at most."""


@dataclass
class Chain:
    """The chain.

    Attributes:
        level: the base fee that a block tends to, in wei, by its number.
        fills: who fills a block: called with its number and base fee.
        drops: whether a builder keeps a transaction out of a block.
        ledger: the contracts and accounts.
        blocks: all blocks.
        pool: what waits, by sender and nonce.
        kept_out: by sender the number of blocks that had no room for what it had waiting, whatever
            room it asked for.
        reorganised: the deepest reorganisation.
        found: by hash the block of each transaction, and its place there.
        logs: the referee's events by job, each with its block.
    """

    level: Callable[[int], int]
    fills: Callable[[int, int], Iterable[Fill]]
    drops: Callable[[int, Sent], bool]
    ledger: Ledger = field(default_factory=Ledger)
    blocks: list[Block] = field(default_factory=list)
    pool: dict[Address, dict[int, Sent]] = field(default_factory=dict)
    kept_out: dict[Address, int] = field(default_factory=dict)
    reorganised: int = 0
    found: dict[str, tuple[Block, int]] = field(default_factory=dict)
    logs: dict[int, list[tuple[int, Event]]] = field(default_factory=dict)
    _forks: int = 0

    def __post_init__(self) -> None:
        self.blocks.append(Block(0, hash_words("genesis"), self.level(0)))

    @property
    def head(self) -> Block:
        """The latest block."""
        return self.blocks[-1]

    @property
    def next_fee_wei(self) -> int:
        """The base fee of the next block."""
        return self._step_fee(self.head)

    def add(self, sent: Sent) -> str:
        """Take a transaction into the pool, and return why it is not taken, if it is not."""
        own = self.pool.setdefault(sent.sender, {})
        if sent.nonce < self.ledger.nonces[sent.sender]:
            return "nonce too low"
        there = own.get(sent.nonce)
        if there is not None and there.digest == sent.digest:
            return "already known"
        more, than = RAISE
        if there is not None and (
            sent.max_fee_wei * than < there.max_fee_wei * more
            or sent.tip_wei * than < there.tip_wei * more
        ):
            return "replacement transaction underpriced"
        most = sent.call.value_wei + sent.gas_limit * sent.max_fee_wei
        if most > self.ledger.balances[sent.sender]:
            return "insufficient funds for gas * price + value"
        own[sent.nonce] = sent
        return ""

    def submit(self, call: Call, tip_wei: int = 2 * GWEI) -> None:
        """Send a call of somebody who keeps no journal and looks at no fee."""
        waiting = self.pool.get(call.sender, {})
        nonce = self.ledger.nonces[call.sender]
        while nonce in waiting:
            nonce += 1
        digest = hash_words(call.sender, nonce, call, self._forks)
        gas = read_gas()[call.name] * ROOM or BLOCK_GAS // 10
        self.add(Sent(call, nonce, 10**6 * GWEI, tip_wei, gas, digest))

    def build(self, skipped: Iterable[str] = ()) -> Block:
        """Make a block of what pays most, and skip what does not fit or is kept out."""
        number, base_fee = self.head.number + 1, self.next_fee_wei
        block = Block(number, hash_words(self.head.digest, number, self._forks), base_fee)
        out = set(skipped)
        fills = sorted(self.fills(number, base_fee), key=lambda it: -it.tip_wei)
        self._count_kept_out(fills, base_fee)
        while (sent := self._choose(block, fills, out)) is not None:
            if self.drops(number, sent) or not self._can_pay(sent):
                out.add(sent.digest)
                continue
            receipt = self.ledger.execute(sent, number, base_fee)
            self.found[sent.digest] = block, len(block.receipts)
            block.receipts.append(receipt)
            block.gas_used += receipt.gas_used
            self.pool[sent.sender].pop(sent.nonce, None)
            for event in receipt.events:
                if isinstance(event.args[0], int):
                    self.logs.setdefault(event.args[0], []).append((number, event))
        block.filled = min(sum(it.gas for it in fills), BLOCK_GAS - block.gas_used)
        is_same = not block.receipts and self.head.state is not None
        block.state = self.head.state if is_same else self.ledger.save()
        self.blocks.append(block)
        if number >= KEPT_STATES:
            self.blocks[-KEPT_STATES].state = None
        return block

    def reorganise(self, depth: int, drop: Callable[[Sent], bool], first: Sequence[Call]) -> None:
        """Replace the latest blocks by as many and one more, with other calls at their beginning.

        What `drop` says of the transactions of the blocks that go is kept out of the chain for good
        if they are not sent again.
        """
        depth = min(depth, self.head.number, KEPT_STATES - 2)
        gone, self.blocks = self.blocks[-depth:], self.blocks[:-depth]
        state = self.head.state
        assert state is not None, "its state was kept"
        self.ledger.load(state)
        self._forks += 1
        self.reorganised = max(self.reorganised, depth)
        for log in self.logs.values():
            log[:] = [it for it in log if it[0] <= self.head.number]
        back = [receipt.sent for block in gone for receipt in block.receipts]
        for sent in back:
            self.found.pop(sent.digest, None)
            if not drop(sent):
                self.pool.setdefault(sent.sender, {}).setdefault(sent.nonce, sent)
        for call in first:
            self.submit(call, 10**4 * GWEI)
        for _ in range(depth + 1):
            self.build()

    def list_events(self, first: int, last: int) -> list[tuple[Block, int, Receipt, Event]]:
        """Return the events of some blocks, each with its block, its place there, its receipt."""
        found = []
        for block in self.blocks[max(0, first) : last + 1]:
            place = 0
            for receipt in block.receipts:
                for event in receipt.events:
                    found.append((block, place, receipt, event))
                    place += 1
        return found

    def _step_fee(self, block: Block) -> int:
        """Return the fee after a block: it goes to its level by an eighth at most.

        It grows besides as in EIP-1559 by what others have filled beyond the target.
        """
        more, than = RAISE
        fee_wei, level_wei = block.base_fee_wei, self.level(block.number + 1)
        natural_wei = max(
            fee_wei * (2 * than - more) // than, min(fee_wei * more // than, level_wei)
        )
        over = max(0, block.filled + block.gas_used - TARGET_GAS) if block.filled else 0
        return max(natural_wei, fee_wei + fee_wei * over // TARGET_GAS * (more - than) // than)

    def _choose(self, block: Block, fills: Sequence[Fill], out: set[str]) -> Sent | None:
        """Return what pays most of what is next in its sender's order, and still fits."""
        best: tuple[int, str, Sent] | None = None
        for sender, own in self.pool.items():
            sent = own.get(self.ledger.nonces[sender])
            if sent is None or sent.digest in out or sent.max_fee_wei < block.base_fee_wei:
                continue
            tip = sent.tip_at(block.base_fee_wei)
            before = sum(it.gas for it in fills if it.tip_wei > tip)
            fits = block.gas_used + before + sent.gas_limit <= BLOCK_GAS
            if fits and (best is None or (-tip, sender) < best[:2]):
                best = -tip, sender, sent
        return None if best is None else best[2]

    def _can_pay(self, sent: Sent) -> bool:
        most = sent.call.value_wei + sent.gas_limit * sent.max_fee_wei
        return most <= self.ledger.balances[sent.sender]

    def _count_kept_out(self, fills: Sequence[Fill], base_fee: int) -> None:
        """Note whose call this block has no room for, whatever room its sender asked for."""
        for sender, own in self.pool.items():
            sent = own.get(self.ledger.nonces[sender])
            if sent is None or sent.max_fee_wei < base_fee:
                continue
            tip = sent.tip_at(base_fee)
            room = BLOCK_GAS - sum(it.gas for it in fills if it.tip_wei > tip)
            if room < ROOM * read_gas()[sent.call.name]:
                self.kept_out[sender] = self.kept_out.get(sender, 0) + 1
