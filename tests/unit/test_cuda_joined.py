"""Rows between products of bfloat16 in kernels for devices: attention in one kernel."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from moot.offchain.backends.cuda import emulated, emulator
from moot.offchain.backends.cuda.backend import Cuda
from moot.offchain.backends.cuda.emulator import Emulator
from moot.offchain.backends.cuda.joined import kernel as joined
from moot.offchain.backends.cuda.joined.form import Area, Joined
from moot.offchain.backends.cuda.joined.plans import JoinedProducts
from moot.offchain.backends.cuda.kernel import Context, Kernel, Loop, Products
from moot.offchain.backends.cuda.regions.form import Limits
from moot.offchain.commitments.tensors import Array
from moot.offchain.errors import BrokenPrecondition
from moot.offchain.execution.executor import Executor
from moot.offchain.execution.preparation import Preparation
from moot.offchain.frontend.capture import Captured, capture
from moot.offchain.frontend.examples import build
from moot.offchain.frontend.precision import set_precision
from moot.offchain.frontend.recipe import InferenceRecipe
from moot.offchain.planning import back_to_back as planning
from moot.offchain.planning.preconditions import Form
from tests.quick import only
from tests.unit.test_cuda import assemble, encode, find_assembler
from tests.unit.test_cuda_tensor import ARITHMETICS
from tests.unit.test_kernels_scatter import PATTERNS

Tensor = torch.Tensor
Attention = Callable[..., Tensor | tuple[Tensor, ...]]

HEADS, ROWS, COLUMNS, DEPTH, WIDTH = 2, 64, 200, 32, 32
CAPABILITIES = {"ampere": (8, 0), "hopper": (9, 0)}


def _weigh(q: Tensor, k: Tensor, mask: Tensor) -> Tensor:
    return torch.softmax((q.bfloat16() @ k.bfloat16().mT).float() * 0.25 + mask, -1)


def attend(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    """Attention whose mask is added."""
    return _weigh(q, k, mask).bfloat16() @ v.bfloat16()


def keep(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """Attention that returns its weights, as its gradients need them."""
    weights = _weigh(q, k, mask)
    return weights, weights.bfloat16() @ v.bfloat16()


def keep_short(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """Attention that returns the weights that it multiplies."""
    weights = _weigh(q, k, mask).bfloat16()
    return weights, weights @ v.bfloat16()


def turn(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    """Attention whose factors lie the other way."""
    q, k, v = (x.bfloat16().mT.contiguous().mT for x in (q, k, v))
    weights = torch.softmax((q @ k.mT).float() + mask, -1)
    return weights.bfloat16() @ v


def scale(q: Tensor, k: Tensor, v: Tensor, _: Tensor) -> Tensor:
    """A norm of rows between two products, which has no maximum."""
    scores = (q.bfloat16() @ k.bfloat16().mT).float()
    return (scores * scores.square().mean(-1, keepdim=True).rsqrt()).bfloat16() @ v.bfloat16()


def read_again(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    """Attention whose weights are made of scores, too, when their exponentials are there."""
    scores = (q.bfloat16() @ k.bfloat16().mT).float()
    return (torch.softmax(scores + mask, -1) + scores).bfloat16() @ v.bfloat16()


ONE_KERNEL = [attend, keep, keep_short, turn, scale, read_again]


def odd_depth(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    """Attention of fewer steps than an instruction's."""
    return attend(q[..., :24], k[..., :24], v, mask)


def few_rows(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    """Attention of rows that blocks would have of two matrices."""
    return attend(q[:, :40], k, v, mask[:, :40])


def odd_columns(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    """Attention whose weights can't be read in vectors."""
    return attend(q, k[:, :190], v[:, :190], mask[..., :190])


def differentiate(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> tuple[Tensor, ...]:
    """The gradients of an attention, whose products fold columns, too."""
    with torch.enable_grad():
        leaves = [x.detach().requires_grad_() for x in (q, k, v)]
        out = attend(leaves[0], leaves[1], leaves[2], mask)
        return torch.autograd.grad(out, leaves, out.detach() * 2)


def differentiate_odd(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> tuple[Tensor, ...]:
    """Gradients of an attention whose weights can't be read in vectors."""
    return differentiate(q, k[:, :190], v[:, :190], mask[..., :190])


def _feed(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor, read: Callable[..., tuple[Tensor, ...]]
) -> tuple[Tensor, ...]:
    q, k, v = (x.bfloat16() for x in (q, k, v))
    weights = torch.softmax((q @ k.mT).float() + mask, -1)
    out = (weights.bfloat16() @ v).bfloat16()
    columns = (weights.bfloat16().mT @ out).float()
    return columns, *read(q, k, v, weights, out, columns)


def feed_rows(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> tuple[Tensor, ...]:
    """A fold of columns that the rows beside it read."""

    def read(
        _: Tensor, __: Tensor, v: Tensor, weights: Tensor, *rest: Tensor
    ) -> tuple[Tensor, ...]:
        out, columns = rest
        rows = (out @ v.mT).float() * weights * columns[:, :1, :1]
        return (rows - rows.sum(-1, keepdim=True),)

    return _feed(q, k, v, mask, read)


def feed_last(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> tuple[Tensor, ...]:
    """A fold of columns that the last product of the rows beside it reads."""

    def read(q: Tensor, k: Tensor, v: Tensor, weights: Tensor, *rest: Tensor) -> tuple[Tensor, ...]:
        out, columns = rest
        rows = (out @ v.mT).float() * weights
        short = (rows - rows.sum(-1, keepdim=True)).bfloat16()
        return short @ (k * columns).bfloat16(), short.mT @ q

    return _feed(q, k, v, mask, read)


def feed_before(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> tuple[Tensor, ...]:
    """A fold of columns that the first product of the rows beside it waits for."""

    def read(q: Tensor, k: Tensor, v: Tensor, weights: Tensor, *rest: Tensor) -> tuple[Tensor, ...]:
        out, columns = rest
        rows = (out @ (v * columns).bfloat16().mT).float() * weights
        short = (rows - rows.sum(-1, keepdim=True)).bfloat16()
        return short @ k, short.mT @ q

    return _feed(q, k, v, mask, read)


def feed_other(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> tuple[Tensor, ...]:
    """A fold of columns that rows of another attention read, which are computed before."""

    def read(q: Tensor, k: Tensor, v: Tensor, weights: Tensor, *rest: Tensor) -> tuple[Tensor, ...]:
        out, columns = rest
        others = torch.softmax((k[:, :ROWS] @ k.mT).float() + columns[:, :1, :1], -1)
        rows = (out @ v.mT).float() * weights
        short = (rows - rows.sum(-1, keepdim=True)).bfloat16()
        return others, short @ k, short.mT @ q

    return _feed(q, k, v, mask, read)


def feed_after(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> tuple[Tensor, ...]:
    """A fold of columns of what is made of the rows beside it."""

    def read(_: Tensor, k: Tensor, v: Tensor, weights: Tensor, *rest: Tensor) -> tuple[Tensor, ...]:
        out, _ = rest
        rows = (out @ v.mT).float() * weights
        new = (rows - rows.sum(-1, keepdim=True)).bfloat16() @ k
        again = (new.tanh()[..., :1] * weights).bfloat16()
        return new, again.mT @ out

    return _feed(q, k, v, mask, read)


def feed_late(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> tuple[Tensor, ...]:
    """A fold of columns of what waits for another one."""

    def read(_: Tensor, k: Tensor, v: Tensor, weights: Tensor, *rest: Tensor) -> tuple[Tensor, ...]:
        out, columns = rest
        again = (columns[:, :1, :1] * weights).bfloat16()
        rows = (out @ v.mT).float() * weights
        new = (rows - rows.sum(-1, keepdim=True)).bfloat16() @ k
        return new, again.mT @ out

    return _feed(q, k, v, mask, read)


APART = [odd_depth, few_rows, odd_columns]


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let products of few elements be joined."""
    monkeypatch.setattr(planning, "_LEAST_ELEMENTS", 0)
    monkeypatch.setattr(planning, "_LEAST_ROWS", 2)


def draw_operands(seed: int = 0) -> list[Array]:
    """Return queries, keys, values and the mask of the future."""
    rng = np.random.default_rng(seed)
    shapes = (HEADS, ROWS, DEPTH), (HEADS, COLUMNS, DEPTH), (HEADS, COLUMNS, WIDTH)
    q, k, v = (rng.standard_normal(shape).astype(np.float32) for shape in shapes)
    mask = np.where(np.tri(ROWS, COLUMNS, 20, dtype=bool), 0, -np.inf).astype(np.float32)
    return [q, k, v, np.broadcast_to(mask, (HEADS, ROWS, COLUMNS)).copy()]


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


def make(attention: Attention, name: str = "hopper") -> Captured:
    """Capture an attention."""
    tensors = tuple(map(torch.from_numpy, draw_operands()))
    recipe = InferenceRecipe(torch.nn.Module(), lambda _, *x: attention(*x), lambda _: tensors)
    return capture(recipe, trust=True, arithmetic=ARITHMETICS[name])


def prepare(captured: Captured, name: str = "hopper", seed: int = 0) -> Preparation:
    """Return the ways to run a program on a device that is emulated."""
    device = Cuda(Emulator(seed, capability=CAPABILITIES[name]))
    device._tried.add(name)
    return Preparation(captured.program, device)


def find_joined(prepared: Preparation) -> list[JoinedProducts]:
    """Return the plans of the products that are joined."""
    plans = (job.plan for job in prepared.fused.jobs)
    return [plan for plan in plans if isinstance(plan, JoinedProducts)]


def compute(prepared: Preparation, captured: Captured, operands: Sequence[Array]) -> list[bytes]:
    """Return what a program makes of operands."""
    batch = list(operands)[: len(captured.program.batch)]
    return encode(Executor(prepared).run(captured.initial_state, batch, 0))


def check(captured: Captured, prepared: Preparation, operands: Sequence[Array]) -> None:
    """Check that it is what the processor makes of them."""
    expected = compute(Preparation(captured.program), captured, operands)
    assert compute(prepared, captured, operands) == expected


@pytest.mark.parametrize("name", CAPABILITIES)
@pytest.mark.parametrize("attention", ONE_KERNEL)
def test_rows_between_products_are_the_processor_s(attention: Attention, name: str) -> None:
    """Softmax, masks, norms and weights that are kept have the definition's bits in one kernel."""
    captured = make(attention, name)
    prepared = prepare(captured, name)
    (plan,) = find_joined(prepared)
    assert plan.form is not None
    assert bool(plan.form.overlaid) == (attention not in {scale, read_again})
    check(captured, prepared, draw_operands())


@pytest.mark.slow
@pytest.mark.parametrize("name", CAPABILITIES)
def test_training_has_the_same_state(name: str) -> None:
    """A GPT-2's attention and its gradients, whose weights both need, have the definition's."""
    recipe = set_precision(build("gpt2", "tiny"), "bf16")
    captured = capture(recipe, trust=True, arithmetic=ARITHMETICS[name])
    prepared = prepare(captured, name)
    assert any(plan._pair for plan in find_joined(prepared))
    state, batch = list(captured.initial_state), captured.batch(0)
    expected = Executor(captured.program).run(state, batch, 0)
    assert encode(Executor(prepared).run(state, batch, 0)) == encode(expected)


@pytest.mark.parametrize("case", [*range(7)])
def test_hostile_numbers_are_the_processor_s(case: int) -> None:
    """Infinities, NaNs and subnormals are in a row what they are in kernels apart."""
    captured = make(keep)
    check(captured, prepare(captured), [*list_cases()][case])


@pytest.mark.parametrize("attention", APART)
def test_others_are_computed_one_after_the_other(attention: Attention) -> None:
    """What breaks a precondition has no kernel of its own, and the same bits."""
    captured = make(attention)
    prepared = prepare(captured)
    plans = find_joined(prepared)
    assert plans
    assert any(plan.form is None for plan in plans)
    check(captured, prepared, draw_operands())


def count_launches(plan: JoinedProducts) -> int:
    """Return how many launches a plan is."""
    targets = [0] * len(plan._kept)
    return len(plan.list_launches([0] * len(plan.operands), targets, lambda _: 0))


@pytest.mark.parametrize("name", CAPABILITIES)
def test_gradients_are_two_launches(name: str) -> None:
    """Those of queries come out of the rows' kernel; the next one has those of keys and values."""
    captured = make(differentiate, name)
    prepared = prepare(captured, name)
    plans = find_joined(prepared)
    assert [len(plan._fused.across) for plan in plans] == [0, 2]
    assert all(plan.form is not None for plan in plans)
    assert [count_launches(plan) for plan in plans] == [1, 2]
    for operands in (draw_operands(), *list_cases()):
        check(captured, prepared, operands)


@pytest.mark.parametrize(
    ("gradients", "across", "launches"),
    [
        (differentiate_odd, [0, 2], [4, 8]),
        (feed_rows, [0, 0], [1, 2]),
        (feed_last, [0, 1], [1, 2]),
        (feed_before, [0, 1], [1, 2]),
        (feed_other, [0, 0, 1], [1, 2, 2]),
        (feed_after, [0, 1], [1, 2]),
        (feed_late, [0, 1], [1, 2]),
    ],
)
def test_what_is_no_pair_has_launches_of_its_own(
    gradients: Attention, across: Sequence[int], launches: Sequence[int]
) -> None:
    """Factors that are copied first, and folds of columns that rows or products wait for."""
    captured = make(gradients)
    prepared = prepare(captured)
    plans = find_joined(prepared)
    assert [len(plan._fused.across) for plan in plans] == across
    assert [count_launches(plan) for plan in plans] == launches
    check(captured, prepared, draw_operands())


def test_products_are_not_joined_where_arithmetics_are_two() -> None:
    """An emulator of every generation computes operators as they are."""
    captured = make(attend)
    prepared = Preparation(captured.program, Cuda(Emulator()))
    assert not find_joined(prepared)
    check(captured, prepared, draw_operands())


def test_the_order_of_threads_makes_no_difference() -> None:
    """No barrier is missing."""
    captured = make(attend)
    operands = draw_operands()
    found = {(*compute(prepare(captured, seed=seed), captured, operands),) for seed in range(4)}
    assert found == {(*compute(Preparation(captured.program), captured, operands),)}


def test_runs_in_sequences_are_the_same() -> None:
    """Launches that are joined with those of neighbours compute the same, in one kernel or not."""
    for attention in (keep, few_rows):
        captured = make(attention)
        prepared = prepare(captured)
        for _ in range(5):
            check(captured, prepared, draw_operands())


def make_form() -> Joined:
    """Return the form of an attention's kernel."""
    (plan,) = find_joined(prepare(make(attend)))
    assert plan.form is not None
    return plan.form


BROKEN: dict[str, Callable[[Joined], Joined]] = {
    "seen": lambda form: replace(form, starts=(None, 0)),
    "sides": lambda form: replace(form, rows=40),
    "middle": lambda form: replace(form, middle=0),
    "region": lambda form: replace(form, region=replace(form.region, limits=Limits(64))),
    "memory": lambda form: replace(form, block_bytes=1 << 14),
}


def test_devices_have_no_other_form() -> None:
    """Whatever form is added has its trials of preconditions here, or in `test_cuda_pairs.py`."""
    forms = {form.__name__ for form in Form.__subclasses__() if ".cuda." in form.__module__}
    assert forms == {"Joined", "Pair"}
    assert Joined.__post_init__ is Form.__post_init__


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
    phases = [step for step in kernel.steps[2:-3] if not isinstance(step, Loop)]

    def run_all(context: Context) -> None:
        for phase in phases:
            assert callable(phase)
            phase(context)

    steps = (*kernel.steps[:2], run_all, *kernel.steps[-3:])
    object.__setattr__(kernel, "steps", steps)


def find_another(row: Any, index: int, _: Any) -> Any:
    """Return the score of another column."""
    is_score = row._joined.is_score(index)
    return row._load_own(Area.SCORES, index, row.lane) if is_score else None


CHANGES: dict[str, tuple[Any, str, Any]] = {
    "no zeros behind": (joined._Writer, "turn_over", lambda writer, c: writer._ask(c, 1, c.turn)),
    "no wait": (emulated._OnProcessor, "end_copies", lambda *_: None),
    "another score": (joined._BlockRow, "find_given", find_another),
    "no barrier": (Kernel, "__post_init__", join_passes),
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_is_wrong_is_found_out(change: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A part that is not there, a row's end that is not zero, or other scores show."""
    captured = make(keep_short)
    operands = draw_operands()
    prepared = prepare(captured)
    check(captured, prepared, operands)
    monkeypatch.setattr(emulator, "SOIL", 0xFF)  # what nobody set are NaNs
    owner, name, changed = CHANGES[change]
    monkeypatch.setattr(owner, name, changed)
    with pytest.raises(AssertionError):
        check(captured, prepare(captured), operands)


def enlarge(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let attention have 1,024 columns, and as many steps and columns as a head of GPT-2."""
    for name, size in (("COLUMNS", 1024), ("DEPTH", 64), ("WIDTH", 64)):
        monkeypatch.setitem(globals(), name, size)


@pytest.mark.parametrize(("capability", "side"), [((9, 0), 32), ((8, 0), 16), ((8, 6), None)])
def test_a_row_of_1024_columns_fits(
    capability: tuple[int, int], side: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Attention of 1,024 columns has as many rows in a block as shared memory holds."""
    enlarge(monkeypatch)
    name = "hopper" if capability == (9, 0) else "ampere"
    device = Cuda(Emulator(capability=capability))
    device._tried.add(name)
    (plan,) = find_joined(Preparation(make(attend, name).program, device))
    assert (plan.form and plan.form.side) == side


@pytest.mark.skipif(find_assembler() is None, reason="NVIDIA's assembler is not installed")
@pytest.mark.parametrize("architecture", only(["sm_90"], ["sm_80", "sm_90"]))
def test_code_is_assembled(
    architecture: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The assembler takes the kernel, whose products are blocks; one register is put aside."""
    enlarge(monkeypatch)
    name = "hopper" if architecture == "sm_90" else "ampere"
    (plan,) = find_joined(prepare(make(attend, name), name))
    kernel = plan._loaded._kernel
    text = assemble(kernel, architecture, tmp_path / "kernel.ptx", most_spilled=4)
    products = "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32"
    assert text.count(products) == sum(len(x.places) for x in find_products(kernel))


def find_products(kernel: Kernel) -> list[Products]:
    """Return the products of a kernel."""
    return [phase for phase in kernel.phases if isinstance(phase, Products)]
