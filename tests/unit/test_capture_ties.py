"""Ties: where several answers are possible, a program has torch's, or capture says so."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from math import inf
from typing import Any, NamedTuple
from unittest.mock import patch

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from docs.tools.operator_ties import NO_CHOICE, TIES, list_operators
from docs.tools.operators import PAGE
from moot.offchain.arithmetic.functions import DType, Function
from moot.offchain.errors import CaptureError
from moot.offchain.execution.executor import Executor
from moot.offchain.frontend import tracing
from moot.offchain.frontend.capture import Captured, capture
from moot.offchain.frontend.capture.draft import OwnError
from moot.offchain.frontend.capture.noise import NoisyStep
from moot.offchain.frontend.capture.ties import OPEN, Chooser
from moot.offchain.frontend.decompositions import resampling
from moot.offchain.frontend.decompositions.selection import searchsorted
from moot.offchain.frontend.decompositions.table import (
    COMPOSITIONS,
    DECOMPOSITIONS,
    find_overload,
)
from moot.offchain.frontend.lowering.shapes import SHAPES
from moot.offchain.frontend.lowering.table import RULES, get_decompositions
from moot.offchain.frontend.lowering.views import View
from moot.offchain.frontend.optimizers import SGD
from moot.offchain.frontend.recipe import InferenceRecipe, TrainingRecipe
from tests.program_helpers import Record
from tests.quick import every, only, share

DRAWN = 8
"""Draws of every case."""


class Case(NamedTuple):
    """A function of a tensor with many ties.

    Attributes:
        operators: what it tries, by the names of the table.
        function: returns a tensor or several; those of numbers have gradients.
        shape: of the tensor.
        values: what its elements are drawn from.
    """

    operators: str
    function: Callable[[Tensor], Any]
    shape: tuple[int, ...] = (3, 6)
    values: tuple[float, ...] = (-2.0, -1.0, 0.0, 1.0, 2.0)


HALVES = tuple(k / 2 for k in range(-7, 8))
NAN = (-1.0, 0.0, 1.0, float("nan"))
COUNTS = (0.0, 1.0, 2.0)
LINE = torch.tensor([-1.0, 0, 0, 1, 1, 2])
BASE = torch.tensor([[0.0, 1, -1, 2, 0, 1], [1, 1, 0, -2, -1, 0], [2, 0, 0, 1, 1, -1]])
PLACES = torch.tensor([[0, 2, 2, 1, 0, 2], [1, 1, 1, 1, 1, 1], [0, 2, 2, 2, 0, 0]])
LABELS = torch.tensor([0, 2, 1])
APART = torch.tensor([10.0, 30.0, 60.0])
LEAN = torch.tensor([[0.0, 8, 29], [8, 30, -9], [29, -9, 0]])
SEVERAL = torch.tensor([[0, 2, -1, 0, 0, 0], [1, -1, 0, 0, 0, 0], [-1, 0, 0, 0, 0, 0]])
SIGNS = torch.tensor([[1.0], [-1], [1]])
IMAGE = torch.arange(40.0).reshape(1, 2, 4, 5).remainder(7)
VOLUME = torch.arange(120.0).reshape(1, 2, 3, 4, 5).remainder(7)
BAGS = torch.tensor([0, 2, 2, 1, 0, 2]), torch.tensor([0, 3, 3])


def put(*shape: int) -> Callable[[Tensor], Tensor]:
    """Return a function that writes a tensor's rows to places, some of them to one."""

    def write(x: Tensor) -> Tensor:
        return torch.zeros(shape).index_put((PLACES, PLACES.flip(1)), x)

    return write


def sample(mode: str, padding: str, *, align: bool, image: Tensor = IMAGE) -> Any:
    """Return a function that samples an image at the points of a grid."""
    return lambda x: functional.grid_sample(image, x, mode, padding, align)


def find_eigenvectors(x: Tensor) -> Any:
    """Return eigenvalues that are not equal, and their vectors."""
    return torch.linalg.eigh(x + x.mT + torch.diag(APART))


def find_singular_vectors(x: Tensor) -> Any:
    """Return singular values that are not equal, and their vectors."""
    return torch.linalg.svd(x + torch.diag(APART))


CASES = (
    Case("topk", lambda x: x.topk(3)),
    Case("topk", lambda x: x.topk(2, 0, largest=False)),
    Case("topk", lambda x: x.topk(1), (2, 70)),
    Case("topk", lambda x: x.topk(2), (2, 130)),
    Case("sort", lambda x: x.sort(), (2, 40)),
    Case("sort", lambda x: x.sort(0, descending=True), (40, 2)),
    Case("sort", lambda x: x.sort(stable=True), (2, 40)),
    Case("sort", lambda x: x.sort(stable=True, descending=True), (2, 20), NAN),
    Case("sort", lambda x: x.argsort(0), (20, 2)),
    Case("sort", lambda x: x.msort()),
    Case("sort", lambda x: x.quantile(torch.tensor([0.0, 0.3, 0.5, 1]), 1)),
    Case("kthvalue", lambda x: x.kthvalue(3)),
    Case("mode", lambda x: x.mode(), (2, 30)),
    Case("index_put _unsafe_index_put", put(3, 6)),
    Case(
        "index_put",
        lambda x: torch.zeros(36).index_put((PLACES.t(),), x.t(), accumulate=False),
    ),
    Case("scatter", lambda x: BASE.scatter(1, PLACES, x)),
    Case("scatter", lambda x: x.scatter(1, PLACES, BASE)),
    Case("scatter", lambda x: torch.zeros(3, 6).index_copy(1, PLACES[0], x)),
    Case("scatter", lambda x: x.index_fill(1, PLACES[0], 3.0)),
    Case("put", lambda x: torch.zeros(3, 6).put(PLACES, x)),
    Case("argmax argmin", lambda x: (x.argmax(1), x.argmin(0), x.argmax()), values=NAN),
    Case("max min", lambda x: (*x.max(1), *x.min(0), *x.aminmax(dim=1)), values=NAN),
    Case("cummax cummin", lambda x: (*x.cummax(1), *x.cummin(0)), values=NAN),
    Case("amax amin", lambda x: (x.amax(1), x.amin((0, 1)), x.max(), x.min())),
    *(
        Case("scatter_reduce index_reduce", function)
        for reduce in ("amax", "amin", "prod", "mean")
        for function in (
            lambda x, r=reduce: BASE.scatter_reduce(1, PLACES, x, r),
            lambda x, r=reduce: x.scatter_reduce(1, PLACES, BASE, r, include_self=False),
            lambda x, r=reduce: x.index_reduce(1, PLACES[0], BASE, r),
        )
    ),
    Case("maximum minimum", lambda x: (x.maximum(BASE), x.minimum(x.flip(1)))),
    Case("fmax fmin", lambda x: (x.fmax(BASE), x.fmin(x.flip(1)))),
    Case("median nanmedian", lambda x: (*x.median(1), *x.nanmedian(0), x.median()), (9, 9)),
    Case("median nanmedian", lambda x: (*x.median(1), *x.nanmedian(1)), (4, 9), (*NAN[1:], 2.0)),
    Case(
        "max_pool2d_with_indices",
        lambda x: functional.max_pool2d(x, 3, 2, 1, return_indices=True),
        (1, 2, 6, 7),
    ),
    Case(
        "max_pool2d_with_indices",
        lambda x: functional.max_pool2d(x, 2, 2, 1, ceil_mode=True, return_indices=True),
        (1, 2, 5, 5),
    ),
    Case("max_pool2d_with_indices", lambda x: functional.max_pool1d(x, 3, 2, 1), (1, 2, 9)),
    Case("max_pool3d_with_indices", lambda x: functional.max_pool3d(x, 2, 1), (1, 1, 3, 4, 4)),
    Case(
        "adaptive_max_pool2d",
        lambda x: functional.adaptive_max_pool2d(x, (3, 4), return_indices=True),
        (1, 2, 5, 6),
    ),
    Case("adaptive_max_pool3d", lambda x: functional.adaptive_max_pool3d(x, 2), (1, 2, 3, 4, 4)),
    Case("clamp clamp_min", lambda x: (x.clamp(-1, 1), x.clamp(min=1), x.clamp(BASE, BASE + 1))),
    Case("clamp", lambda x: torch.clamp(BASE, x - 1, x)),
    *(
        Case(
            "relu hardtanh hardsigmoid hardswish threshold leaky_relu elu", function, (4, 8), HALVES
        )
        for function in (
            functional.relu,
            functional.relu6,
            functional.hardtanh,
            functional.hardsigmoid,
            functional.hardswish,
            functional.leaky_relu,
            functional.elu,
            functional.hardshrink,
            functional.softshrink,
            functional.softplus,
        )
    ),
    Case("threshold", lambda x: functional.threshold(x, 1.0, 5.0)),
    Case("_prelu_kernel", lambda x: functional.prelu(x, torch.tensor([0.25]))),
    Case("abs sign sgn", lambda x: (x.abs(), x.sign() * x, x.sgn() * x)),
    Case(
        "round floor ceil trunc frac",
        lambda x: (x.round() * x, x.floor() * x, x.ceil() * x, x.trunc() * x, x.frac()),
        values=HALVES,
    ),
    Case(
        "round.decimals",
        lambda x: x.round(decimals=1) * x,
        values=tuple(k / 20 for k in range(-30, 31)),
    ),
    Case(
        "fake_quantize_per_tensor_affine_cachemask",
        lambda x: torch.fake_quantize_per_tensor_affine(x, 0.5, 0, -4, 3),
        values=tuple(k / 4 for k in range(-12, 13)),
    ),
    *(
        Case(
            "_fake_quantize_learnable_per_tensor_affine "
            "_fake_quantize_learnable_per_tensor_affine_backward",
            function,
            values=tuple(k / 4 for k in range(-12, 13)),
        )
        for function in (
            lambda x: torch._fake_quantize_learnable_per_tensor_affine(
                x, torch.tensor([0.5]), x[0, :1], -4, 3
            ),
            lambda x: torch._fake_quantize_learnable_per_channel_affine(
                x, torch.tensor([0.5, 1.0, 0.25]), x[:, 0], 0, -4, 3
            ),
            lambda x: torch.fake_quantize_per_channel_affine(
                x, torch.tensor([0.5, 1.0, 0.25]), torch.tensor([1.0, -1, 0.5]), 0, -4, 3
            ),
        )
    ),
    Case(
        "fake_quantize_per_tensor_affine_cachemask",
        lambda x: torch.fake_quantize_per_tensor_affine(x, 0.013, 0, -4, 3),
        values=tuple((k + 0.5) * 0.013 for k in range(-6, 6)),
    ),
    Case(
        "div fmod remainder",
        lambda x: (
            x.fmod(1.5),
            x.remainder(1.5),
            x.div(0.5, rounding_mode="floor") * x,
            x.div(0.5, rounding_mode="trunc") * x,
        ),
        values=tuple(k / 4 for k in range(-12, 13)),
    ),
    *(
        Case("searchsorted", function)
        for function in (
            lambda x: (torch.searchsorted(LINE, x), torch.searchsorted(LINE, x, right=True)),
            lambda x: (torch.bucketize(x, LINE), torch.bucketize(x, LINE, right=True)),
        )
    ),
    Case("histc", lambda x: (x.histc(4, -2, 2), x.histc(5), x.histc(3, -1, 2))),
    *(
        Case(operators, function)
        for reduction in ("mean", "none")
        for operators, function in (
            (
                "multi_margin_loss",
                lambda x, r=reduction: functional.multi_margin_loss(x, LABELS, reduction=r),
            ),
            (
                "multi_margin_loss",
                lambda x, r=reduction: functional.multi_margin_loss(
                    x, LABELS, p=2, weight=torch.arange(6.0), reduction=r
                ),
            ),
            (
                "multilabel_margin_loss_forward",
                lambda x, r=reduction: functional.multilabel_margin_loss(x, SEVERAL, reduction=r),
            ),
            (
                "clamp_min",
                lambda x, r=reduction: functional.hinge_embedding_loss(x, SIGNS, reduction=r),
            ),
            (
                "clamp_min",
                lambda x, r=reduction: functional.margin_ranking_loss(
                    x, BASE, SIGNS, margin=1.0, reduction=r
                ),
            ),
            (
                "clamp_min",
                lambda x, r=reduction: functional.triplet_margin_loss(
                    x, BASE, BASE.flip(1), p=1, eps=0.0, swap=True, reduction=r
                ),
            ),
            (
                "smooth_l1_loss smooth_l1_loss_backward",
                lambda x, r=reduction: functional.smooth_l1_loss(x, BASE, reduction=r, beta=2.0),
            ),
            ("huber_loss", lambda x, r=reduction: functional.huber_loss(x, BASE, reduction=r)),
            ("abs", lambda x, r=reduction: functional.l1_loss(x, BASE, reduction=r)),
        )
    ),
    *(
        Case("_cdist_forward _pdist_forward linalg_vector_norm", function, values=COUNTS)
        for p in (inf, 1.0, 2.0, 3.0)
        for function in (
            lambda x, p=p: torch.cdist(x, BASE, p),
            lambda x, p=p: functional.pdist(x, p),
            lambda x, p=p: torch.linalg.vector_norm(x, p, 1),
        )
    ),
    Case("renorm", lambda x: (x.renorm(inf, 0, 1.0), x.renorm(2, 0, 2.0))),
    Case(
        "grid_sampler_2d",
        sample("bilinear", "reflection", align=True),
        (1, 2, 2, 2),
        (-1.0, 0.0, 1.0),
    ),
    Case(
        "reflection_pad2d_backward",
        lambda x: functional.pad(x[None, None], (2, 1, 1, 1), mode="reflect"),
    ),
    Case("col2im", lambda x: functional.unfold(x[None, None], 2)),
    Case("nll_loss_backward", lambda x: functional.cross_entropy(x, LABELS)),
    Case("linalg_inv_ex", lambda x: torch.linalg.inv_ex(x + 9 * torch.eye(3))[0], (3, 3)),
    Case("linalg_lu_factor_ex", lambda x: torch.linalg.lu(x[:, :3] + 9 * torch.eye(3))),
    Case("_linalg_eigh", find_eigenvectors, (3, 3)),
    Case("_linalg_svd", find_singular_vectors, (3, 3)),
)

RESAMPLING_CASES = (
    *(
        Case("grid_sampler_2d", sample(mode, padding, align=align), (1, 3, 3, 2), values)
        for mode, values in (("bilinear", HALVES), ("nearest", HALVES), ("bicubic", (-1.0, 0, 1)))
        for padding in ("zeros", "border", "reflection")
        for align in (False, True)
        if mode == "bilinear" or (align, padding) != (False, "zeros")
    ),
    Case(
        "grid_sampler_3d",
        sample("bilinear", "reflection", align=True, image=VOLUME),
        (1, 2, 2, 2, 3),
        HALVES,
    ),
)

WITHOUT_CASE = {"_embedding_bag", "multinomial", "randperm"}
"""Operators that have a test of their own, or draw at random."""


def list_of(result: Any) -> list[Tensor]:
    """Return the tensors that a function has returned."""
    return [result] if isinstance(result, Tensor) else list(result)


def weigh(result: Any) -> Tensor:
    """Return a sum of results in which each element has a weight of its own."""
    total = torch.zeros(())
    for tensor in list_of(result):
        weights = torch.arange(1.0, tensor.numel() + 1).reshape(tensor.shape)
        total = total + (tensor.float() * weights).sum()
    return total


def draw(case: Case, seed: int) -> Tensor:
    """Return a tensor of few values, so that most of them are several times there."""
    generator = torch.Generator().manual_seed(seed)
    places = torch.randint(len(case.values), case.shape, generator=generator)
    return torch.tensor(case.values)[places]


class Group(NamedTuple):
    """Cases that one program computes, since it takes as long to make one of a single case.

    Attributes:
        cases: the cases.
        forward: the program of their results.
        backward: the program of their gradients.
    """

    cases: Sequence[Case]
    forward: Captured
    backward: Captured


class Shifts(nn.Module):
    """What is added to the tensors, which is 0."""

    def __init__(self, cases: Sequence[Case]) -> None:
        super().__init__()
        self.inputs = nn.ParameterList([torch.zeros(case.shape) for case in cases])


def make_group(cases: Sequence[Case]) -> Group:
    """Return the programs of some cases, on tensors that a seed draws."""

    def draw_all(seed: int) -> tuple[Tensor, ...]:
        return tuple(draw(case, seed + place) for place, case in enumerate(cases))

    def add_all(model: nn.Module, *batch: Tensor) -> Tensor:
        assert isinstance(model, Shifts)
        moved = [x + shift for x, shift in zip(batch, model.inputs, strict=True)]
        return torch.stack([weigh(c.function(x)) for c, x in zip(cases, moved, strict=True)]).sum()

    def return_all(_: nn.Module, *batch: Tensor) -> tuple[Tensor, ...]:
        pairs = zip(cases, batch, strict=True)
        return tuple(t.contiguous() for case, x in pairs for t in list_of(case.function(x)))

    forward = InferenceRecipe(nn.Module(), return_all, draw_all)
    backward = TrainingRecipe(Shifts(cases), add_all, Record(), draw_all)
    return Group(cases, capture(forward, trust=True), capture(backward, trust=True))


GROUPS = [CASES[k : k + 20] for k in range(0, len(CASES), 20)]


@pytest.fixture(scope="module", params=every(12, [*range(len(GROUPS))]) + only([], ["resampling"]))
def group(request: pytest.FixtureRequest) -> Group:
    """Return the programs of a group of cases; those of resampling are long."""
    place = request.param
    return make_group(RESAMPLING_CASES if place == "resampling" else GROUPS[place])


def run(captured: Captured, seed: int, wanted: Callable[[str], bool]) -> list[Tensor]:
    """Return those tensors of the state after a step whose slots are wanted."""
    batch = captured.batch(seed)
    state = Executor(captured.program).run(captured.initial_state, batch, 0)
    slots = zip(captured.program.state, state, strict=True)
    return [torch.from_numpy(array.copy()) for slot, array in slots if wanted(slot.name)]


def run_as_ruled(case: Case, x: Tensor) -> tuple[list[Tensor], Tensor]:
    """Return the results and the gradient in eager torch, with our rule where torch has none."""
    leaf = x.clone().requires_grad_()
    is_open = any(tie.is_open for tie in TIES if {*list_operators(tie.operators)} & names(case))
    chooser = Chooser(nn.Module())
    with chooser:
        results = list_of(case.function(leaf))
    total = weigh(results)
    if total.requires_grad:
        total.backward()  # type: ignore[no-untyped-call]  # torch's is untyped
    assert is_open or not chooser.turned, case.operators
    gradient = torch.zeros_like(x) if leaf.grad is None else leaf.grad
    return [result.detach() for result in results], gradient


def names(case: Case) -> set[str]:
    """Return the operators of a case."""
    return {*case.operators.split()}


@pytest.mark.filterwarnings("ignore:index_reduce")
def test_ties_are_decided_as_torch_decides_them(group: Group) -> None:
    """Results and gradients of tied values are eager torch's, or the table's where it is open."""
    for seed in range(0, share(DRAWN) * len(CASES), len(CASES)):
        outputs = iter(run(group.forward, seed, lambda name: name.startswith("output.")))
        gradients = run(group.backward, seed, lambda name: name.endswith(".gradient"))
        for place, case in enumerate(group.cases):
            expected, gradient = run_as_ruled(case, draw(case, seed + place))
            for tensor in expected:
                assert_close(next(outputs), tensor, 1e-5, f"{case.operators} of {seed + place}")
            what = f"gradient of {case.operators} of {seed + place}"
            assert_close(gradients[place], gradient, 1e-4, what)


def assert_close(found: Tensor, expected: Tensor, most: float, what: str) -> None:
    """Assert numbers that agree, NaN included, and equal positions."""
    torch.testing.assert_close(
        found, expected, rtol=most, atol=most, equal_nan=True, msg=lambda why: f"{what}: {why}"
    )


def find_selecting() -> set[str]:
    """Return the operators that select, by what they are lowered to, without overloads."""
    rules, _, rest = PAGE.read_text().partition("## Special values")
    decompositions = rest.partition("## Decompositions")[2].partition("## Ties")[0]
    rows = [
        [cell.strip(" `") for cell in line.strip("|").split("|")]
        for line in rules.splitlines()
        if line.startswith("| `")
    ]
    selecting = {
        name
        for name, kinds, functions in rows
        if {"argmax", "argmin", "max", "min", "round", "floor", "ceil", "trunc"}
        & {*functions.split(", ")}
        or ("scatter" in kinds and "copy" in functions.split(", "))
    }
    signs = {"aten.sign.default", "aten.sgn.default"}
    for line in decompositions.splitlines():
        if line.startswith("| `"):
            name, parts = (cell.strip(" `") for cell in line.strip("|").split("|"))
            if {f"aten.{part}" for part in parts.split(", ")} & (selecting | signs):
                selecting.add(name)
    return {shorten(name) for name in selecting}


def shorten(name: str) -> str:
    """Return an operator's name in the table."""
    _, packet, overload = name.split(".")
    return f"{packet}.{overload}" if overload == "decimals" else packet


def test_every_lowering_that_selects_is_in_the_table() -> None:
    """What takes a maximum, sorts, rounds or writes to places has a rule that is stated."""
    listed = [name for tie in TIES for name in list_operators(tie.operators)]
    assert len(listed) == len({*listed})
    missing = find_selecting() - {*listed} - {*NO_CHOICE.split()}
    assert not missing
    ours = {shorten(name) for name in (*RULES, *DECOMPOSITIONS, *COMPOSITIONS)}
    theirs = {
        shorten(str(overload)) for overload in get_decompositions() if "aten" in str(overload)
    }
    assert {*listed} <= ours | theirs


def test_every_row_of_the_table_is_tried() -> None:
    """Each operator of the table has a case; the rehearsal knows the choices that are open."""
    tried = {name for case in (*CASES, *RESAMPLING_CASES) for name in names(case)}
    tried |= WITHOUT_CASE
    listed = {name for tie in TIES for name in list_operators(tie.operators)}
    assert listed <= tried
    open_rows = {name for tie in TIES if tie.is_open for name in list_operators(tie.operators)}
    known = {name.split(".")[1].rstrip("_") for name in OPEN}
    assert known - {"_index_put_impl"} == open_rows - {"_unsafe_index_put"}


def test_the_maximum_of_a_bag_is_the_first() -> None:
    """Rows of a bag that tie leave the gradient to the first."""

    def total(x: Tensor) -> Tensor:
        return weigh(functional.embedding_bag(*BAGS[:1], x, BAGS[1], mode="max"))

    case = Case("", total, (3, 4), COUNTS)
    check_captured(case)


class Tied(nn.Module):
    """A tensor that is added to the batch, 0 to begin with."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        super().__init__()
        self.shift = nn.Parameter(torch.zeros(shape))


def make_recipe(case: Case) -> TrainingRecipe:
    """Return a recipe that learns from tied values."""

    def loss(model: nn.Module, x: Tensor) -> Tensor:
        return weigh(case.function(x + model.shift)) + (model.shift * x).sum()

    return TrainingRecipe(Tied(case.shape), loss, SGD(1.0), lambda step: (draw(case, step),))


def check_captured(case: Case) -> None:
    """Assert that a case is captured, and agrees with eager torch."""
    assert capture(make_recipe(case)).is_rehearsed


Rule = Callable[..., Any]


def backwards(target: str) -> AbstractContextManager[Any]:
    """Let a rule see a line from its end, and count from there: it takes the last for the first."""
    rule, flip = RULES[target], SHAPES["aten.flip.default"]

    def turned(b: Any, x: View, *args: Any, **options: Any) -> Any:
        result = rule(b, flip(b, x, [1]), *args, **options)
        last = b.scalar(x.shape[1] - 1, DType.INT64)
        if isinstance(result, View):
            return b.map(Function.SUB, last, result)
        values, places = result
        return values, b.map(Function.SUB, last, places)

    return patch.dict(RULES, {target: turned})


def decompose(name: str, function: Rule) -> AbstractContextManager[Any]:
    """Let an operator decompose otherwise."""
    changed = {find_overload(name): function}
    return patch.object(tracing, "get_decompositions", lambda: {**get_decompositions(), **changed})


def write_first() -> AbstractContextManager[Any]:
    """Let the first of several values for one place stay."""
    rule, flip = RULES["aten.scatter.src"], SHAPES["aten.flip.default"]

    def scatter(b: Any, x: View, dim: int, index: View, source: View) -> Any:
        return rule(b, x, dim, flip(b, index, [dim]), flip(b, source, [dim]))

    return patch.dict(RULES, {"aten.scatter.src": scatter})


def stay_at_first() -> AbstractContextManager[Any]:
    """Let the largest element so far be at the first place."""
    rule = RULES["aten.cummax.default"]

    def cummax(b: Any, x: View, dim: int) -> Any:
        values, places = rule(b, x, dim)
        return values, b.map(Function.MUL, places, b.scalar(0, DType.INT64))

    return patch.dict(RULES, {"aten.cummax.default": cummax})


def round_up() -> AbstractContextManager[Any]:
    """Let halves be rounded up."""

    def rule(b: Any, x: View) -> Any:
        return b.map(Function.FLOOR, b.map(Function.ADD, x, b.scalar(0.5, DType.FLOAT32)))

    return patch.dict(RULES, {"aten.round.default": rule})


def share_largest(x: Tensor, y: Tensor, p: float, _mode: int | None = None) -> Tensor:
    """Return distances whose largest differences share the gradient."""
    result: Tensor = torch.linalg.vector_norm(x[..., :, None, :] - y[..., None, :, :], p, -1)
    return result


def cost_at_margin(x: Tensor, target: Tensor, *_: Any) -> Tensor:
    """Return a margin loss whose gradient at the margin is that of the side that costs."""
    label = target[:, None]
    costs = (1 - x.gather(1, label) + x).clamp(min=0)
    return torch.where(torch.arange(x.shape[1]) != label, costs, 0).mean()


MUTANTS: Mapping[str, tuple[Case, Callable[[], AbstractContextManager[Any]]]] = {
    "argmax takes the last": (
        Case("argmax", lambda x: x.argmax(1)),
        lambda: backwards("aten.argmax.default"),
    ),
    "max takes the last": (Case("max", lambda x: x.max(1)), lambda: backwards("aten.max.dim")),
    "cummax takes the first": (Case("cummax", lambda x: x.cummax(1)), stay_at_first),
    "a stable sort is not": (
        Case("sort", lambda x: x.sort(stable=True)),
        lambda: backwards("aten.sort.stable"),
    ),
    "the median is the last": (
        Case("median", lambda x: x.median(1), (4, 9)),
        lambda: backwards("aten.sort.stable"),
    ),
    "the first of several writes stays": (
        Case("scatter", lambda x: BASE.scatter(1, PLACES, x)),
        write_first,
    ),
    "halves are rounded up": (Case("round", lambda x: x.round() * x, values=HALVES), round_up),
    "a value comes behind its equal": (
        Case("searchsorted", lambda x: torch.searchsorted(LINE, x)),
        lambda: decompose(
            "aten.searchsorted.Tensor", lambda line, x, **_: searchsorted(line, x, right=True)
        ),
    ),
    "relu has a gradient at 0": (
        Case("relu", lambda x: x.relu()),
        lambda: decompose(
            "aten.threshold_backward.default", lambda g, x, t: torch.where(x >= t, g, 0)
        ),
    ),
    "hardtanh has a gradient at its bounds": (
        Case("hardtanh", functional.hardtanh, values=HALVES),
        lambda: decompose(
            "aten.hardtanh_backward.default",
            lambda g, x, low, high: torch.where((x >= low) & (x <= high), g, 0),
        ),
    ),
    "a kept margin has a gradient": (
        Case("multi_margin_loss", lambda x: functional.multi_margin_loss(x, LABELS)),
        lambda: patch.dict(COMPOSITIONS, {"aten.multi_margin_loss.default": cost_at_margin}),
    ),
    "the largest differences share": (
        Case("_cdist_forward", lambda x: torch.cdist(x, BASE, inf)),
        lambda: patch.dict(COMPOSITIONS, {"aten._cdist_forward.default": share_largest}),
    ),
    "a sampled border has a gradient": (
        Case("grid_sampler_2d", sample("bilinear", "border", align=True), (1, 3, 3, 2), HALVES),
        lambda: patch.object(
            resampling, "_bring_inside", lambda x, size, *_, **__: x.clamp(0, size - 1)
        ),
    ),
}
"""What a lowering could do otherwise at a tie, a case that shows it, and how it is made do it."""


@pytest.mark.parametrize("name", every(16, MUTANTS))
def test_another_rule_is_refused(name: str) -> None:
    """A rehearsal agrees where ties are torch's, and refuses a program that decides otherwise."""
    case, mutate = MUTANTS[name]
    check_captured(case)
    with mutate(), pytest.raises(CaptureError, match=r"in step 0 element .* in torch"):
        capture(make_recipe(case))


OPEN_CASES = {
    "topk": Case("topk", lambda x: x.topk(3), (2, 9)),
    "sort": Case("sort", lambda x: x.sort(), (2, 40)),
    "kthvalue": Case("kthvalue", lambda x: x.kthvalue(4), (6, 9)),
    "mode": Case("mode", lambda x: x.mode(), (2, 40)),
    "_linalg_eigh": Case("_linalg_eigh", lambda x: torch.linalg.eigh(x + x.mT + LEAN), (3, 3)),
    "_linalg_svd": Case("_linalg_svd", find_singular_vectors, (3, 3)),
    "index_put": Case(
        "index_put", lambda x: torch.zeros(36).index_put((PLACES.t(),), x.t()), (3, 6)
    ),
}


@pytest.mark.parametrize("name", every(16, OPEN_CASES))
def test_a_choice_that_torch_leaves_open_is_named(name: str) -> None:
    """A step that comes out otherwise by such a choice is refused: operator, line and a way out."""
    with pytest.raises(CaptureError, match=f"^aten\\.{name}.*leaves open.*, or accept") as error:
        capture(make_recipe(OPEN_CASES[name]))
    assert "test_capture_ties.py" in str(error.value)
    assert not capture(make_recipe(OPEN_CASES[name]), trust=True).is_rehearsed


def test_a_way_out_is_captured() -> None:
    """The forms that leave nothing open agree with eager torch."""
    for function in (
        lambda x: [v[:, :3] for v in x.sort(descending=True, stable=True)],
        lambda x: torch.zeros(36).index_put((PLACES.t().contiguous(),), x.t().contiguous()),
    ):
        check_captured(Case("", function))


def test_a_choice_that_makes_no_difference_is_none() -> None:
    """Rows that are sorted by their experts, and put back, are the same whoever was first."""

    def dispatch(x: Tensor) -> Tensor:
        order = x[:, 0].long().argsort()
        return torch.zeros_like(x).index_copy(0, order, x[order] * 2)

    check_captured(Case("sort", dispatch, (40, 3), COUNTS))


def run_noisily(function: Callable[[Tensor], Tensor], x: Tensor, *, folds: bool) -> Tensor:
    """Return the result of a traced function whose operators all round or fold."""
    graph = tracing.make_fx(function)(x)
    error = OwnError(0.0, 4.0) if folds else OwnError(1.0, 0.0)
    errors = {n.name: error for n in graph.graph.nodes if n.op == "call_function"}
    result: Tensor = NoisyStep(graph, errors, {}, 16.0, 0).run(x)
    return result


def test_what_is_exact_has_no_error() -> None:
    """Sums and products of small whole numbers are as they are; others are moved."""
    whole = torch.arange(12.0).reshape(3, 4)
    third = whole / 3
    for function, folds in ((lambda x: x * 3 - 1, False), (lambda x: x @ x.T, True)):
        assert torch.equal(run_noisily(function, whole, folds=folds), function(whole))
        moved = run_noisily(function, third, folds=folds) - function(third)
        assert (moved != 0).any()
        assert moved.abs().max() < 1e-3


def test_what_is_tied_stays_tied() -> None:
    """Equal rows have equal results, and different ones errors of their own."""
    x = torch.randn(1, 5, generator=torch.Generator().manual_seed(0)).expand(6, 5).contiguous()
    y = run_noisily(lambda x: (x * x).exp(), x, folds=False)
    assert torch.equal(y, y[:1].expand_as(y))
    relative = y[0] / (x[0] * x[0]).exp() - 1
    assert len({*relative.tolist()}) > 2


def test_errors_lean_to_no_side() -> None:
    """Errors are uniform in [-1, 1): with one sign they would move all results alike."""
    x = torch.randn(1 << 14, generator=torch.Generator().manual_seed(0))
    moved = run_noisily(lambda x: x.exp(), x, folds=False)
    errors = (moved / x.exp() - 1) * 2.0**20
    assert abs(errors.mean()) < 0.03
    for side in (errors.clamp(min=0), -errors.clamp(max=0)):
        assert 0.23 < side.mean() < 0.27
