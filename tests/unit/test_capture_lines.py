"""What can't be captured is refused in one line, which names the user's line and helps."""

import io
import logging
import re
import time
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.ao.quantization import (
    FakeQuantize,
    FusedMovingAvgObsFakeQuantize,
    PerChannelMinMaxObserver,
)
from torch.nn import functional

from moot.offchain.errors import CaptureError, CaptureFault, MootError
from moot.offchain.frontend.capture import capture
from moot.offchain.frontend.capture.faults import tracing
from moot.offchain.frontend.lowering.table import RULES
from moot.offchain.frontend.optimizers import AdamW
from moot.offchain.frontend.recipe import InferenceRecipe, Recipe, TrainingRecipe
from tests.leftovers import leaving_nothing
from tests.quick import only, share

HIDDEN = (
    "\n",
    "0x",
    "_path",
    "FakeTensor(",
    "'FakeTensor'",
    "zuf",
    "offchain",
    "Neighbourhood",
    "functionalize",
)
"""What no line has in it: addresses, and names of ours and of torch's machinery."""


def make_batch(step: int) -> tuple[Tensor, ...]:
    """Return a batch."""
    x = torch.randn(8, 4, generator=torch.Generator().manual_seed(step))
    return x, x[:, :2].sin()


def compute_loss(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    """Return a loss."""
    return functional.mse_loss(model(x), y)


def make_recipe(**parts: Any) -> Recipe:
    """Return a recipe with some parts of its own."""
    torch.manual_seed(0)
    model = parts.get("model", nn.Linear(4, 2))
    ours: dict[str, Any] = {"model": model, "loss": compute_loss, "batch": make_batch}
    if "optimizer" not in parts:
        ours["optimizer"] = torch.optim.SGD(model.parameters(), 0.1)
    return TrainingRecipe(**(ours | parts))


class Model(nn.Module):
    """A linear layer, and a function of what it returns."""

    def __init__(self, function: Callable[[Tensor], Any]) -> None:
        super().__init__()
        self.linear, self.function = nn.Linear(4, 2), function

    def forward(self, x: Tensor) -> Tensor:
        """Return what the function makes of it."""
        found: Tensor = self.function(self.linear(x))
        return found


def call(function: Callable[[Tensor], Any]) -> Recipe:
    """Return a recipe whose model calls a function."""
    return make_recipe(model=Model(function))


def refuse(recipe: Recipe, *, trust: bool = False) -> str:
    """Return the line that refuses a recipe, which leaves nothing behind."""
    with leaving_nothing(), pytest.raises(MootError) as caught:
        capture(recipe, trust=trust)
    said = str(caught.value)
    assert not [part for part in HIDDEN if part in said], said
    return said


class Mine(Tensor):
    """A class of tensors of a user's own."""


class Cached(nn.Module):
    """Writes what it computes into a plain attribute."""

    def __init__(self) -> None:
        super().__init__()
        self.linear, self.kept = nn.Linear(4, 2), torch.zeros(8, 4, 2)

    def forward(self, x: Tensor) -> Tensor:
        """Return the sum of all that was written."""
        self.kept[:, 2:3] = self.linear(x)[:, None]
        return self.kept.sum(1)


def choose(x: Tensor) -> Tensor:
    """Choose a branch by torch's operator."""
    found: Tensor = torch.cond(x.sum() > 0, lambda x: x.sin(), lambda x: x.cos(), (x,))
    return found


def require_plain(x: Tensor) -> Tensor:
    """Require that a tensor is torch's own."""
    if type(x) is not Tensor:
        raise TypeError(f"not a tensor: {x!r}")
    return x


def make_narrow(**options: Any) -> Recipe:
    """Return a recipe whose weights have another type."""
    model = nn.Linear(4, 2)
    weight = (100 * model.weight.detach()).to(**options)
    model.weight = nn.Parameter(weight, requires_grad=weight.is_floating_point())
    return make_recipe(model=model, loss=lambda m, x, y: (x @ m.weight.float().T - y).mean())


def make_mask() -> Recipe:
    """Return a recipe with a mask of integers of a rare type."""
    model = nn.Linear(4, 2)
    model.register_buffer("mask", torch.ones(2, dtype=torch.uint16))
    return make_recipe(model=model)


def make_quantized() -> Recipe:
    """Return a recipe of a quantized module."""
    model = nn.Sequential(nn.Linear(4, 2))
    model[0].__class__ = torch.ao.nn.quantized.dynamic.Linear
    return make_recipe(model=model, optimizer=AdamW(1e-3))


def pack(x: Tensor) -> Tensor:
    """Return a tensor by way of a format of torch's own, which it can't trace."""
    return x.to_mkldnn().relu().to_dense()


class Table:
    """An object that is shown by its address."""


SPARSE = torch.eye(8).to_sparse()
OWN = torch.ones(2).as_subclass(Mine)
with warnings.catch_warnings(action="ignore"):
    QUANTIZED = torch.quantize_per_tensor(torch.ones(2, 2), 0.1, 0, torch.qint8)
PACKED = torch.ops.quantized.linear_prepack(QUANTIZED, None)

LINE = r" in \S+ test_capture_lines\.py:\d+ "
"""How a line of the user's is told, with its module."""

REFUSED: dict[str, tuple[Callable[[], Recipe], str]] = {
    "a branch of torch's": (lambda: call(choose), f"^cond: a program has no operators on .*{LINE}"),
    "integers of a rare type as weights": (
        lambda: make_narrow(dtype=torch.uint16),
        r"^parameter.weight: uint16 is .*; make a parameter of float32 of it, by \.float\(\)$",
    ),
    "integers of a rare type as a mask": (
        make_mask,
        r"^buffer.mask: uint16 is .* a mask by \.bool\(\)$",
    ),
    "half precision": (
        lambda: make_narrow(dtype=torch.float16),
        r"^parameter.weight: float16 is .*; call model.float\(\) first$",
    ),
    "a slice of an attribute": (
        lambda: make_recipe(model=Cached()),
        f"it changes a tensor that is no buffer; register it as a buffer{LINE}self.kept",
    ),
    "a sparse attribute": (
        lambda: call(lambda x: torch.sparse.mm(SPARSE, x)),
        rf"it reads a sparse_coo tensor; make it dense by \.to_dense\(\){LINE}",
    ),
    "a tensor of a class": (lambda: call(lambda x: x * OWN), f"'Mine'.*{LINE}"),
    "a quantized module": (
        make_quantized,
        "^the module 0 is quantized; give the model as it was before; --precision int8 answers",
    ),
    "an operator of packed weights": (
        lambda: call(lambda x: torch.ops.quantized.linear_dynamic(x, PACKED)),
        rf"^quantized.linear_dynamic.default: it is .* --precision int8 .*{LINE}",
    ),
    "a quantizer that has observed nothing": (
        lambda: call(
            FakeQuantize(
                PerChannelMinMaxObserver,
                qscheme=torch.per_channel_affine,
            )
        ),
        rf"FakeQuantize: it has observed no range yet; call the model once before .*{LINE}",
    ),
    "a fused quantizer": (
        lambda: call(FusedMovingAvgObsFakeQuantize()),
        rf"^aten._fused_moving.*: it finds zero points in float64; use .*FakeQuantize .*{LINE}",
    ),
    "a tensor that is quantized": (
        lambda: call(lambda x: torch.quantize_per_tensor(x, 0.1, 0, torch.qint8).dequantize()),
        rf"^aten.quantize_per_tensor.default: it is .* --precision int8 .*{LINE}",
    ),
    "a quantized tensor that is read": (
        lambda: call(lambda x: x * QUANTIZED.dequantize().sum()),
        rf"^aten.dequantize.self: it is .* --precision int8 .*{LINE}",
    ),
    "a scale of quantization in Python": (
        lambda: call(lambda x: (x / (float(x.abs().max()) / 127)).round()),
        rf"^aten._local_scalar_dense.default: .*; compute with the tensor itself{LINE}",
    ),
    "a scale of fake quantization in Python": (
        lambda: call(
            lambda x: torch.fake_quantize_per_tensor_affine(x, x.max().item() / 127, 0, -128, 127)
        ),
        rf"^aten._local_scalar_dense.default: .*; compute with the tensor itself{LINE}",
    ),
    "a zero point in Python": (
        lambda: call(
            lambda x: torch.fake_quantize_per_tensor_affine(x, 0.1, int(x.min() / 0.1), -128, 127)
        ),
        rf"^aten._local_scalar_dense.default: .*; compute with the tensor itself{LINE}",
    ),
    "a range of quantization that numpy finds": (
        lambda: call(lambda x: x / float(x.detach().numpy().max())),
        rf"^torch.Tensor.numpy: the program would depend on data; .*{LINE}",
    ),
    "a format of torch's own": (
        lambda: call(pack),
        rf"torch can't trace it \(NotImplementedError: .*{LINE}",
    ),
    "a check of types": (
        lambda: call(require_plain),
        rf"^aten.addmm.default: it fails on .*\(TypeError: not a tensor: \(traced\)\).*{LINE}",
    ),
    "the time": (
        lambda: call(lambda x: x * (time.time() % 10)),
        rf"^aten.mul.Tensor: two tracings of the step differ here, [\d.]+ and [\d.]+; .*{LINE}",
    ),
    "a number that is shown": (
        lambda: call(lambda x: (print("%.3f" % x.mean().item()), x)[1]),  # noqa: T201, UP031 - tried
        rf"depend on data; .*, or show it by an f-string{LINE}",
    ),
    "a large system": (
        lambda: make_recipe(
            loss=lambda m, x, _y: torch.linalg.inv(torch.eye(65) + m(x).sum()).sum()
        ),
        rf"^aten.linalg_inv_ex.default: a matrix of 65 rows; at most 64 are written out{LINE}",
    ),
    "too few arguments": (
        lambda: make_recipe(loss=lambda m, x: m(x).mean()),
        r"^the loss in test_capture_lines.py:\d+ can't be called with the model and 2 tensors",
    ),
    "a tuple": (
        lambda: make_recipe(loss=lambda m, x, y: (m(x).mean(), y)),
        f"^loss: it is a tuple; a loss is one number that depends on a parameter{LINE}",
    ),
    "many numbers": (
        lambda: make_recipe(loss=lambda m, x, y: m(x) - y),
        rf"^loss: it is a tensor of shape \(8, 2\); a loss is one number .*{LINE}",
    ),
    "a number of Python": (
        lambda: make_recipe(loss=lambda _m, _x, _y: 3),
        f"^loss: it is 3; a loss is one number that depends on a parameter{LINE}",
    ),
}

QUICK = {*REFUSED} - {"a branch of torch's"}


@pytest.mark.parametrize("name", only(QUICK, REFUSED))
def test_a_refusal_is_one_line_that_helps(name: str) -> None:
    """A refusal names what is wrong, what to do, and the user's line, and no address."""
    make, message = REFUSED[name]
    said = refuse(make())
    assert re.search(message, said), said


def log(x: Tensor) -> Tensor:
    """Write a number into a log, and print it."""
    logging.getLogger("model").warning("mean %8.3f of %d", x.mean().item(), 3)
    print(x, x.mean().item(), round(x.mean().item(), 3))  # noqa: T201 - what is tried
    return x


def solve(x: Tensor) -> Tensor:
    """Solve a system for each pair of rows."""
    found: Tensor = torch.linalg.solve(x.reshape(4, 2, 2) + 3 * torch.eye(2), x.reshape(4, 2, 2))
    return found.reshape(8, 2)


def find_volume(x: Tensor) -> Tensor:
    """Scale by the logarithms of determinants, which torch differentiates by other strides."""
    found: Tensor = torch.linalg.slogdet(x.reshape(4, 2, 2) + 3 * torch.eye(2))[1]
    return x * found.sum()


def lose_nothing(name: str) -> Recipe:
    """Return a recipe with a loss of no elements, whose gradient has none."""
    lose = getattr(functional, name)
    return make_recipe(loss=lambda m, x, y: m(x).mean() + lose(m(x)[:0], y[:0], reduction="mean"))


RIGHT: dict[str, Callable[[], Recipe]] = {
    **{f"{it} of nothing": partial(lose_nothing, it) for it in ("mse_loss", "huber_loss")},
    "smooth_l1_loss of nothing": partial(lose_nothing, "smooth_l1_loss"),
    "a compiled function": lambda: call(torch.compile(torch.sin, backend="eager")),
    "a function that is compiled inside": lambda: call(lambda x: torch.compile(torch.sin)(x) + 1),
    "systems": lambda: call(solve),
    "volumes": lambda: call(find_volume),
    "an imaginary number": lambda: call(lambda x: torch.exp(1j * x).real),
}


@pytest.mark.parametrize(
    "name", only({*RIGHT} - {"a compiled function", "huber_loss of nothing"}, RIGHT)
)
def test_it_is_captured(name: str) -> None:
    """Compiled functions run as they are written, and so do batched systems and what shows."""
    with leaving_nothing():
        capture(RIGHT[name]())


def test_what_is_shown_shows_no_machinery(capsys: pytest.CaptureFixture[str]) -> None:
    """What a step prints and logs has a word in place of a number that nobody knows."""
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    logging.getLogger("model").addHandler(handler)
    try:
        capture(call(log))
    finally:
        logging.getLogger("model").removeHandler(handler)
    assert "mean (traced) of 3\n" in stream.getvalue()
    printed = capsys.readouterr().out
    assert "(traced) (traced) (traced)\n" in printed
    assert not [part for part in HIDDEN[1:] if part in stream.getvalue() + printed]


THINGS: dict[str, Callable[[], Any]] = {
    "a class": lambda: AdamW,
    "nothing": lambda: None,
    "text": lambda: "sgd",
    "a number": lambda: 0.5,
    "a negative number": lambda: -1,
    "an object": object,
    "a generator": lambda: (make_batch(step) for step in range(9)),
    "a list": lambda: [make_batch(step) for step in range(9)],
    "an empty list": list,
    "a mapping": lambda: dict(enumerate(make_batch(0))),
    "a tensor": lambda: torch.ones(2),
    "an array": lambda: np.ones(2),
    "a function of no arguments": lambda: lambda: None,
    "a function that returns nothing": lambda: lambda *_: None,
    "a function that yields": lambda: lambda *_: (yield 1),
    "a bound function of C": lambda: [].append,
    "a partial function": lambda: partial(torch.optim.SGD, lr=0.1),
}
PLACES = ("model", "loss", "optimizer", "batch", "seed", "clip", "accumulate", "in a batch")
FINE = {("clip", "nothing"), ("optimizer", "an optimizer")}


def put(place: str, thing: Any) -> Recipe:
    """Return a recipe with a thing in a place."""
    if place == "in a batch":
        return make_recipe(batch=lambda step: (*make_batch(step)[: 2 - step // 7], thing)[-2:])
    options = {"optimizer": AdamW(1e-3)} if place == "model" else {}
    return make_recipe(**options, **{place: thing})


def _draw() -> list[tuple[str, str]]:
    pairs = [(place, thing) for place in PLACES for thing in THINGS]
    rows = np.random.default_rng(0).permutation(len(pairs))[: share(2 * len(pairs))]
    return [pairs[row] for row in rows.tolist()]


@pytest.mark.parametrize(("place", "thing"), _draw())
def test_wrong_things_in_a_recipe(place: str, thing: str) -> None:
    """Whatever is given where something else belongs is refused in one line."""
    if (place, thing) in FINE:
        pytest.skip("it is right there")
    with leaving_nothing(), pytest.raises(MootError) as caught:
        capture(put(place, THINGS[thing]()), trust=True)
    assert not [part for part in HIDDEN if part in str(caught.value)], str(caught.value)
    assert not isinstance(caught.value, CaptureFault)


def test_a_model_that_answers_is_refused_likewise() -> None:
    """What a forward returns has to be tensors, and its definition is named where it is none."""
    recipe = InferenceRecipe(nn.Linear(4, 2), lambda _m, _x: "text", lambda s: make_batch(s)[:1])
    assert "forward: it returns 'text'; return tensors in model test_capture" in refuse(recipe)


PHASES = ("decompose", "lower", "update")


@pytest.mark.parametrize("phase", PHASES)
def test_a_fault_of_ours_names_the_users_line(phase: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where our own code fails, in whichever phase, the line says so, and names the user's."""

    class Failing(AdamW):
        def update(self, parameter: Tensor, *others: Any) -> Any:
            if isinstance(parameter, nn.Parameter) or type(parameter) is Tensor:
                return super().update(parameter, *others)
            raise TypeError(f"divmod can't take {object.__new__(Table)}")

    recipe = call(lambda x: x.sin())
    if phase == "decompose":
        table = {torch.ops.aten.sin.default: divmod}  # which has no frame of its own
        monkeypatch.setattr("moot.offchain.frontend.tracing.get_decompositions", lambda: table)
    if phase == "lower":
        monkeypatch.setitem(RULES, "aten.sin.default", divmod)
    if phase == "update":
        recipe = make_recipe(optimizer=Failing(1e-3))
    with pytest.raises(CaptureError) as caught:
        capture(recipe)
    said = str(caught.value)
    assert "TypeError: " in said
    assert "divmod" in said
    assert "0x" not in said
    assert "in model test_capture_lines.py:" in said
    assert isinstance(caught.value, CaptureFault) is (phase == "lower")
    assert phase == "update" or said.startswith("aten.sin.default: ")


def test_what_eager_torch_raises_is_the_users() -> None:
    """What the first step raises in eager torch, too, is left as Python raised it."""

    def backward(_gradient: Tensor) -> Tensor:
        raise KeyError("scale")

    def loss(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        found = model(x)
        found.register_hook(backward)
        return functional.mse_loss(found, y)

    for trust in (False, True):
        with pytest.raises(KeyError, match="scale"):
            capture(make_recipe(loss=loss), trust=trust)


def test_the_net_lets_refusals_through() -> None:
    """A refusal is itself; what has no line of the user's is said to be ours."""
    with pytest.raises(CaptureError, match=r"^itself$"), tracing():
        raise CaptureError("itself")
