"""Series: a trace as a market goes through it; at its end each begins again.

A trace as long as its last row lasts one block more than that: its first row follows then.
"""

from collections.abc import Iterator

from moot.sim.traces.files import read_trace

BASE_FEE = "base_fee_gwei"
VALUE = "value_eth"
FACTOR = "work_factor"


def read_base_fees(name: str) -> list[int]:
    """Return the base fee of each block of a trace, in wei."""
    fees = read_trace(name, (BASE_FEE,), is_dense=True).columns[BASE_FEE]
    return [max(1, round(fee * 10**9)) for fee in fees.tolist()]


def read_arrivals(name: str) -> Iterator[tuple[float, float | None]]:
    """Yield of each job how many blocks it comes after the one before it, and what it is worth.

    The worth is in ETH, and None where the trace has none. The first job comes in the block that
    the trace says; those of one block come together.
    """
    trace = read_trace(name, (), (VALUE,))
    blocks = trace.blocks.tolist()
    worth = trace.columns[VALUE].tolist() if VALUE in trace.columns else [None] * len(blocks)
    begin, last = 0, 0
    while True:
        for block, value in zip(blocks, worth, strict=True):
            yield float(begin + block - last), value
            last = begin + block
        begin += blocks[-1] + 1


def measure_rate(name: str) -> float:
    """Return how many jobs there are per block of a trace of arrivals."""
    trace = read_trace(name, (), (VALUE,))
    return len(trace.blocks) / (int(trace.blocks[-1]) + 1)


class Factors:
    """The factors of what work costs, in each block that of the last row before or in it.

    Args:
        name: of the trace; the factor of its first row holds before it, too.
    """

    def __init__(self, name: str) -> None:
        trace = read_trace(name, (FACTOR,))
        self._blocks = trace.blocks.tolist()
        self._values: list[float] = trace.columns[FACTOR].tolist()
        self._length = self._blocks[-1] + 1
        self._place = self._begin = 0

    def find(self, block: int) -> float:
        """Return the factor in a block, which is never before that of the last call."""
        begin = block // self._length * self._length
        if begin != self._begin:
            self._begin, self._place = begin, 0
        place, last = self._place, len(self._blocks) - 1
        while place < last and self._begin + self._blocks[place + 1] <= block:
            place += 1
        self._place = place
        return self._values[place]
