"""Vectors of whole programs: their roots, and the states that they go through."""

from collections.abc import Callable, Sequence
from typing import Any

from moot.offchain.commitments.tags import Tag
from moot.offchain.commitments.tensors import (
    Array,
    compute_data_root,
    compute_history_root,
    compute_state_root,
    compute_tensor_root,
)
from moot.offchain.commitments.tree import Tree
from moot.offchain.execution.executor import Executor
from moot.offchain.programs.encoding import encode_layout
from moot.offchain.programs.graph import Program
from moot.offchain.programs.roots import ProgramTree
from tests.vectors.notation import write_program, write_tensor

Observe = Callable[[int, Array], None]
Run = Callable[[Sequence[Array], Sequence[Array], int, Observe | None], list[Array]]
"""(state, batch, step, observe) -> state: an executor of one program."""


def describe(program: Program) -> dict[str, Any]:
    """Return what identifies a program."""
    layout = {"layout": encode_layout(program).hex()}
    return layout | {"program_root": ProgramTree(program).header.root.hex()}


def trace(
    run: Run, initial: Sequence[Array], batches: Sequence[Sequence[Array]], *, whole: bool
) -> dict[str, Any]:
    """Return the roots of a run: its data, its states, its history and the trace of its step 0."""
    found: dict[int, bytes] = {}

    def observe(index: int, output: Array) -> None:
        found[index] = compute_tensor_root(output)

    states = [compute_state_root([compute_tensor_root(array) for array in initial])]
    state = list(initial)
    for step, batch in enumerate(batches):
        state = run(state, batch, step, None if step else observe)
        states.append(compute_state_root([compute_tensor_root(array) for array in state]))
    outputs = [found[index] for index in sorted(found)]
    data = [compute_tensor_root(array) for batch in batches for array in batch]
    roots = {"trace_leaves": [root.hex() for root in outputs]} if whole else {}
    return roots | {
        "trace_top": Tree(Tag.TRACE_NODE, [*outputs, states[1]]).top.hex(),
        "data_root": compute_data_root(data).hex(),
        "state_roots": [root.hex() for root in states],
        "history_root": compute_history_root(states[1:]).hex(),
    }


def make_case(
    name: str,
    program: Program,
    initial: Sequence[Array],
    batches: Sequence[Sequence[Array]],
    *,
    whole: bool,
) -> dict[str, Any]:
    """Return the vector of a program on some batches; `whole` lists every output of step 0."""
    given = {
        "program": write_program(program),
        "initial_state": [write_tensor(array) for array in initial],
        "batches": [[write_tensor(array) for array in batch] for batch in batches],
    }
    roots = trace(Executor(program, 1).run, initial, batches, whole=whole)
    return {"name": name, "given": given, "expect": describe(program) | roots}
