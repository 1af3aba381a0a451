"""The tables by which convolutions read packed rows, and ask for rows that are read in place."""

from moot.offchain.backends.cpu.kernels.contraction.convolution_packing import (
    STEP_BYTES,
    WORD_BYTES,
)
from moot.offchain.backends.cpu.kernels.contraction.tile import A_STEP_BYTES, FLOAT_BYTES, ROWS
from moot.offchain.native.compiled import subroutine
from moot.offchain.native.vectors import CACHE_LINE_BYTES
from moot.offchain.native.words import load_word, store_word

_LINE_FLOATS = CACHE_LINE_BYTES // FLOAT_BYTES


@subroutine
def plan_panels(steps: int, depth: int, table: int) -> None:
    """Write the tables by which a tile is read from a panel of packed rows.

    Args:
        steps: address of the steps' entries (`Block`).
        depth: how many there are.
        table: address of room for as many entries, and for offsets of `ROWS` rows and one more.
    """
    for step in range(depth):
        entry = step * STEP_BYTES
        store_word(step * A_STEP_BYTES, table + entry)
        store_word(load_word(steps + entry + WORD_BYTES), table + entry + WORD_BYTES)
    for row in range(ROWS + 1):
        store_word(row * FLOAT_BYTES, table + depth * STEP_BYTES + row * WORD_BYTES)


@subroutine
def plan_lines(rows: int, count: int, steps: int, depth: int, table: int) -> bool:
    """Write which lines of a tile's rows are brought at each step of the tile before, if any.

    Args:
        rows: address of the rows' offsets.
        count: how many rows there are.
        steps: address of the entries of their steps (`Block`).
        depth: how many steps there are.
        table: address of room for as many entries: offsets from the tile's first row.

    Returns:
        Whether steps lie side by side and rows do not, so that a line is of one row.
    """
    if count < ROWS or depth <= _LINE_FLOATS:
        return False
    first, second = load_word(rows), load_word(rows + WORD_BYTES)
    start, end = load_word(steps), load_word(steps + _LINE_FLOATS * STEP_BYTES)
    if abs(second - first) < CACHE_LINE_BYTES or end - start != CACHE_LINE_BYTES:
        return False
    for step in range(depth):
        line, row = step // ROWS, step % ROWS
        entry = steps + min(line * _LINE_FLOATS, depth - 1) * STEP_BYTES
        offset = load_word(rows + row * WORD_BYTES) - first + load_word(entry)
        store_word(offset, table + step * STEP_BYTES)
    return True
