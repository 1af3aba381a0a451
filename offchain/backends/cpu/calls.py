"""What plans say of the machine code that they call, so that a sequence calls it without them."""

from collections.abc import Callable, Sequence
from itertools import product
from math import prod
from typing import NamedTuple, Protocol

from moot.offchain.backends.cpu.kernels.copies import AXES, COPIES
from moot.offchain.backends.cpu.turns import find_turned
from moot.offchain.native.compiled import Kernel
from moot.offchain.native.memory_layout import Memory
from moot.offchain.native.sequences import Block, Call, Expected, NativeSequence, Place, Word
from moot.offchain.native.team import get_addresses
from moot.offchain.native.threads import get_team, get_threads, make_task
from moot.offchain.native.vectors import CACHE_LINE_BYTES, fill_lines
from moot.offchain.planning.accesses import Sizes, Strided, coalesce, row_major


class CalledPlan(Protocol):
    """A plan whose work is calls of machine code, which are known before it runs."""

    @property
    def is_called(self) -> bool:
        """Whether the calls are known, and few."""

    def list_calls(
        self, sources: Sequence[Place | None], targets: Sequence[Place], memory: Memory
    ) -> list[Call]:
        """Return the calls that compute the outputs.

        Args:
            sources: where the operands will be, None for constants.
            targets: where the outputs will be; they share no memory with the operands.
            memory: what the calls may use besides.
        """


class Layout(NamedTuple):
    """An array in a tensor or in memory.

    Attributes:
        start: its address.
        width: the bytes of an element.
        shape: its shape.
        strides: its strides, in bytes.
    """

    start: Word
    width: int
    shape: Sizes
    strides: tuple[int, ...]

    def skip(self, indices: Sequence[int]) -> Word:
        """Return the address of an element."""
        return skip(self.start, sum(s * i for s, i in zip(self.strides, indices, strict=True)))

    def part(self, *ranges: slice) -> "Layout":
        """Return a part; steps are 1, and ends are not negative."""
        bounds = [r.indices(size)[:2] for r, size in zip(ranges, self.shape, strict=True)]
        shape = tuple(stop - start for start, stop in bounds)
        start = self.skip([start for start, _ in bounds])
        return self._replace(start=start, shape=shape)

    def swap(self, a: int, b: int) -> "Layout":
        """Return the array with two axes swapped."""
        shape, strides = list(self.shape), list(self.strides)
        shape[a], shape[b] = shape[b], shape[a]
        strides[a], strides[b] = strides[b], strides[a]
        return self._replace(shape=tuple(shape), strides=tuple(strides))


def lay_out(start: Word, width: int, shape: Sizes, strided: Strided) -> Layout:
    """Return the strided view of a tensor at an address; strides are in elements."""
    strides = tuple(stride * width for stride in strided.strides)
    return Layout(skip(start, strided.offset * width), width, shape, strides)


def lay_out_whole(start: Word, width: int, shape: Sizes) -> Layout:
    """Return all of a contiguous tensor."""
    return lay_out(start, width, shape, Strided(0, row_major(shape)))


def skip(start: Word, count: int) -> Word:
    """Return the address so many bytes behind another one."""
    assert isinstance(start, int | Place)
    return start + count if isinstance(start, int) else start.skip(count)


def call(kernel: Kernel, arguments: Sequence[Layout | Word], memory: Memory) -> Call:
    """Return the call of a kernel of arrays and words.

    Numba passes an array as seven words and more, the first two of which say who owns it. Before
    all arguments come addresses to which a result and an error are written.
    """
    words: list[Word] = [memory.reserve(CACHE_LINE_BYTES), memory.reserve(CACHE_LINE_BYTES)]
    for argument in arguments:
        if isinstance(argument, Layout):
            words += [0, 0, prod(argument.shape), argument.width, argument.start]
            words += [*argument.shape, *argument.strides]
        else:
            words.append(argument)
    return Call(kernel.address, tuple(words))


def share_out(one: Call, grain: int, at: int = -2, scratch: tuple[int, int] | None = None) -> Call:
    """Return a call that shares out another one among as many threads as kernels use now.

    Args:
        one: the call on all items, from 0 on.
        grain: fewest items that are worth another thread, some 20 microseconds of work.
        at: which of its words is 0; the next is the number of items.
        scratch: which of its words is the address of scratch memory, and how many bytes of it each
            thread has (see `reserve_scratch`).
    """
    items = one.words[at + 1]
    assert isinstance(items, int)
    if items <= grain or get_threads() == 1:
        return one
    task = make_task(one.entry, one.words, grain, at, scratch)
    return Call(get_addresses()[0], (get_team(), Block(task)))


def reserve_scratch(memory: Memory, size: int) -> tuple[Place, int]:
    """Reserve memory for each of the threads; the result is where, and each one's bytes."""
    own = fill_lines(size)
    return memory.reserve(own * get_threads()), own


class SharedSequences:
    """A sequence for each number of threads that kernels use.

    Args:
        tensors: how many tensors a run is given.
        expected: what each of the first tensors has to be.
    """

    def __init__(self, tensors: int, expected: Sequence[Expected] = ()) -> None:
        self._tensors, self._expected = tensors, expected
        self._made: dict[int, NativeSequence] = {}

    def find(self, list_calls: Callable[[Memory], Sequence[Call]]) -> NativeSequence:
        """Return the sequence for as many threads as kernels use now.

        Args:
            list_calls: returns its calls as these threads share them; whoever asks gives the same.
        """
        found = self._made.get(get_threads())
        if found is None:
            memory = Memory()
            calls = list_calls(memory)
            found = NativeSequence(calls, memory.most_bytes, self._tensors, self._expected)
            self._made[get_threads()] = found
        return found


def list_copies(source: Layout, target: Layout, memory: Memory) -> list[Call]:
    """Return the calls that copy elements to an array of the same shape."""
    shape, layouts = coalesce(target.shape, [source.strides, target.strides])
    turned = find_turned(shape, target.width, _count_elements(layouts[::-1], target.width))
    if turned is not None:
        return [share_out(turned.make_call(target.start, source.start), turned.grain)]
    lead, missing = max(0, len(shape) - AXES), max(0, AXES - len(shape))
    sizes = (1,) * missing + shape[lead:]
    calls = []
    for indices in product(*map(range, shape[:lead])):
        arrays = []
        for start, strides in zip((source.start, target.start), layouts, strict=True):
            at = skip(start, sum(s * i for s, i in zip(strides, indices, strict=False)))
            own = (0,) * missing + strides[lead:]
            arrays.append(Layout(at, target.width, sizes, own))
        calls.append(call(COPIES[target.width], arrays, memory))
    return calls


def _count_elements(
    layouts: Sequence[Sequence[int]], width: int
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the strides in elements of two arrays, which are given in bytes."""
    first, second = (tuple(stride // width for stride in strides) for strides in layouts)
    return first, second


def count_copies(shape: Sizes, layouts: Sequence[Sequence[int]]) -> int:
    """Return how many calls a copy takes."""
    merged, _ = coalesce(shape, layouts)
    return prod(merged[: max(0, len(merged) - AXES)])
