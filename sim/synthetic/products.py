"""A synthetic job of any length, whose runs need no computation, and lies about such runs.

Every step multiplies two matrices that never change, over and over: y = x @ w, where all elements
of x are the same, and all of w. So all elements of y are one and the same chain of fused
multiply-adds. Who lies says something else from one step, operator, element and term on. Whatever
the size, the commitments are real, and so are the moves:
`moot.offchain.disputes.play.players` makes them from what the events show and the mover's trees.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

from moot.contracts.model.types import Address
from moot.offchain.arithmetic.base import Arithmetic, Fold
from moot.offchain.arithmetic.functions import DType, Function
from moot.offchain.arithmetic.ordered import ORDERED
from moot.offchain.commitments.tags import Tag
from moot.offchain.commitments.tensors import Array, compute_state_root
from moot.offchain.commitments.tree import Digest, Tree
from moot.offchain.disputes.play.actors import Player
from moot.offchain.disputes.play.game import Game
from moot.offchain.disputes.referee.port import Referee
from moot.offchain.disputes.referee.terms import USUAL, Stakes
from moot.offchain.programs.graph import Kind, Node, Operand, Origin, Program, Row, Slot, immediate
from moot.offchain.programs.partials import pack_partials
from moot.offchain.providers.behaviour import Behaviour
from moot.offchain.providers.task import Task
from moot.sim.synthetic.run_length import RunLengthTensor, RunLengthTree, read_operands

F32 = DType.FLOAT32
FACTORS = {DType.FLOAT32: (0x3F8CCCCD, 0xBE99999A), DType.BFLOAT16: (0x3F8D, 0xBE9A)}
"""1.1 and -0.3: every sum is rounded."""
SLOTS = 3
"""The number of tensors in the state: x, w and y."""
FIRST_PRODUCT = 2
"""The first product; before it are sources of x and w, after the last the three sinks."""


@dataclass(frozen=True, slots=True)
class Size:
    """The sizes of a synthetic job.

    The output of an operator has `rows` * `columns` elements, each a fold of `terms` terms.
    """

    checkpoints: int = 1 << 20
    checkpoint_every: int = 1
    operators: int = 1 << 12
    rows: int = 1 << 10
    columns: int = 1 << 10
    terms: int = 1 << 12


@dataclass(frozen=True, slots=True)
class Lie:
    """A lie: the place from which on a claimed history differs from the true one.

    In step `step`, from the output of `operator` on, elements from `element` on are wrong by the
    bits of `mask`, and so are their accumulators after more than `term` terms. Where `operator` is
    their number, all outputs are right, and the state that is claimed to be made of them is not. A
    liar that is silent never moves.
    """

    step: int
    operator: int = FIRST_PRODUCT
    element: int = 0
    term: int = 0
    mask: int = 1
    is_silent: bool = False


MIDDLE = Lie(step=0xAAAAA, operator=0xAAA, element=0xAAAAA, term=0xAAA)
"""A lie to which the paths through the largest trees turn left and right by turns."""


@dataclass(frozen=True)
class SyntheticTask(Task):
    """The job of a size; `make_task` makes it."""

    size: Size

    @cached_property
    def start_root(self) -> Digest:
        """The root of the start state, whose y is 0."""
        size = self.size
        return self.hash_state(RunLengthTensor(F32, (size.rows, size.columns), {0: 0}))

    def hash_state(self, product: RunLengthTensor) -> Digest:
        """Return the root of a state, given its y."""
        return compute_state_root([tensor.root for tensor in (*self.factors, product)])

    @cached_property
    def factors(self) -> tuple[RunLengthTensor, RunLengthTensor]:
        """The matrices x and w."""
        size, dtype = self.size, get_factor_type(self.program.arithmetic)
        x, w = FACTORS[dtype]
        return (
            RunLengthTensor(dtype, (size.rows, size.terms), {0: x}),
            RunLengthTensor(dtype, (size.terms, size.columns), {0: w}),
        )

    @cached_property
    def partials(self) -> tuple[int, ...]:
        """The accumulators of every element of y, the initial one first."""
        fold, factors = self._fold, FACTORS[get_factor_type(self.program.arithmetic)]
        partials = [fold.begin(0)]
        for _ in range(self.size.terms):
            partials.append(fold.advance(partials[-1], factors))
        return tuple(partials)

    @cached_property
    def product(self) -> int:
        """The bits of every element of y."""
        return self._fold.finish(self.partials[-1])

    @property
    def _fold(self) -> Fold:
        arithmetic = self.program.arithmetic
        return arithmetic.find_fold(Function.FMA, get_factor_type(arithmetic))


def get_factor_type(arithmetic: Arithmetic) -> DType:
    """Return the type of x and w in an arithmetic: the shorter one, if factors may have one."""
    return arithmetic.short_factors or F32


def make_task(size: Size, arithmetic: Arithmetic = ORDERED) -> SyntheticTask:
    """Return the job of a size, in an arithmetic."""
    return SyntheticTask(
        program=_make_program(size, arithmetic),
        initial_state=(),
        batch=lambda _: (),
        steps=size.checkpoints * size.checkpoint_every,
        checkpoint_every=size.checkpoint_every,
        size=size,
    )


def _make_program(size: Size, arithmetic: Arithmetic) -> Program:
    short = get_factor_type(arithmetic)
    x, w, y = (size.rows, size.terms), (size.terms, size.columns), (size.rows, size.columns)
    last = size.operators - SLOTS - 1
    slots = (("x", short, x), ("w", short, w), ("y", F32, y))
    sources = [_copy(Kind.SOURCE, Origin.STATE, i, *slots[i][1:]) for i in (0, 1)]
    read = zip((0, 1, last), slots, strict=True)
    sinks = [_copy(Kind.SINK, Origin.NODE, i, *slot[1:]) for i, slot in read]
    factors = (
        Operand(Origin.NODE, short, 0, 0, (_row(size.rows, 0), _row(size.terms, 2))),
        Operand(Origin.NODE, short, 1, 0, (_row(size.terms, 2), _row(size.columns, 1))),
    )
    product = Node(
        Kind.CONTRACT, Function.FMA, F32, y, (immediate(F32, 0), *factors), (size.terms,)
    )
    nodes = (*sources, *[product] * (last - FIRST_PRODUCT + 1), *sinks)
    names = tuple(f"n{i}" for i in range(size.operators))
    state = tuple(Slot(*slot) for slot in slots)
    return Program(state, (), nodes, names, ("",) * size.operators, arithmetic)


def _row(size: int, variable: int) -> Row:
    return Row(size, 0, ((variable, 1),))


def _copy(kind: Kind, origin: Origin, reference: int, dtype: DType, shape: tuple[int, int]) -> Node:
    rows = tuple(_row(size, variable) for variable, size in enumerate(shape))
    return Node(kind, Function.COPY, dtype, shape, (Operand(origin, dtype, reference, 0, rows),))


class _Silent(Behaviour):
    """A player that never moves."""

    plays = False


class SyntheticRun:
    """One provider's run of a synthetic job, honest or not: whatever a dispute may ask of it.

    Args:
        task: the job.
        lie: where it departs from the truth, if it does.
    """

    def __init__(self, task: SyntheticTask, lie: Lie | None = None) -> None:
        # Nothing is run or kept: a dispute asks for no more than the methods below.
        self.task = self._paper = task
        self.behaviour = _Silent() if lie and lie.is_silent else Behaviour()
        self._lie = lie or Lie(task.steps)
        self._trace = lru_cache(maxsize=8)(self._build_trace)

    @cached_property
    def _products(self) -> tuple[RunLengthTensor, RunLengthTensor]:
        """The true y, and this provider's once it lies."""
        size, lie, last = self._paper.size, self._lie, self._paper.product
        shape = (size.rows, size.columns)
        altered = {0: last, lie.element: last ^ lie.mask}
        return RunLengthTensor(F32, shape, {0: last}), RunLengthTensor(F32, shape, altered)

    def _get_output(self, step: int, operator: int) -> RunLengthTensor:
        """Return y as an operator of a step makes it, or, after the last, as the state has it."""
        return self._products[(step, operator) >= (self._lie.step, self._lie.operator)]

    def _get_state(self, step: int) -> RunLengthTensor:
        """Return y in the state before a step."""
        if step > 0:
            return self._get_output(step - 1, self._paper.size.operators)
        size = self._paper.size
        return RunLengthTensor(F32, (size.rows, size.columns), {0: 0})

    @cached_property
    def history(self) -> Tree:
        """The tree over the claimed history."""
        task = self._paper
        changed = self._lie.step // task.checkpoint_every
        roots = {
            place: task.hash_state(self._get_state((place + 1) * task.checkpoint_every))
            for place in {0, changed}
            if place < task.size.checkpoints
        }
        return RunLengthTree(Tag.HISTORY_NODE, task.size.checkpoints, roots)

    def interval(self, first: int) -> Tree:
        """Return the tree over the states after the steps of the interval from `first` on."""
        task = self._paper
        count = min(task.checkpoint_every, task.steps - first)
        places = {0, max(0, self._lie.step - first)}
        roots = {
            place: task.hash_state(self._get_state(first + place + 1))
            for place in places
            if place < count
        }
        return RunLengthTree(Tag.INTERVAL_NODE, count, roots)

    def trace(self, step: int) -> Tree:
        """Return the tree over the outputs of all operators of a step, and the state after it."""
        return self._trace(step)

    def _build_trace(self, step: int) -> Tree:
        task, operators = self._paper, self._paper.size.operators
        x, w = (tensor.root for tensor in task.factors)
        sinks = operators - SLOTS
        products = {FIRST_PRODUCT, operators - 1}
        if step == self._lie.step and FIRST_PRODUCT < self._lie.operator < sinks:
            products.add(self._lie.operator)
        leaves = {0: x, 1: w, sinks: x, sinks + 1: w}
        leaves |= {place: self._get_output(step, place).root for place in products}
        leaves[operators] = task.hash_state(self._get_output(step, operators))
        return RunLengthTree(Tag.TRACE_NODE, operators + 1, leaves)

    def state_tree(self, step: int) -> Tree:
        """Return the tree over the tensors of the state before a step."""
        tensors = (*self._paper.factors, self._get_state(step))
        return Tree(Tag.STATE_NODE, [tensor.root for tensor in tensors])

    def tensor(self, step: int, origin: Origin, reference: int) -> RunLengthTensor:
        """Return an operator's output, or a slot of the state, with its tree."""
        factors = dict(enumerate(self._paper.factors))
        if origin is Origin.STATE:
            return factors.get(reference) or self._get_state(step)
        first_sink = self._paper.size.operators - SLOTS
        factors |= {first_sink + place: tensor for place, tensor in factors.items()}
        return factors.get(reference) or self._get_output(step, reference)

    def operands(self, step: int, operator: int) -> list[Array | None]:
        """Return the tensors that an operator reads, None for its constants."""
        return read_operands(self, step, self.task.program.nodes[operator])

    def partials(self, step: int, operator: int, element: int) -> Array:
        """Return the claimed accumulators of one element of a product, the initial one first."""
        partials, lie = list(self._paper.partials), self._lie
        if element >= lie.element and self._get_output(step, operator) is self._products[1]:
            partials[lie.term + 1 :] = (bits ^ lie.mask for bits in partials[lie.term + 1 :])
        size = self._paper.program.arithmetic.accumulator_bytes
        return pack_partials(partials, size or F32.width)


def seat(
    referee: Referee,
    size: Size,
    accounts: Sequence[Address],
    lies: Sequence[Lie],
    stakes: Stakes = USUAL,
) -> Game:
    """Return a game between an honest provider and liars; `Game.play` plays it, call by call.

    Args:
        referee: where it is played.
        size: how long the job is; its program is in the referee's arithmetic.
        accounts: the client's, the honest provider's, and then the liars'.
        lies: one for each liar.
        stakes: money and clocks.
    """
    task = make_task(size, referee.arithmetic)
    client, honest, *others = accounts
    players = [Player("honest-1", honest, SyntheticRun(task))]
    for number, (account, lie) in enumerate(zip(others, lies, strict=True), 1):
        players.append(Player(f"liar-{number}", account, SyntheticRun(task, lie)))
    return Game(referee, task, client, players, stakes)
