"""The worker's computation: a whole operator, by the fast executor."""

from pathlib import Path

import numpy as np

from moot.offchain.arithmetic.environment import standard_environment
from moot.offchain.arithmetic.evaluate import UndefinedTypesError
from moot.offchain.backends.port import JournaledPlan
from moot.offchain.backends.table import DEFAULT, get_backend
from moot.offchain.commitments.tensors import Array, compute_tensor_root, encode_elements
from moot.offchain.errors import MootError
from moot.offchain.programs.graph import Node
from moot.offchain.programs.rounding.entries import StepLog, decode_entries
from moot.offchain.programs.rounding.journals import Reading
from moot.offchain.verifier.exchange import Answer, Refusal, read_question, write_answer
from moot.offchain.verifier.questions import Question, check


def work(folder: Path, backend: str = DEFAULT) -> None:
    """Answer the question in a folder."""
    write_answer(folder, _answer(folder, backend))


def _answer(folder: Path, backend: str) -> Answer | Refusal:
    try:
        question, bound = read_question(folder)
        node, _ = check(question, bound)
        wrong = find_wrong_operand(question)
        if wrong is not None:
            return Refusal("does not have its agreed root", wrong)
        return compare(question, compute_operator(node, question, backend))
    except (MootError, UndefinedTypesError) as error:
        return Refusal(str(error))


def find_wrong_operand(question: Question) -> int | None:
    """Return the index of the first operand that does not have its agreed root."""
    pairs = zip(question.operands, question.operand_roots, strict=True)
    for index, (array, root) in enumerate(pairs):
        if array is not None and compute_tensor_root(array) != root:
            return index
    return None


def compute_operator(node: Node, question: Question, name: str = DEFAULT) -> Array:
    """Return an operator's output, computed by a backend of this name."""
    with standard_environment(), np.errstate(all="ignore"):
        backend, step = get_backend(name, question.arithmetic), question.step
        plan = backend.plan(node, question.arithmetic)
        flats = [None if array is None else backend.admit(array) for array in question.operands]
        if not isinstance(plan, JournaledPlan):
            return backend.fetch(plan.run(flats, step))
        log = StepLog({0: decode_entries(question.entries, node, step)})
        return backend.fetch(plan.run_journaled(flats, step, 0, Reading(log)))


def compare(question: Question, output: Array) -> Answer:
    """Return the right root, and the first element that the claimed output has wrong."""
    root, claimed = compute_tensor_root(output), question.claimed
    if root == question.claimed_root or claimed is None:
        return Answer(root)
    if compute_tensor_root(claimed) != question.claimed_root:
        return Answer(root)
    width = output.dtype.itemsize
    differing = encode_elements(output) != encode_elements(claimed)
    first = int(differing.argmax()) // width
    return Answer(root, first, get_bits(claimed, first), get_bits(output, first))


def get_bits(array: Array, index: int) -> int:
    """Return the canonical bits of one element, by its linear index."""
    element = np.asarray(array, order="C").reshape(-1)[index : index + 1]
    return int.from_bytes(encode_elements(element).tobytes(), "little")
