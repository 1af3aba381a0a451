"""The machine code that makes the calls of a sequence.

It is a function of the interpreter's C interface: of the program, an array of words, and of a list
of arrays, the first of which is the run's own memory. A program is: addresses of functions, numbers
to compute with, five sizes, the template's words, pairs (word, the number of the array whose
address is added to it), and for each array that is looked at: its number, its class, its type, its
number of dimensions, and its shape.
"""

import platform
from collections.abc import Callable, Sequence

from llvmlite import ir

from moot.offchain.native import vectors
from moot.offchain.native.team import MOST_WORDS
from moot.offchain.native.vectors import DOUBLE, INDEX, WORD

NAME = "perform"

_SAVE, _RESTORE, _TO_INTEGER, _GET_ENVIRONMENT, _SET_ENVIRONMENT, _STANDARD = range(6)
_PROBES = 6
_SIZES = 10
_WORDS = 15
"""Where in a program the functions' addresses are, the numbers, the sizes, and the words."""

_TENSORS, _COUNT, _MOVED, _CALLS, _CHECKS = range(_SIZES, _WORDS)

_HAS_WORD = platform.machine().lower() in {"x86_64", "amd64"}
"""Whether one word of the processor, MXCSR, has all of the environment that vectors go by."""

_STANDARD_WORD = 0x1F80
"""MXCSR for: round to nearest, keep subnormal numbers, trap nothing."""

_BYTES = 8
_ENVIRONMENT_WORDS = 64
_ALIGNMENT = 64
_OBJECT_BYTES = object.__basicsize__
_CLASS = _OBJECT_BYTES - _BYTES
_LIST_LENGTH, _LIST_ITEMS = _OBJECT_BYTES, _OBJECT_BYTES + _BYTES
_DIMENSIONS, _SHAPE, _TYPE, _FLAGS = 8, 16, 40, 48
"""Bytes behind the field of an array that has the address of its elements."""

_NEEDED_FLAGS = 0x0101
"""Flags of an array that is contiguous (in the order of C) and aligned."""


_Body = Callable[[ir.Value, ir.Value], ir.Value]
"""(index, place) -> the next place."""


class _Walker:
    """The writer of the function.

    Args:
        data_offset: bytes from the start of an array's object to the address of its elements.
    """

    def __init__(self, data_offset: int) -> None:
        self._data_offset = data_offset
        function = ir.Function(ir.Module(), ir.FunctionType(WORD, [WORD, WORD]), NAME)
        self.module = function.module
        self._function = function
        self._builder = ir.IRBuilder(function.append_basic_block())

    def write(self) -> None:
        """Write all of it."""
        builder = self._builder
        holder, items = self._function.args
        self._program = self._load(holder, self._data_offset)
        self._items = self._load(items, _LIST_ITEMS)
        self._refused = self._function.append_basic_block("refused")
        self._require(self._load(items, _LIST_LENGTH), self._size(_TENSORS))
        self._check_arrays()
        self._own = self._align(self._find_data(WORD(0)))
        self._copy_words()
        self._move_words()
        state = self._call(_SAVE)
        room = builder.ptrtoint(builder.alloca(ir.ArrayType(WORD, _ENVIRONMENT_WORDS)), WORD)
        self._enter(room)
        self._make_calls()
        result = self._look_at_environment()
        self._leave(room)
        self._call(_RESTORE, state)
        builder.ret(self._call(_TO_INTEGER, self._load(result)))
        builder.position_at_end(self._refused)
        builder.ret(self._call(_TO_INTEGER, WORD(1)))

    def _enter(self, room: ir.Value) -> None:
        """Give the thread the standard environment, and keep its own.

        C's functions change the old floating-point unit too, for longer than a small kernel takes.
        No kernel uses it, so that on x86 the word that it does use is enough.
        """
        if not _HAS_WORD:
            self._call(_GET_ENVIRONMENT, room)
            self._call(_SET_ENVIRONMENT, self._get(_STANDARD))
            return
        self._use_word("st", room)
        word = self._builder.add(room, WORD(_BYTES))
        vectors.store(self._builder, INDEX(_STANDARD_WORD), word)
        self._use_word("ld", word)

    def _leave(self, room: ir.Value) -> None:
        """Give the thread its own environment back."""
        if _HAS_WORD:
            self._use_word("ld", room)
        else:
            self._call(_SET_ENVIRONMENT, room)

    def _use_word(self, direction: str, place: ir.Value) -> None:
        pointer = vectors.BYTE.as_pointer()
        signature = ir.FunctionType(ir.VoidType(), [pointer])
        name = f"llvm.x86.sse.{direction}mxcsr"
        function = self.module.globals.get(name) or ir.Function(self.module, signature, name)
        self._builder.call(function, [self._builder.inttoptr(place, pointer)])

    def _load(self, address: ir.Value, offset: int = 0, kind: ir.Type = WORD) -> ir.Value:
        return vectors.load(self._builder, kind, address, offset)

    def _at(self, start: ir.Value, number: ir.Value) -> ir.Value:
        return self._builder.add(start, self._builder.mul(number, WORD(_BYTES)))

    def _get(self, place: int) -> ir.Value:
        return self._load(self._program, place * _BYTES)

    _size = _get

    def _find_data(self, number: ir.Value) -> ir.Value:
        return self._load(self._load(self._at(self._items, number)), self._data_offset)

    def _align(self, address: ir.Value) -> ir.Value:
        return self._builder.and_(
            self._builder.add(address, WORD(_ALIGNMENT - 1)), WORD(-_ALIGNMENT)
        )

    def _call(self, function: int, *arguments: ir.Value) -> ir.Value:
        return self._call_at(self._get(function), arguments)

    def _call_at(self, address: ir.Value, arguments: Sequence[ir.Value]) -> ir.Value:
        signature = ir.FunctionType(WORD, [WORD] * len(arguments))
        entry = self._builder.inttoptr(address, signature.as_pointer())
        return self._builder.call(entry, arguments)

    def _require(self, found: ir.Value, wanted: ir.Value) -> None:
        after = self._function.append_basic_block("fits")
        self._builder.cbranch(self._builder.icmp_signed("==", found, wanted), after, self._refused)
        self._builder.position_at_end(after)

    def _repeat(self, count: ir.Value, start: ir.Value, body: _Body) -> ir.Value:
        """Run `place = body(place)` so many times, perhaps never, and return the last place."""
        builder = self._builder
        before = builder.block
        head, inner, after = (self._function.append_basic_block() for _ in range(3))
        builder.branch(head)
        builder.position_at_end(head)
        index, place = builder.phi(WORD), builder.phi(WORD)
        index.add_incoming(WORD(0), before)
        place.add_incoming(start, before)
        builder.cbranch(builder.icmp_signed("<", index, count), inner, after)
        builder.position_at_end(inner)
        following = body(index, place)
        place.add_incoming(following, builder.block)
        index.add_incoming(builder.add(index, WORD(1)), builder.block)
        builder.branch(head)
        builder.position_at_end(after)
        return place

    def _check_arrays(self) -> None:
        words = self._builder.add(self._size(_COUNT), WORD(_WORDS))
        moved = self._builder.mul(self._size(_MOVED), WORD(2))
        start = self._at(self._program, self._builder.add(words, moved))
        self._repeat(self._size(_CHECKS), start, self._check_array)

    def _check_array(self, _: ir.Value, check: ir.Value) -> ir.Value:
        builder = self._builder
        array = self._load(self._at(self._items, self._load(check)))
        self._require(self._load(array, _CLASS), self._load(check, _BYTES))
        fields = builder.add(array, WORD(self._data_offset))
        self._require(self._load(fields, _TYPE), self._load(check, 2 * _BYTES))
        flags = builder.and_(self._load(fields, _FLAGS, INDEX), INDEX(_NEEDED_FLAGS))
        self._require(builder.zext(flags, WORD), WORD(_NEEDED_FLAGS))
        rank = self._load(check, 3 * _BYTES)
        self._require(builder.zext(self._load(fields, _DIMENSIONS, INDEX), WORD), rank)
        shape = self._load(fields, _SHAPE)

        def check_size(axis: ir.Value, wanted: ir.Value) -> ir.Value:
            self._require(self._load(self._at(shape, axis)), self._load(wanted))
            return self._builder.add(wanted, WORD(_BYTES))

        return self._repeat(rank, builder.add(check, WORD(4 * _BYTES)), check_size)

    def _copy_words(self) -> None:
        def copy(index: ir.Value, source: ir.Value) -> ir.Value:
            vectors.store(self._builder, self._load(source), self._at(self._own, index))
            return self._builder.add(source, WORD(_BYTES))

        start = self._builder.add(self._program, WORD(_WORDS * _BYTES))
        self._moves = self._repeat(self._size(_COUNT), start, copy)

    def _move_words(self) -> None:
        def move(_: ir.Value, pair: ir.Value) -> ir.Value:
            builder = self._builder
            word, number = self._at(self._own, self._load(pair)), self._load(pair, _BYTES)
            is_own = builder.icmp_signed("==", number, WORD(0))
            base = builder.select(is_own, self._own, self._find_data(number))
            vectors.store(builder, builder.add(self._load(word), base), word)
            return builder.add(pair, WORD(2 * _BYTES))

        self._repeat(self._size(_MOVED), self._moves, move)

    def _make_calls(self) -> None:
        def make(_: ir.Value, call: ir.Value) -> ir.Value:
            builder = self._builder
            entry, count = self._load(call), self._load(call, _BYTES)
            after = self._function.append_basic_block("made")
            switch = builder.switch(count, after)
            for number in range(1, MOST_WORDS + 1):
                block = self._function.append_basic_block("call")
                switch.add_case(WORD(number), block)
                builder.position_at_end(block)
                words = [self._load(call, (2 + i) * _BYTES) for i in range(number)]
                self._call_at(entry, words)
                builder.branch(after)
            builder.position_at_end(after)
            return self._at(builder.add(call, WORD(2 * _BYTES)), count)

        self._repeat(self._size(_CALLS), self._own, make)

    def _look_at_environment(self) -> ir.Value:
        """Find 0 where the thread computes as it should, else 2, and return where that lies.

        The numbers come from memory, and what is found goes there, so that it is computed here.
        """
        builder = self._builder
        one, tiny, least, subnormal = (self._load_number(i) for i in range(4))
        two = builder.fadd(one, one)
        equal = [
            (builder.fadd(one, tiny), one),
            (builder.fsub(one, tiny), one),
            (builder.fadd(subnormal, subnormal), least),
            (builder.fmul(builder.fsub(least, subnormal), two), least),
        ]
        is_standard: ir.Value = ir.Constant(ir.IntType(1), 1)
        for a, b in equal:
            is_standard = builder.and_(is_standard, builder.fcmp_ordered("==", a, b))
        vectors.store(builder, builder.select(is_standard, WORD(0), WORD(2)), self._own)
        return self._own

    def _load_number(self, number: int) -> ir.Value:
        place = self._builder.add(self._program, WORD((_PROBES + number) * _BYTES))
        return self._builder.load(self._builder.inttoptr(place, DOUBLE.as_pointer()))


def write(data_offset: int) -> ir.Module:
    """Return the module of the function `NAME`."""
    walker = _Walker(data_offset)
    walker.write()
    return walker.module
