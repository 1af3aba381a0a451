"""Reductions of rows in segments, such as a channel of every image of a batch."""

from dataclasses import dataclass
from math import prod
from typing import NamedTuple

from offchain.arithmetic.functions import DType, Function
from offchain.planning.accesses import collapse
from offchain.planning.readings import Reading
from offchain.planning.roles import EXPRESSIBLE, find_segments
from offchain.programs.graph import Node

_LEAST_ROWS = 4


@dataclass(frozen=True, slots=True)
class SegmentFold:
    """The fold of every row: lane l folds columns l, l + lanes, ... of one segment after another.

    Attributes:
        dtype: the type of the elements.
        function: the function that folds the columns.
        init: the bits that each lane starts from.
        fill: the bits that a lane folds at the last step of a segment if there is no column left.
        segments: the number of segments of each row.
        segment_step: how far apart they are, in elements.
        row_step: how far apart the rows are.
        columns: the columns of a segment, which lie side by side.
        lanes: the number of lanes, a power of two, at most `columns`.
        outer_function: the function that folds the lanes.
        outer_init: the bits that the fold of the lanes starts from.
    """

    dtype: DType
    function: Function
    init: int
    fill: int
    segments: int
    segment_step: int
    row_step: int
    columns: int
    lanes: int
    outer_function: Function
    outer_init: int


class Segmented(NamedTuple):
    """A reduction of rows in segments: its two operators with their indices, and the fold."""

    indices: tuple[int, int]
    nodes: tuple[Node, Node]
    reading: Reading
    fold: SegmentFold


def find_fold(inner: Node, outer: Node) -> tuple[Reading, SegmentFold] | None:
    """Return the fold that two reductions are, lanes and then the lanes, if they are one."""
    folded = find_segments(inner)
    if folded is None or folded.lanes is None or inner.function not in EXPRESSIBLE:
        return None
    reading = Reading(folded.operand, folded.sizes)
    rank, strides = len(inner.shape) - 1, reading.strided.strides
    rows, lead = folded.sizes[:rank], folded.sizes[rank + 1 :]
    row_step, segment_step = collapse(rows, strides[:rank]), collapse(lead, strides[rank + 1 :])
    columns = folded.sizes[rank]
    is_dense = reading.is_view and strides[rank] == 1 and columns >= folded.lanes
    if row_step is None or segment_step is None or not is_dense or prod(rows) < _LEAST_ROWS:
        return None
    init, fill = (operand.value for operand in inner.operands)
    return reading, SegmentFold(
        dtype=inner.dtype,
        function=inner.function,
        init=init,
        fill=fill,
        segments=prod(lead),
        segment_step=segment_step,
        row_step=row_step,
        columns=columns,
        lanes=folded.lanes,
        outer_function=outer.function,
        outer_init=outer.operands[0].value,
    )
