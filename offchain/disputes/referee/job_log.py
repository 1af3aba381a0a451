"""The log of one job's events, which follows the chain through reorganisations."""

from collections.abc import Callable, Iterator

from moot.contracts.model.abi import EventReader
from moot.contracts.model.types import Event
from moot.contracts.model.words import hash_pair
from moot.offchain.chain import Chain, Contract
from moot.offchain.chain import Event as ChainEvent
from moot.offchain.commitments.tree import Digest
from moot.offchain.disputes.referee.board import get_pair
from moot.offchain.disputes.referee.chain_log import ChainLog

KEYS_AT_ONCE = 500
"""For so many matches at once a node is asked; some refuse longer lists."""

_Found = tuple[tuple[int, int], ChainEvent]


class JobLog:
    """The events of a job and of its matches, as the chain holds them.

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
        self._contract = contract
        self._job_key = job_id.to_bytes(32, "big")
        self._reader = reader
        self._log = ChainLog(chain, find_first, self._fetch)
        self._match_keys: dict[Digest, None] = {}

    def read(self) -> list[Event]:
        """Return the events that the chain holds now, in order."""
        return self._log.read()

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
