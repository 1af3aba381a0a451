"""Broken rules: referees that are each wrong in one place, to show that a search finds out.

A rule is broken for this process, as long as a `with` lasts. The contract stays as it is.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from moot.contracts.model import descent, legality, tournament, verdicts
from moot.contracts.model.checks import NEW, require
from moot.contracts.model.leaf import Context, compute_leaf
from moot.contracts.model.referee import CALLS
from moot.contracts.model.turns import Turn, load
from moot.contracts.model.types import (
    Dive,
    Member,
    Message,
    Pair,
    Position,
    Store,
    Terms,
)
from moot.contracts.reasons import Ending, Outcome, Reason, Standing, Status
from moot.offchain.arithmetic.base import Arithmetic
from moot.offchain.arithmetic.functions import Function
from moot.offchain.commitments.tree import Digest, get_block
from moot.offchain.errors import UsageError
from moot.offchain.programs.graph import Node
from moot.sim.adversary.swaps import Swap, swap


@dataclass(frozen=True, slots=True)
class BrokenRule:
    """A rule that does not hold: what is wrong, and what is put in its place."""

    about: str
    swaps: Sequence[Swap]


def _time_out_at_once(store: Store, message: Message, pair: Pair, position: Position) -> None:
    turn = load(store, message, pair, position)
    turn.end(Ending.CLOCK, Outcome(1 - turn.mover))


def _time_out_the_other(store: Store, message: Message, pair: Pair, position: Position) -> None:
    turn = load(store, message, pair, position)
    require(message.block > position.deadline, Reason.CLOCK_RUNNING)
    turn.end(Ending.CLOCK, Outcome(turn.mover))


_pass_on = Turn.pass_on
_join, _collect = tournament.on_join, tournament.on_collect


def _pass_on_for_nothing(turn: Turn, nodes: tuple[Digest, ...] = (), data: bytes = b"") -> None:
    full = turn.message.block + turn.position.clock_blocks
    turn.change(deadline=full)
    _pass_on(turn, nodes, data)


def _pass_on_ones_own(turn: Turn, nodes: tuple[Digest, ...] = (), data: bytes = b"") -> None:
    left = turn.position.deadline - turn.message.block
    turn.change(spare_blocks=left)
    _pass_on(turn, nodes, data)


def _compute_differences_wrongly(
    arithmetic: Arithmetic, context: Context, node: Node, data: bytes
) -> int:
    computed = compute_leaf(arithmetic, context, node, data)
    return computed ^ (node.function is Function.SUB)


def _join_unseen(
    store: Store, message: Message, job_id: int, top: Digest, terms_digest: int
) -> None:
    claims = store.jobs[job_id].claims
    _join(store, message, job_id, top, terms_digest)
    store.put(store.jobs, job_id, replace(store.jobs[job_id], claims=claims))


def _settle_disputed(store: Store, message: Message, job_id: int, top: Digest) -> None:
    job = store.jobs.get(job_id)
    if job is not None and job.claims > 1:
        store.put(store.jobs, job_id, replace(job, claims=1))
    tournament.on_settle(store, message, job_id, top)


def _collect_again(store: Store, message: Message, job_id: int) -> None:
    member = store.members.get((job_id, message.sender), NEW)
    _collect(store, message, job_id)
    if member is not NEW:
        store.put(store.members, (job_id, message.sender), member)


def _keep_bond(member: Member, status: Status) -> bool:
    del status
    return member.standing not in {Standing.NONE, Standing.COMMITTED, Standing.PAID}


def _tie_ones_own(turn: Turn, mine: Digest, dive: Dive) -> None:
    """Tie the mover's node alone to the position; see `descent._tie`."""
    require(mine != dive.node, Reason.SAME_NODE)
    pair = (mine, dive.node) if turn.mover == 0 else (dive.node, mine)
    above = descent._climb(turn, pair, dive.siblings)  # noqa: SLF001 - the rule that is broken
    is_tied = above is not None and above[turn.mover] == turn.position.nodes[turn.mover]
    require(is_tied, Reason.BAD_PROOF)
    turn.change(nodes=pair, span=get_block(turn.position.level))
    if turn.position.level == 0:
        turn.change(entered=0)


RULES: Mapping[str, BrokenRule] = {
    "early-timeout": BrokenRule(
        "a clock need not have run out", [(CALLS, "timeout", _time_out_at_once)]
    ),
    "other-timeout": BrokenRule(
        "whoever waits for the other side loses when its clock runs out",
        [(CALLS, "timeout", _time_out_the_other)],
    ),
    "free-clock": BrokenRule(
        "a move costs its side no time", [(Turn, "pass_on", _pass_on_for_nothing)]
    ),
    "shared-clock": BrokenRule(
        "a side gets what the other has left", [(Turn, "pass_on", _pass_on_ones_own)]
    ),
    "wrong-leaf": BrokenRule(
        "a difference of two numbers is computed wrongly",
        [(verdicts, "compute_leaf", _compute_differences_wrongly)],
    ),
    "unseen-joiner": BrokenRule(
        "a claim that is made late need not be met", [(CALLS, "join", _join_unseen)]
    ),
    "disputed-end": BrokenRule(
        "a job can be settled while claims differ", [(CALLS, "settle", _settle_disputed)]
    ),
    "kept-bond": BrokenRule(
        "who is defeated gets the bond back", [(Member, "keeps_bond", _keep_bond)]
    ),
    "whole-prize": BrokenRule(
        "the prize is the whole bond",
        [(Terms, "prize_wei", property(lambda terms: terms.bond_wei))],
    ),
    "paid-twice": BrokenRule(
        "what was collected can be collected again", [(CALLS, "collect", _collect_again)]
    ),
    "foreign-commitment": BrokenRule(
        "anybody commits to anything for a side", [(Turn, "require_own", lambda _: None)]
    ),
    "untied-node": BrokenRule(
        "a mover says what the other side's node is", [(descent, "_tie", _tie_ones_own)]
    ),
    "void-at-will": BrokenRule(
        "any operator is taken for one that is not legal",
        [(legality, "read_node", lambda _: _raise(Reason.BAD_OPERATOR))],
    ),
}
"""Each rule by its name."""


def _raise(reason: Reason) -> Node:
    require(False, reason)
    raise AssertionError(reason)


def find_rule(name: str) -> BrokenRule:
    """Return a rule by its name.

    Raises:
        UsageError: there is none.
    """
    if name not in RULES:
        raise UsageError.unknown("rule", name, RULES)
    return RULES[name]


@contextmanager
def breaking(name: str | None) -> Iterator[None]:
    """Break a rule of the model as long as this lasts; None breaks none."""
    undo: list[Callable[[], None]] = []
    for place, key, value in find_rule(name).swaps if name else ():
        undo.append(swap(place, key, value))
    try:
        yield
    finally:
        for restore in reversed(undo):
            restore()
