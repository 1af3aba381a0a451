"""What a party serves of its jobs, and from when on: nothing by which its work could be copied.

All that is computed lies in the job's folder, which nobody else reads. The served folder gets the
history once no claim can be committed to or shown any more, and the final state once the reward
cannot go to anybody else (docs/how-to/parties.md has the table).
"""

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from enum import IntEnum

from moot.contracts.model.types import Job
from moot.contracts.reasons import Standing, Status
from moot.offchain.commitments.tensors import compute_history_root
from moot.offchain.commitments.tree import Digest, Tree
from moot.offchain.datastore.alone import ServerProcess
from moot.offchain.datastore.objects import HISTORIES, STATES, TENSORS, name_object
from moot.offchain.parties.context import PartyContext
from moot.offchain.providers.store import Store

_PAID = frozenset({Standing.REVEALED, Standing.LATE, Standing.PAID})
"""Where a member of the claim stands that has won: its money is its own, or will be."""


class Stage(IntEnum):
    """The stage of a job at one of its members, by what the member serves of it."""

    HIDDEN = 0
    SHOWN = 1
    """Claims can't be committed to or shown any more: the history, and evidence in matches."""
    PAID = 2
    """The member's claim has won: its final state, too."""


def is_shown(job: Job, block: int, confirmations: int = 0) -> bool:
    """Whether the time in which claims are shown ended so many blocks before this one."""
    return block > job.reveal_deadline + confirmations


def has_won(job: Job, standing: Standing, claim: Digest, claims: Collection[Digest]) -> bool:
    """Whether a job is won by a member's claim, so that the member is paid.

    Args:
        job: the job.
        standing: where the member stands in it.
        claim: the top of the history that it has computed.
        claims: the tops of the claims that are left.
    """
    return job.status is Status.WON and standing in _PAID and [*claims] == [claim]


def publish(results: Store, private: Store, history: Tree, stage: Stage) -> None:
    """Serve of a job what its stage lets be served; what is served already stays as it is.

    Tensors get another name on the same disk, and no copy. A state appears after its tensors.

    Args:
        results: the store that is served.
        private: the job's own store.
        history: what the party has computed.
        stage: the job's stage at the party.

    Raises:
        StoreError: the disk fails; it may be tried again.
    """
    roots = [history.node(0, place) for place in range(history.count)]
    name = name_object(HISTORIES, compute_history_root(roots))
    if stage >= Stage.SHOWN and results.disk.get_size(name) is None:
        results.put_roots(HISTORIES, roots)
    state = name_object(STATES, roots[-1])
    if stage >= Stage.PAID and private.disk.get_size(state) is not None:
        tensors = [name_object(TENSORS, it) for it in private.get_roots(STATES, roots[-1])]
        results.disk.share(private.disk, tensors)
        results.disk.share(private.disk, [state])


def is_published(results: Store, state: Digest) -> bool:
    """Whether the state of this root is served."""
    return results.disk.get_size(name_object(STATES, state)) is not None


@contextmanager
def serving(context: PartyContext, results: Store) -> Iterator[ServerProcess]:
    """Serve a party's results meanwhile."""
    settings = context.settings
    with ServerProcess(results.path, settings.host, settings.port) as server:
        context.tell("serving", f"serving results at {server.url}", url=server.url)
        yield server
