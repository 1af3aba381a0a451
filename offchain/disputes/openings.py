"""The last move: the operands of one scalar operation, with their proofs."""

from collections.abc import Callable
from dataclasses import dataclass

from contracts.model.types import NO_OPENING, Match, Opening
from offchain.commitments.tags import CHUNK_BYTES
from offchain.commitments.tree import Digest
from offchain.programs.graph import Kind, Node, Operand, Origin
from offchain.programs.semantics import (
    Fetch,
    compute_initial,
    compute_step,
    is_matching,
    read,
    unravel,
)
from offchain.providers.run import Run

TraceProof = Callable[[int], list[Digest]]
"""Proves an operator's output root against the trace that is disputed."""


@dataclass(frozen=True, slots=True)
class Leaf:
    """A scalar operation: its proven operands, the bits of its arguments, and its result."""

    openings: tuple[Opening, ...]
    arguments: tuple[int, ...]
    result: int


def make_leaf(run: Run, match: Match, prove: TraceProof) -> Leaf:
    """Return the scalar operation that a match has come down to, as this provider computes it."""
    node = run.task.program.nodes[match.operator]
    openings: dict[int, Opening] = {}

    def fetch(place: int, operand: Operand, index: int) -> int:
        openings[place], bits = _open(run, match.step, operand, index, prove)
        return bits

    accumulator = match.low_bits
    if node.kind.folds and match.low == 0:
        accumulator = compute_initial(node, match.element, fetch)
    if node.kind.folds and node.fold_length == 0:
        result, arguments = accumulator, [accumulator]
    else:
        place = (node, match.element, match.low, accumulator)
        result = compute_step(*place, match.step, fetch)
        arguments = get_arguments(*place, result, fetch)
    places = range(max(openings, default=-1) + 1)
    return Leaf(tuple(openings.get(i, NO_OPENING) for i in places), tuple(arguments), result)


def get_arguments(
    node: Node, element: int, position: int, accumulator: int, result: int, fetch: Fetch
) -> list[int]:
    """Return the arguments of the scalar function: those of the fold's step for a fold."""
    variables = unravel(element, node.shape)
    if node.kind is Kind.MAP:
        return [read(i, operand, variables, fetch) for i, operand in enumerate(node.operands)]
    if node.kind is Kind.RANDOM:
        return []
    if not node.kind.folds:
        return [result]
    variables += unravel(position, node.fold_shape)
    if node.kind is Kind.CONTRACT:
        a, b = (read(i, node.operands[i], variables, fetch) for i in (1, 2))
        return [a, b, accumulator]
    if node.kind is Kind.SCATTER and not is_matching(node, variables, fetch):
        return [accumulator]
    return [accumulator, read(1, node.operands[1], variables, fetch)]


def _open(
    run: Run, step: int, operand: Operand, index: int, prove: TraceProof
) -> tuple[Opening, int]:
    """Return an element's proof and its bits."""
    tensor = run.tensor(step, operand.origin, operand.reference)
    place, start = divmod(index * operand.dtype.width, CHUNK_BYTES)
    chunk = tensor.chunk(place)
    assert tensor.tree is not None
    opening = Opening(
        header=tensor.header,
        chunk=chunk,
        chunk_proof=tuple(tensor.tree.proof(place)),
        root_proof=tuple(prove_root(run, step, operand, prove)),
    )
    return opening, int.from_bytes(chunk[start : start + operand.dtype.width], "little")


def prove_root(run: Run, step: int, operand: Operand, prove: TraceProof) -> list[Digest]:
    """Return the proof of an operand's tensor root against the agreed root of its origin."""
    if operand.origin is Origin.NODE:
        return prove(operand.reference)
    if operand.origin is Origin.STATE:
        return run.state_tree(step).proof(operand.reference)
    data = run.task.data_tree
    assert data is not None
    return data.proof(step * len(run.task.program.batch) + operand.reference)
