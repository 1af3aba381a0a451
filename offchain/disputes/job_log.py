"""The log of one job's events, which follows the chain through reorganisations."""

from collections.abc import Callable, Iterator

from contracts.model.abi import EventReader
from contracts.model.types import Event
from contracts.model.words import hash_pair
from offchain.chain import Chain, Contract
from offchain.chain import Event as ChainEvent
from offchain.commitments.tree import Digest
from offchain.disputes.board import get_pair

KEYS_AT_ONCE = 500
"""For so many matches at once a node is asked; some refuse longer lists."""

_Found = tuple[tuple[int, int], ChainEvent]


class JobLog:
    """The events of a job, read on from the latest block that the chain still has.

    With each reading the hash of the block is kept up to which it went. As long as the chain has a
    block of that hash, all that was read before stands; where it has another, reading goes on from
    the latest of these blocks that it still has, however deep that lies. So nothing is final but
    what the chain holds.

    Args:
        chain: the chain.
        contract: the referee.
        job_id: the job.
        find_first: returns the block in which the job was opened, or any before; that may change
            as long as nothing was read of blocks that the chain still has.
        reader: reads the contract's events.
    """

    def __init__(
        self,
        chain: Chain,
        contract: Contract,
        job_id: int,
        find_first: Callable[[], int],
        reader: EventReader,
    ) -> None:
        self._chain = chain
        self._contract = contract
        self._job_key = job_id.to_bytes(32, "big")
        self._find_first = find_first
        self._reader = reader
        self._marks: list[tuple[int, Digest]] = []
        self._events: list[tuple[int, Event]] = []
        self._match_keys: dict[Digest, None] = {}

    def read(self) -> list[Event]:
        """Return the events that the chain holds now, in order."""
        while True:
            head = self._chain.block_number()
            digest = self._chain.block_hash(head)
            self._forget_replaced()
            known = self._marks[-1][0] if self._marks else self._find_first() - 1
            found = list(self._fetch(known + 1, head)) if head > known else []
            # What was read while blocks were being replaced may be of both chains.
            if digest is not None and self._chain.block_hash(head) == digest:
                break
        self._events += found
        if head > known:
            self._marks.append((head, digest))
        return [event for _, event in self._events]

    def _forget_replaced(self) -> None:
        """Forget what was read of blocks that the chain does not have any more."""
        count = len(self._marks)
        while self._marks and self._chain.block_hash(self._marks[-1][0]) != self._marks[-1][1]:
            self._marks.pop()
        if len(self._marks) < count:
            known = self._marks[-1][0] if self._marks else -1
            self._events = [(block, event) for block, event in self._events if block <= known]

    def _fetch(self, first: int, last: int) -> Iterator[tuple[int, Event]]:
        """Yield the events of some blocks, with their blocks: the job's, and its matches'."""
        of_job = self._contract.events(first, last, [self._job_key])
        for _, found in of_job:
            if found.name == "MatchStarted":
                pair = get_pair(self._read(found))
                self._match_keys[hash_pair(pair)] = None
        of_matches: list[_Found] = []
        keys = list(self._match_keys)
        for start in range(0, len(keys), KEYS_AT_ONCE):
            chosen = keys[start : start + KEYS_AT_ONCE]
            of_matches += self._contract.events(first, last, chosen)
        for (block, _), found in sorted([*of_job, *of_matches], key=lambda it: it[0]):
            yield block, self._read(found)

    def _read(self, found: ChainEvent) -> Event:
        return self._reader.read(found.name, tuple(found.args.values()))
