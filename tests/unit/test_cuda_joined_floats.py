"""Rows between products of floats in kernels for devices: attention in `ordered` in one kernel."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from math import inf
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch

from moot.offchain.arithmetic.exact import EXACT
from moot.offchain.arithmetic.functions import DType, Function
from moot.offchain.arithmetic.ordered import ORDERED
from moot.offchain.backends.cuda import emulated, emulator
from moot.offchain.backends.cuda.backend import Cuda
from moot.offchain.backends.cuda.emulator import Emulator
from moot.offchain.backends.cuda.joined import kernel as joined
from moot.offchain.backends.cuda.joined import plans, threads
from moot.offchain.backends.cuda.joined.estimates import estimate_joined
from moot.offchain.backends.cuda.joined.form import Area, Joined
from moot.offchain.backends.cuda.joined.plans import JoinedProducts
from moot.offchain.backends.cuda.joined.threads import BY_THREADS, OnThreads
from moot.offchain.backends.cuda.kernel import Context, Kernel, Loop
from moot.offchain.backends.cuda.regions.form import Limits
from moot.offchain.commitments.tensors import Array
from moot.offchain.errors import BrokenPrecondition
from moot.offchain.execution.executor import Executor
from moot.offchain.execution.preparation import Preparation
from moot.offchain.frontend.capture import Captured, capture
from moot.offchain.frontend.examples import build, language
from moot.offchain.frontend.examples.language import LanguageSize
from moot.offchain.frontend.recipe import InferenceRecipe
from moot.offchain.native import vectors
from moot.offchain.planning import back_to_back as planning
from moot.offchain.programs.graph import Kind, Node, Program, immediate
from tests.fuzz import joined as drawing
from tests.fuzz.joined import _Joined, set_masks
from tests.quick import only, share
from tests.unit.test_cuda import assemble, encode, find_assembler
from tests.unit.test_cuda_joined import find_joined
from tests.unit.test_kernels_scatter import PATTERNS

Tensor = torch.Tensor
Attention = Callable[..., Tensor | tuple[Tensor, ...]]

CAPABILITIES = {"hopper": (9, 0), "ampere": (8, 0), "small": (8, 6)}
_SIGN, _ONE = 1 << 31, 0x3F800000


class Shape(NamedTuple):
    """The extents of an attention, and whether rows see what is behind them."""

    heads: int = 2
    rows: int = 64
    columns: int = 200
    steps: int = 32
    width: int = 32
    is_causal: bool = True


USUAL = Shape()


def attend(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    """Attention whose mask is added."""
    return torch.softmax((q @ k.mT) * 0.25 + mask, -1) @ v


def keep(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """Attention that returns its weights, as its gradients need them."""
    weights = torch.softmax((q @ k.mT) * 0.25 + mask, -1)
    return weights, weights @ v


def turn(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    """Attention whose factors lie the other way."""
    q, k, v = (x.mT.contiguous().mT for x in (q, k, v))
    return torch.softmax(q @ k.mT + mask, -1) @ v


def drop(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    """Attention whose weights are dropped by what is drawn before."""
    kept = (mask.sum(-1, keepdim=True) + mask).cos() > 0
    return (torch.softmax(q @ k.mT, -1) * kept * 1.25) @ v


def scale(q: Tensor, k: Tensor, v: Tensor, _: Tensor) -> Tensor:
    """A norm of rows between two products, which has no maximum."""
    scores = q @ k.mT
    return (scores * scores.square().mean(-1, keepdim=True).rsqrt()) @ v


def read_again(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    """Attention whose weights are made of scores, too, when their exponentials are there."""
    scores = q @ k.mT
    return (torch.softmax(scores + mask, -1) + scores) @ v


def read_later(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """A product of what is there before the last pass, which reads scores."""
    scores = q @ k.mT
    found = (scores - scores.amax(-1, keepdim=True)).exp()
    return found / found.sum(-1, keepdim=True) + scores + mask, found @ v


ONE_KERNEL = [attend, keep, turn, drop, scale, read_again, read_later]


def differentiate(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> tuple[Tensor, ...]:
    """The gradients of an attention, whose products fold columns, too."""
    with torch.enable_grad():
        leaves = [x.detach().requires_grad_() for x in (q, k, v)]
        out = attend(leaves[0], leaves[1], leaves[2], mask)
        return torch.autograd.grad(out, leaves, out.detach() * 2)


def odd_steps(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    """Attention of steps that are no whole vectors."""
    return attend(q[..., :30], k[..., :30], v, mask)


def odd_rows(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    """Attention of rows that blocks would have of two matrices."""
    return attend(q[:, :36], k, v, mask[:, :36])


def odd_places(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    """Attention whose values can't be read in vectors."""
    return attend(q, k, v[..., 1:31], mask)


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let products of few elements be joined, whatever that costs."""
    monkeypatch.setattr(planning, "_LEAST_ELEMENTS", 0)
    monkeypatch.setattr(planning, "_LEAST_ROWS", 2)
    join_all(monkeypatch)


def join_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let nothing be better apart."""
    monkeypatch.setattr(plans, "estimate_product", lambda *_: inf)


def join_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let last products be better apart."""
    monkeypatch.setattr(plans, "estimate_product", lambda *_: 0)
    cycles = {True: 0, False: inf}
    monkeypatch.setattr(plans, "estimate_joined", lambda form, _: cycles[form.last is None])


WAYS = {"whole": join_all, "rows": join_rows}


def draw_operands(shape: Shape = USUAL, seed: int = 0) -> list[Array]:
    """Return queries, keys, values and a mask, of the future or of some columns."""
    rng = np.random.default_rng(seed)
    heads, rows, columns, steps, width, is_causal = shape
    shapes = (heads, rows, steps), (heads, columns, steps), (heads, columns, width)
    q, k, v = (rng.standard_normal(each).astype(np.float32) for each in shapes)
    seen = np.tri(rows, columns, columns // 4, dtype=bool)
    seen = seen if is_causal else rng.random((rows, columns)) < 0.9
    mask = np.where(seen, 0, -np.inf).astype(np.float32)
    return [q, k, v, np.broadcast_to(mask, (heads, rows, columns)).copy()]


def list_cases() -> Iterator[list[Array]]:
    """Yield hostile operands: infinities, NaNs, what overflows, what vanishes, rows of nothing."""
    rng = np.random.default_rng(1)
    for place, value in ((0, np.inf), (1, np.nan), (2, np.inf), (2, np.nan), (1, 1e38)):
        operands = draw_operands()
        operands[place][1, -1, 2] = value
        yield operands
    operands = draw_operands()
    operands[2][...] *= np.float32(1e-39)
    operands[3][0, 3], operands[3][1, 5, 100:] = -np.inf, np.nan
    yield operands
    operands = draw_operands()
    for x in operands:
        x[rng.random(x.shape) < 0.05] = rng.choice(PATTERNS.view(np.float32))
    yield operands


def make(attention: Attention, shape: Shape = USUAL) -> Captured:
    """Capture an attention."""
    tensors = tuple(map(torch.from_numpy, draw_operands(shape)))
    recipe = InferenceRecipe(torch.nn.Module(), lambda _, *x: attention(*x), lambda _: tensors)
    return capture(recipe, trust=True, arithmetic=ORDERED)


def prepare(
    program: Program,
    device: str = "hopper",
    seed: int = 0,
    multiprocessors: int = Emulator.multiprocessors,
) -> Preparation:
    """Return the ways to run a program on a device that is emulated."""
    machine = Emulator(seed, capability=CAPABILITIES[device])
    machine.multiprocessors = multiprocessors
    return Preparation(program, Cuda(machine))


def compute(prepared: Preparation, captured: Captured, operands: Sequence[Array]) -> list[bytes]:
    """Return what a program makes of operands."""
    batch = list(operands)[: len(prepared.program.batch)]
    return encode(Executor(prepared).run(captured.initial_state, batch, 0))


def check(captured: Captured, prepared: Preparation, operands: Sequence[Array]) -> None:
    """Check that it is what the processor makes of them."""
    expected = compute(Preparation(prepared.program), captured, operands)
    assert compute(prepared, captured, operands) == expected


@pytest.mark.parametrize("attention", ONE_KERNEL)
@pytest.mark.parametrize("device", only(["hopper"], ["hopper", "small"]))
def test_rows_between_products_are_the_processor_s(attention: Attention, device: str) -> None:
    """Softmax, masks, norms and weights that are kept have the definition's bits in one kernel."""
    captured = make(attention)
    prepared = prepare(captured.program, device)
    (plan,) = find_joined(prepared)
    assert plan.form is not None
    assert plan.form.product is BY_THREADS
    is_free = attention is not read_later
    assert (plan.form.weights_area is Area.SCORES) == is_free
    assert bool(plan.form.overlaid) == (attention not in {scale, read_again, read_later})
    check(captured, prepared, draw_operands())


def set_starts(program: Program, bits: Sequence[int]) -> Program:
    """Return a program whose contractions begin with other values, in turn."""
    starts = iter(bits)
    nodes = [
        replace(node, operands=(immediate(DType.FLOAT32, next(starts)), *node.operands[1:]))
        if node.kind is Kind.CONTRACT
        else node
        for node in program.nodes
    ]
    return replace(program, nodes=tuple(nodes))


SIDES = (32, 16, 8)
LEAST_COLUMNS = {32: 64, 16: 65, 8: 257}
"""Columns whose folds have lanes enough, so that a block's threads have no more rows at once."""

DRAWN = 48


@pytest.mark.parametrize("number", range(share(DRAWN)))
def test_drawn_shapes_are_the_processor_s(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows, columns and heads of any size, causal or not, dropped or turned, from any start."""
    rng = Random(number)
    side = SIDES[number % len(SIDES)]
    monkeypatch.setitem(plans._SIDES, BY_THREADS, (side,))
    shape = Shape(
        rng.choice((2, 3)),
        side * rng.choice((1, 2, 3)),
        LEAST_COLUMNS[side] + rng.choice((0, 1, 7, 64, 130, 300)),
        4 * rng.choice((4, 5, 6, 8, 16, 20, 32)),
        4 * rng.choice((4, 5, 9, 16, 25, 32)),
        rng.random() < 0.5,
    )
    captured = make(rng.choice(ONE_KERNEL), shape)
    program = set_starts(captured.program, [rng.choice((0, _SIGN, _ONE)) for _ in range(2)])
    prepared = prepare(program, seed=number)
    (plan,) = find_joined(prepared)
    assert plan.form is not None
    assert plan.form.side == side
    check(captured, prepared, draw_operands(shape, number))


class _Whole(_Joined):
    """A program while it is drawn, whose rows are folded whole, not in lanes."""

    def fold(self, function: Function, value: int) -> int:
        """Add the fold of every row."""
        init = immediate(DType.FLOAT32, 0xFF800000 if function is Function.MAX else 0)
        operands, shape = (init, self.whole_of(value)), self.whole[:-1]
        node = Node(Kind.REDUCE, function, DType.FLOAT32, shape, operands, (self.columns,))
        return self.add(node)


def begin_program(number: int, monkeypatch: pytest.MonkeyPatch) -> tuple[_Whole, int]:
    """Return a program while it is drawn, of which there is the first product."""
    monkeypatch.setattr(drawing, "_ODD", 0)
    drawn = _Whole(Random(number), is_large=False)
    drawn.batch, drawn.rows, drawn.columns = (2,), 32, drawn.rng.choice((68, 100, 128))
    drawn.whole, drawn.widths = (2, drawn.rows, drawn.columns), (16, 20)
    left = drawn.slot((2, drawn.rows, 8), (0, 1, 3))
    right = drawn.slot((2, 8, drawn.columns), (0, 3, 2))
    node = Node(Kind.CONTRACT, Function.FMA, DType.FLOAT32, drawn.whole)
    return drawn, drawn.add(replace(node, operands=(drawn.start(), left, right), fold_shape=(8,)))


def run_drawn(drawn: _Joined) -> Joined | None:
    """Check that a drawn program has the processor's bits, and return the form of its kernel."""
    program = drawn.finish()
    rng = np.random.default_rng(len(program.nodes))
    state = [rng.standard_normal(slot.shape).astype(np.float32) for slot in program.state]
    set_masks(drawn.rng, program, state)
    prepared = prepare(program)
    expected = encode(Executor(program).run(state, [], 0))
    assert encode(Executor(prepared).run(state, [], 0)) == expected
    return next((plan.form for plan in find_joined(prepared)), None)


@pytest.mark.parametrize("number", range(share(DRAWN)))
def test_drawn_regions_are_the_processor_s(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Masks, folds whole or in lanes, and maps in any order are what they are apart."""
    drawn, first = begin_program(number, monkeypatch)
    drawn.fold_rows(drawn.region(first))
    run_drawn(drawn)


@pytest.mark.parametrize("number", range(3))
def test_what_is_folded_whole_is_not_overwritten(
    number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Weights have a place of their own where a row is folded after the pass that stores them."""
    drawn, first = begin_program(number, monkeypatch)
    value = drawn.map(Function.EXP, drawn.whole_of(first))
    drawn.results.append(drawn.fold(Function.ADD, value))
    twice = drawn.map(Function.ADD, drawn.whole_of(value), drawn.whole_of(value))
    drawn.fold_rows(twice)
    form = run_drawn(drawn)
    assert form is not None
    assert form.overlaid
    assert form.weights_area is Area.WEIGHTS


@pytest.mark.parametrize("columns", [63, 64, 65, 190, 257, 523])
def test_columns_are_any(columns: int) -> None:
    """The last steps have a phase of their own, and steps behind them are never made up."""
    shape = USUAL._replace(columns=columns, rows=32)
    captured = make(attend, shape)
    prepared = prepare(set_starts(captured.program, [_SIGN, _SIGN]))
    (plan,) = find_joined(prepared)
    assert plan.form is not None
    operands = draw_operands(shape)
    operands[2][...] = 0
    check(captured, prepared, operands)


@pytest.mark.parametrize("case", [*range(7)])
def test_hostile_numbers_are_the_processor_s(case: int) -> None:
    """Infinities, NaNs and subnormals are in a row what they are in kernels apart."""
    captured = make(keep)
    check(captured, prepare(captured.program), [*list_cases()][case])


@pytest.mark.parametrize("attention", [odd_steps, odd_rows, odd_places])
def test_others_are_computed_one_after_the_other(attention: Attention) -> None:
    """What breaks a precondition has no kernel of its own, and the same bits."""
    captured = make(attention)
    prepared = prepare(captured.program)
    (plan,) = find_joined(prepared)
    assert plan.form is None
    check(captured, prepared, draw_operands())


def count_launches(plan: JoinedProducts) -> int:
    """Return how many launches a plan is."""
    targets = [0] * len(plan._kept)
    return len(plan.list_launches([0] * len(plan.operands), targets, lambda _: 0))


@pytest.mark.parametrize(("way", "launches"), [("whole", [1, 3]), ("rows", [2, 4])])
def test_gradients_are_launches_of_their_own(
    way: str, launches: Sequence[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of queries may come out of the rows' kernel; keys and values have their own tiles."""
    WAYS[way](monkeypatch)
    captured = make(differentiate)
    prepared = prepare(captured.program)
    found = find_joined(prepared)
    assert [len(plan._fused.across) for plan in found] == [0, 2]
    assert all(plan.form is not None for plan in found)
    assert [count_launches(plan) for plan in found] == launches
    for operands in (draw_operands(), *list_cases()):
        check(captured, prepared, operands)


@pytest.mark.parametrize("attention", ONE_KERNEL)
def test_rows_may_be_joined_with_the_first_product_alone(
    attention: Attention, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the last product folds is stored then, wanted or not, and has the same bits."""
    join_rows(monkeypatch)
    shape = USUAL._replace(columns=330, steps=64)
    captured = make(attention, shape)
    prepared = prepare(captured.program)
    (plan,) = find_joined(prepared)
    assert plan.form is not None
    assert plan.form.last is None
    check(captured, prepared, draw_operands(shape))


@pytest.mark.parametrize("way", only(["whole"], ["whole", "rows"]))
@pytest.mark.parametrize(
    ("name", "whole", "rows"),
    only([("gpt2", 1, 2)], [("gpt2", 1, 2), ("llama", 2, 2), ("bert", 1, 2)]),
)
def test_training_has_the_same_state(
    name: str, whole: int, rows: int, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Steps of a model's training, forward and backward in such kernels, have the same state."""
    for sizes in (language.GPT2_SIZES, language.LLAMA_SIZES, language.BERT_SIZES):
        monkeypatch.setitem(sizes, "tiny", LanguageSize(2, 64, 1, 64, heads=2, inner=64))
    WAYS[way](monkeypatch)
    captured = capture(build(name, "tiny"), trust=True, arithmetic=ORDERED)
    prepared = prepare(captured.program)
    forms = [plan.form for plan in find_joined(prepared) if plan.form is not None]
    assert len([form for form in forms if (form.last is None) == (way == "rows")]) == (
        whole if way == "whole" else rows
    )
    expected, found = (Executor(each) for each in (captured.program, prepared))
    states = [list(captured.initial_state)] * 2
    for step in range(2):
        batch = captured.batch(step)
        pairs = zip((expected, found), states, strict=True)
        states = [each.run(state, batch, step) for each, state in pairs]
        assert encode(states[1]) == encode(states[0])


def test_the_order_of_threads_makes_no_difference() -> None:
    """No barrier is missing."""
    captured = make(keep)
    operands = draw_operands()
    found = {
        (*compute(prepare(captured.program, seed=seed), captured, operands),) for seed in range(4)
    }
    assert found == {(*compute(Preparation(captured.program), captured, operands),)}


def test_runs_in_sequences_are_the_same() -> None:
    """Launches that are joined with those of neighbours compute the same, in one kernel or not."""
    for attention in (keep, odd_rows):
        captured = make(attention)
        prepared = prepare(captured.program)
        for _ in range(5):
            check(captured, prepared, draw_operands())


def test_only_products_of_several_matrices_in_ordered_are_joined() -> None:
    """One matrix has too few rows, old devices no copies; elsewhere a sum is another one."""
    device = Cuda(Emulator(capability=CAPABILITIES["hopper"]))
    several, one = (
        next(n for n in make(attend, USUAL._replace(heads=heads)).program.nodes if n.fold_shape)
        for heads in (2, 1)
    )
    assert device.is_fusible(several, ORDERED)
    assert not device.is_fusible(several, EXACT)
    assert not device.is_fusible(one, ORDERED)
    assert not Cuda(Emulator(capability=(7, 5))).is_fusible(several, ORDERED)


def make_form(attention: Attention = attend, shape: Shape = USUAL) -> Joined:
    """Return the form of an attention's kernel."""
    (plan,) = find_joined(prepare(make(attention, shape).program))
    assert plan.form is not None
    return plan.form


BROKEN: dict[str, Callable[[Joined], Joined]] = {
    "seen": lambda form: replace(form, starts=(None, 0)),
    "sides": lambda form: replace(form, steps=30),
    "middle": lambda form: replace(form, last=(form.first[0], form.last[1])),
    "region": lambda form: replace(form, region=replace(form.region, limits=Limits(64))),
    "memory": lambda form: replace(form, block_bytes=1 << 14),
}


@pytest.mark.parametrize("name", BROKEN)
def test_forms_that_break_a_precondition_are_refused(name: str) -> None:
    """Each precondition is one that may not hold."""
    form = make_form()
    assert {each.name for each in Joined.preconditions} == {*BROKEN}
    with pytest.raises(BrokenPrecondition) as error:
        BROKEN[name](form)
    assert (error.value.form, error.value.precondition) == ("Joined", name)


def join_passes(kernel: Kernel) -> None:
    """Leave out the barrier between the passes of a region, and what is around them."""
    if kernel.name != "multiply_rows_between":
        return
    phases = [step for step in kernel.steps[2:-4] if not isinstance(step, Loop)]

    def run_all(context: Context) -> None:
        for phase in phases:
            assert callable(phase)
            phase(context)

    object.__setattr__(kernel, "steps", (*kernel.steps[:2], run_all, *kernel.steps[-4:]))


def find_another(row: Any, index: int, _: Any) -> Any:
    """Return the score of another column."""
    is_score = row._joined.is_score(index)
    return row._load_own(Area.SCORES, index, row.lane) if is_score else None


def start_always(writer: OnThreads, context: Context, which: int) -> None:
    """Begin sums anew with each of a column's parts."""
    if which == 0:
        writer.start(context, 0)


def turn_steps(
    fetch: Callable[..., list[list[Any]]],
) -> Callable[..., list[list[Any]]]:
    """Return what takes four steps in another order."""
    return lambda *given: fetch(*given)[::-1]


def multiply_apart(builder: Any, _: str, given: Sequence[Any]) -> Any:
    """Round a product before it is added."""
    return builder.fadd(builder.fmul(given[0], given[1]), given[2])


class Apart:
    """Vectors whose calls of `fma` are two roundings."""

    call = staticmethod(multiply_apart)

    def __getattr__(self, name: str) -> Any:
        """Return all else as it is."""
        return getattr(vectors, name)


CHANGES: dict[str, tuple[Any, str, Any]] = {
    "no wait": (emulated._OnProcessor, "end_copies", lambda *_: None),
    "another score": (joined._BlockRow, "find_given", find_another),
    "no barrier": (Kernel, "__post_init__", join_passes),
    "no last steps": (OnThreads, "rest", property(lambda _: None, lambda *_: None)),
    "all begin anew": (OnThreads, "take_up", start_always),
    "another order": (OnThreads, "_fetch", turn_steps(OnThreads._fetch)),
    "two roundings": (threads, "vectors", Apart()),
    "all in one place": (Joined, "weights_area", Area.SCORES),
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_is_wrong_is_found_out(change: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A part, a step or a barrier that is left out, another order and another rounding show."""
    shape = USUAL._replace(steps=64, columns=330, is_causal=False)
    captured = make(read_later if change == "all in one place" else keep, shape)
    operands = draw_operands(shape)
    prepared = prepare(captured.program)
    assert all(plan.form and plan.form.turns[0] > 1 for plan in find_joined(prepared))
    check(captured, prepared, operands)
    monkeypatch.setattr(emulator, "SOIL", 0xFF)  # what nobody set are NaNs
    owner, name, changed = CHANGES[change]
    monkeypatch.setattr(owner, name, changed)
    with pytest.raises(AssertionError):
        check(captured, prepare(captured.program), operands)


GPT2 = Shape(96, 32, 1024, 64, 64)


@pytest.mark.parametrize(("device", "side"), [("hopper", 32), ("ampere", 16), ("small", 8)])
def test_a_row_of_1024_columns_fits(device: str, side: int) -> None:
    """Attention of 1,024 columns has as many rows in a block as shared memory holds."""
    (plan,) = find_joined(prepare(make(attend, GPT2).program, device))
    assert (plan.form and plan.form.side) == side


@pytest.mark.parametrize(
    ("shape", "attention", "chosen"),
    [
        (GPT2._replace(rows=256), keep, (32, False)),
        (GPT2._replace(rows=256), attend, (32, True)),
        (Shape(48, 256, 256, 64, 64), keep, (32, True)),
        (Shape(2, 64, 2048, 64, 64), keep, None),
    ],
)
def test_what_is_joined_is_estimated_to_take_less(
    shape: Shape,
    attention: Attention,
    chosen: tuple[int, bool] | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Attention is joined where there are blocks for all multiprocessors of an H200."""
    monkeypatch.undo()
    monkeypatch.setattr(planning, "_LEAST_ELEMENTS", 0)
    prepared = prepare(make(attention, shape).program, multiprocessors=132)
    (plan,) = find_joined(prepared)
    assert (plan.form and (plan.form.side, plan.form.last is not None)) == chosen


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "samples", "tokens", "wholes"),
    [
        ("gpt2", 8, 1024, [False, False]),
        ("gpt2", 4, 256, [False, True]),
        ("llama", 4, 256, [True, True]),
        ("bert", 8, 128, [False, True]),
    ],
)
def test_attention_of_large_models_is_joined(
    name: str, samples: int, tokens: int, wholes: Sequence[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Heads and rows of a GPT-2 124M, a Llama 110M and a BERT: forward and backward, on an H200."""
    monkeypatch.undo()
    sizes = getattr(language, f"{name.upper()}_SIZES")
    size = replace(sizes["full"], samples=samples, tokens=tokens, layers=1, vocabulary=512)
    monkeypatch.setitem(sizes, "tiny", size)
    captured = capture(build(name, "tiny"), trust=True, arithmetic=ORDERED)
    forms = [plan.form for plan in find_joined(prepare(captured.program, multiprocessors=132))]
    assert [form and form.last is not None for form in forms] == wholes
    assert {form.side for form in forms if form} == {32}


def test_the_side_is_the_one_that_takes_least() -> None:
    """Fewer rows to a block where more multiprocessors then have one."""
    captured = make(attend, Shape(2, 64, 256, 64, 64))
    few, many = (
        find_joined(prepare(captured.program, multiprocessors=count))[0] for count in (1, 132)
    )
    assert few.form is not None
    assert many.form is not None
    assert few.form.side > many.form.side
    machine = Emulator(capability=CAPABILITIES["hopper"])
    machine.multiprocessors = 132
    assert estimate_joined(many.form, machine) < estimate_joined(few.form, machine)


@pytest.mark.skipif(find_assembler() is None, reason="NVIDIA's assembler is not installed")
@pytest.mark.parametrize("device", only(["hopper"], [*CAPABILITIES]))
@pytest.mark.parametrize("attention", only([attend], [attend, differentiate]))
def test_code_is_assembled(device: str, attention: Attention, tmp_path: Path) -> None:
    """The assembler takes the kernels without a spill: a multiply-add for each step and element."""
    for plan in find_joined(prepare(make(attention, GPT2).program, device)):
        architecture = "sm_90" if device == "hopper" else "sm_80"
        assert plan.form is not None
        text = assemble(plan._loaded._kernel, architecture, tmp_path / "kernel.ptx")
        parts = plan.form.product.list_parts(plan.form)
        own = [each.own for each in (threads.find_tiling(plan.form, n) for n in (0, 1))]
        steps = [part[1] * rows * columns for part, (rows, columns) in zip(parts, own, strict=True)]
        assert text.count("fma.rn.f32") == sum(steps)
