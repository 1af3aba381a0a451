"""The seam of arithmetics: programs carry one, and another one is a meaning and an engine."""

import pickle
import struct
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from moot.contracts.compiler import SOURCE_DIR
from moot.offchain.arithmetic import table
from moot.offchain.arithmetic.base import Arithmetic, Fold
from moot.offchain.arithmetic.functions import CANONICAL_NAN, DType, Function
from moot.offchain.arithmetic.ordered import ORDERED
from moot.offchain.backends.cpu import engines
from moot.offchain.backends.cpu.engines import Engine
from moot.offchain.backends.cpu.plans import Plan, plan_node
from moot.offchain.commitments.tensors import Array
from moot.offchain.errors import ProgramError
from moot.offchain.execution.executor import Executor
from moot.offchain.execution.readable import from_bits, run_step, to_bits
from moot.offchain.frontend.capture import capture
from moot.offchain.frontend.examples import build
from moot.offchain.programs.decoding import decode_program
from moot.offchain.programs.encoding import encode_node, encode_program
from moot.offchain.programs.graph import Kind, Node, Operand, Origin
from moot.offchain.programs.roots import ProgramTree
from moot.offchain.programs.semantics import compute_element
from moot.offchain.verifier.questions import Question
from moot.offchain.verifier.recompute import compute_operator


def _widen(bits: int) -> int:
    """Return the binary64 pattern of a binary32 pattern."""
    (value,) = struct.unpack("<f", struct.pack("<I", bits))
    return int.from_bytes(struct.pack("<d", value), "little")


def _read(wide: int) -> float:
    value: float = struct.unpack("<d", wide.to_bytes(8, "little"))[0]
    return value


def _round(wide: int) -> int:
    rounded = np.float32(_read(wide))
    return CANONICAL_NAN if np.isnan(rounded) else int(rounded.view(np.uint32))


def _advance(accumulator: int, values: Sequence[int]) -> int:
    terms = [_read(_widen(bits)) for bits in values]
    total = _read(accumulator) + (terms[0] * terms[1] if len(terms) == 2 else terms[0])
    return int.from_bytes(struct.pack("<d", total), "little")


def find_fold(function: Function, dtype: DType) -> Fold:
    """Return a fold whose accumulators of sums are twice as wide as elements."""
    if dtype is DType.FLOAT32 and function in {Function.ADD, Function.FMA}:
        return Fold(8, _widen, _advance, _round)
    return ORDERED.find_fold(function, dtype)


WIDE = Arithmetic("wide", version=3, find_fold=find_fold)
"""An arithmetic that sums in binary64 and rounds once; nobody wants it but this test."""


class Folding:
    """The plan of a fold by its definition."""

    def __init__(self, node: Node) -> None:
        self._node = node

    def run(self, flats: Sequence[Array | None], step: int) -> Array:
        """Return the output."""
        bits = [None if flat is None else to_bits(flat) for flat in flats]

        def fetch(_place: int, operand: Operand, index: int) -> int:
            found = bits[self._node.operands.index(operand)]
            assert found is not None
            return found[index]

        node = self._node
        elements = [compute_element(WIDE, node, e, step, fetch) for e in range(node.elements)]
        return from_bits(elements, node.dtype, node.shape)


def plan_wide(node: Node) -> Plan:
    """Return the plan of a node."""
    return Folding(node) if node.kind.folds else plan_node(node)


@pytest.fixture
def _wide(monkeypatch: pytest.MonkeyPatch) -> None:
    """Add the arithmetic: one row of the table, and one of the engines."""
    engine = Engine(plan_wide, lambda _: False, engines.get_engine(ORDERED).list_partials)
    monkeypatch.setitem(table.ARITHMETICS, WIDE.name, WIDE)  # type: ignore[misc]  # a dict
    monkeypatch.setitem(engines._ENGINES, WIDE.name, engine)


def test_names_and_identities_are_distinct() -> None:
    """Each row has its own name and its own program roots, and contracts if it ends on them."""
    program = capture(build("mlp"), trust=True).program
    rows = table.ARITHMETICS
    roots = {ProgramTree(replace(program, arithmetic=a)).header.root for a in rows.values()}
    assert len(roots) == len(rows)
    for name, arithmetic in rows.items():
        assert name == arithmetic.name
        is_own = any(SOURCE_DIR.rglob(name)) or arithmetic is ORDERED
        assert arithmetic.ends_on_chain == is_own
        assert engines.get_engine(arithmetic)


@pytest.mark.usefixtures("_wide")
def test_another_arithmetic_is_a_meaning_and_an_engine() -> None:
    """A program in a third arithmetic is captured with torch's numbers, and runs as it is defined.

    It has the operators of the same program in `ordered`, another root, and other bits.
    """
    captured = capture(build("mlp"), arithmetic=WIDE)
    ordered = capture(build("mlp"), trust=True)
    assert captured.program.nodes == ordered.program.nodes
    state, batch = captured.initial_state, captured.batch(0)
    found = Executor(captured.program).run(state, batch, 0)
    defined = run_step(captured.program, state, batch, 0)
    assert [a.tobytes() for a in found] == [a.tobytes() for a in defined]
    other = Executor(ordered.program).run(state, batch, 0)
    assert [a.tobytes() for a in found] != [a.tobytes() for a in other]


@pytest.mark.usefixtures("_wide")
def test_files_carry_the_arithmetic() -> None:
    """A program is read as it was written, and its root is that of its arithmetic."""
    program = replace(capture(build("mlp"), trust=True).program, arithmetic=WIDE)
    data = encode_program(program)
    assert data.startswith(b"moot program 1 wide 3\n")
    decoded = decode_program(data)
    assert decoded == program
    assert decoded.arithmetic is WIDE
    assert ProgramTree(decoded).header == ProgramTree(program).header


def test_another_process_has_the_same_arithmetic() -> None:
    """What is sent to a process of a pool, and comes back, is equal."""
    for arithmetic in table.ARITHMETICS.values():
        assert pickle.loads(pickle.dumps(arithmetic)) == arithmetic  # noqa: S301 - ours


def test_an_unknown_arithmetic_is_refused() -> None:
    """A program of an arithmetic, or of a version, that is not in the table is refused by name."""
    program = capture(build("mlp"), trust=True).program
    for other in (WIDE, replace(ORDERED, version=2)):
        data = encode_program(replace(program, arithmetic=other))
        with pytest.raises(ProgramError, match=r"that we know \(ordered 1"):
            decode_program(data)


@pytest.mark.usefixtures("_wide")
def test_the_verifier_recomputes_in_the_arithmetic() -> None:
    """The verifier's output of a contraction is that of the arithmetic in which it is asked."""
    captured = capture(build("mlp"), trust=True)
    program = captured.program
    index = next(i for i, node in enumerate(program.nodes) if node.kind is Kind.CONTRACT)
    node, state, batch = program.nodes[index], captured.initial_state, captured.batch(0)
    for arithmetic in (ORDERED, WIDE):
        executor = Executor(replace(program, arithmetic=arithmetic))
        outputs = executor.outputs(state, batch, 0, [*node.inputs, index])
        pools = {Origin.NODE: outputs, Origin.STATE: state, Origin.BATCH: batch}
        operands = tuple(
            None if o.origin is Origin.IMMEDIATE else pools[o.origin][o.reference]
            for o in node.operands
        )
        question = Question(arithmetic, encode_node(node), 0, operands, (), b"")
        assert compute_operator(node, question).tobytes() == outputs[index].tobytes()
