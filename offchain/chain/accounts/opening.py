"""A chain on which accounts of our own send."""

from collections.abc import Sequence
from contextlib import ExitStack, suppress
from pathlib import Path

from moot.offchain.chain.accounts.fees import FeePolicy
from moot.offchain.chain.accounts.journal import Entry, Journal, find_folder
from moot.offchain.chain.accounts.sender import Sender
from moot.offchain.chain.accounts.signers import Signer
from moot.offchain.chain.connection import DEFAULT_PATIENCE_S, Chain, find_genesis
from moot.offchain.chain.endpoints import Endpoints, Say, say_nothing
from moot.offchain.chain.jsonrpc import JsonRpc, poll
from moot.offchain.chain.receipts import Address, Mined, Transaction
from moot.offchain.chain.transports import Transport
from moot.offchain.errors import ChainError, ChainUnavailable, TransactionLost, TransactionRefused


class OwnNode(JsonRpc):
    """A node to which accounts of our own send; see Node."""

    def __init__(self, url: str, patience_seconds: float, transport: Transport) -> None:
        super().__init__(url, patience_seconds, transport)
        self._senders: dict[Address, Sender] = {}
        self._kept = ExitStack()

    def add_account(
        self, signer: Signer, policy: FeePolicy, folder: Path, chain_id: int, say: Say
    ) -> None:
        """Let an account send, and nobody else on this machine send with it."""
        genesis = find_genesis(self)
        journal = Journal(folder, signer.address, chain_id, genesis)
        self._kept.callback(journal.close)
        self._senders[signer.address] = Sender(self, signer, journal, policy, say)

    def get_accounts(self) -> tuple[Address, ...]:
        """See Node."""
        return tuple(self._senders)

    def send(self, transactions: Sequence[Transaction]) -> list[Mined | ChainError]:
        """See Node.

        A transaction that is lost goes on being looked after: whoever sends the same call again
        waits for the same transaction.
        """
        answers: dict[int, Mined | ChainError] = {}
        waiting: dict[int, Entry] = {}
        for sender in dict.fromkeys(it.sender for it in transactions):
            own = {n: it for n, it in enumerate(transactions) if it.sender == sender}
            if sender not in self._senders:
                problem = f"there is no key of {sender} here"
                answers |= {n: TransactionRefused(it.call, problem) for n, it in own.items()}
                continue
            submitted = self._senders[sender].submit(list(own.values()))
            for place, entry in zip(own, submitted, strict=True):
                if isinstance(entry, ChainError):
                    answers[place] = entry
                else:
                    waiting[place] = entry
        answers |= self._await_entries(waiting)
        return [answers[place] for place in range(len(transactions))]

    def tend(self) -> None:
        """Look after all that is not final; without anything such, nobody is asked."""
        for sender in self._senders.values():
            sender.tend()

    def note_base_fee(self, block: int, base_fee_wei: int) -> None:
        """Let the fees of what is sent pay the base fee that a block has, as a node says."""
        for sender in self._senders.values():
            sender.note_base_fee(block, base_fee_wei)

    def count_live(self) -> int:
        """Return how many transactions are not final yet."""
        journals = [sender.journal for sender in self._senders.values()]
        return sum(not entry.is_final for it in journals for entry in it.live.values())

    def settle(self, patience_s: float) -> bool:
        """Wait until all transactions are final; False if some are not in time."""
        for _ in poll(patience_s):
            with suppress(ChainUnavailable):
                self.tend()
            if not self.count_live():
                return True
        return False

    def close(self) -> None:
        """See Node."""
        self._kept.close()
        super().close()

    def _await_entries(self, waiting: dict[int, Entry]) -> dict[int, Mined | ChainError]:
        """Return what becomes of entries."""
        answers: dict[int, Mined | ChainError] = {}
        for _ in poll(self._patience_s if waiting else 0):
            # A node that does not answer for a while may do so before the patience is over.
            with suppress(ChainUnavailable):
                self.tend()
                for place in [place for place in waiting if place not in answers]:
                    answer = self._read_entry(waiting[place])
                    if answer is not None:
                        answers[place] = answer
            if len(answers) == len(waiting):
                return answers
        for place in waiting.keys() - answers.keys():
            entry = waiting[place]
            lost = TransactionLost(entry.transaction.call, entry.latest.hash, self._patience_s)
            answers[place] = lost
        return answers

    def _read_entry(self, entry: Entry) -> Mined | ChainError | None:
        """Return what became of an entry, None as long as nothing did."""
        if entry.receipt is None:
            return entry.failure
        answer = self.read_receipt(entry.transaction, entry.nonce, entry.receipt)
        self._senders[entry.transaction.sender].tell(entry)
        return answer


class OwnChain(Chain):
    """A chain on which accounts of our own send."""

    node: OwnNode

    def tend(self) -> None:
        """Look after all that is not final; to be called once a block."""
        self.node.tend()

    def settle(self, patience_s: float) -> bool:
        """Wait until all transactions are final; False if some are not in time."""
        return self.node.settle(patience_s)


def open_chain(
    urls: Sequence[str] | Transport,
    signers: Sequence[Signer],
    policy: FeePolicy,
    *,
    chain_id: int | None = None,
    folder: Path | None = None,
    patience_seconds: float = DEFAULT_PATIENCE_S,
    say: Say = say_nothing,
) -> OwnChain:
    """Open a chain behind one of these addresses, for accounts that sign.

    Args:
        urls: nodes in the order of preference, or a transport to one.
        signers: the accounts, of which a program has any number.
        policy: what they pay.
        chain_id: the id that the chain must have.
        folder: where the journals are kept, by default one that all programs of this user share.
        patience_seconds: how long `send` waits for blocks.
        say: takes lines for people: which node is used, what was replaced, what the ceiling stops.

    Raises:
        ChainUnavailable: no node answers.
        ChainIdChanged: the chain has another id.
        AccountBusy: another process sends with one of the accounts.
        StoreError: a journal can't be kept.
    """
    if isinstance(urls, Sequence):
        addresses = [urls] if isinstance(urls, str) else urls
        transport: Transport = Endpoints(addresses, chain_id, say)
        url = " ".join(addresses)
    else:
        transport, url = urls, "here"
    with ExitStack() as undone:
        node = OwnNode(url, patience_seconds, transport)
        undone.callback(node.close)
        found = node.get_chain_id() if chain_id is None else chain_id
        for signer in signers:
            node.add_account(signer, policy, folder or find_folder(), found, say)
        chain = OwnChain(node, found)
        undone.pop_all()
    return chain
