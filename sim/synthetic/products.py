"""The job of products: a synthetic one of any length, and lies about runs of it.

Every step multiplies two matrices that never change, over and over: y = x @ w, where all elements
of x are the same, and all of w. So all elements of y are one and the same chain of fused
multiply-adds. Who lies says something else from one step, operator, element and term on.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from moot.contracts.model.types import Address
from moot.offchain.arithmetic.base import Arithmetic, Fold
from moot.offchain.arithmetic.functions import DType, Function
from moot.offchain.arithmetic.ordered import ORDERED
from moot.offchain.disputes.play.actors import Player
from moot.offchain.disputes.play.game import Game
from moot.offchain.disputes.referee.port import Referee
from moot.offchain.disputes.referee.terms import USUAL, Stakes
from moot.offchain.programs.graph import Kind, Node, Operand, Origin, Row, Slot, immediate
from moot.offchain.providers.behaviour import Behaviour
from moot.sim.synthetic.jobs import SyntheticRun, SyntheticTask, make_program
from moot.sim.synthetic.run_length import RunLengthTensor

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
class ProductTask(SyntheticTask):
    """The job of a size; `make_task` makes it.

    Attributes:
        size: its sizes.
    """

    size: Size = field(kw_only=True)

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


def make_task(size: Size, arithmetic: Arithmetic = ORDERED) -> ProductTask:
    """Return the job of a size, in an arithmetic."""
    short = get_factor_type(arithmetic)
    x, w = FACTORS[short]
    start = (
        RunLengthTensor(short, (size.rows, size.terms), {0: x}),
        RunLengthTensor(short, (size.terms, size.columns), {0: w}),
        RunLengthTensor(F32, (size.rows, size.columns), {0: 0}),
    )
    last = size.operators - SLOTS - 1
    return ProductTask(
        program=make_program(
            state=[Slot(name, it.dtype, it.shape) for name, it in zip("xwy", start, strict=True)],
            sources=[(Origin.STATE, 0), (Origin.STATE, 1)],
            operators=[_multiply(size, short)] * (last - FIRST_PRODUCT + 1),
            kept=(0, 1, last),
            arithmetic=arithmetic,
        ),
        initial_state=(),
        batch=lambda _: (),
        steps=size.checkpoints * size.checkpoint_every,
        checkpoint_every=size.checkpoint_every,
        start=start,
        size=size,
    )


def _multiply(size: Size, dtype: DType) -> Node:
    """Return a product of x and w, which are of a type."""
    sizes = (size.rows, size.columns, size.terms)
    rows, columns, terms = (Row(count, 0, ((place, 1),)) for place, count in enumerate(sizes))
    factors = (
        Operand(Origin.NODE, dtype, 0, 0, (rows, terms)),
        Operand(Origin.NODE, dtype, 1, 0, (terms, columns)),
    )
    shape = (size.rows, size.columns)
    operands = (immediate(F32, 0), *factors)
    return Node(Kind.CONTRACT, Function.FMA, F32, shape, operands, (size.terms,))


class _Silent(Behaviour):
    """A player that never moves."""

    plays = False


class ProductRun(SyntheticRun):
    """A run of such a job, honest or not.

    Args:
        task: the job.
        lie: where it departs from the truth, if it does.
    """

    task: ProductTask

    def __init__(self, task: ProductTask, lie: Lie | None = None) -> None:
        self.lie = lie or Lie(task.steps)
        super().__init__(task, self.lie.step, _Silent() if self.lie.is_silent else Behaviour())

    @cached_property
    def _products(self) -> tuple[RunLengthTensor, RunLengthTensor]:
        """The true y, and this provider's once it lies."""
        size, lie, last = self.task.size, self.lie, self.task.product
        shape = (size.rows, size.columns)
        altered = {0: last, lie.element: last ^ lie.mask}
        return RunLengthTensor(F32, shape, {0: last}), RunLengthTensor(F32, shape, altered)

    def _is_wrong(self, step: int, operator: int) -> bool:
        """Whether y is wrong as an operator of a step makes it, or after the last in the state."""
        return (step, operator) >= (self.lie.step, self.lie.operator)

    def list_outputs(self, step: int) -> Mapping[int, RunLengthTensor]:
        """See SyntheticRun."""
        x, w, _ = self.task.start
        sinks = self.task.program.first_sink
        last, lie = sinks + SLOTS - 1, self.lie
        made = {FIRST_PRODUCT, last}
        if step == lie.step and FIRST_PRODUCT < lie.operator < sinks:
            made.add(lie.operator)
        products = {place: self._products[self._is_wrong(step, place)] for place in made}
        return {0: x, 1: w, sinks: x, sinks + 1: w} | products

    def list_state(self, step: int) -> Sequence[RunLengthTensor]:
        """See SyntheticRun."""
        x, w, y = self.task.start
        if step > 0:
            y = self._products[self._is_wrong(step - 1, self.task.size.operators)]
        return x, w, y

    def get_partial(self, step: int, operator: int, element: int, place: int) -> int:
        """See SyntheticRun."""
        lie = self.lie
        is_late = element >= lie.element and place > lie.term
        is_wrong = is_late and self._is_wrong(step, operator)
        return self.task.partials[place] ^ (lie.mask if is_wrong else 0)


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
    players = [Player("honest-1", honest, ProductRun(task))]
    for number, (account, lie) in enumerate(zip(others, lies, strict=True), 1):
        players.append(Player(f"liar-{number}", account, ProductRun(task, lie)))
    return Game(referee, task, client, players, stakes)
