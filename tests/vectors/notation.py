"""How tensors, operators and programs are written in the vectors, and read back."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from moot.offchain.arithmetic.functions import DType, Function
from moot.offchain.arithmetic.ordered import ORDERED
from moot.offchain.commitments.tensors import NUMPY_TYPES, Array, dtype_of, encode_elements
from moot.offchain.programs.decoding import decode_node
from moot.offchain.programs.encoding import encode_node
from moot.offchain.programs.graph import Kind, Node, Operand, Origin, Program, Row, Slot

Json = dict[str, Any]


def write_bits(bits: int, dtype: DType) -> str:
    """Return a pattern as a number of as many digits as its type has."""
    return f"{bits:#0{2 + 2 * dtype.width}x}"


def write_tensor(array: Array) -> Json:
    """Return a tensor: its bytes, or one pattern if all its elements are the same."""
    dtype = dtype_of(array)
    head: Json = {"dtype": dtype.name.lower(), "shape": list(array.shape)}
    patterns = np.unique(encode_elements(array).view(f"<u{dtype.width}"))
    if len(patterns) == 1 and array.size > 1:
        return head | {"fill": write_bits(int(patterns[0]), dtype)}
    return head | {"elements": array.tobytes().hex()}


def read_tensor(written: Json) -> Array:
    """Return the tensor that is written."""
    dtype, shape = DType[written["dtype"].upper()], tuple(written["shape"])
    if "fill" in written:
        pattern = int(written["fill"], 16).to_bytes(dtype.width, "little")
        return np.full(shape, np.frombuffer(pattern, NUMPY_TYPES[dtype]))
    return np.frombuffer(bytes.fromhex(written["elements"]), NUMPY_TYPES[dtype]).reshape(shape)


def _write_operand(operand: Operand) -> Json:
    dtype, value = operand.dtype.name.lower(), write_bits(operand.value, operand.dtype)
    if operand.origin is Origin.IMMEDIATE:
        return {"origin": "immediate", "dtype": dtype, "value": value}
    rows = [
        {
            "size": row.size,
            "offset": row.offset,
            "terms": [list(term) for term in row.terms],
            "divisor": row.divisor,
        }
        for row in operand.rows
    ]
    head = {"origin": operand.origin.name.lower(), "reference": operand.reference, "dtype": dtype}
    return head | {"fill": value, "rows": rows}


def _read_operand(written: Json) -> Operand:
    origin, dtype = Origin[written["origin"].upper()], DType[written["dtype"].upper()]
    value = int(written["value" if origin is Origin.IMMEDIATE else "fill"], 16)
    rows = tuple(
        Row(row["size"], row["offset"], tuple((v, c) for v, c in row["terms"]), row["divisor"])
        for row in written.get("rows", [])
    )
    return Operand(origin, dtype, written.get("reference", 0), value, rows)


def write_node(node: Node) -> Json:
    """Return an operator; what its kind does not have is left out."""
    written: Json = {"kind": node.kind.name.lower(), "function": node.function.name.lower()}
    written |= {"dtype": node.dtype.name.lower(), "shape": list(node.shape)}
    if node.kind.folds:
        written["fold"] = list(node.fold_shape)
    if node.kind is Kind.RANDOM:
        written |= {"seed": f"{node.seed:#018x}", "stream": f"{node.stream:#010x}"}
    if node.kind is Kind.SCATTER:
        written["targets"] = list(node.targets)
    return written | {"operands": [_write_operand(operand) for operand in node.operands]}


def read_node(written: Json) -> Node:
    """Return the operator that is written."""
    return Node(
        Kind[written["kind"].upper()],
        Function[written["function"].upper()],
        DType[written["dtype"].upper()],
        tuple(written["shape"]),
        tuple(_read_operand(operand) for operand in written["operands"]),
        tuple(written.get("fold", ())),
        int(written.get("seed", "0"), 16),
        int(written.get("stream", "0"), 16),
        tuple(written.get("targets", ())),
    )


def _write_slots(slots: Sequence[Slot]) -> list[Json]:
    return [
        {"name": slot.name, "dtype": slot.dtype.name.lower(), "shape": list(slot.shape)}
        for slot in slots
    ]


def _read_slots(written: Sequence[Json]) -> tuple[Slot, ...]:
    return tuple(
        Slot(slot["name"], DType[slot["dtype"].upper()], tuple(slot["shape"])) for slot in written
    )


def write_program(program: Program) -> Json:
    """Return a program: the slots of its layout, and the encodings of its operators."""
    nodes = [encode_node(node).hex() for node in program.nodes]
    state, batch = _write_slots(program.state), _write_slots(program.batch)
    return {"state": state, "batch": batch, "operators": nodes}


def read_program(written: Json) -> Program:
    """Return the program that is written; its operators are named by their numbers."""
    nodes = tuple(decode_node(bytes.fromhex(node), ORDERED) for node in written["operators"])
    names = tuple(str(index) for index in range(len(nodes)))
    state, batch = _read_slots(written["state"]), _read_slots(written["batch"])
    return Program(state, batch, nodes, names, ("",) * len(nodes))


def wrap(node: Node, inputs: Sequence[Array]) -> Program:
    """Return the program of one operator on batch slots: its output is the whole state."""
    slots = tuple(
        Slot(str(index), dtype_of(array), array.shape) for index, array in enumerate(inputs)
    )
    rows = tuple(Row(size, terms=((axis, 1),)) for axis, size in enumerate(node.shape))
    output = Operand(Origin.NODE, node.dtype, 0, 0, rows)
    sink = Node(Kind.SINK, Function.COPY, node.dtype, node.shape, (output,))
    return Program(
        (Slot("output", node.dtype, node.shape),), slots, (node, sink), ("0", "1"), ("", "")
    )
