"""One case in the executor, in all of its modes, against the definition."""

import ctypes
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from random import Random
from types import ModuleType
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np

from moot.offchain.backends.cpu import (
    chains,
    contractions,
    convolution_plans,
    folds,
    gathers,
    indexed,
    indexing,
    maps,
    regions,
    scatters,
    sliding,
    vertical,
    windows,
)
from moot.offchain.backends.cpu.engines import get_engine
from moot.offchain.backends.cpu.kernels import reduce, scatter
from moot.offchain.commitments.tensors import Array, encode_elements
from moot.offchain.execution import preparation
from moot.offchain.execution.executor import Executor
from moot.offchain.execution.readable import from_bits, run_step
from moot.offchain.native import buffers, sequences
from moot.offchain.planning import accesses, assembly, grouping, roles
from moot.offchain.planning import back_to_back as planned_products
from moot.offchain.planning import chains as planned_chains
from moot.offchain.planning import vertical as planned_vertical
from moot.offchain.programs.graph import Operand, Origin
from moot.offchain.programs.semantics import compute_partials
from tests.fuzz.draws import Case

LEAST: tuple[tuple[ModuleType, str, int], ...] = (
    (contractions, "_SLAB_BYTES", 32),
    (contractions, "_LONG_FOLD", 2),
    (convolution_plans, "_LEAST_SAVED", 0),
    (sliding, "_LEAST_SAVING", 1 << 20),
    (folds, "_SLAB_ELEMENTS", 4),
    (gathers, "_SLAB_ELEMENTS", 3),
    (indexing, "_SLAB_ELEMENTS", 5),
    (maps, "_BLOCK_ELEMENTS", 3),
    (maps, "_GRAIN_ELEMENTS", 1),
    (scatters, "_GRAIN", 1),
    (scatters, "_PART_ELEMENTS", 3),
    (indexed, "_GRAIN_ELEMENTS", 1),
    (indexed, "_LEAST_PART", 1),
    (windows, "_GRAIN_ELEMENTS", 1),
    (buffers, "_LEAST_BYTES", 1),
    (reduce, "_GRAIN", 1),
    (scatter, "_GRAIN", 1),
    (accesses, "_FEW_BOXES", 0),
    (accesses, "_LEAST_BOX", 4),
    (regions, "_GRAIN_BYTES", 1),
    (regions, "_GRAIN_PARTS", 1),
    (regions, "_BLOCK_BYTES", 1),
    (regions, "_MAX_BLOCK_BYTES", 300),
    (roles, "_LEAST_ROWS", 1),
    (chains, "_GRAIN", 1),
    (chains, "_GROUP_BYTES", 1),
    (planned_chains, "_LEAST_PRODUCTS", 1),
    (planned_chains, "_LEAST_ELEMENTS", 1),
    (planned_chains, "_LEAST_COLUMNS", 1),
    (vertical, "_GRAIN_BYTES", 1),
    (planned_vertical, "_LEAST_COLUMNS", 1),
    (assembly, "_PART_COLUMNS", 24),
)
"""Limits of blocks, slabs and parts, each as small as can be."""


class Mode(NamedTuple):
    """A mode in which a case is run.

    Attributes:
        threads: the kernels'.
        is_fused: whether groups of any size get kernels of their own, which takes long.
        is_least: whether blocks, slabs and parts are as small as can be.
    """

    threads: int
    is_fused: bool
    is_least: bool


class DifferenceError(AssertionError):
    """The executor does not do what the definition says."""


@contextmanager
def using(mode: Mode) -> Iterator[None]:
    """Set the limits of a mode; memory of the pool is soiled as soon as it is free."""
    limits = list(LEAST) if mode.is_least else []
    if mode.is_fused:
        limits.append((grouping, "_LEAST_ELEMENTS", 0))
        limits += [(planned_products, name, 0) for name in ("_LEAST_ELEMENTS", "_LEAST_ROWS")]
    patches = [patch.object(module, name, value) for module, name, value in limits]
    patches.append(patch.object(buffers._Lease, "__del__", soil_and_put))
    for each in patches:
        each.start()
    try:
        yield
    finally:
        for each in patches:
            each.stop()


def soil_and_put(lease: Any) -> None:
    """Overwrite the memory of an array that is gone, so that who still reads it is found out."""
    address, size = lease._block.address, lease._block.size
    ctypes.memset(address, 0xA5, size)
    buffers._pool.put(lease._block)


def define(case: Case) -> list[Array]:
    """Return the outputs of all operators, by the letter of the definition."""
    outputs: list[Array] = []
    run_step(case.program, case.state, case.batch, case.step, lambda _, out: outputs.append(out))
    return outputs


def check(case: Case, defined: Sequence[Array], mode: Mode, rng: Random) -> None:
    """Compare what the executor makes of a case with what it is defined to be.

    Raises:
        DifferenceError: they differ, or the executor fails.
    """
    inputs = _encode([*case.state, *case.batch])
    with using(mode):
        try:
            _check_runs(case, defined, mode, rng)
            _check_partials(case, defined, rng)
        except DifferenceError:
            raise
        except Exception as error:
            raise DifferenceError(f"the executor fails: {error!r}") from error
    if _encode([*case.state, *case.batch]) != inputs:
        raise DifferenceError("the executor writes to its inputs")


def _check_runs(case: Case, defined: Sequence[Array], mode: Mode, rng: Random) -> None:
    program, (_, state, batch, step) = case.program, case
    executor = Executor(program, mode.threads)
    last = range(program.first_sink, len(program.nodes))
    expected = {i: defined[i] for i in last}
    alone = dict.fromkeys(range(len(program.nodes)), lambda output: output)
    for name, replaced in (("one by one", alone), ("shown", None)):
        observed: dict[int, Array] = {}

        def observe(index: int, output: Array, observed: dict[int, Array] = observed) -> None:
            observed[index] = output.copy()

        executor.run(state, batch, step, observe=observe, patch=replaced)
        compare(name, observed, dict(enumerate(defined)))
    is_advancing = rng.random() < 0.5
    if mode.is_fused or not is_advancing:
        compare("run", dict(zip(last, executor.run(state, batch, step), strict=True)), expected)
    if mode.is_fused or is_advancing:
        advanced = [array.copy() for array in state]
        executor.advance(advanced, batch, step)
        compare("advance", dict(zip(last, advanced, strict=True)), expected)
    if mode.is_fused:
        _check_sequences(case, expected, mode)
    if rng.random() < 0.25:
        every = range(len(program.nodes))
        wanted = rng.sample(every, min(2, len(every)))
        known = {i: defined[i] for i in rng.sample(every, rng.randint(0, min(3, len(every))))}
        outputs = executor.outputs(state, batch, step, wanted, known=known)
        compare("outputs", outputs, {i: defined[i] for i in wanted})


def _check_sequences(case: Case, expected: dict[int, Array], mode: Mode) -> None:
    """Run a case as programs run that have run some times: small tasks in sequences."""
    program, (_, state, batch, step) = case.program, case
    with patch.object(preparation, "_COLD_RUNS", 0), patch.object(sequences, "_KEPT_BYTES", 0):
        executor = Executor(program, mode.threads)
        runs = [executor.run(state, batch, step) for _ in range(2)]
        advanced = [array.copy() for array in state]
        executor.advance(advanced, batch, step)
    for found in (*runs, advanced):
        compare("sequences", dict(zip(expected, found, strict=True)), expected)


def _check_partials(case: Case, defined: Sequence[Array], rng: Random) -> None:
    """Compare the accumulators of an element of a fold, if there is a fold."""
    nodes = case.program.nodes
    folds_ = [i for i, n in enumerate(nodes) if n.kind.folds and n.elements]
    if not folds_:
        return
    index = rng.choice(folds_)
    node = nodes[index]
    element = rng.randrange(node.elements)
    pools: dict[Origin, Sequence[Array]] = {
        Origin.NODE: defined,
        Origin.STATE: case.state,
        Origin.BATCH: case.batch,
    }
    tensors = [
        None if o.origin is Origin.IMMEDIATE else pools[o.origin][o.reference].reshape(-1)
        for o in node.operands
    ]
    arithmetic = case.program.arithmetic
    right = compute_partials(arithmetic, node, element, case.step, fetcher(pools))
    found = get_engine(arithmetic).list_partials(node, element, tensors)
    if found.dtype.kind == "V":
        width = found.itemsize
        if found.tobytes() != b"".join(each.to_bytes(width, "little") for each in right):
            raise DifferenceError(f"accumulators of element {element} of operator {index}")
        return
    expected = from_bits(right, node.dtype, (len(right),))
    compare(f"accumulators of element {element}", {index: found}, {index: expected})


def fetcher(pools: dict[Origin, Sequence[Array]]) -> Any:
    """Return what reads elements of tensors, as they are committed to, for the definition."""

    def fetch(place: int, operand: Operand, index: int) -> int:
        del place
        flat = pools[operand.origin][operand.reference].reshape(-1)
        return int.from_bytes(encode_elements(flat[index : index + 1]).tobytes(), "little")

    return fetch


def _encode(arrays: Sequence[Array]) -> list[bytes]:
    return [array.tobytes() for array in arrays]


def compare(what: str, found: dict[int, Array], expected: dict[int, Array]) -> None:
    """Refuse outputs that differ in type, shape or a bit."""
    for index, right in expected.items():
        output = found[index]
        if (output.dtype, output.shape) != (right.dtype, right.shape):
            raise DifferenceError(f"{what}: operator {index} is {output.dtype} {output.shape}")
        mine, theirs = (
            encode_elements(array).reshape(-1, right.itemsize) for array in (output, right)
        )
        places = np.flatnonzero((mine != theirs).any(axis=1))
        if len(places):
            place = int(places[0])
            raise DifferenceError(
                f"{what}: operator {index}, {len(places)} of {right.size} elements, first {place}: "
                f"{mine[place].tobytes()[::-1].hex()} for {theirs[place].tobytes()[::-1].hex()}"
            )
