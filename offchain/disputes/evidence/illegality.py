"""The search for a proof that a job's program is not legal, which frees the job's members."""

from math import prod

from moot.offchain.arithmetic.base import Arithmetic
from moot.offchain.commitments.tensors import TensorTree
from moot.offchain.commitments.tree import Digest
from moot.offchain.disputes.play.players import Move
from moot.offchain.errors import ProgramError
from moot.offchain.programs.graph import Kind, Node, Operand, Origin, Slot
from moot.offchain.programs.legality import check_node
from moot.offchain.programs.limits import MAX_RANK
from moot.offchain.providers.task import Task


def find_proof(task: Task) -> Move | None:
    """Return the call by which the referee learns that a program is not legal, if it is not.

    The number of the job comes before its arguments; anybody may make it, as long as the job is
    open. What no operator shows, such as the names, proves nothing and harms nobody.
    """
    program, commitment = task.program, task.commitment
    for index, node in enumerate(program.nodes):
        shown = (index, commitment.encodings[index], tuple(commitment.tree.proof(index)))
        is_placed = (node.kind is Kind.SINK) == (index >= program.first_sink)
        if not is_placed or not _is_legal(node, program.arithmetic):
            return Move("prove_operator", shown)
        for place, operand in enumerate(node.operands):
            if not _is_readable(task, index, operand):
                other, proof = _find_source(task, index, operand)
                return Move("prove_operand", (*shown, place, 0, False, other, proof))
    return None


def _is_legal(node: Node, arithmetic: Arithmetic) -> bool:
    try:
        check_node(node, arithmetic)
    except ProgramError:
        return False
    return True


def _is_readable(task: Task, index: int, operand: Operand) -> bool:
    """Whether an operand is what an earlier operator, or a slot, provides."""
    if operand.origin is Origin.IMMEDIATE:
        return True
    source = _get_source(task, index, operand)
    if source is None or len(source.shape) > MAX_RANK:
        return False
    is_whole = source.elements == prod(row.size for row in operand.rows)
    return source.dtype is operand.dtype and is_whole


def _get_source(task: Task, index: int, operand: Operand) -> Node | Slot | None:
    program, reference = task.program, operand.reference
    if operand.origin is Origin.NODE:
        return program.nodes[reference] if reference < index else None
    if operand.origin is Origin.BATCH:
        return program.batch[reference] if reference < len(program.batch) else None
    sinks = program.nodes[program.first_sink :]
    return sinks[reference] if reference < len(sinks) else None


def _find_source(task: Task, index: int, operand: Operand) -> tuple[bytes, tuple[Digest, ...]]:
    """Return what an operand reads, as the referee takes it, with its proof."""
    if _get_source(task, index, operand) is None:
        return b"", ()
    if operand.origin is Origin.BATCH:
        assert task.data_tree is not None, "the program has slots of the batch"
        tensor = TensorTree(task.batch(0)[operand.reference])
        return tensor.header + tensor.top, tuple(task.data_tree.proof(operand.reference))
    is_state = operand.origin is Origin.STATE
    place = operand.reference + (task.program.first_sink if is_state else 0)
    return task.commitment.encodings[place], tuple(task.commitment.tree.proof(place))
