"""Stories about a referee, told once: on a model, beside its contract, or to be recorded."""

from collections.abc import Collection, Iterable, Mapping
from typing import Any, Protocol

from moot.contracts.model.checks import name_job, name_match
from moot.contracts.model.types import (
    ZERO,
    Address,
    Event,
    Pair,
    Position,
    Store,
    Terms,
    start_facts,
)
from moot.contracts.model.words import hash_commitment
from moot.contracts.reasons import Phase
from moot.offchain.arithmetic.base import Arithmetic
from moot.offchain.commitments.tree import Digest
from moot.offchain.disputes.play.openings import make_leaf
from moot.offchain.disputes.play.players import Move, find_move
from moot.offchain.disputes.referee.board import Board, get_pair, read_move
from moot.sim.synthetic_jobs import SyntheticRun


class Ground(Protocol):
    """Where a story is told.

    Attributes:
        block: the block of the next call.
    """

    block: int

    @property
    def store(self) -> Store:
        """The model of the referee."""

    def call(self, name: str, sender: Address, *args: Any, value_wei: int = 0) -> str | None:
        """Make a call, and return why it was refused."""


def commit(
    ground: Ground, member: Address, top: Digest, salt: Digest = ZERO, job_id: int = 0
) -> str | None:
    """Let a member hide its claim, with the right bond."""
    store = ground.store
    digest = hash_commitment(store, job_id, member, top, salt)
    args, bond_wei = (job_id, digest, name_job(store, job_id)), store.jobs[job_id].terms.bond_wei
    return ground.call("commit", member, *args, value_wei=bond_wei)


def join(ground: Ground, member: Address, top: Digest, job_id: int = 0) -> str | None:
    """Let a member come late with a claim, with the right bond."""
    store = ground.store
    args, bond_wei = (job_id, top, name_job(store, job_id)), store.jobs[job_id].terms.bond_wei
    return ground.call("join", member, *args, value_wei=bond_wei)


def assemble(
    ground: Ground,
    tops: Mapping[Address, Digest],
    salt: Digest = ZERO,
    hidden: Collection[Address] = (),
) -> None:
    """Let members of job 0 hide their claims and then show them, but for some."""
    for member, top in tops.items():
        commit(ground, member, top, salt)
    job = ground.store.jobs[0]
    ground.block = job.commit_deadline + 1
    for member, top in tops.items():
        if member not in hidden:
            ground.call("reveal", member, 0, top, salt)
    ground.block = job.reveal_deadline + 1


def meet(
    ground: Ground, sender: Address, one: Address, other: Address, job_id: int = 0
) -> str | None:
    """Let somebody begin a match of two members."""
    first, second = sorted((one, other), key=lambda it: int(it, 16))
    args = name_match(ground.store, Pair(job_id, first, second))
    return ground.call("start_match", sender, *args)


def follow(boards: dict[Pair, Board], events: Iterable[Event], arithmetic: Arithmetic) -> None:
    """Let boards be those of the matches that go on after some events."""
    for event in events:
        match event.name, event.args[3:]:
            case "MatchStarted", (Position() as position,):
                pair = get_pair(event)
                boards[pair] = Board(pair, position, start_facts(arithmetic))
            case (("Found" | "Moved"), _):
                boards[get_pair(event)] = read_move(boards[get_pair(event)], event)
            case "MatchEnded", _:
                del boards[get_pair(event)]


def find_call(run: SyntheticRun, terms: Terms, board: Board, side: int) -> Move:
    """Return the move of a side of a match.

    Whoever gains by it, at a leaf or a sink the call that decides is made.
    """
    return find_move(run, terms, board, side) or decide(run, board, side)


def decide(run: SyntheticRun, board: Board, side: int) -> Move:
    """Return the call that decides a match at its leaf or sink, whoever gains by it."""
    place, program = board.facts, run.task.commitment
    if board.position.phase is Phase.SINK:
        trace, sink = run.trace(place.step), run.task.program.first_sink + board.position.index
        return Move("prove_sink", (place, side, trace.node(0, sink), tuple(trace.proof(sink))))
    leaf, encoding = make_leaf(run, place), program.encodings[place.operator]
    return Move("leaf", (place, side, encoding, leaf.before, leaf.before_proof, leaf.evidence))
