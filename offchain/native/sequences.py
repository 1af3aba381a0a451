"""Sequences: many calls of machine code that one call from Python makes, one after the other.

A call is the address of a function, which takes words of 64 bits, and its words. Words are numbers,
addresses in tensors, which each run has others of, or addresses of blocks of words. They are kept
as a template, of which each run makes a copy in memory of its own, with that run's addresses in it;
so runs may go on at once, on any number of threads. All of it happens without the interpreter lock,
in the standard environment, which is looked at again in the end.

The one function that does so is called as functions of the interpreter's C interface are, since
every other way takes longer than a small kernel. It reads arrays where numpy's C interface has
their fields, and may refuse arrays of another type or shape than it was told.
"""

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from moot.offchain.arithmetic.environment import PROBES, get_environment_addresses
from moot.offchain.native import native
from moot.offchain.native.buffers import DATA_OFFSET, empty
from moot.offchain.native.team import MOST_WORDS
from moot.offchain.native.walker import NAME, write

_ALIGNMENT = 64
_WORD_BYTES = 8
_KEPT_BYTES = 1 << 16
"""Memory that a sequence keeps between runs; more comes from the pool."""

_BY_ONE_ARGUMENT = 0x0008
"""METH_O: a function of the C interface that takes one argument."""

DONE, UNFIT, UNSUITABLE = range(3)
"""What came of a run: all is computed; nothing is, for an array is another than was said; or
something changed how the thread rounds, so that no result can be trusted."""


class Place(NamedTuple):
    """An address: so many bytes behind the start of a tensor, or of the run's own memory.

    Attributes:
        base: 0 for the run's own memory, then the tensors of the run by their numbers, from 1.
        offset: bytes.
    """

    base: int
    offset: int = 0

    def skip(self, count: int) -> "Place":
        """Return the address so many bytes behind."""
        return Place(self.base, self.offset + count)


@dataclass(frozen=True, slots=True)
class Block:
    """A block of words, which stands for its address."""

    words: "tuple[Word, ...]"


Word = int | Place | Block


class Call(NamedTuple):
    """A call of machine code: the address of a function of words, and the words."""

    entry: int
    words: tuple[Word, ...]


class Expected(NamedTuple):
    """What an array that is given has to be: of a type and a shape, and contiguous."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]


class NativeSequence:
    """Calls that are made one after the other, as often as one likes.

    Args:
        calls: the calls.
        own_bytes: memory that each run needs for itself.
        tensors: how many tensors a run is given.
        expected: what each of the first tensors has to be; the others are taken as they are.
    """

    def __init__(
        self,
        calls: Sequence[Call],
        own_bytes: int,
        tensors: int,
        expected: Sequence[Expected] = (),
    ) -> None:
        words, moved = _encode(calls)
        self._bytes = own_bytes + len(words) * _WORD_BYTES + 2 * _ALIGNMENT
        checks = [word for i, e in enumerate(expected) for word in _write_check(1 + i, e)]
        sizes = (1 + tensors, len(words), len(moved) // 2, len(calls), len(expected))
        head = (*_list_addresses(), *np.array(PROBES).view(np.int64), *sizes)
        program = np.array([*head, *words, *moved, *checks], np.int64)
        self._perform = _bind(program)
        self._idle: list[Any] = []

    @property
    def own_bytes(self) -> int:
        """The memory that each run needs for itself."""
        return self._bytes

    def perform(self, tensors: list[Any]) -> int:
        """Make all calls; the result is `DONE`, `UNFIT` or `UNSUITABLE`.

        Args:
            tensors: arrays, in the order of their numbers, behind one place that is not used.
        """
        try:
            tensors[0] = self._idle.pop()
        except IndexError:
            tensors[0] = empty((self._bytes,), np.uint8)
        result = self._perform(tensors)
        if self._bytes <= _KEPT_BYTES:
            self._idle.append(tensors[0])
        return result


def _encode(calls: Sequence[Call]) -> tuple[list[int], list[int]]:
    """Return the words of calls and blocks, and which of them are moved by which base."""
    words: list[int] = []
    moved: list[tuple[int, int]] = []
    blocks: list[tuple[int, Block]] = []

    def put(word: Word) -> None:
        if isinstance(word, Block):
            blocks.append((len(words), word))
            moved.append((len(words), 0))
            words.append(0)
        elif isinstance(word, Place):
            moved.append((len(words), word.base))
            own.extend([len(words)] if not word.base else [])
            words.append(word.offset)
        else:
            words.append(word)

    own: list[int] = []
    for call in calls:
        assert len(call.words) <= MOST_WORDS, f"a call has {len(call.words)} words"
        words += [call.entry, len(call.words)]
        for word in call.words:
            put(word)
    for place, block in blocks:  # grows, if blocks hold blocks
        words[place] = len(words) * _WORD_BYTES
        for word in block.words:
            put(word)
    start = -(-len(words) * _WORD_BYTES // _ALIGNMENT) * _ALIGNMENT
    for place in own:
        words[place] += start
    return words, [number for pair in moved for number in pair]


def _write_check(number: int, expected: Expected) -> list[int]:
    shape = expected.shape
    return [number, id(np.ndarray), id(expected.dtype), len(shape), *shape]


@cache
def _list_addresses() -> tuple[int, ...]:
    """Return the addresses of the functions that the walker calls."""
    api = ctypes.pythonapi
    functions = api.PyEval_SaveThread, api.PyEval_RestoreThread, api.PyLong_FromLong
    found = [ctypes.cast(function, ctypes.c_void_p).value or 0 for function in functions]
    return (*found, *get_environment_addresses())


class _Definition(ctypes.Structure):
    """What the interpreter's C interface calls a PyMethodDef."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


@cache
def _define() -> _Definition:
    entry = native.load_address(write(DATA_OFFSET), NAME)
    return _Definition(b"perform", entry, _BY_ONE_ARGUMENT, None)


def _bind(program: Any) -> Callable[[list[Any]], int]:
    """Return the walker as a function of a list of arrays; it holds its program."""
    make = ctypes.pythonapi.PyCFunction_NewEx
    make.restype = ctypes.py_object
    make.argtypes = [ctypes.POINTER(_Definition), ctypes.py_object, ctypes.c_void_p]
    bound: Callable[[list[Any]], int] = make(ctypes.byref(_define()), program, None)
    return bound
