"""The books of a referee: its state, put together from its events alone."""

from dataclasses import dataclass, field, replace
from typing import Any, cast

from moot.contracts.model.checks import find_claim, get_member, is_rival, put_claim
from moot.contracts.model.ledger import close_job, end_match
from moot.contracts.model.types import Address, Claim, Event, Job, Member, Pair, Position, Store
from moot.contracts.model.words import hash_position, hash_top
from moot.contracts.reasons import Outcome, Standing, Status
from moot.offchain.commitments.tree import Digest
from moot.offchain.disputes.referee.board import get_pair


@dataclass
class Books:
    """A referee's state, in the model's own form, with what it forgets.

    Sealed commitments are not in events: the key of a member that has not revealed is zeros.

    Attributes:
        store: the state.
        positions: where every match stands or stood last.
        paid_wei: what was collected, by job and account.
        burned_wei: what was burned, by job.
        winners: the claims that have won, by job.
    """

    store: Store
    positions: dict[Pair, Position] = field(default_factory=dict)
    paid_wei: dict[tuple[int, Address], int] = field(default_factory=dict)
    burned_wei: dict[int, int] = field(default_factory=dict)
    winners: dict[int, Digest] = field(default_factory=dict)

    def open(self, job_id: int, job: Job) -> None:
        """Note a job as it was opened."""
        terms = job.terms
        windows = terms.commit_blocks + terms.reveal_blocks + terms.window_blocks
        end = job.opened_block + windows
        self.store.jobs[job_id] = Job(job.client, terms, job.reward_wei, job.opened_block, end)
        self.store.balance_wei += job.reward_wei

    def apply(self, event: Event, block: int) -> None:
        """Note what a block's event announces."""
        args = cast("tuple[Any, ...]", event.args)
        match event.name:
            case "Committed":
                self._commit(*args)
            case "Claimed":
                self._show(*args)
            case "MatchStarted":
                self._start(get_pair(event), args[3], block)
            case "Moved":
                self._put(get_pair(event), args[3])
            case "MatchEnded":
                self._end(get_pair(event), args[3])
            case "Settled":
                self._settle(*args)
            case "Collected":
                self._pay(*args)
        self.store.commit()

    def _commit(self, job_id: int, account: Address) -> None:
        job = self.store.jobs[job_id]
        self.store.jobs[job_id] = replace(job, hidden=job.hidden + 1)
        self.store.members[job_id, account] = Member(Standing.COMMITTED)
        self.store.balance_wei += job.terms.bond_wei

    def _show(self, job_id: int, account: Address, top: Digest) -> None:
        """Note a claim: it was hidden, or its member joins late with it."""
        store, job = self.store, self.store.jobs[job_id]
        is_first = get_member(store, job_id, account).standing is Standing.COMMITTED
        claim = find_claim(store, job_id, top) or Claim(top)
        job = replace(job, claims=job.claims + (claim.contenders == 0))
        if is_first:
            job = replace(job, hidden=job.hidden - 1)
        else:
            store.balance_wei += job.terms.bond_wei
        store.jobs[job_id] = job
        counts = claim.contenders + 1, claim.sharers + is_first
        put_claim(store, job_id, replace(claim, contenders=counts[0], sharers=counts[1]))
        standing = Standing.REVEALED if is_first else Standing.LATE
        store.members[job_id, account] = Member(standing, hash_top(top))

    def _start(self, pair: Pair, position: Position, block: int) -> None:
        """Note a match, and that its claims meet if they have not yet."""
        store, job_id = self.store, pair.job_id
        claims = [self.get_claim(job_id, address) for address in (pair.first, pair.second)]
        if not is_rival(claims[0], claims[1]):
            job = store.jobs[job_id]
            number, end = job.meetings + 1, block + job.terms.window_blocks
            for claim in claims:
                put_claim(store, job_id, replace(claim, meeting=number, window_end=end))
            store.jobs[job_id] = replace(job, meetings=number, window_end=end)
        self._put(pair, position)

    def get_claim(self, job_id: int, account: Address) -> Claim:
        """Return the claim of a member that has shown it."""
        return self.store.claims[job_id, self.store.members[job_id, account].key]

    def _put(self, pair: Pair, position: Position) -> None:
        self.positions[pair] = position
        self.store.matches[pair] = hash_position(pair, position)

    def _end(self, pair: Pair, outcome: Outcome) -> None:
        members = self.store.members
        rivals = (members[pair.job_id, pair.first], members[pair.job_id, pair.second])
        end_match(self.store, pair, outcome, rivals=rivals)

    def _settle(self, job_id: int, status: Status, top: Digest) -> None:
        store, burned = self.store, self.store.burned_wei
        claim = find_claim(store, job_id, top) if status is Status.WON else None
        close_job(store, job_id, store.jobs[job_id], status, claim.sharers if claim else 0)
        self.burned_wei[job_id] = store.burned_wei - burned
        if claim:
            self.winners[job_id] = top

    def _pay(self, job_id: int, account: Address, amount_wei: int) -> None:
        store, job = self.store, self.store.jobs[job_id]
        member = get_member(store, job_id, account)
        if member.keeps_bond(job.status):
            store.members[job_id, account] = replace(member, standing=Standing.PAID)
        if account == job.client:
            store.jobs[job_id] = replace(job, is_client_owed=False)
        store.balance_wei -= amount_wei
        self.paid_wei[job_id, account] = self.paid_wei.get((job_id, account), 0) + amount_wei
