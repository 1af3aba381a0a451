"""The forms of a referee's entities in a record: jobs, members, claims and matches."""

from dataclasses import dataclass

from moot.contracts.model.checks import get_member
from moot.contracts.model.types import Address, Claim, Pair
from moot.contracts.reasons import Phase, Standing
from moot.offchain.commitments.tree import Digest
from moot.offchain.disputes.referee.board import Board
from moot.offchain.programs.graph import Kind, Node
from moot.offchain.record import schema
from moot.offchain.record.books import Books
from moot.offchain.record.numbers import Numbers
from moot.offchain.record.steps import get_mover

_AT_ELEMENT = frozenset({Phase.FOLD, Phase.LEAF})
_AT_OPERATOR = _AT_ELEMENT | {Phase.TENSOR, Phase.CHUNK}
_IN_STEP = _AT_OPERATOR | {Phase.TRACE, Phase.STATE, Phase.SINK, Phase.VERIFIER}


@dataclass(frozen=True, slots=True)
class Course:
    """A match's course: what its events have shown.

    Attributes:
        number: of the match, among all of the referee.
        claims: the tops of the two sides' histories.
        started_block: the block in which it began.
        board: where it stands, or stood at its end.
        node: the operator that somebody has shown, if anybody has.
        scalar: what the contract has computed, if it has.
        end: how it ended, if it has.
    """

    number: int
    claims: tuple[Digest, Digest]
    started_block: int
    board: Board
    node: Node | None = None
    scalar: schema.Scalar | None = None
    end: schema.End | None = None

    @property
    def pair(self) -> Pair:
        """The members that play it."""
        return self.board.pair


def show_account(address: Address) -> str:
    """Return an address as records have it: in small letters."""
    return address.lower()


def show_digest(digest: Digest) -> str:
    """Return a digest in hexadecimal."""
    return "0x" + digest.hex()


def show_job(books: Books, job_id: int) -> schema.Job:
    """Return a job as it stands."""
    job, paid = books.store.jobs[job_id], books.paid_wei
    terms = job.terms
    return schema.Job(
        number=job_id,
        client=show_account(job.client),
        status=job.status.name.lower(),
        leaf=terms.leaf_mode.name.lower(),
        reward_wei=str(job.reward_wei),
        bond_wei=str(terms.bond_wei),
        prize_wei=str(terms.prize_wei),
        opened_block=job.opened_block,
        commit_deadline=job.commit_deadline,
        reveal_deadline=job.reveal_deadline,
        window_end=job.window_end,
        steps=terms.steps,
        checkpoint_every=terms.checkpoint_every,
        operators=terms.operators,
        state_slots=terms.state_slots,
        hidden=job.hidden,
        claims=job.claims,
        defeated=job.defeated,
        burned_wei=str(books.burned_wei.get(job_id, 0)),
        paid_wei=str(sum(wei for (of_job, _), wei in paid.items() if of_job == job_id)),
        winner=show_digest(books.winners[job_id]) if job_id in books.winners else "",
    )


def show_member(books: Books, job_id: int, address: Address) -> schema.Member:
    """Return a member as it stands."""
    member = get_member(books.store, job_id, address)
    claim = books.store.claims.get((job_id, member.key))
    return schema.Member(
        job=job_id,
        address=show_account(address),
        standing=member.standing.name.lower(),
        claim=show_digest(claim.top) if claim and member.standing > Standing.COMMITTED else "",
        prizes=member.prizes,
        paid_wei=str(books.paid_wei.get((job_id, address), 0)),
    )


def show_claim(job_id: int, claim: Claim) -> schema.Claim:
    """Return a claim as it stands."""
    return schema.Claim(
        job=job_id,
        top=show_digest(claim.top),
        contenders=claim.contenders,
        sharers=claim.sharers,
        meeting=claim.meeting,
        window_end=claim.window_end,
    )


def show_match(course: Course, found: schema.Found, digest: str) -> schema.Match:
    """Return a match as it stands."""
    pair, position = course.pair, course.board.position
    return schema.Match(
        number=course.number,
        job=pair.job_id,
        sides=(show_account(pair.first), show_account(pair.second)),
        claims=(show_digest(course.claims[0]), show_digest(course.claims[1])),
        started_block=course.started_block,
        phase=position.phase.name.lower(),
        mover=get_mover(position),
        moves=position.moves,
        deadline=position.deadline,
        spare_blocks=position.spare_blocks,
        clock_blocks=position.clock_blocks,
        increment_blocks=position.increment_blocks,
        digest=digest,
        found=found,
        scalar=course.scalar,
        end=course.end,
    )


def show_found(course: Course, numbers: Numbers, name: str) -> schema.Found:
    """Return what a match has found out so far, as far as its phase says that it has."""
    facts, position = course.board.facts, course.board.position
    phase = position.phase
    if phase is Phase.HISTORY:
        return schema.Found()
    if phase not in _IN_STEP:
        return schema.Found(checkpoint=facts.checkpoint)
    operator = element = None
    if phase in _AT_OPERATOR:
        operator = _show_operator(facts.operator, name, course.node)
    elif phase is Phase.VERIFIER:
        operator = schema.Operator(index=position.index, name=name)
    if phase in _AT_ELEMENT:
        element = facts.element
        is_fold = facts.fold_length > 0
        agreed = numbers.accumulator(facts.low_bits) if is_fold and facts.low else None
        claimed = tuple(numbers.claimed(facts, bits) for bits in facts.bits)
        return schema.Found(
            checkpoint=facts.checkpoint,
            step=facts.step,
            operator=operator,
            element=element,
            low=facts.low if is_fold else None,
            high=facts.high if is_fold else None,
            fold_length=facts.fold_length,
            agreed=agreed,
            claimed=(claimed[0], claimed[1]),
        )
    return schema.Found(checkpoint=facts.checkpoint, step=facts.step, operator=operator)


def _show_operator(index: int, name: str, node: Node | None) -> schema.Operator:
    if node is None:
        return schema.Operator(index=index, name=name)
    function = "fma" if node.kind is Kind.CONTRACT else node.function.name.lower()
    return schema.Operator(index=index, name=name, kind=node.kind.name.lower(), function=function)
