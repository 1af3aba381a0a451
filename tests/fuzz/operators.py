"""Operators with any numbers, judged by the rule and by the contract's decoder.

    python -m tests.fuzz.operators --operators 10000 --seed 1

Each is a legal one of some kind with one to three of its numbers changed, or its encoding with
bytes changed, lost or added. Both have to accept the same.
"""

import argparse
import sys
from dataclasses import replace
from random import Random
from typing import Any

from moot.contracts.reasons import Reason
from moot.offchain.arithmetic.functions import DType, Function
from moot.offchain.arithmetic.ordered import ORDERED
from moot.offchain.errors import ProgramError
from moot.offchain.programs.decoding import decode_node, read_node
from moot.offchain.programs.encoding import encode_node
from moot.offchain.programs.graph import Kind, Node, Origin, Row, immediate
from tests.fuzz.accesses import is_legal
from tests.fuzz.draws import draw_case
from tests.referee.leaf_contract import get_leaf
from tests.referee.programs import every_kind

NUMBERS = (*range(-1, 6), 8, 9, 13, 255, 256, 2**31, 2**32 - 1, 2**32, 2**61, 2**63, 2**64 - 1)
"""Numbers at the ends of fields and of limits, and beyond them."""


def is_accepted(encoding: bytes) -> bool:
    """Whether the contract's decoder accepts an operator."""
    return get_leaf(ORDERED).ask("inspect", encoding) not in {Reason.BAD_OPERATOR, Reason.NO_REASON}


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


def draw_changed(rng: Random) -> Node:
    """Return an operator of any kind with one to three of its numbers changed."""
    node = draw_operator(rng)
    for _ in range(rng.randint(1, 3)):
        node = rng.choice((_change_node, _change_operand, _change_row))(rng, node)
    return node


def _draw_number(rng: Random) -> int:
    return rng.choice(NUMBERS) if rng.random() < 0.5 else rng.randint(0, 4)


def _draw_numbers(rng: Random, most: int) -> tuple[int, ...]:
    return tuple(_draw_number(rng) for _ in range(rng.randint(0, most)))


def _change_node(rng: Random, node: Node) -> Node:
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


def _change_operand(rng: Random, node: Node) -> Node:
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


def _change_row(rng: Random, node: Node) -> Node:
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


def draw_operator(rng: Random) -> Node:
    """Return a legal operator: one of a drawn program, or of the one that has all kinds."""
    if rng.random() < 0.5:
        return rng.choice(every_kind().nodes)
    return rng.choice(draw_case(rng, is_matrix=rng.random() < 0.2).program.nodes)


def draw_encoding(rng: Random) -> bytes:
    """Return the encoding of an operator with some bytes changed, lost, added or moved."""
    data = encode_node(draw_operator(rng))
    for _ in range(rng.choice((1, 1, 2))):
        place = rng.randrange(len(data))
        piece = rng.choice((b"", rng.randbytes(1), bytes([rng.randrange(14)]), rng.randbytes(2)))
        data = data[:place] + piece + data[place + rng.choice((1, len(piece))) :]
    return data


def assert_decoded_alike(encoding: bytes) -> bool:
    """Compare what the two decoders say of an encoding, and return it."""
    try:
        node = decode_node(encoding, ORDERED)
    except ProgramError:
        assert not is_accepted(encoding), encoding.hex()
        return False
    assert is_accepted(encoding), encoding.hex()
    assert encode_node(node) == encoding
    return True


def main() -> int:
    """Run the command; it stops at the first difference."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.operators", description=__doc__)
    parser.add_argument("--operators", type=int, default=1_000, help="how many to draw")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    accepted = 0
    for number in range(options.operators):
        rng = Random(f"{options.seed} {number}")
        if number % 2:
            accepted += assert_decoded_alike(draw_encoding(rng))
        else:
            accepted += assert_judged_alike(draw_changed(rng))
    sys.stdout.write(f"{options.operators:,} operators, {accepted:,} accepted: 0 differences\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
