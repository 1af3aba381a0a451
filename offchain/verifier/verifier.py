"""The bounded verifier, as everybody else sees it: a question goes in, a ruling comes out.

    ruling = rule(Question(arithmetic, encoding, step, operands, operand_roots, claimed_root))
    ruling.upheld

Time, memory and the machine decide whether there is a ruling, never which one.
"""

import math
import os
import signal
import subprocess
import sys
import tempfile
from dataclasses import astuple, dataclass, replace
from pathlib import Path

from safetensors import SafetensorError

from moot.offchain.backends.table import DEFAULT as DEFAULT_BACKEND
from moot.offchain.children import get_last_words
from moot.offchain.commitments.tensors import NUMPY_TYPES
from moot.offchain.commitments.tree import Digest
from moot.offchain.errors import LimitReached, VerifierError, WrongOperand
from moot.offchain.programs.cost import Cost, compute_memory_bytes
from moot.offchain.programs.graph import Node
from moot.offchain.verifier.bounds import DEFAULT, Bound
from moot.offchain.verifier.exchange import Answer, read_answer, write_question
from moot.offchain.verifier.questions import Question, check
from moot.offchain.verifier.sandbox import Limits
from moot.offchain.verifier.worker import OUT_OF_MEMORY

BASELINE_BYTES = 1 << 30
"""Memory besides the tensors: the interpreter, numpy and numba (measured: 140 MiB), LLVM where a
kernel is not yet in numba's cache (180 MiB), and the parts that the executor copies at a time."""

BASELINE_BYTES_PER_THREAD = 1 << 26
"""Memory for each thread: its stack and its arena."""

START_SECONDS = 30.0
"""Time besides the bound's: imports, and the compilation of kernels that are not cached yet."""

_INHERITED = ("HOME", "LD_LIBRARY_PATH", "NUMBA_CACHE_DIR", "NUMBA_CPU_NAME", "XDG_CACHE_HOME")


@dataclass(frozen=True, slots=True)
class Ruling:
    """The verdict of the bounded verifier.

    Attributes:
        upheld: whether the defender's claim is right.
        root: root of the right output.
        operations: scalar operations that it cost, by the operator's shapes.
        bytes: bytes of operands and output, likewise.
        differs_at: linear index of the first element in which the claim is wrong; None when it is
            upheld, and when the claimed output is not known or has another shape or type.
        claimed_bits: the claimed bits of that element.
        correct_bits: the right bits of that element.
    """

    upheld: bool
    root: Digest
    operations: int
    bytes: int
    differs_at: int | None
    claimed_bits: int | None
    correct_bits: int | None


def rule(question: Question, bound: Bound = DEFAULT, backend: str = DEFAULT_BACKEND) -> Ruling:
    """Recompute an operator and rule on the root that the defender claims for its output.

    Raises:
        CostBoundExceeded: the operator costs more than the bound; nothing was run.
        WrongOperand: an operand is missing, of another type or size, or has not its agreed root.
        LimitReached: the recomputation took more memory or time than its cost allows for.
        VerifierError: the question makes no sense, or the machine failed.
    """
    cost, answer = _ask(question, bound, backend)
    return Ruling(
        answer.root == question.claimed_root,
        answer.root,
        cost.operations,
        cost.bytes,
        answer.differs_at,
        answer.claimed_bits,
        answer.correct_bits,
    )


def _ask(question: Question, bound: Bound, backend: str) -> tuple[Cost, Answer]:
    node, cost = check(question, bound)
    if question.claimed is not None:
        claimed = question.claimed
        if (claimed.dtype, claimed.shape) != (NUMPY_TYPES[node.dtype], node.shape):
            question = replace(question, claimed=None)
    try:
        with tempfile.TemporaryDirectory(prefix="moot-verifier-") as name:
            folder = Path(name)
            write_question(folder, question, bound)
            _run_worker(folder, _get_limits(node, cost, bound), backend)
            answer = read_answer(folder)
    except (OSError, SafetensorError) as error:
        raise VerifierError(f"no sandbox in {tempfile.gettempdir()}: {error}") from error
    if isinstance(answer, Answer):
        return cost, answer
    if answer.operand is not None:
        raise WrongOperand(answer.operand, answer.problem)
    raise VerifierError(answer.problem)


def _get_limits(node: Node, cost: Cost, bound: Bound) -> Limits:
    threads = os.cpu_count() or 1
    seconds = START_SECONDS + bound.seconds
    baseline = BASELINE_BYTES + BASELINE_BYTES_PER_THREAD * threads
    memory = baseline + compute_memory_bytes(node, cost)
    return Limits(memory, math.ceil(seconds * threads), seconds)


def _run_worker(folder: Path, limits: Limits, backend: str) -> None:
    """Run the worker on the question in a folder, to its end or the limits'."""
    command = [sys.executable, "-I", "-m", "moot.offchain.verifier.worker"]
    environment = {name: os.environ[name] for name in _INHERITED if name in os.environ}
    complaints = folder / "complaints.txt"
    with (
        complaints.open("wb") as stderr,
        subprocess.Popen(  # noqa: S603 - this interpreter, on arguments of our own making
            [*command, str(folder), backend, *map(str, astuple(limits))],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=stderr,
            cwd=folder,
            env=environment | {"OPENBLAS_NUM_THREADS": "1"},
        ) as process,
    ):
        try:
            status = process.wait(limits.wall_seconds)
        except subprocess.TimeoutExpired:
            status = -signal.SIGALRM
        finally:
            process.kill()
    if status == OUT_OF_MEMORY:
        raise LimitReached("bytes", limits.memory_bytes)
    if status in (-signal.SIGALRM, -signal.SIGXCPU):
        raise LimitReached("seconds", limits.wall_seconds)
    if status:
        last = get_last_words(complaints.read_text(errors="replace"), "no complaint")
        raise VerifierError(f"the worker ended with status {status}: {last}")
