"""Gathers whose indices are coordinates of the data, each by itself, and nothing else."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import ClassVar, NamedTuple

from moot.offchain.arithmetic.functions import DType
from moot.offchain.planning.accesses import (
    Sizes,
    Strided,
    collapse,
    find_strided,
    is_inside,
    row_major,
)
from moot.offchain.planning.preconditions import Form, Precondition, make_form
from moot.offchain.programs.graph import Kind, Node, Operand, Origin, Row

INTEGERS = frozenset({DType.INT64, DType.INT32})
"""The types of indices that are coordinates."""


class Coordinate(NamedTuple):
    """An index that is one coordinate of the far tensor.

    Attributes:
        operand: its place among the indices.
        size: the extent of that coordinate.
        step: how far apart neighbours along it are, in elements.
    """

    operand: int
    size: int
    step: int


def _is_inside(form: "Addressed") -> bool:
    """Whether indices that are inside of their coordinates read elements of the data."""
    moved = form.coordinates
    if not all(it.size for it in moved):
        return True  # no index is inside
    extents = (*form.shape, *(it.size for it in moved))
    strides = (*form.strided.strides, *(it.step for it in moved))
    elements = prod(row.size for row in form.data.rows)
    return is_inside(Strided(form.strided.offset, strides), extents, elements)


@dataclass(frozen=True, slots=True)
class Addressed(Form):
    """A gather's data, and how indices move in it.

    Attributes:
        data: the access to the data where all indices are 0.
        strided: the affine form of that access.
        coordinates: what the indices address.
        shape: the shape of the output.
    """

    data: Operand
    strided: Strided
    coordinates: tuple[Coordinate, ...]
    shape: Sizes

    preconditions: ClassVar[tuple[Precondition, ...]] = (
        Precondition(
            "inside",
            "with indices that are inside, no element outside of the data is read",
            _is_inside,
        ),
        Precondition(
            "coordinates",
            "each index moves along one row of the access, forwards",
            lambda form: all(it.size >= 0 and it.step >= 0 for it in form.coordinates),
        ),
    )


def find_addressed(node: Node) -> Addressed | None:
    """Return what a gather reads of a tensor, None where an index is not a coordinate by itself."""
    if node.kind is not Kind.GATHER or node.operands[0].origin is Origin.IMMEDIATE:
        return None
    data, *indices = node.operands
    rank = len(node.shape)
    steps = row_major([row.size for row in data.rows])
    coordinates, fixed = [], []
    for row, step in zip(data.rows, steps, strict=True):
        if any(variable >= rank for variable, _ in row.terms):
            if not _is_coordinate(row):
                return None
            ((variable, _),) = row.terms
            coordinates.append(Coordinate(variable - rank, row.size, step))
            fixed.append(Row(max(1, row.size)))
        else:
            fixed.append(row)
    strided = find_strided(fixed, node.shape)
    if strided is None or any(operand.dtype not in INTEGERS for operand in indices):
        return None
    reads = replace(data, rows=tuple(fixed))
    return make_form(Addressed, reads, strided, tuple(coordinates), node.shape)


def find_fusible(node: Node) -> Addressed | None:
    """Return what a gather reads, if it reads each element of it at an address of its own.

    A region has no place for a gather without an element to read.
    """
    found = find_addressed(node) if node.elements else None
    if found is None or not found.coordinates:
        return None
    return found if all(row.size for row in node.operands[0].rows) else None


def is_in_columns(node: Node, columns: int | None) -> bool:
    """Whether a gather's data have one stride along so many columns; None if there are none."""
    found = find_addressed(node)
    assert found is not None
    inner = [v for v, span in enumerate(row_major(node.shape)) if columns and span < columns]
    return collapse(*_pick(node.shape, found.strided.strides, inner)) is not None


def _pick(
    sizes: Sizes, strides: Sequence[int], axes: Sequence[int]
) -> tuple[Sequence[int], Sequence[int]]:
    return [sizes[v] for v in axes], [strides[v] for v in axes]


def _is_coordinate(row: Row) -> bool:
    return len(row.terms) == 1 and row.terms[0][1] == 1 and (row.offset, row.divisor) == (0, 1)
