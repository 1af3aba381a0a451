"""The sender of one account: signs, keeps what it signed, and sees that it gets into the chain.

A call that was signed is never signed under another nonce as long as it may still get in: whoever
asks for it again, in this process or after it was killed, gets what became of the first. What is
final is not looked after; but when the chain counts fewer transactions than were final, because a
reorganisation was deeper than the confirmations, these are sent again, too.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

from moot.offchain.chain.accounts.account_state import MOST_TOGETHER, AccountState, Port, look
from moot.offchain.chain.accounts.budget import calculate_reserve, find_shortage
from moot.offchain.chain.accounts.fees import (
    GWEI,
    SLOWNESS,
    FeePolicy,
    Fees,
    calculate_fees,
    is_below,
    raise_fees,
)
from moot.offchain.chain.accounts.journal import Entry, Journal, Version, digest_call
from moot.offchain.chain.accounts.signers import Order, Signer
from moot.offchain.chain.endpoints import Say
from moot.offchain.chain.receipts import GAS_LIMIT, Transaction
from moot.offchain.chain.transports import Question
from moot.offchain.errors import (
    ChainError,
    ChainUnavailable,
    NodeError,
    NonceTaken,
    TransactionRefused,
)

UNCLAIMED_BLOCKS = 1_000
"""So long a transaction answers for its call whose maker was killed before it was mined."""
_TEMPORARY = ("already", "known", "underpriced", "fee", "txpool", "nonce", "limit exceeded")
"""Words of a refusal after which the same bytes may be taken later, or have been."""


class Sender:
    """The sender of a signer's account on one chain; what it does it tells to `say`.

    Args:
        port: the node.
        signer: the account.
        journal: that of the account on this chain.
        policy: fees, patience and confirmations.
        say: takes lines for people.
    """

    def __init__(
        self, port: Port, signer: Signer, journal: Journal, policy: FeePolicy, say: Say
    ) -> None:
        self._port = port
        self._signer = signer
        self._policy = policy
        self._say = say
        self._warned: set[int] = set()
        self._seen: AccountState | None = None
        self._highest = 0, 0
        self.journal = journal

    def submit(self, transactions: Sequence[Transaction]) -> list[Entry | ChainError]:
        """Sign and send calls, each under the next nonce, or find them where they are under way.

        Raises:
            ChainUnavailable: the node can't be asked; nothing was signed.
            StoreError: the journal can't be written; what is not in it was not sent.
        """
        sight = self._look_for_nonces(self.tend())
        self._require_room(transactions, sight)
        self._send_again(self._revive(sight), sight)
        self._forget(sight)
        answers: list[Entry | ChainError] = []
        new: list[Entry] = []
        for transaction in transactions:
            found = self._find(transaction, answers)
            if found is not None:
                answers.append(found)
                continue
            try:
                entry = self._sign_first(transaction, sight)
            except (NodeError, TransactionRefused) as refusal:
                answers.append(refusal)
                continue
            answers.append(entry)
            new.append(entry)
        refused = self._send_first(new)
        return [refused.get(it.nonce, it) if isinstance(it, Entry) else it for it in answers]

    def tend(self) -> AccountState | None:
        """Look after all that is not final, and send again what needs it; return what was seen.

        That is one exchange where there was no block since the last look, and up to four else.

        Raises:
            ChainUnavailable: the node can't be asked.
        """
        entries = (self.journal.live[nonce] for nonce in sorted(self.journal.live))
        live = [entry for entry in entries if not entry.is_final]
        if not live:
            self._seen = None
            return None
        self._seen = sight = look(self._port, self._signer.address, live, self._seen)
        revived = self._revive(sight)
        for entry in live:
            self._note(entry, sight)
        live = sorted(live + revived, key=lambda it: it.nonce)
        waiting = [it for it in live if it.nonce in self.journal.live and it.block is None]
        due = [it for it in waiting if it.missing is None and it.looked != sight.head]
        for entry in due:
            self._raise_if_stuck(entry, sight, is_first=entry is waiting[0])
        self._send_again(due, sight)
        return sight

    def tell(self, entry: Entry) -> None:
        """Note that the caller knows what became of an entry."""
        if self.journal.live.get(entry.nonce) is not entry:
            return
        if not entry.is_told:
            self.journal.note("told", entry)
        if entry.is_final:
            self.journal.note("final", entry)

    def _find(self, transaction: Transaction, taken: Sequence[Entry | ChainError]) -> Entry | None:
        """Return the entry of a call that was signed before, and of which nobody knows the end.

        What had succeeded, was undone and then failed in another block is no answer: sent again in
        the order of its nonce, it may have come too early.
        """
        digest = digest_call(transaction)
        for nonce in sorted(self.journal.live):
            entry = self.journal.live[nonce]
            is_taken = any(entry is it for it in taken)
            if entry.is_told or is_taken or entry.digest != digest:
                continue
            if not (entry.told_hash and _has_failed(entry)):
                return entry
            self.tell(entry)
        return None

    def _forget(self, sight: AccountState) -> None:
        """Forget what has been final for so long that nobody means it who asks for the like."""
        for entry in list(self.journal.live.values()):
            is_old = entry.block is not None and sight.head - entry.block > UNCLAIMED_BLOCKS
            if entry.is_final and is_old:
                self.journal.note("final", entry)
        self.journal.drop_past(sight.head)

    def _revive(self, sight: AccountState) -> list[Entry]:
        """Take up again what was final, and what a reorganisation has undone; return it in order.

        Without it, all that comes after would wait for ever.
        """
        known = [*self.journal.past.values(), *self.journal.live.values()]
        missing = [it for it in known if it.nonce >= sight.count and self._is_settled(it)]
        gone = sorted(missing, key=lambda it: it.nonce)
        for entry in gone:
            self._lose(entry, sight)
        waiting = [nonce for nonce, it in self.journal.live.items() if not it.is_final]
        first = min(waiting, default=sight.count)
        if sight.count < first and sight.count not in self._warned:
            self._warned.add(sight.count)
            self._say(
                f"what {self._signer.address} sent under the nonces {sight.count} to {first - 1} "
                "is in no block and no journal: what comes after it waits for as many new calls"
            )
        return gone

    def _is_settled(self, entry: Entry) -> bool:
        """Whether an entry is not looked after any more."""
        return entry.is_final or entry.nonce in self.journal.past

    def _lose(self, entry: Entry, sight: AccountState) -> None:
        """Note that the block of an entry is gone, and that the same bytes are to be sent again."""
        call = entry.transaction.call
        self._say(f"the block {entry.block} with {call} (nonce {entry.nonce}) is gone: sent again")
        self.journal.note("lost", entry)
        entry.looked, entry.signed = -1, sight.head

    def _look_for_nonces(self, seen: AccountState | None) -> AccountState:
        """Return the present state; a count that the journal does not expect is asked for twice."""
        sight = seen or look(self._port, self._signer.address)
        known = self.journal.next_nonce
        if known is None or sight.count > known:
            again = look(self._port, self._signer.address)
            if again.count < sight.count:
                raise ChainUnavailable(
                    self._port.url, "it gives two numbers for the transactions of an account"
                )
            if any(count < again.count for count in self._count_elsewhere()):
                raise self._port.distrust("it counts more transactions than another node does")
            return again
        return sight

    def note_base_fee(self, head: int, base_fee_wei: int) -> int:
        """Note what a node says of the base fee of a block; return the one to reckon with.

        That is the highest that can be of what nodes have said, since from block to block a base
        fee falls by an eighth at most: a node that tells of less makes nothing wait. Blocks between
        two that were seen are not counted, which a node may make up.
        """
        last, highest_wei = self._highest
        if head != last:
            highest_wei = highest_wei * (SLOWNESS - 1) // SLOWNESS
        highest_wei = max(highest_wei, base_fee_wei)
        self._highest = head, highest_wei
        return highest_wei

    def _count_elsewhere(self) -> list[int]:
        """Return how many transactions of the account other nodes count."""
        question: Question = ("eth_getTransactionCount", [self._signer.address, "latest"])
        answers = [it for (it,) in self._port.ask_others([question])]
        return [int(it, 16) for it in answers if isinstance(it, str)]

    def _require_room(self, transactions: Sequence[Transaction], sight: AccountState) -> None:
        """Sign nothing that would run out of its gas: a node that knows no room for it errs."""
        most = max((it.gas_limit for it in transactions if it.gas_limit < GAS_LIMIT), default=0)
        if most > sight.block_gas:
            raise self._port.distrust(f"its blocks have no room for a call of {most:,} gas")

    def _sign_first(self, transaction: Transaction, sight: AccountState) -> Entry:
        nonce = sight.count
        while nonce in self.journal.live:
            nonce += 1
        base_fee_wei = self.note_base_fee(sight.head, sight.base_fee_wei)
        fees = calculate_fees(base_fee_wei, self._policy)
        if nonce in self.journal.given_up:
            raised = raise_fees(self.journal.given_up[nonce], base_fee_wei, self._policy)
            # Where nothing may replace it, nodes that have not seen it take this all the same.
            fees = raised or Fees(self._policy.max_fee_wei, self.journal.given_up[nonce].tip_wei)
        gas_limit = min(transaction.gas_limit, sight.block_gas)
        limited = replace(transaction, gas_limit=gas_limit)
        self._check_balance(limited, fees, sight)
        if is_below(fees, sight.base_fee_wei):
            self._warn(nonce, transaction.call, sight)
        return self._sign(Entry(nonce, limited, []), fees, sight)

    def _check_balance(self, transaction: Transaction, fees: Fees, sight: AccountState) -> None:
        """Refuse what the account can't pay beside all that it has under way."""
        waiting = [it for it in self.journal.live.values() if it.block is None]
        reserves = [calculate_reserve(it.transaction, it.latest.fees) for it in waiting]
        reserves.append(calculate_reserve(transaction, fees))
        if find_shortage(sight.balance_wei, reserves):
            raise TransactionRefused(
                transaction.call,
                f"account {self._signer.address} holds {sight.balance_wei:,} wei, and "
                f"{sum(reserves):,} may be needed; fund it",
            )

    def _sign(self, entry: Entry, fees: Fees, sight: AccountState) -> Entry:
        """Sign a version, and put it into the journal; from here on it may be sent."""
        raw = self._signer.sign(Order(entry.transaction, entry.nonce, fees))
        self.journal.sign(entry, Version(raw, fees))
        kept = self.journal.live[entry.nonce]
        kept.looked = kept.signed = sight.head
        return kept

    def _send_first(self, entries: Sequence[Entry]) -> dict[int, ChainError]:
        """Send new entries; return the refusals of those that no node will ever take, by nonce."""
        refusals = self._send_raw(entries)
        refused: dict[int, ChainError] = {}
        # From the last: what is given up may leave no gap before what is not.
        for entry in reversed(entries):
            refusal = refusals.get(entry.nonce)
            if refusal is None or any(word in refusal.problem.lower() for word in _TEMPORARY):
                break
            self.journal.note("up", entry)
            refused[entry.nonce] = TransactionRefused(entry.transaction.call, refusal.problem)
        return refused

    def _send_again(self, entries: Sequence[Entry], sight: AccountState) -> None:
        for entry in entries:
            entry.looked = sight.head
        self._send_raw(entries)

    def _send_raw(self, entries: Sequence[Entry]) -> dict[int, NodeError]:
        """Send the latest versions, and return what the node refused, by nonce."""
        refusals: dict[int, NodeError] = {}
        with suppress(ChainUnavailable):  # the next look sends them again
            for first in range(0, len(entries), MOST_TOGETHER):
                some = entries[first : first + MOST_TOGETHER]
                questions: list[Question] = [
                    ("eth_sendRawTransaction", ["0x" + entry.latest.raw.hex()]) for entry in some
                ]
                answers = self._port.ask_many(questions)
                others = self._port.ask_others(questions)  # one may keep it to itself
                for entry, answer, *more in zip(some, answers, *others, strict=True):
                    if all(isinstance(it, NodeError) for it in (answer, *more)):
                        refusals[entry.nonce] = answer
        return refusals

    def _note(self, entry: Entry, sight: AccountState) -> None:
        """Note where an entry is on the chain now."""
        receipt = sight.receipts.get(entry.nonce)
        if receipt is None:
            self._note_absence(entry, sight)
            return
        entry.missing = None
        if entry.block_hash != receipt.block_hash:
            self.journal.note_block(entry, receipt.block, receipt.block_hash)
        entry.receipt = receipt.record
        depth = sight.head - receipt.block + 1
        entry.is_final = depth >= self._policy.confirmations
        if entry.is_final and entry.is_told:
            self.journal.note("final", entry)

    def _note_absence(self, entry: Entry, sight: AccountState) -> None:
        call = entry.transaction.call
        if entry.block is not None:
            self._lose(entry, sight)
        if sight.count <= entry.nonce:
            entry.missing = None
        elif entry.missing is None:
            entry.missing = sight.head
        elif sight.head >= entry.missing + self._policy.confirmations:
            entry.failure = NonceTaken(call, self._signer.address, entry.nonce)
            self._say(str(entry.failure))
            self.journal.note("taken", entry)

    def _raise_if_stuck(self, entry: Entry, sight: AccountState, *, is_first: bool) -> None:
        """Replace an entry at higher fees if it has waited for long and pays too little."""
        if entry.signed < 0:  # signed by a process that is no more: the count begins now
            entry.signed = sight.head
        is_cheap = is_below(entry.latest.fees, sight.base_fee_wei)
        if sight.head - entry.signed < self._policy.stuck_blocks or not (is_first or is_cheap):
            return
        base_fee_wei = self.note_base_fee(sight.head, sight.base_fee_wei)
        fees = raise_fees(entry.latest.fees, base_fee_wei, self._policy)
        if fees is None or is_below(fees, sight.base_fee_wei):
            self._warn(entry.nonce, entry.transaction.call, sight)
        if fees is None:
            return
        with suppress(NodeError):
            was = entry.latest.fees.max_fee_wei
            self._sign(entry, fees, sight)
            self._say(
                f"{entry.transaction.call} (nonce {entry.nonce}) was stuck at {_show(was)}: "
                f"replaced at {_show(fees.max_fee_wei)}"
            )

    def _warn(self, nonce: int, call: str, sight: AccountState) -> None:
        """Say once of a transaction that the ceiling stops it."""
        if nonce not in self._warned:
            self._warned.add(nonce)
            self._say(
                f"{call} (nonce {nonce}) waits: the base fee is {_show(sight.base_fee_wei)}, and "
                f"fees end at {self._ceiling()}"
            )

    def _ceiling(self) -> str:
        return f"the ceiling of {_show(self._policy.max_fee_wei)} (max_fee_wei)"


def _has_failed(entry: Entry) -> bool:
    """Whether an entry is in a block, and did nothing there."""
    return entry.receipt is not None and int(entry.receipt["status"], 16) == 0


def _show(wei: int) -> str:
    return f"{wei / GWEI:,.9g} gwei"
