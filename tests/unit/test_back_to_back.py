"""Back-to-back products: blocks of rows, with and without tails, and what must not be joined."""

from collections.abc import Callable, Iterator, Sequence
from itertools import product

import numpy as np
import pytest
import torch

from moot.offchain.backends.cpu import back_to_back as cpu
from moot.offchain.backends.cpu.back_to_back import BackToBackProducts
from moot.offchain.commitments.tensors import Array
from moot.offchain.execution.executor import Executor
from moot.offchain.execution.preparation import Preparation, Ready
from moot.offchain.execution.readable import run_step
from moot.offchain.frontend.capture import Captured, capture
from moot.offchain.frontend.recipe import InferenceRecipe
from moot.offchain.native import buffers
from moot.offchain.planning import back_to_back as planning
from tests.fuzz.compare import soil_and_put
from tests.quick import every, only
from tests.unit.test_kernels_scatter import PATTERNS

Tensor = torch.Tensor
Attention = Callable[..., Tensor | tuple[Tensor, ...]]

HEADS, ROWS, COLUMNS, DEPTH, WIDTH = 3, 70, 192, 5, 6
TINY = np.float32(-1e-45)


def add(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    """Attention whose mask is added."""
    return torch.softmax(q @ k.mT + mask, -1) @ v


def scale(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    """Attention that scales the product before its mask is added."""
    return torch.softmax(q @ k.mT * 0.5 + mask, -1) @ v


def choose(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    """Attention whose mask chooses scores, and that is 0 where it chooses none."""
    scores = (q @ k.mT).masked_fill(mask.isinf(), -torch.inf)
    weights = torch.softmax(scores, -1)
    return weights.masked_fill((scores == -torch.inf).all(-1, keepdim=True), 0) @ v


def keep(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """Attention that returns its weights, as its gradients need them."""
    weights = torch.softmax(q @ k.mT + mask, -1)
    return weights, weights @ v


def weigh(q: Tensor, k: Tensor, _: Tensor, mask: Tensor) -> Tensor:
    """Only the weights."""
    return torch.softmax(q @ k.mT + mask, -1)


def interleave(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    """Attention of two texts whose heads lie side by side, so that no view has all matrices."""
    texts = [torch.stack([x, x.flip(0)], 1).permute(1, 2, 0, 3).contiguous() for x in (q, k, v)]
    q, k, v = (x.transpose(1, 2) for x in texts)
    return torch.softmax(q @ k.mT + mask, -1) @ v


def group(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    """Attention whose heads share keys and values."""
    return torch.softmax(q @ k[0].T + mask, -1) @ v[0]


def share_keys(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    """Attention whose heads share keys, but no values: matrices of one product have more rows."""
    return torch.softmax(q @ k[0].T + mask, -1) @ v


def differentiate(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> tuple[Tensor, ...]:
    """The gradients of an attention, of which that of the values needs nothing but its weights."""
    return _differentiate(q, k, v, mask, lambda _: v[:, : q.shape[1]])


def differentiate_square(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> tuple[Tensor, ...]:
    """The gradients of a function of an attention, which its result is needed for."""
    return _differentiate(q, k, v, mask, lambda out: out * 2)


def differentiate_group(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> tuple[Tensor, ...]:
    """The gradients of an attention whose heads share keys and values, for which they add up."""
    return _differentiate(q, k[:1], v[:1], mask, lambda out: out * 2)


def _differentiate(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor, find_gradient: Callable[[Tensor], Tensor]
) -> tuple[Tensor, ...]:
    with torch.enable_grad():
        leaves = [x.detach().requires_grad_() for x in (q, k, v)]
        query, key, value = leaves
        out = torch.softmax(query @ key.mT + mask, -1) @ value
        return torch.autograd.grad(out, leaves, find_gradient(out.detach()))


def feed(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> tuple[Tensor, ...]:
    """A fold of columns whose result a product of the same rows reads."""
    weights = torch.softmax(q @ k.mT + mask, -1)
    out = weights @ v
    gradient = (out @ v.mT) * weights
    rest = gradient - weights * gradient.sum(-1, keepdim=True)
    columns = weights.mT @ out
    return columns, rest @ (k * columns.sum(-1, keepdim=True)), rest.mT @ q


WITH_TAILS = [add, scale, choose, keep, weigh, interleave, group, share_keys]


def flatten(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    """Attention whose mask is no infinity: its weights are zeros by rounding alone."""
    return torch.softmax(q @ k.mT + mask.clamp(min=-1e9), -1) @ v


def turn_bias(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    """Attention with a bias whose columns are rows of its tensor, of which a copy is read."""
    bias = mask.reshape(HEADS, COLUMNS, ROWS).mT
    return torch.softmax(q @ k.mT + bias, -1) @ v


def shift(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    """Attention that adds to its weights what no mask makes the same."""
    return (torch.softmax(q @ k.mT + mask, -1) + v[..., :1].mT) @ v


@pytest.fixture(autouse=True, params=only({256}, [2048, 256]))
def small(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """Let products of few elements be joined, in blocks of few rows, side by side and not.

    All memory is the pool's, and soiled as soon as it is free.
    """
    monkeypatch.setattr(buffers, "_LEAST_BYTES", 1)
    monkeypatch.setattr(buffers._Lease, "__del__", soil_and_put)
    monkeypatch.setattr(cpu, "CONFLICTING_BYTES", request.param)
    monkeypatch.setattr(planning, "_LEAST_ELEMENTS", 0)
    monkeypatch.setattr(planning, "_LEAST_ROWS", 2)
    monkeypatch.setattr(cpu, "_BLOCK_BYTES", 0)
    monkeypatch.setattr(cpu, "_LEAST_ROWS", 20)


def draw_operands(rng: np.random.Generator, depth: int = DEPTH) -> list[Array]:
    """Return queries, keys, values and the mask of the future."""
    shapes = (HEADS, ROWS, depth), (HEADS, COLUMNS, depth), (HEADS, COLUMNS, WIDTH)
    q, k, v = (rng.standard_normal(shape).astype(np.float32) for shape in shapes)
    mask = np.where(np.tri(ROWS, COLUMNS, 20, dtype=bool), 0, -np.inf).astype(np.float32)
    return [q, k, v, np.broadcast_to(mask, (HEADS, ROWS, COLUMNS)).copy()]


def make(attend: Attention, operands: Sequence[Array]) -> Captured:
    """Capture an attention."""
    tensors = tuple(map(torch.from_numpy, operands))
    recipe = InferenceRecipe(torch.nn.Module(), lambda _, *x: attend(*x), lambda _: tensors)
    return capture(recipe, trust=True)


def list_joined(ready: Ready) -> Iterator[BackToBackProducts]:
    """Yield the plans of the products that are joined in a run."""
    plans = (job.plan for job in ready.jobs)
    return (plan for plan in plans if isinstance(plan, BackToBackProducts))


def check(captured: Captured, prepared: Preparation, operands: Sequence[Array]) -> None:
    """Check that joined products are what each operator by itself makes, with any threads."""
    state = captured.initial_state
    batch = list(operands)[: len(captured.program.batch)]
    alone = Executor(prepared).run(state, batch, 0, observe=lambda *_: None)
    for threads in (1, 2):
        joined = Executor(prepared, threads).run(state, batch, 0)
        assert [x.tobytes() for x in joined] == [x.tobytes() for x in alone]


def list_cases(rng: np.random.Generator) -> Iterator[list[Array]]:
    """Yield operands whose tails may be left out, and others of which something forbids that."""
    yield draw_operands(rng)
    for place, value in ((0, np.inf), (1, np.nan), (2, np.inf), (2, np.nan), (1, 1e38)):
        operands = draw_operands(rng)
        operands[place][1, -1, 2] = value
        yield operands
    operands = draw_operands(rng)
    operands[0][0, 0, 0], operands[1][0, -1, 0] = 1e30, 1e30
    yield operands
    operands = draw_operands(rng)
    operands[2][...] = TINY
    operands[2][1, -1] = -TINY
    operands[0][...] = 0
    yield operands
    operands = draw_operands(rng)
    operands[3][0], operands[3][1, 3:] = -np.inf, 0
    operands[3][2, :, 64:], operands[3][2, 9:12] = -np.inf, -np.inf
    yield operands
    operands = draw_operands(rng)
    operands[3][...] = rng.choice(PATTERNS.view(np.float32), operands[3].shape)
    yield operands
    operands = draw_operands(rng)
    operands[3][...] = operands[3][:, ::-1].copy()
    yield operands
    operands = draw_operands(rng)
    operands[0][...], operands[2][...] = 0, -TINY  # -0 in sums where later rows have tails
    operands[2][:, :56] = TINY
    operands[3][...] = 0
    operands[3][:, 35:, 64:] = -np.inf
    yield operands
    yield from list_leads(rng)
    operands = draw_operands(rng)
    operands[2][...] *= TINY
    yield operands
    operands = draw_operands(rng)
    operands[2][...] *= 1e30
    operands[1][0, -1, 0] = 1e20
    yield operands
    operands = draw_operands(rng)
    for x in operands[:3]:
        x[rng.random(x.shape) < 0.1] = rng.choice(PATTERNS.view(np.float32))
    yield operands


def list_leads(rng: np.random.Generator) -> Iterator[list[Array]]:
    """Yield operands whose masks begin with constants, of which some rows have others."""
    for constant in (-0.0, 1.5, -np.inf, np.nan):
        operands = draw_operands(rng)
        operands[3][:, :, :64] = constant
        operands[3][:, 12:30, :40] = rng.choice([0.0, -0.0, 1.5, 2.5], (18, 40))
        operands[3][1, 40:60, 31:33] = 1.5
        yield operands
    operands = draw_operands(rng)
    operands[0][...] = 0
    operands[3][...] = -0.0
    operands[3][:, 9:, 70:] = 1
    yield operands


@pytest.mark.parametrize("attend", only([add], [*WITH_TAILS, flatten, shift]))
def test_joined_products_are_those_of_single_operators(attend: Attention) -> None:
    """Blocks of rows have all bits: infinities, NaN, zeros of both signs, rows without a score."""
    rng = np.random.default_rng(7)
    captured = make(attend, draw_operands(rng))
    prepared = Preparation(captured.program)
    (plan,) = list_joined(prepared.fused)
    assert (plan._fused.last is None) == (attend in {weigh, share_keys})
    assert (plan._tails is not None) == (attend in WITH_TAILS)
    for operands in list_cases(rng):
        check(captured, prepared, operands)
    assert not [*list_joined(prepared.shown)]


@pytest.mark.parametrize(
    ("attend", "joined", "across"),
    every(
        6,
        [
            (differentiate, [False, True], [1, 1]),
            (differentiate_square, [True, True], [0, 2]),
            (differentiate_group, [True, True], [0, 2]),
            (feed, [True, True], [0, 1]),
        ],
    ),
)
def test_columns_are_folded_with_rows(
    attend: Attention, joined: Sequence[bool], across: Sequence[int]
) -> None:
    """Gradients have all bits, with and without tails, where columns are folded block by block."""
    rng = np.random.default_rng(11)
    captured = make(attend, draw_operands(rng))
    prepared = Preparation(captured.program)
    plans = [*list_joined(prepared.fused)]
    assert [plan._fused.last is not None for plan in plans] == joined
    assert [len(plan._fused.across) for plan in plans] == across
    assert all(plan._tails is not None for plan in plans)
    for operands in list_cases(rng):
        check(captured, prepared, operands)
    assert not [*list_joined(prepared.shown)]


@pytest.mark.parametrize(
    "attend",
    only([feed], [feed, add, interleave, differentiate, differentiate_square, differentiate_group]),
)
def test_what_is_known_is_there_before_all(attend: Attention) -> None:
    """Outputs have all bits if others are known, whatever a block has to wait for."""
    rng = np.random.default_rng(13)
    captured = make(attend, draw_operands(rng))
    prepared, state = Preparation(captured.program), captured.initial_state
    batch = captured.batch(0)
    every: dict[int, Array] = {}
    executor = Executor(prepared)
    executor.run(state, batch, 0, observe=every.__setitem__)
    for wanted, index in product(every, every):
        prepared.prepare([wanted], known=[index])
    for count in (1, 2, 3, 3, 3, 3):
        known = {int(i): every[int(i)] for i in rng.choice(len(every), count, replace=False)}
        found = executor.outputs(state, batch, 0, prepared.sinks, known=known)
        assert {i: x.tobytes() for i, x in found.items()} == {
            i: every[i].tobytes() for i in prepared.sinks
        }


def test_copies_that_a_region_reads_last_as_long_as_it() -> None:
    """Blocks of rows read a turned operand's copy, and nobody else has its memory meanwhile."""
    rng = np.random.default_rng(17)
    captured = make(turn_bias, draw_operands(rng))
    prepared = Preparation(captured.program)
    (plan,) = list_joined(prepared.fused)
    assert not all(reader.is_view for reader in plan._region._readers)
    for operands in [draw_operands(rng), *list_leads(rng)]:
        check(captured, prepared, operands)


def test_joined_products_equal_definition() -> None:
    """Joined products are what the definition of their operators says, with tails."""
    rng = np.random.default_rng(5)
    q, k, v, mask = (x[:1] for x in draw_operands(rng))
    operands = [q[:, :8], k[:, :128], v[:, :128], mask[:, :8, :128].copy()]
    captured = make(add, operands)
    with np.errstate(all="ignore"):
        defined = run_step(captured.program, captured.initial_state, captured.batch(0), 0)
    prepared = Preparation(captured.program)
    (plan,) = list_joined(prepared.fused)
    assert plan._tails is not None
    joined = Executor(prepared).run(captured.initial_state, captured.batch(0), 0)
    assert [x.tobytes() for x in joined] == [x.tobytes() for x in defined]


def test_products_without_masks() -> None:
    """A softmax of the product itself, and a factor that comes second, are joined, too."""
    operands = draw_operands(np.random.default_rng(1))
    captured = make(lambda q, k, v, _: torch.softmax(q @ k.mT, -1) @ v, operands)
    prepared = Preparation(captured.program)
    (plan,) = list_joined(prepared.fused)
    assert plan._tails is None
    check(captured, prepared, operands)


def _read_twice(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    scores = q @ k.mT
    return scores, torch.softmax(scores + mask, -1) @ v


def _turn(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    return torch.softmax((k @ q.mT).mT + mask, -1) @ v


@pytest.mark.parametrize("attend", [_read_twice, _turn])
def test_products_that_others_read_are_not_joined(attend: Attention) -> None:
    """A product stays by itself if it is wanted, or if its rows are not those of the region."""
    operands = draw_operands(np.random.default_rng(2))
    captured = make(attend, operands)
    prepared = Preparation(captured.program)
    assert not [*list_joined(prepared.fused)]
    check(captured, prepared, operands)


def test_a_last_product_of_columns_is_not_joined() -> None:
    """A product that folds the rows' number, and not their columns, waits for all of them."""
    operands = draw_operands(np.random.default_rng(3))
    captured = make(lambda q, k, _, mask: torch.softmax(q @ k.mT + mask, -1).mT @ q, operands)
    prepared = Preparation(captured.program)
    (plan,) = list_joined(prepared.fused)
    assert plan._fused.last is None
    check(captured, prepared, operands)
