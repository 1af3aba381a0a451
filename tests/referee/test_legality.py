"""The rule of legal operators is the same off the chain and in the contract's decoder."""

import random
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from vyper import ast as vy
from vyper.compiler.input_bundle import FilesystemInputBundle
from vyper.compiler.phases import CompilerData
from vyper.compiler.settings import Settings

from moot.contracts.compiler import EVM_VERSION, SOURCE_DIR
from moot.offchain.arithmetic.functions import DType, Function
from moot.offchain.errors import ProgramError
from moot.offchain.programs import limits
from moot.offchain.programs.decoding import decode_program
from moot.offchain.programs.encoding import encode_program
from moot.offchain.programs.graph import Kind, Node, Operand, Origin, Program, Row, Slot
from moot.offchain.programs.legality import check_program
from tests.fuzz.operators import (
    assert_decoded_alike,
    assert_judged_alike,
    draw_changed,
    draw_encoding,
)
from tests.referee.programs import every_kind

F32, I64 = DType.FLOAT32, DType.INT64
CONSTANTS = {
    ("nodes", "MAX_RANK"): limits.MAX_RANK,
    ("nodes", "MAX_ROWS"): limits.MAX_RANK,
    ("nodes", "MAX_FOLD_RANK"): limits.MAX_FOLD_RANK,
    ("nodes", "MAX_SIZES"): limits.MAX_RANK + limits.MAX_FOLD_RANK,
    ("nodes", "MAX_TERMS"): limits.MAX_TERMS,
    ("nodes", "TOO_LARGE"): limits.MAX_TENSOR_BYTES,
    ("types", "MAX_NODE_BYTES"): limits.MAX_NODE_BYTES,
    ("types", "MAX_OPERANDS"): limits.MAX_OPERANDS,
    ("types", "MAX_EVIDENCE_BYTES"): limits.MAX_EVIDENCE_BYTES,
    ("referee", "MAX_STEPS"): limits.MAX_STEPS,
    ("referee", "MAX_OPERATORS"): limits.MAX_OPERATORS,
    ("referee", "MAX_SLOTS"): limits.MAX_SLOTS,
}


def read_constants(module: str) -> dict[str, int]:
    """Return the constants of a contract's module, as its compiler folds them."""
    bundle = FilesystemInputBundle([SOURCE_DIR])
    file = bundle.load_file(f"{module}.vy")
    data = CompilerData(file, input_bundle=bundle, settings=Settings(evm_version=EVM_VERSION))
    declared = data.annotated_vyper_module.get_children(vy.VariableDecl)
    folded = {each.target.id: each.value.reduced() for each in declared if each.is_constant}
    return {name: each.value for name, each in folded.items() if isinstance(each, vy.Int)}


def test_limits_are_the_contracts() -> None:
    """Every limit has the value that the contracts were compiled with."""
    found = {module: read_constants(module) for module in ("nodes", "types", "referee")}
    assert {place: found[place[0]][place[1]] for place in CONSTANTS} == CONSTANTS


def test_changed_nodes_are_judged_alike() -> None:
    """Of operators with any numbers, the rule accepts those that the contract's decoder does."""
    rng = random.Random(7)
    legal = sum(assert_judged_alike(draw_changed(rng)) for _ in range(200))
    assert 20 < legal < 180


def test_changed_encodings_are_decoded_alike() -> None:
    """Of encodings with bytes changed, lost or added both decoders accept the same."""
    rng = random.Random(8)
    accepted = sum(assert_decoded_alike(draw_encoding(rng)) for _ in range(100))
    assert 10 < accepted < 90


def change_slot(program: Program, origin: Origin, **changes: Any) -> Program:
    """Return a program with another first slot of the state or of the batch."""
    if origin is Origin.STATE:
        return replace(program, state=(replace(program.state[0], **changes), *program.state[1:]))
    return replace(program, batch=(replace(program.batch[0], **changes), *program.batch[1:]))


def put(program: Program, node: Node, place: int = 0) -> Program:
    """Return a program with another operator."""
    nodes = (*program.nodes[:place], node, *program.nodes[place + 1 :])
    return replace(program, nodes=nodes)


def list_unplayable() -> Iterator[tuple[str, Program]]:
    """Yield programs in which something has no legal leaf, and what is said of them."""
    program = every_kind()
    batch, state = Origin.BATCH, Origin.STATE
    yield "8 dimensions", change_slot(program, batch, shape=(1,) * 7 + (3, 4))
    yield "8 dimensions", change_slot(program, state, shape=(1,) * 7 + (2, 3))
    yield "2^63 bytes", replace(program, batch=(*program.batch, Slot("z", I64, (2**60,))))
    yield "2^63 bytes", change_slot(program, state, shape=(2**64, 2**64))
    yield "another shape or type", change_slot(program, batch, dtype=DType.INT32)
    yield "another shape or type", change_slot(program, batch, shape=(3, 5))
    yield "another shape or type", change_slot(program, batch, shape=(0,))
    yield "sink of w", change_slot(program, state, shape=(3, 2))
    yield "share a name", replace(program, batch=(program.batch[0],) * 2)
    yield "share a name", replace(program, names=("n",) * len(program.names))
    yield "one name and one line", replace(program, lines=())
    yield "not UTF-8", change_slot(program, batch, name="\ud800")
    yield "not UTF-8", change_slot(program, batch, name="é" * 32_768)
    yield "not UTF-8", replace(program, lines=("x" * 65_536, *program.lines[1:]))
    yield "at least one state slot", replace(program, state=())
    yield "a sink for each", replace(program, state=program.state * 20)
    yield "above 65536", replace(program, batch=(Slot("", F32, ()),) * 65_537)
    yield "above 1048576", replace(program, nodes=program.nodes * 65_536)
    source = program.nodes[0]
    (operand,) = source.operands
    for reference, origin in ((0, Origin.NODE), (1, Origin.NODE), (3, state), (2, batch)):
        read = replace(operand, origin=origin, reference=reference)
        yield "reads what no earlier", put(program, replace(source, operands=(read,)))
    yield "2^63 bytes", put(program, replace(source, shape=(2**61, 1)))
    yield "too large", put(program, replace(source, shape=(2**64, 0)))
    yield "but for a dimension of 0", put(program, replace(source, shape=(2**61, 0)))
    empty = Slot("z", I64, (0, 2**64 - 1))
    yield "but for a dimension of 0", replace(program, batch=(*program.batch, empty))
    wide = Operand(state, F32, 0, 0, (Row(2**64), Row(0)))
    yield "too large", put(program, replace(source, operands=(wide,)))
    row = Row(2, 0, tuple((v, 1) for v in range(8)))
    long = Operand(state, F32, 0, 0, (row,) * 8)
    shape = (1,) * 8
    yield "above 2048", put(program, Node(Kind.MOVE, Function.COPY, F32, shape, (long,) * 3))
    sink = program.nodes[-1]
    yield "sinks are the last", put(program, replace(sink, kind=Kind.MOVE), len(program.nodes) - 1)
    yield "sinks are the last", put(program, replace(source, kind=Kind.SINK))
    yield "FLOAT32", put(program, Node(Kind.RANDOM, Function.UNIFORM, I64, (2, 3)))
    yield "seed and a stream", put(program, replace(source, seed=1))


def test_programs_without_a_legal_leaf_are_refused() -> None:
    """Slots, operands, sinks and names that no dispute could show are refused in one line."""
    for message, program in list_unplayable():
        with pytest.raises(ProgramError, match=message.replace("^", r"\^")):
            check_program(program)


def test_decoder_is_as_strict_as_the_rule() -> None:
    """Of files with a byte changed, lost or added, those are decoded that encode what is legal."""
    rng, data = random.Random(11), encode_program(every_kind())
    assert decode_program(data) == every_kind()
    accepted = 0
    for _ in range(1_500):
        place = rng.randrange(len(data))
        piece = rng.choice((b"", bytes([rng.randrange(256)]), rng.randbytes(2)))
        changed = data[:place] + piece + data[place + 1 :]
        try:
            program = decode_program(changed)
        except ProgramError:
            continue
        check_program(program)
        assert encode_program(program) == changed
        accepted += 1
    assert accepted > 50
