"""What plans tell the kernels of convolutions: records of int64, whose offsets are in bytes."""

from typing import NamedTuple


class Block(NamedTuple):
    """A box of rows and a block of k.

    Attributes:
        rows: address of the offsets of the rows from their origin; a last entry repeats any row.
        row_count: number of rows, M.
        steps: address of pairs of offsets of each step of k, in a row and in a panel.
        step_count: number of steps.
        row_places: address of the offsets of the M rows from their origin in the result.
        out_start: the offset of that origin.
        start: offset of the rows' origin in the image, or in the window.
        planes: address of the numbers of the window's planes, 0 to read the image itself.
        plane_count: planes of the window.
        plane: number of a plane of the image, which is to be added to those numbers.
        first_row: of the window, of any sign.
        first_column: of the window, of any sign.
        height: rows of the window.
        width: columns of the window.
    """

    rows: int
    row_count: int
    steps: int
    step_count: int
    row_places: int
    out_start: int
    start: int
    planes: int = 0
    plane_count: int = 0
    plane: int = 0
    first_row: int = 0
    first_column: int = 0
    height: int = 0
    width: int = 0


class Chunk(NamedTuple):
    """A block of k, as the columns of the second factor have it (`pack_columns`).

    Attributes:
        runs: address of its runs.
        run_count: how many there are.
        depth: steps of a panel.
    """

    runs: int
    run_count: int
    depth: int


class Part(NamedTuple):
    """An item of work: some columns of a group, and some boxes of its rows.

    Attributes:
        first: its first column.
        stop: the column behind its last one.
        other_start: offset of the group's columns in the second factor.
        init_start: offset of the group's start values.
        box: number of its first box among the blocks of the first block of k.
        box_count: its boxes.
    """

    first: int
    stop: int
    other_start: int
    init_start: int
    box: int
    box_count: int


class Sizes(NamedTuple):
    """What is the same for all items of a plan.

    Attributes:
        height: rows of the image's planes.
        width: columns of them.
        fill: the bits of what lies outside of them.
        boxes: from a box's block of a block of k to its block of the next.
        group: tiles of rows that are packed, and then multiplied by a panel of columns before the
            next one; 0 to read rows where they lie.
        window: offset in scratch memory of the room for a window. The columns, packed, come first.
        tables: offset of that for the tables by which packed rows are read (`plan_panels`).
        packed: offset of that for the packed rows of a group.
        tiles: offset of that for the sums of all tiles of an item between blocks of k, or for those
            of a group of tiles if there is one block only.
    """

    height: int
    width: int
    fill: int
    boxes: int
    group: int
    window: int
    tables: int
    packed: int
    tiles: int


class Lines(NamedTuple):
    """A box of rows that a window in the image has in lines.

    Attributes:
        height: rows of the image's planes.
        width: columns of them.
        first_row: of the window, of any sign.
        first_column: of the window, of any sign.
        rows: rows of the window.
        columns: columns of the window.
        planes: address of the numbers of the window's planes, the first one's subtracted.
        plane_count: how many there are.
        lines: address of three words of each vector of rows: its offset in the window, its rows,
            and the offset of its results.
        line_count: how many there are.
        steps: address of pairs of offsets of each step of k, in the window and the second factor.
        step_count: how many there are.
        start: offset of the lines' origin in the window.
        stride: floats from a row to the next in the window.
        out_step: bytes from a row to the next in the result.
    """

    height: int
    width: int
    first_row: int
    first_column: int
    rows: int
    columns: int
    planes: int
    plane_count: int
    lines: int
    line_count: int
    steps: int
    step_count: int
    start: int
    stride: int
    out_step: int
