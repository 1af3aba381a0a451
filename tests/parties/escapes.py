"""Hostile operators, programs, evidence and code: `python -m tests.parties.escapes --cases 40`.

The verifier, and whoever reads what strangers publish, either rules or says one line: within
bounds of memory and time, without a process or a file left behind, whatever is drawn.
"""

import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from random import Random
from unittest.mock import patch

import numpy as np

from moot.offchain.arithmetic.functions import DType, Function
from moot.offchain.arithmetic.ordered import ORDERED
from moot.offchain.commitments.tensors import Array, compute_tensor_root
from moot.offchain.disputes.evidence.handover import FIRST_LINE, decode_evidence
from moot.offchain.errors import MootError, ProgramError, VerifierError
from moot.offchain.programs.decoding import decode_node, decode_program
from moot.offchain.programs.encoding import encode_first_line, encode_node, encode_program
from moot.offchain.programs.graph import Kind, Node, Operand, Origin, Row, immediate
from moot.offchain.programs.limits import MAX_NODE_BYTES
from moot.offchain.verifier import verifier
from moot.offchain.verifier.bounds import Bound
from moot.offchain.verifier.questions import Question
from moot.offchain.verifier.verifier import rule
from tests.parties.damage import DAMAGES, require_one_line
from tests.parties.drawn import Kind as Escape
from tests.parties.drawn import run_campaign
from tests.sim_helpers import make_program

RULED, READ, HELD = "ruled", "read", "held"
SMALL = Bound(operations=1 << 14, bytes=1 << 16, seconds=5.0)
MORE_BYTES = 1 << 28
"""Memory by which refusing may raise this process; what is refused declares far more."""
CODE_LIMITS = "2**28, 2, 3.0"
LONG_S = 20.0
ROOT = Path(__file__).parents[2]


@contextmanager
def leaving_nothing(folder: Path) -> Iterator[None]:
    """Check that no memory, no file and no process is left of what was tried."""
    before, others = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, list_children()
    with patch("tempfile.tempdir", str(folder)):
        yield
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024
    assert grown < MORE_BYTES, f"{grown:,} bytes more"
    assert not [*folder.iterdir()], "files are left"
    assert list_children() <= others, "a process is left"


def list_children() -> set[str]:
    """Return the processes that this one has begun and that are there, as far as Linux says."""
    children = Path(f"/proc/self/task/{os.getpid()}/children")
    return set(children.read_text().split()) if children.exists() else set()


def ask(node: Node, *operands: Array | None) -> Question:
    """Return the question about a node, with a claim that is wrong."""
    roots = tuple(None if it is None else compute_tensor_root(it) for it in operands)
    return Question(ORDERED, encode_node(node), 0, operands, roots, bytes(32))


def get_ruling(question: Question, bound: Bound) -> str:
    """Return what the verifier says."""
    try:
        return f"{RULED}: {rule(question, bound).operations} operations"
    except VerifierError as error:
        return require_one_line(error)


def draw_shape(random: Random, rank: int) -> tuple[int, ...]:
    """Return sizes of which some are as large as a field can say."""
    sizes = (0, 1, 2, 5, 1 << 20, 1 << 32, (1 << 62) - 1, (1 << 64) - 1)
    return tuple(random.choice(sizes) for _ in range(rank))


def broadcast(reference: int = 0) -> Operand:
    """Return an access that reads one element at every place of any shape."""
    return Operand(Origin.NODE, DType.FLOAT32, reference, 0, (Row(1, 0, ()),))


def play_shape(folder: Path, random: Random) -> str:
    """A tensor of one element is read as one of as many as can be said, along folds as well."""
    shape = draw_shape(random, random.randint(0, 8))
    folds = draw_shape(random, random.randint(0, 4))
    one = np.ones(1, np.float32)
    if folds and random.random() < 0.6:
        start = immediate(DType.FLOAT32, 0)
        operands = (start, broadcast(), broadcast(1))
        node = Node(Kind.CONTRACT, Function.FMA, DType.FLOAT32, shape, operands, folds)
        question = ask(node, None, one, one)
    else:
        node = Node(Kind.MAP, Function.NEG, DType.FLOAT32, shape, (broadcast(),))
        question = ask(node, one)
    with leaving_nothing(folder):
        return get_ruling(question, SMALL)


def play_memory(folder: Path, random: Random) -> str:
    """An operator takes more memory than its cost says: the system ends it."""
    elements = random.randint(1 << 27, 1 << 33)
    node = Node(Kind.MAP, Function.NEG, DType.FLOAT32, (elements,), (immediate(DType.FLOAT32, 0),))
    with (
        patch.object(verifier, "BASELINE_BYTES", 1 << 28),
        patch.object(verifier, "compute_memory_bytes", lambda *_: 0),
        leaving_nothing(folder),
    ):
        said = get_ruling(ask(node, None), Bound(bytes=1 << 36))
    assert said.startswith("said"), said
    return said


def play_time(folder: Path, random: Random) -> str:
    """An operator takes longer than it may: it is ended."""
    folds = (1 << random.randint(30, 38),)
    start, one = immediate(DType.FLOAT32, 0), np.ones(1, np.float32)
    operands = (start, broadcast(), broadcast(1))
    node = Node(Kind.CONTRACT, Function.FMA, DType.FLOAT32, (4,), operands, folds)
    with patch.object(verifier, "START_SECONDS", 0.0), leaving_nothing(folder):
        said = get_ruling(ask(node, None, one, one), Bound(seconds=random.uniform(0.05, 0.5)))
    assert said.startswith("said"), said
    return said


def damage(content: bytes, random: Random) -> bytes:
    """Return bytes that were some encoding: cut, changed, lengthened, or with other fields."""
    for _ in range(random.randint(1, 4)):
        if content and random.random() < 0.4:
            place = random.randrange(len(content))
            content = content[:place] + b"\xff" * random.randint(1, 8) + content[place + 8 :]
        elif content:
            content = DAMAGES[random.choice([*DAMAGES])](content, random)
    return content


def play_operator(folder: Path, random: Random) -> str:
    """The encoding of an operator is any bytes: there is none, or a ruling within the bound."""
    node = random.choice(make_program().nodes)
    data = damage(encode_node(node), random)
    if random.random() < 0.3:
        data = random.randbytes(random.randint(0, MAX_NODE_BYTES + 9))
    operands: list[Array | None] = [None] * 9
    try:
        found = decode_node(data, ORDERED)
        operands = [
            None if it.origin is Origin.IMMEDIATE else np.ones(3, np.float32)
            for it in found.operands
        ]
    except ProgramError:
        pass
    question = replace(ask(node, *operands), encoding=data)
    with leaving_nothing(folder):
        return get_ruling(question, SMALL)


def read(parse: Callable[[bytes], object], data: bytes, folder: Path) -> str:
    """Return what came of reading bytes, which takes little memory whatever they declare."""
    with leaving_nothing(folder):
        try:
            parse(data)
        except MootError as error:
            return require_one_line(error)
    return READ


def play_program(folder: Path, random: Random) -> str:
    """A program's file declares slots, operators and texts that it does not have."""
    data = damage(encode_program(make_program()), random)
    if random.random() < 0.3:
        counts = b"\xff\xff\xff\xff" * random.randint(1, 3)
        data = encode_first_line(ORDERED) + counts + random.randbytes(random.randint(0, 4_000))
    return read(decode_program, data, folder)


def play_evidence(folder: Path, random: Random) -> str:
    """Evidence declares operands, proofs and entries that it does not have."""
    size = random.randint(0, 3_000)
    data = FIRST_LINE + random.choice((b"\xff", b"\0", b"")) * size + random.randbytes(size)
    return read(lambda it: decode_evidence(it, 0), damage(data, random), folder)


WANTS: dict[str, str] = {
    "memory": "kept = [bytearray(2**{n}) for _ in range(2**20)]",
    "sparse": "import mmap; kept = [mmap.mmap(-1, 2**{n}) for _ in range(2**20)]",
    "time": "while True: pass",
    "sleep": "import time; time.sleep(600)",
    "file": "open('out', 'wb').truncate(2**{n} * 2**12)",
    "fork": "import os; os.fork()",
    "exec": "import os; os.execv('/bin/sh', ['sh', '-c', 'touch out'])",
    "spawn": "import os; os.posix_spawn('/bin/sh', ['sh'], {{}})",
    "system": "import os; os.system('touch out')",
    "program": "import subprocess; subprocess.run(['touch', 'out'])",
    "socket": "import socket; socket.create_connection(('127.0.0.1', {port}))",
    "datagram": "import socket; socket.socket(socket.AF_INET, socket.SOCK_DGRAM)",
    "signal": "import os; os.kill(os.getppid(), {signal})",
    "group": "import os; os.killpg(0, {signal})",
    "recursion": "import sys; sys.setrecursionlimit(2**30); f = lambda: f(); f()",
    "limits": "import resource; resource.setrlimit(resource.RLIMIT_DATA, (2**40, 2**40))",
}


REFUSED = frozenset(
    {"fork", "exec", "spawn", "system", "program", "socket", "datagram", "signal", "group"}
)
"""What is refused before it is tried."""


def play_code(folder: Path, random: Random) -> str:
    """Code in the cell wants memory, time, files, programs, signals or the network: it ends.

    No stranger's code is ever run there; this is what is left if an operator's kernel were wrong.
    """
    want = random.choice([*WANTS])
    fields = {"n": random.randint(24, 34), "port": random.randint(1, 65_535)}
    code = WANTS[want].format(signal=int(random.choice((signal.SIGUSR1, signal.SIGTERM))), **fields)
    own = f"import sys; sys.path.insert(0, {str(ROOT)!r})"
    enter = (
        f"from moot.offchain.verifier.sandbox import Limits, enter; enter(Limits({CODE_LIMITS}))"
    )
    with leaving_nothing(folder):
        done = subprocess.run(  # noqa: S603 - this interpreter on the code above
            [sys.executable, "-I", "-c", f"{own}\n{enter}\n{code}"],
            cwd=folder,
            capture_output=True,
            timeout=LONG_S,
            check=False,
            start_new_session=True,
        )
        sizes = [it.stat().st_size for it in folder.iterdir()]
        assert max(sizes, default=0) <= 1 << 26, sizes
        for left in folder.iterdir():
            assert (want, left.name) == ("file", "out"), f"{want} has made {left.name}"
            left.unlink()
    assert done.returncode != 0, f"{want} went through"
    is_refused = b"the bounded verifier does not do" in done.stderr
    assert is_refused or want not in REFUSED, f"{want} was not refused: {done.returncode}"
    return f"{HELD}: {want}, status {done.returncode}"


KINDS: dict[str, Escape] = {
    "shape": play_shape,
    "memory": play_memory,
    "time": play_time,
    "operator": play_operator,
    "program": play_program,
    "evidence": play_evidence,
    "code": play_code,
}

if __name__ == "__main__":
    sys.exit(run_campaign(KINDS, "escapes", __doc__ or ""))
