"""The rule of legal operators: off the chain and in the contract's decoder it is the same."""

import random
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from vyper import ast as vy
from vyper.compiler.input_bundle import FilesystemInputBundle
from vyper.compiler.phases import CompilerData
from vyper.compiler.settings import Settings

from contracts.compiler import EVM_VERSION, SOURCE_DIR
from contracts.reasons import Reason
from offchain.arithmetic.functions import DType, Function
from offchain.errors import ProgramError
from offchain.programs import limits
from offchain.programs.decoding import decode_program, read_node
from offchain.programs.encoding import encode_node, encode_program
from offchain.programs.graph import Kind, Node, Operand, Origin, Program, Row, Slot, immediate
from offchain.programs.legality import check_node, check_program
from tests.referee.programs import every_kind
from tests.referee.test_leaf import ask

F32, I64 = DType.FLOAT32, DType.INT64
NUMBERS = (*range(-1, 6), 8, 9, 13, 255, 256, 2**31, 2**32 - 1, 2**32, 2**61, 2**63, 2**64 - 1)
"""Numbers at the ends of fields and of limits, and beyond them."""
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


def is_accepted(encoding: bytes) -> bool:
    """Whether the contract's decoder accepts an operator."""
    return ask("inspect", encoding) not in {Reason.BAD_OPERATOR, Reason.NO_REASON}


def is_legal(node: Node) -> bool:
    """Whether an operator is legal by itself."""
    try:
        check_node(node)
    except ProgramError:
        return False
    return True


def assert_judged_alike(node: Node) -> bool:
    """Compare the rule with the contract's decoder, and return what they say."""
    try:
        encoding = encode_node(node)
        is_same = read_node(encoding) == node
    except (ProgramError, AttributeError):
        # No bytes mean this node, or they are too many.
        assert not is_legal(node)
        return False
    assert is_legal(node) == (is_same and is_accepted(encoding)), node
    return is_legal(node)


def draw_changed(rng: random.Random) -> Node:
    """Return an operator of any kind with one to three of its numbers changed."""
    node = rng.choice(every_kind().nodes)
    for _ in range(rng.randint(1, 3)):
        node = rng.choice((_change_node, _change_operand, _change_row))(rng, node)
    return node


def _draw_number(rng: random.Random) -> int:
    return rng.choice(NUMBERS) if rng.random() < 0.5 else rng.randint(0, 4)


def _draw_numbers(rng: random.Random, most: int) -> tuple[int, ...]:
    return tuple(_draw_number(rng) for _ in range(rng.randint(0, most)))


def _change_node(rng: random.Random, node: Node) -> Node:
    operand = rng.choice(node.operands or (immediate(node.dtype, 0),))
    changes: list[dict[str, Any]] = [
        {"kind": rng.choice(list(Kind))},
        {"function": rng.choice(list(Function))},
        {"dtype": rng.choice(list(DType))},
        {"shape": _draw_numbers(rng, 9)},
        {"fold_shape": _draw_numbers(rng, 5)},
        {"operands": (*node.operands, operand)[rng.randint(0, 1) :]},
        {"operands": (operand,) * rng.randint(0, 9)},
        {"seed": _draw_number(rng)},
        {"stream": _draw_number(rng)},
        {"targets": _draw_numbers(rng, 3)},
    ]
    return replace(node, **rng.choice(changes))


def _change_operand(rng: random.Random, node: Node) -> Node:
    if not node.operands:
        return node
    place = rng.randrange(len(node.operands))
    operand = node.operands[place]
    row = rng.choice(operand.rows or (Row(1),))
    changes: list[dict[str, Any]] = [
        {"origin": rng.choice(list(Origin))},
        {"dtype": rng.choice(list(DType))},
        {"reference": _draw_number(rng)},
        {"value": _draw_number(rng)},
        {"value": 0x7FC00000 + rng.randint(-1, 1)},
        {"rows": (row,) * rng.randint(0, 9)},
    ]
    changed = replace(operand, **rng.choice(changes))
    return replace(node, operands=(*node.operands[:place], changed, *node.operands[place + 1 :]))


def _change_row(rng: random.Random, node: Node) -> Node:
    places = [i for i, operand in enumerate(node.operands) if operand.rows]
    if not places:
        return node
    place = rng.choice(places)
    operand = node.operands[place]
    which = rng.randrange(len(operand.rows))
    count = rng.randint(0, 13)
    terms = tuple((v, _draw_number(rng) * rng.choice((1, -1))) for v in range(count))
    changes: list[dict[str, Any]] = [
        {"size": _draw_number(rng)},
        {"offset": _draw_number(rng) * rng.choice((1, -1))},
        {"divisor": _draw_number(rng)},
        {"terms": terms},
        {"terms": tuple((_draw_number(rng), 1) for _ in range(rng.randint(1, 3)))},
    ]
    row = replace(operand.rows[which], **rng.choice(changes))
    rows = (*operand.rows[:which], row, *operand.rows[which + 1 :])
    changed = replace(operand, rows=rows)
    return replace(node, operands=(*node.operands[:place], changed, *node.operands[place + 1 :]))


def test_changed_nodes_are_judged_alike() -> None:
    """Of operators with any numbers, the rule accepts those that the contract's decoder does."""
    rng = random.Random(7)
    legal = sum(assert_judged_alike(draw_changed(rng)) for _ in range(250))
    assert 25 < legal < 225


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
