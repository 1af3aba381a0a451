"""The blame for a wrong state: which worker computed which operator otherwise than all should.

A worker that tells writes down a digest of what it computes of each operator, before the others
have it. Whoever makes the step again by himself computes each worker's part, too: all parts before
the first that differs were right, so that the worker whose part it is has nobody else to blame.
"""

from collections.abc import Sequence
from hashlib import blake2b
from pathlib import Path

from moot.offchain.backends.table import DEFAULT
from moot.offchain.commitments.tensors import Array, encode_elements
from moot.offchain.execution.executor import Executor
from moot.offchain.parallel.execution import ParallelExecutor
from moot.offchain.parallel.partition import Partition, Place
from moot.offchain.programs.graph import Origin, Program

DIGEST_BYTES = 16


class Teller:
    """A worker's record of what it computes.

    Args:
        path: the file.
    """

    def __init__(self, path: Path) -> None:
        self._file = path.open("wb")

    def __call__(self, part: Array | None) -> None:
        """Write down what was computed of the next operator."""
        self._file.write(digest(part))

    def flush(self) -> None:
        """Let others read what was written."""
        self._file.flush()


def digest(part: Array | None) -> bytes:
    """Return the digest of what a worker computes of an operator; None is nothing."""
    content = b"" if part is None else encode_elements(part).tobytes()
    return blake2b(content, digest_size=DIGEST_BYTES).digest()


def read_told(path: Path, operators: int, step: int) -> list[bytes]:
    """Return what a worker has told of a step, counted from the first of its run."""
    with path.open("rb") as file:
        file.seek(step * operators * DIGEST_BYTES)
        content = file.read(operators * DIGEST_BYTES)
    return [content[at : at + DIGEST_BYTES] for at in range(0, len(content), DIGEST_BYTES)]


class _Alone:
    """An exchange with nobody, for parts that are computed by themselves."""

    def add_up(self, array: Array) -> None:
        """Leave an array as it is."""

    def hand_out(self, array: Array, owner: int) -> None:
        """Leave an array as it is."""


def find_liar(
    program: Program,
    shares: Partition,
    state: Sequence[Array],
    batch: Sequence[Array],
    step: int,
    told: Sequence[Sequence[bytes]],
    backend: str = DEFAULT,
) -> tuple[int, int] | None:
    """Return the worker that has lied about a step first, and the operator; None if none has.

    Args:
        program: the program.
        shares: how it is shared out.
        state: the tensors before the step, as they should be.
        batch: the step's batch, whole.
        step: its number.
        told: what each worker has told of each operator.
        backend: what computes the step again.
    """
    tensors: dict[Place, Array] = {(Origin.STATE, k): x for k, x in enumerate(state)}
    tensors |= {(Origin.BATCH, k): x for k, x in enumerate(batch)}

    def observe(index: int, output: Array) -> None:
        tensors[Origin.NODE, index] = output

    Executor(program, backend=backend).run(state, batch, step, observe)
    ranks = range(len(told))
    workers = [ParallelExecutor(program, shares, rank, _Alone(), backend) for rank in ranks]
    for index in range(len(program.nodes)):
        for rank, worker in enumerate(workers):
            if told[rank][index] != digest(worker.compute_part(index, tensors, step)):
                return rank, index
    return None
