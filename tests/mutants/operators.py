"""Stories about one operator each, for whose output two members claim arbitrary values."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from moot.contracts.model.checks import name_match
from moot.contracts.model.referee import call
from moot.contracts.model.types import (
    MIN_BOND_WEI,
    ZERO,
    Dive,
    Message,
    Pair,
    Terms,
    copy_store,
)
from moot.contracts.reasons import Phase, Revert
from moot.offchain.arithmetic.base import Arithmetic
from moot.offchain.arithmetic.functions import DType, Function
from moot.offchain.arithmetic.ordered import ORDERED
from moot.offchain.commitments.tensors import EMPTY_TOP
from moot.offchain.commitments.tree import Digest
from moot.offchain.disputes.referee.board import Board, follow
from moot.offchain.disputes.referee.terms import Stakes, make_terms
from moot.offchain.programs.graph import Kind, Node, Operand, Origin, Row, immediate
from moot.offchain.providers.task import Task
from moot.offchain.providers.testimony import Testimony
from moot.sim.synthetic import operators
from moot.sim.synthetic.calls import find_call
from moot.sim.synthetic.operators import OperatorRun, OperatorTask
from moot.sim.synthetic.run_length import RunLengthTensor
from tests.attacks.elements import make_runs
from tests.lockstep.spoiling import mutate
from tests.lockstep.story import assemble
from tests.mutants.replay import Call
from tests.mutants.tape import CLIENT, MEMBERS, SALT, Tape
from tests.referee import stage

F32, I64, BOOL = DType.FLOAT32, DType.INT64, DType.BOOL
ONE, TWO, THREE = 0x3F800000, 0x40000000, 0x40400000
SHAPE = (3,)
STATE = RunLengthTensor(F32, SHAPE, {0: 0x40490FDB, 1: 0xC2280000, 2: TWO})
"""The one tensor of the state before the last step: pi, -42 and 2."""
BATCH = (
    RunLengthTensor(F32, SHAPE, {0: ONE, 2: THREE}),
    RunLengthTensor(I64, SHAPE, {0: 2, 1: 1, 2: 0}),
)
"""The tensors of every step's batch."""
STAKES = Stakes(MIN_BOND_WEI + 1, 1001, 3, 3, 4, 30, 2)
BENT_EVERY = 6
"""In one story of so many, all moves are tried in wrong ways first."""


def make_task(node: Node, steps: int, every: int, arithmetic: Arithmetic = ORDERED) -> OperatorTask:
    """Return the job of an operator."""
    return operators.make_task(
        node, [STATE], BATCH, steps=steps, every=every, arithmetic=arithmetic
    )


@dataclass(frozen=True)
class Case:
    """An operator, with the claims of two members about one element of its output.

    Attributes:
        node: the operator.
        bits: what they say of the element and of all after it.
        element: the element.
        agreed: how many accumulators, the initial one counted, they say the same of: `common`.
        common: what they both say of those accumulators.
        surplus: what they add to those accumulators, behind the element.
        steps: of the job.
        every: steps from one checkpoint to the next.
        is_first: whether the step in dispute is the first, not the last.
        is_unproven: whether no evidence is right, because the program reads what does not exist.
    """

    node: Node
    bits: tuple[int, int]
    element: int = 0
    agreed: int = 1
    common: int = 0
    surplus: int = 0
    steps: int = 1
    every: int = 1
    is_first: bool = False
    is_unproven: bool = False


def tell_case(case: Case, arithmetic: Arithmetic, *, is_bent: bool) -> list[Call]:
    """Play about an operator, with all that can be wrong with each move on the way if asked for."""
    task, node = make_task(case.node, case.steps, case.every, arithmetic), case.node
    changed = 0 if case.is_first else -1
    runs = make_runs(task, node, case.bits, case.element, common=case.common, changed=changed)
    for run, own in zip(runs, case.bits, strict=True):
        run.accumulators = _claim(case, own)
    table = Table(task, runs)
    table.begin()
    table.play(Phase.LEAF if case.is_unproven or case.surplus else None, is_bent=is_bent)
    for board in list(table.boards.values()):
        # What is behind an element is passed over; who makes a move has never seen it.
        facts = replace(board.facts, low_bits=board.facts.low_bits - case.surplus)
        name, sender, args = table.find(replace(board, facts=facts))
        table.call(name, sender, *args[:2], board.facts, *args[3:])
    return table.tape.calls


def _claim(case: Case, own: int) -> Callable[[int], int]:
    return lambda place: case.common + case.surplus if place < case.agreed else own


class Table:
    """A job with one member for each run; the first two play.

    Args:
        task: the job.
        runs: what the members claim.
        changes: what is not usual about its terms.
    """

    def __init__(self, task: Task, runs: Sequence[Testimony], **changes: Any) -> None:
        self.tape = Tape(task.program.arithmetic)
        self.seats = dict(zip(MEMBERS, runs, strict=False))
        self.terms: Terms = replace(make_terms(task, STAKES), **changes)
        self.boards: dict[Pair, Board] = {}

    def begin(self) -> None:
        """Open the job, let all join and the first two meet."""
        tape, terms = self.tape, self.terms
        tape.call("open_job", CLIENT, terms, value_wei=1001)
        tops = {member: run.history.top for member, run in self.seats.items()}
        assemble(tape, tops, SALT)
        self.meet(*list(self.seats)[:2])

    def meet(self, one: str, other: str) -> Pair:
        """Begin a match."""
        pair = Pair(0, one, other)
        self.call("start_match", CLIENT, *name_match(self.tape.store, pair))
        return pair

    def call(self, name: str, sender: str, *args: Any) -> str | None:
        """Make a call, and see what becomes of the matches."""
        seen = len(self.tape.log)
        reason = self.tape.call(name, sender, *args)
        for event in self.tape.log[seen:]:
            follow(self.boards, event, self.tape.store.arithmetic)
        return reason

    def play(self, until: Phase | None = None, *, is_bent: bool = True) -> None:
        """Play the first match to its end, or up to a phase."""
        while self.boards:
            board = next(iter(self.boards.values()))
            if board.position.phase is until:
                return
            name, sender, args = self.find(board)
            if is_bent:
                for bent in _list_bent(args):
                    self.try_in_vain(name, sender, *bent)
                self.try_in_vain(name, CLIENT, *args)
            assert self.call(name, sender, *args) is None, name
            self.tape.block += 1

    def find(self, board: Board) -> tuple[str, str, tuple[Any, ...]]:
        """Return the next move of a match: its name, its sender and its arguments."""
        made = find_call(self.seats, self.terms, board)
        return made.name, made.sender, made.args

    def try_in_vain(self, name: str, sender: str, *args: Any) -> None:
        """Make a call if it will be refused."""
        message = Message(sender, 0, self.tape.block)
        try:
            call(copy_store(self.tape.store), name, message, *args)
        except (Revert, AssertionError, OverflowError, ValueError):
            self.tape.call(name, sender, *args)


def _list_bent(args: Sequence[Any]) -> Iterator[tuple[Any, ...]]:
    """Yield a move's arguments with one thing changed."""
    for place, value in enumerate(args):
        others = mutate(value, stage.ACCOUNTS)
        if isinstance(value, int):
            others += [2, 3, value + 1, 1 << 32, 1 << 64]
        if place < 3:
            # All of a position, or of facts, is in one digest.
            others = others[:3]
        if isinstance(value, Dive):
            # The same place under the neighbour; and more nodes than a type has room for.
            others.append(replace(value, child=value.child + (1 << args[1].span)))
            others.append(replace(value, nodes=(ZERO,) * 17))
        elif isinstance(value, tuple):
            others.append((ZERO,) * 57)
        for other in others:
            yield (*args[:place], other, *args[place + 1 :])


def _read(origin: Origin, dtype: DType, reference: int, *terms: tuple[int, int]) -> Operand:
    return Operand(origin, dtype, reference, 0, (Row(3, 0, terms),))


X = _read(Origin.STATE, F32, 0, (0, 1))
B = _read(Origin.BATCH, F32, 0, (0, 1))
INDEX = _read(Origin.BATCH, I64, 1, (0, 1))
EMPTY = Node(Kind.MAP, Function.NEG, F32, (0, 3), (immediate(F32, 0),))


def _map(function: Function, dtype: DType, *operands: Operand) -> Node:
    return Node(Kind.MAP, function, dtype, SHAPE, operands)


def _sum(length: int, dtype: DType = F32) -> Node:
    """Return a sum of ones."""
    one = immediate(dtype, ONE if dtype is F32 else 1)
    return Node(Kind.REDUCE, Function.ADD, dtype, (2,), (immediate(dtype, 0), one), (length,))


def _place(node: Kind, dtype: DType, count: int, *operands: Operand) -> Node:
    return Node(node, Function.COPY, dtype, (count,), operands)


def list_cases(arithmetic: Arithmetic) -> Iterator[Case]:
    """Yield operators of all kinds, and disputes about them at all places that differ."""
    yield from _list_maps()
    yield from _list_moves()
    yield from _list_folds()
    if arithmetic.accumulator_bytes:
        yield from _list_surplus()


def _list_surplus() -> Iterator[Case]:
    """Both sides agree on accumulators that go on behind the bytes of an element."""
    surplus = (immediate(F32, 0), _read(Origin.STATE, F32, 0, (1, 1)))
    most = Node(Kind.REDUCE, Function.MAX, F32, (2,), surplus, (3,))
    for behind in (32, 33, 63, 64, 255):
        yield Case(most, (0x40490FDB, ONE), element=1, agreed=2, common=ONE, surplus=1 << behind)


def _list_maps() -> Iterator[Case]:
    negated = _map(Function.NEG, F32, X)
    for steps, every in ((1, 1), (2, 1), (20, 1), (6, 3), (5, 3), (4, 3), (7, 7), (40, 2)):
        yield Case(negated, (0xC0490FDB, 5), steps=steps, every=every)
        yield Case(negated, (5, 0x42280000), element=1, steps=steps, every=every)
    for steps, every in ((2, 1), (5, 2), (40, 3)):
        yield Case(negated, (0xC0490FDB, 5), steps=steps, every=every, is_first=True)
    yield Case(negated, (5, 6))
    added = _map(Function.ADD, F32, X, B)
    for steps in (1, 3):
        yield Case(added, (0xC2240000, 9), element=1, steps=steps)
    yield Case(_map(Function.EQ, BOOL, INDEX, immediate(I64, 1)), (1, 0), element=1)
    last = immediate(I64, 2**64 - 1)
    yield Case(_map(Function.ADD, I64, INDEX, last), (2**64 - 1, 7), element=2)
    for dtype, size, element in ((F32, 4, 3), (F32, 5, 4), (I64, 3, 0), (I64, 3, 1)):
        missing = Operand(Origin.STATE, dtype, 0, 0, (Row(size, 0, ((0, 1),)),))
        node = Node(Kind.MOVE, Function.COPY, dtype, (size,), (missing,))
        yield Case(node, (0, 1), element=element, is_unproven=True)
    for reference in (0, 1):
        missing = Operand(Origin.BATCH, F32, reference, 0, (Row(3, 0, ((0, 1),)),))
        shown = _map(Function.NEG, F32, missing)
        yield Case(shown, (0xBF800000, 1), steps=2, is_unproven=reference != 0)
    random = Node(Kind.RANDOM, Function.UNIFORM, F32, (4,), (), seed=5, stream=1)
    yield Case(random, (ONE, 0), element=3)


def _list_moves() -> Iterator[Case]:
    """Also constant tensors of one chunk and of several, full ones and others."""
    for dtype, count in ((F32, 64), (F32, 65), (F32, 1000), (I64, 33), (I64, 32), (BOOL, 600)):
        node = _place(Kind.MOVE, dtype, count, immediate(dtype, 1))
        for element in sorted({0, count // 2, count - 1, min(256, count - 1)}):
            yield Case(node, (1, 0 if dtype is BOOL else 1 << 31), element=element, common=1)
    shifted = Operand(Origin.STATE, F32, 0, 0, (Row(3, -1, ((0, 1),)),))
    padded = _place(Kind.MOVE, F32, 5, shifted, immediate(F32, ONE))
    for element in (0, 1, 4):
        yield Case(padded, (ONE, 0x40490FDB), element=element)
    column = _read(Origin.BATCH, F32, 0, (1, 1))
    yield Case(_place(Kind.GATHER, F32, 3, column, INDEX), (ONE, THREE))


def _list_folds() -> Iterator[Case]:
    across, places = _read(Origin.STATE, F32, 0, (1, 1)), _read(Origin.BATCH, I64, 1, (1, 1))
    for function in (Function.ARGMAX, Function.ARGMIN):
        best = Node(Kind.REDUCE, function, I64, (2,), (immediate(I64, 3), across), (3,))
        for agreed in (1, 2, 3):
            yield Case(best, (0, 1), element=1, agreed=agreed)
    operands = (immediate(F32, 0), across, places)
    for function in (Function.ADD, Function.COPY):
        spread = Node(Kind.SCATTER, function, F32, SHAPE, operands, (3,), targets=(0,))
        for agreed in (1, 3):
            yield Case(spread, (0x40490FDB, 0), element=2, agreed=agreed)
    factors = (immediate(F32, 0), across, across)
    product = Node(Kind.CONTRACT, Function.FMA, F32, (2,), factors, (3,))
    for agreed in (1, 2, 3):
        yield Case(product, (ONE, TWO), element=1, agreed=agreed)
    for length in (0, 1, 2, 3, 63, 64, 65, 127, 128, 129, 5000):
        for agreed in sorted({1, length // 2 + 1, max(length, 1)}):
            yield Case(_sum(length), (ONE, TWO), element=1, agreed=agreed)
    yield Case(_sum(700, I64), (2**64 - 1, TWO), element=1, agreed=650, common=2**63)
    yield Case(_sum(2), (TWO, ONE), agreed=2, common=ONE)


def tell_operators(arithmetic: Arithmetic = ORDERED) -> Iterator[list[Call]]:
    """Yield the stories."""
    for number, case in enumerate(list_cases(arithmetic)):
        yield tell_case(case, arithmetic, is_bent=number % BENT_EVERY == 0)
    yield from _tell_empty()


def _tell_empty() -> Iterator[list[Call]]:
    """A tensor without elements has one root; whoever says something else is wrong."""
    task = make_task(EMPTY, 2, 1)
    for tops in ((EMPTY_TOP, SALT), (SALT, EMPTY_TOP), (SALT, bytes(32))):
        table = Table(
            task,
            [
                OperatorRun(task, _Claimed(top), after=bytes([number]) * 32)
                for number, top in enumerate(tops, 2)
            ],
        )
        table.begin()
        table.play()
        yield table.tape.calls


class _Claimed(RunLengthTensor):
    """A tensor that has a claimed top, but no elements."""

    def __init__(self, top: Digest) -> None:
        super().__init__(F32, EMPTY.shape, {0: 0})
        self._top = top

    @property
    def top(self) -> Digest:
        """The claimed top."""
        return self._top
