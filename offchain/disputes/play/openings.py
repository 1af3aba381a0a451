"""The last move: the operands of one scalar operation, proven against the mover's own trees."""

from dataclasses import dataclass

from moot.contracts.model.types import ZERO, Facts
from moot.offchain.commitments.tags import CHUNK_BYTES
from moot.offchain.commitments.tree import Digest, Tree
from moot.offchain.programs.graph import Kind, Node, Operand, Origin
from moot.offchain.programs.semantics import (
    Fetch,
    compute_initial,
    compute_step,
    finish,
    is_matching,
    read,
    unravel,
)
from moot.offchain.providers.testimony import Testimony


@dataclass(frozen=True, slots=True)
class Leaf:
    """A scalar operation: its proven operands, the bits of its arguments, and its result.

    A fold's accumulator is among the arguments as the element that it would be at the end.

    `before`, the state before the step, is shown only if an operand comes from it. `evidence` is
    what the leaf contract reads: see `moot.contracts.model.leaf.Evidence`.
    """

    before: Digest
    before_proof: tuple[Digest, ...]
    evidence: bytes
    arguments: tuple[int, ...]
    result: int


def make_leaf(run: Testimony, facts: Facts) -> Leaf:
    """Return the scalar operation that a match has come down to, as this provider computes it."""
    program = run.task.program
    node, arithmetic = program.nodes[facts.operator], program.arithmetic
    openings: dict[int, bytes] = {}
    origins: set[Origin] = set()
    known: dict[Origin, int] = {}

    def fetch(place: int, operand: Operand, index: int) -> int:
        opening, bits = _open(run, facts.step, operand, index)
        if place not in openings:
            openings[place] = opening + b"".join(_link(run, facts.step, operand, known))
        origins.add(operand.origin)
        return bits

    accumulator = facts.low_bits
    if node.kind.folds and facts.low == 0:
        accumulator = compute_initial(arithmetic, node, facts.element, fetch)
    place = (node, facts.element, facts.low, accumulator)
    result = compute_step(arithmetic, *place, facts.step, fetch)
    shown = finish(arithmetic, node, accumulator)
    arguments = [shown]
    if not node.kind.folds or facts.low < node.fold_length:
        arguments = get_arguments(node, facts.element, facts.low, shown, result, fetch)
    before, proof = prove_before(run, facts) if Origin.STATE in origins else (ZERO, ())
    return Leaf(before, proof, b"".join(openings.values()), tuple(arguments), result)


def prove_before(run: Testimony, facts: Facts) -> tuple[Digest, tuple[Digest, ...]]:
    """Return the agreed state before the disputed step, with its proof in the mover's tree.

    The job's start is in no tree, and has no proof.
    """
    if facts.step == 0:
        return run.task.start_root, ()
    place = facts.step - facts.first_step
    if place:
        tree, index = run.interval(facts.first_step), place - 1
    else:
        tree, index = run.history, facts.checkpoint - 1
    return tree.node(0, index), tuple(tree.proof(index))


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


def _open(run: Testimony, step: int, operand: Operand, index: int) -> tuple[bytes, int]:
    """Return the proof of an element in its tensor, and its bits."""
    tensor = run.tensor(step, operand.origin, operand.reference)
    place, start = divmod(index * operand.dtype.width, CHUNK_BYTES)
    chunk = tensor.chunk(place)
    assert tensor.tree is not None
    siblings = tensor.tree.proof(place)
    opening = b"".join((tensor.header, chunk.ljust(CHUNK_BYTES, b"\0"), *siblings))
    return opening, int.from_bytes(chunk[start : start + operand.dtype.width], "little")


def _link(
    run: Testimony, step: int, operand: Operand, known: dict[Origin, int]
) -> tuple[Digest, ...]:
    """Return the proof of an operand's tensor root, as far as the latest full one, if it meets it.

    `known` has the operand of that one, by the tree in which it lies; `moot.contracts.model.leaf`
    says where two proofs meet.
    """
    tree, index = _find_root(run, step, operand)
    if operand.origin in known:
        return tuple(tree.proof(index, high=(known[operand.origin] ^ index).bit_length() - 1))
    if operand.origin is not Origin.BATCH:
        known.clear()
        known[operand.origin] = index
    return tuple(tree.proof(index))


def prove_root(run: Testimony, step: int, operand: Operand) -> tuple[Digest, ...]:
    """Return the proof of an operand's tensor root in the tree of its origin."""
    tree, index = _find_root(run, step, operand)
    return tuple(tree.proof(index))


def _find_root(run: Testimony, step: int, operand: Operand) -> tuple[Tree, int]:
    """Return the tree in which an operand's tensor root lies, and its place there."""
    if operand.origin is Origin.NODE:
        return run.trace(step), operand.reference
    if operand.origin is Origin.STATE:
        return run.state_tree(step), operand.reference
    data = run.task.data_tree
    assert data is not None
    return data, step * len(run.task.program.batch) + operand.reference
