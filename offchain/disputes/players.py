"""Which move a provider makes: a function of the chain and of its own run, nothing remembered.

A player that is killed and started again reads the job and its events and goes on. `None` means
that there is no move that would help.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from contracts.model.leaf import is_known
from contracts.model.moves import get_boundary, get_segments
from contracts.model.types import Job, Match
from contracts.reasons import Phase
from offchain.commitments.tensors import encode_elements
from offchain.commitments.tree import MAX_ARITY_LOG2, Digest, Tree
from offchain.disputes.board import Board, prove_in_trace
from offchain.disputes.openings import make_leaf
from offchain.programs.graph import Origin
from offchain.providers.run import Run


@dataclass(frozen=True, slots=True)
class Move:
    """A call of the referee; the job and the position come before its arguments."""

    call: str
    args: tuple[Any, ...]


def find_move(run: Run, job: Job, seat: int, board: Board) -> Move | None:
    """Return the move that a member makes now, if any."""
    match = job.match
    if match is None or not run.behaviour.plays or seat not in {match.defender, match.challenger}:
        return None
    if match.phase in {Phase.LEAF, Phase.SINK}:
        return _decide(run, match, board, is_defender=seat == match.defender)
    if seat == match.challenger:
        return _challenge(run, match, board) if match.opened else None
    return None if match.opened else _defend(run, job, match)


def get_tree(run: Run, match: Match) -> Tree | None:
    """Return this provider's version of the tree that is being descended."""
    every = run.task.checkpoint_every
    if match.phase is Phase.HISTORY:
        return run.history
    if match.phase is Phase.INTERVAL:
        first = match.first_step
        return run.interval(first, min(first + every, run.task.steps))
    if match.phase is Phase.TRACE:
        return run.trace(match.step)
    if match.phase is Phase.TENSOR:
        return run.tensor(match.step, Origin.NODE, match.operator).tree
    return run.state_tree(match.step + 1)


def _find_difference(mine: Sequence[object], theirs: Sequence[object]) -> int | None:
    pairs = zip(mine, theirs, strict=True)
    return next((i for i, (a, b) in enumerate(pairs) if a != b), None)


def _challenge(run: Run, match: Match, board: Board) -> Move | None:
    if match.phase is Phase.CHUNK:
        return _pick_element(run, match, board.data)
    if match.phase is Phase.FOLD:
        return _pick_segment(run, match, board.data)
    tree = get_tree(run, match)
    assert tree is not None
    child = _find_difference(tree.children(match.level, match.index), board.nodes)
    if child is None:
        return None
    return Move("pick", (child, board.nodes[child], _prove_child(match, tree, board, child)))


def _prove_child(match: Match, tree: Tree, board: Board, child: int) -> list[Digest]:
    """Return the siblings of an opened child up to the node that was opened."""
    opened = Tree(tree.tag, board.nodes)
    down = min(match.level, MAX_ARITY_LOG2)
    return opened.proof(child)[:down]


def _pick_element(run: Run, match: Match, chunk: bytes) -> Move | None:
    mine = run.tensor(match.step, Origin.NODE, match.operator).chunk(match.index)
    size = match.width
    pieces = range(0, len(chunk), size)
    place = _find_difference(
        [mine[i : i + size] for i in pieces], [chunk[i : i + size] for i in pieces]
    )
    return None if place is None else Move("pick_element", (chunk, place))


def _get_partials(run: Run, match: Match) -> list[bytes]:
    """Return the accumulators at the boundaries of the segments, the first and last included."""
    partials = run.partials(match.step, match.operator, match.element)
    boundaries = [get_boundary(match, i) for i in range(get_segments(match))] + [match.high]
    return [encode_elements(partials[i : i + 1]).tobytes() for i in boundaries]


def _pick_segment(run: Run, match: Match, values: bytes) -> Move | None:
    mine = _get_partials(run, match)[1:]
    size = match.width
    theirs = [values[i : i + size] for i in range(0, len(values), size)]
    theirs.append(match.high_bits.to_bytes(size, "little"))
    segment = _find_difference(mine, theirs)
    return None if segment is None else Move("pick_segment", (values, segment))


def _defend(run: Run, job: Job, match: Match) -> Move | None:
    if match.phase in _ENTRANCES:
        return _ENTRANCES[match.phase](run, job, match)
    if match.phase is Phase.CHUNK:
        tensor = run.tensor(match.step, Origin.NODE, match.operator)
        return Move("open_chunk", (tensor.chunk(match.index),))
    if match.phase is Phase.FOLD:
        return Move("open_fold", (b"".join(_get_partials(run, match)[1:-1]),))
    tree = get_tree(run, match)
    if tree is None or tree.node(match.level, match.index) != match.node:
        return None
    return Move("open", (tree.children(match.level, match.index),))


def _before(run: Run, match: Match) -> tuple[Digest, list[Digest]]:
    """Return the last agreed state's root, with its proof in the tree that was descended."""
    is_interval = match.phase is Phase.ENTER_TRACE and run.task.checkpoint_every > 1
    last = min(match.first_step + run.task.checkpoint_every, run.task.steps)
    is_interval = is_interval and last - match.first_step > 1
    tree = run.interval(match.first_step, last) if is_interval else run.history
    return tree.node(0, match.tree_index - 1), tree.proof(match.tree_index - 1)


def _enter_interval(run: Run, job: Job, match: Match) -> Move | None:
    before, proof = _before(run, match)
    last = min(match.first_step + job.terms.checkpoint_every, job.terms.steps)
    tree = run.interval(match.first_step, last)
    if tree.node(0, tree.count - 1) != match.node:
        return None
    args = (before, proof, tree.top, tree.proof(0), tree.proof(tree.count - 1))
    return Move("enter_interval", args)


def _enter_trace(run: Run, _: Job, match: Match) -> Move | None:
    before, proof = _before(run, match)
    tree = run.trace(match.step)
    if tree.node(0, tree.count - 1) != match.node:
        return None
    return Move("enter_trace", (before, proof, tree.top, tree.proof(tree.count - 1)))


def _enter_operator(run: Run, _: Job, match: Match) -> Move | None:
    commitment = run.task.commitment
    tensor = run.tensor(match.step, Origin.NODE, match.operator)
    if tensor.root != match.node:
        return None
    encoding = commitment.encodings[match.operator]
    proof = commitment.tree.proof(match.operator)
    return Move("enter_operator", (encoding, proof, tensor.top))


def _enter_state(run: Run, _: Job, match: Match) -> Move | None:
    return Move("enter_state", (run.state_tree(match.step + 1).top,))


_ENTRANCES = {
    Phase.ENTER_INTERVAL: _enter_interval,
    Phase.ENTER_TRACE: _enter_trace,
    Phase.ENTER_OPERATOR: _enter_operator,
    Phase.ENTER_STATE: _enter_state,
}


def _decide(run: Run, match: Match, board: Board, *, is_defender: bool) -> Move | None:
    """Return the proof that ends the match, when it ends it in this player's favour."""
    trace = run.trace(match.step)

    def prove(operator: int) -> list[Digest]:
        return trace.proof(operator) if is_defender else prove_in_trace(board, trace, operator)

    if match.phase is Phase.SINK:
        sink = run.task.program.first_sink + match.index
        root = trace.node(0, sink)
        helps = (root == match.node) == is_defender
        return Move("prove_sink", (root, prove(sink))) if helps else None
    encoding = run.task.commitment.encodings[match.operator]
    if not is_known(run.task.program.nodes[match.operator]):
        return Move("refer", (encoding,))
    leaf = make_leaf(run, match, prove)
    helps = (leaf.result == match.high_bits) == is_defender
    return Move("leaf", (encoding, leaf.openings)) if helps else None
