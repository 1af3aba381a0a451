"""Stories with a verdict in a rare place: at a cut chunk, at a later step, against both sides."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, cast

from moot.contracts.model.types import ZERO
from moot.contracts.reasons import Phase
from moot.offchain.arithmetic.functions import DType, Function
from moot.offchain.programs.graph import Kind, Node, immediate
from moot.sim.synthetic.run_length import RunLengthTensor
from tests.attacks.elements import make_runs, make_task
from tests.attacks.test_hashing import NEGATED
from tests.attacks.test_verdicts import CutTensor
from tests.mutants.operators import Table
from tests.mutants.replay import Call
from tests.mutants.tape import CLIENT

F32 = DType.FLOAT32
ONE = 0x3F800000
WIDE = Node(Kind.MAP, Function.COPY, F32, (100,), (immediate(F32, ONE),))


def tell_verdicts() -> Iterator[list[Call]]:
    """Yield the stories."""
    for liar in (0, 1):
        for place, size in ((0, 0), (0, 252), (1, 140), (1, 256)):
            yield _tell_cut(liar, place, size)
    for steps, late in ((2, 1), (3, 1), (3, 2), (9, 1)):
        yield _tell_late(steps, late)
    for element in (8, 16, 63):
        yield _tell_next(element)


def _tell_cut(liar: int, place: int, size: int) -> list[Call]:
    """One side has hashed a chunk that is too short or too long, and tries to show it."""
    task = make_task(WIDE)
    runs: list[Any] = make_runs(task, WIDE, (ONE, ONE))
    truth = cast("RunLengthTensor", runs[1 - liar].output)
    whole = truth.chunk(place)
    chunk = (whole + whole)[:size].ljust(size, b"\1")
    runs[liar] = replace(runs[liar], output=CutTensor(truth, place, chunk))
    table = Table(task, runs)
    table.begin()
    reason = None
    while reason is None and next(iter(table.boards.values())).position.phase is not Phase.CHUNK:
        ((pair, board),) = table.boards.items()
        name, sender, args = table.find(board)
        reason = table.call(name, sender, *args)
        table.tape.block += 1
    for pair, board in table.boards.items():
        for mine in (chunk, whole):
            for theirs in (board.data, chunk, whole):
                args = (pair, board.position, board.facts, theirs, mine, b"")
                for member in table.seats:
                    table.tape.call("pick_element", member, *args)
    return table.tape.calls


def _tell_next(element: int) -> list[Call]:
    """Elements differ in their lowest bytes alone, from the first one of a word on, or the last."""
    task = make_task(WIDE)
    table = Table(task, make_runs(task, WIDE, (ONE, ONE ^ 1), element))
    table.begin()
    table.play(is_bent=False)
    return table.tape.calls


def _tell_late(steps: int, late: int) -> list[Call]:
    """The state that a leaf reads is in the interval, in front of its last steps."""
    task = replace(make_task(NEGATED), steps=steps, checkpoint_every=steps)
    bits = (0xC0490FDB, 0x40490FDB)
    table = Table(task, make_runs(task, NEGATED, bits, changed=late))
    table.begin()
    table.play(Phase.LEAF, is_bent=False)
    for board in list(table.boards.values()):
        name, sender, args = table.find(board)
        table.tape.call(name, sender, *args[:5], task.start_root, (), *args[7:])
        table.tape.call(name, CLIENT, *args[:5], ZERO, (), *args[7:])
        table.call(name, sender, *args)
    return table.tape.calls
