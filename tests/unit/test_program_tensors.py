"""Tensors at the edge of what programs are defined for: types, sizes, places, and warnings."""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from moot.offchain.errors import CaptureError, UsageError
from moot.offchain.execution.executor import Executor
from moot.offchain.execution.readable import run_step
from moot.offchain.frontend.capture import capture
from moot.offchain.frontend.clipping import ClipNorm
from moot.offchain.frontend.optimizers import Adafactor, AdamW
from moot.offchain.frontend.recipe import InferenceRecipe, Recipe, TrainingRecipe
from moot.offchain.programs.decoding import decode_program
from moot.offchain.programs.encoding import encode_program
from tests.program_helpers import run_function
from tests.training_helpers import by_name, encode, make_batch, make_model, square_loss

FLOATS = [torch.float64, torch.float16, torch.float8_e4m3fn]


def recipe_of(
    model: nn.Module,
    batch: Any = lambda _: (),
    forward: Callable[..., Any] = lambda _: torch.ones(1),
) -> InferenceRecipe:
    """Return an inference by a function."""
    return InferenceRecipe(model, forward, batch)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_models_of_other_floats_are_refused(dtype: torch.dtype) -> None:
    """The message names the parameter or buffer and its type, and says what to call."""
    model = nn.Linear(2, 2)
    model.weight.data = model.weight.data.to(dtype)
    name = str(dtype).removeprefix("torch.")
    with pytest.raises(CaptureError, match=rf"parameter\.weight: {name} .* call model\.float\(\)"):
        capture(recipe_of(model))
    model = nn.Linear(2, 2)
    model.register_buffer("scale", torch.ones(1).to(dtype))
    with pytest.raises(CaptureError, match=rf"buffer\.scale: {name} .* call model\.float\(\)"):
        capture(recipe_of(model))


@pytest.mark.parametrize(
    ("dtype", "advice"),
    [
        *((dtype, r"convert it by \.float\(\)") for dtype in FLOATS),
        *((dtype, r"indices by \.long\(\)") for dtype in (torch.uint16, torch.uint32)),
        (torch.complex64, r"a real tensor of shape \(\.\.\., 2\), and call torch\.view_as_complex"),
    ],
    ids=str,
)
def test_batches_of_other_types_are_refused(dtype: torch.dtype, advice: str) -> None:
    """The message names the batch's tensor as the model's function does, and says what to do."""
    batch = (torch.ones(2), torch.ones(2).to(dtype))
    recipe = recipe_of(nn.Module(), lambda _: batch, lambda _, x, y: x + y)
    with pytest.raises(CaptureError, match=f"^y: .*{advice}"):
        capture(recipe)


def test_a_later_batch_of_another_type_is_refused() -> None:
    """A batch whose type changes after step 0 does not reach the program."""
    recipe = recipe_of(
        nn.Module(),
        lambda step: (torch.ones(2, dtype=torch.int64 if step else None),),
        lambda _, x: x,
    )
    with pytest.raises(CaptureError, match=r"^batch x: int64 .* in step 1, and float32"):
        capture(recipe)


@pytest.mark.parametrize("batch", [np.ones(2), None], ids=type)
def test_batches_are_of_tensors_at_all(batch: Any) -> None:
    """An array or nothing instead of tensors is refused."""
    with pytest.raises(UsageError, match=r"batch\(0\) is a .*; return a tuple of tensors"):
        capture(recipe_of(nn.Module(), lambda _: batch, lambda _, x: x))


def test_batches_are_of_tensors() -> None:
    """A number among a batch's tensors is refused."""
    with pytest.raises(UsageError, match=r"batch\(0\) has a float in it"):
        capture(recipe_of(nn.Module(), lambda _: (torch.ones(2), 0.5), lambda _, x, y: x * y))


def test_tensors_of_2_to_the_63_bytes_are_refused() -> None:
    """Parameters, batches and results that reach 2^63 bytes are refused before memory is asked."""
    huge = torch.ones(1).expand(1 << 31, 1 << 30)
    model = nn.Module()
    model.register_buffer("huge", huge)
    with pytest.raises(CaptureError, match=r"buffer\.huge: .* reaches 2\^63 bytes"):
        capture(recipe_of(model))
    with pytest.raises(CaptureError, match=r"^x: .* reaches 2\^63 bytes"):
        capture(recipe_of(nn.Module(), lambda _: (huge,), lambda _, x: x.sum()))
    recipe = recipe_of(
        nn.Module(), lambda _: (torch.ones(1),), lambda _, x: x.expand(1 << 31, 1 << 30).sum()
    )
    with pytest.raises(CaptureError, match=r"reaches 2\^63 bytes in model test_program_tensors"):
        capture(recipe, trust=True)  # torch itself would sum for years


def test_tensors_elsewhere_are_refused() -> None:
    """Tensors without data, and sparse ones, are refused by name."""
    with pytest.raises(CaptureError, match=r"parameter\.weight: a strided tensor on meta"):
        capture(recipe_of(nn.Linear(2, 2, device="meta")))
    with pytest.raises(CaptureError, match=r"^x: a sparse_coo tensor on cpu; give dense"):
        capture(recipe_of(nn.Module(), lambda _: (torch.eye(2).to_sparse(),), lambda _, x: x))


class Wide(nn.Module):
    """A layer beside one without any units, and a parameter without elements."""

    def __init__(self) -> None:
        super().__init__()
        self.nothing = nn.Linear(3, 0)
        self.back = nn.Linear(0, 2)
        self.last = nn.Linear(3, 2)
        self.empty = nn.Parameter(torch.ones(0, 4))
        self.register_buffer("seen", torch.ones(2, 0))

    def forward(self, x: Tensor) -> Tensor:
        """Return two numbers for each row."""
        result: Tensor = self.last(x) + self.back(self.nothing(x).relu()) + self.empty.sum()
        return result


@pytest.mark.parametrize("optimizer", [AdamW(0.1), Adafactor()], ids=lambda o: type(o).__name__)
def test_parameters_without_elements_are_legal(optimizer: Any) -> None:
    """Parameters without elements are captured, encoded and learned, alike in both executors."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's, that it initializes nothing
        model = Wide()
    recipe = TrainingRecipe(model, square_loss, optimizer, make_batch, clip=ClipNorm(1.0))
    captured = capture(recipe)
    program = decode_program(encode_program(captured.program))
    state = defined = captured.initial_state
    for step in range(2):
        state = Executor(program).run(state, captured.batch(step), step)
        defined = run_step(program, defined, captured.batch(step), step)
        assert encode(state) == encode(defined)
    named = by_name(captured, state)
    assert named["parameter.empty"].shape == (0, 4)
    assert named["parameter.nothing.weight"].shape == (0, 3)
    assert named["parameter.last.weight"].any()
    assert np.isfinite(named["parameter.last.weight"]).all()


EMPTY: dict[str, Callable[[Tensor], Tensor]] = {
    "pad a slice": lambda x: nn.functional.pad(x[:0], (1, 2), value=7),
    "pad a constant": lambda x: nn.functional.pad(torch.zeros(0), (1, 2), value=7) + x[0],
    "join a slice": lambda x: torch.cat([x[:0], x * 2]),
    "join a constant": lambda x: torch.cat([torch.zeros(0), x * 2]),
    "join nothing": lambda x: torch.cat([x[:0], x[4:]]),
    "sum": lambda x: x[:0].sum() + x,
    "product": lambda x: x[:0].prod() + x,
    "matrix": lambda x: x[:0].reshape(2, 0) @ x[:0].reshape(0, 3),
    "stack": lambda x: torch.stack([x[:0], x[:0]]),
}


@pytest.mark.parametrize("name", EMPTY)
def test_parts_without_elements(name: str) -> None:
    """Slices and constants without elements give nothing to what they are joined or folded into."""
    x = torch.arange(1.0, 5.0)
    (found,) = run_function(EMPTY[name], x)
    expected = EMPTY[name](x).numpy()
    assert found.shape == expected.shape
    assert found.tolist() == expected.tolist()


def test_a_batch_without_rows_is_legal() -> None:
    """A loss that is a sum over no rows is 0 and has gradients of 0; outputs have no rows."""

    def batch(_: int) -> tuple[Tensor, ...]:
        return torch.ones(0, 3), torch.ones(0, 2)

    model = make_model()
    captured = capture(TrainingRecipe(model, square_loss, AdamW(0.1, weight_decay=0.0), batch))
    arguments = (captured.initial_state, captured.batch(0), 0)
    state, defined = (
        Executor(captured.program).run(*arguments),
        run_step(captured.program, *arguments),
    )
    assert encode(state) == encode(defined)
    assert by_name(captured, state)["output.loss"] == 0
    before = by_name(captured, captured.initial_state)
    for name, array in by_name(captured, state).items():
        if name.startswith("parameter."):
            assert array.tobytes() == before[name].tobytes()
    answers = capture(InferenceRecipe(model, lambda m, x, _: m(x), batch))
    assert Executor(answers.program).run(answers.initial_state, answers.batch(0), 0)[-1].shape == (
        0,
        2,
    )


def test_a_mean_over_no_rows_is_no_number() -> None:
    """As in torch, the mean of nothing is NaN, and so are the parameters that learn from it."""

    def loss(model: nn.Module, x: Tensor) -> Tensor:
        result: Tensor = model(x).mean()
        return result

    recipe = TrainingRecipe(make_model(), loss, AdamW(0.1), lambda _: (torch.ones(0, 3),))
    captured = capture(recipe)
    arguments = (captured.initial_state, captured.batch(0), 0)
    state, defined = (
        Executor(captured.program).run(*arguments),
        run_step(captured.program, *arguments),
    )
    assert encode(state) == encode(defined)
    assert np.isnan(by_name(captured, state)["output.loss"])


ESCAPES: dict[str, Callable[[Tensor], Any]] = {
    "numpy": lambda x: x.sum() * float(x.detach().numpy()[0]),
    "asarray": lambda x: x.sum() * float(np.asarray(x.detach())[0]),
    "cpu": lambda x: x * torch.from_numpy(x.detach().cpu().numpy()),
    "tolist": lambda x: x.sum() * x.tolist()[0],
    "item": lambda x: x * x.sum().item(),
    "float": lambda x: x * float(x.sum()),
    "if": lambda x: x if x.sum() > 0 else -x,
    "equal": lambda x: x * torch.equal(x, x),
}


@pytest.mark.parametrize("name", ESCAPES)
@pytest.mark.parametrize("is_training", [True, False])
def test_elements_do_not_leave_the_program(name: str, *, is_training: bool) -> None:
    """Taking elements out of tensors is refused with the line that does it, in any recipe."""
    function = ESCAPES[name]
    model = nn.ParameterList([torch.ones(2)])
    recipe: Recipe = recipe_of(model, forward=lambda m: function(m[0]))
    if is_training:
        recipe = TrainingRecipe(model, lambda m: function(m[0]).sum(), AdamW(), lambda _: ())
    with pytest.raises(CaptureError, match="depend on data") as caught:
        capture(recipe)
    assert (caught.value.source_line or "").startswith("test_program_tensors.py:")
    assert "\n" not in caught.value.message
    assert torch.ones(1).numpy()[0] == 1


def test_numbers_of_the_model_s_own_may_be_read() -> None:
    """What does not depend on the state or the batch is a constant of the program."""
    table = torch.tensor([1.5, 2.5])
    recipe = recipe_of(
        nn.Module(), lambda _: (torch.ones(2),), lambda _, x: x * float(table.numpy()[1])
    )
    captured = capture(recipe)
    state = Executor(captured.program).run(captured.initial_state, captured.batch(0), 0)
    assert state[-1].tolist() == [2.5, 2.5]


class Counter(nn.Module):
    """A model that counts its calls, perhaps not in whole numbers."""

    calls: Tensor

    def __init__(self, step: float | Tensor) -> None:
        super().__init__()
        self.step = step
        self.register_buffer("calls", torch.tensor(0))

    def forward(self) -> Tensor:
        """Return the number of calls."""
        self.calls = self.calls + self.step
        return self.calls


@pytest.mark.parametrize(
    ("step", "after"), [(0.5, "float32 ()"), (torch.ones(2, dtype=torch.int64), "int64 (2,)")]
)
def test_buffers_keep_their_type_and_shape(step: float | Tensor, after: str) -> None:
    """A step after which a buffer is of another type or shape is refused by its name."""
    with pytest.raises(CaptureError) as caught:
        capture(recipe_of(Counter(step), forward=lambda m: m()))
    expected = f"buffer.calls: {after} after the step, int64 () before it; keep it"
    assert caught.value.message == expected
    assert capture(recipe_of(Counter(1), forward=lambda m: m())).initial_state[0] == 0


@pytest.mark.parametrize(
    ("value", "name"),
    [({"x": torch.ones(1), "y": {2}}, "a set"), ([torch.ones(1), 2.0], "2.0"), (None, "None")],
)
def test_only_tensors_are_returned(value: Any, name: str) -> None:
    """A set, a number or nothing in place of tensors is refused."""
    with pytest.raises(CaptureError, match=f"it returns {name}; return tensors"):
        capture(recipe_of(nn.Module(), forward=lambda _: value))
    with pytest.raises(CaptureError, match="a loss is one number"):
        capture(TrainingRecipe(nn.Linear(1, 1), lambda _: value, AdamW(), lambda _: ()))


class Loud(nn.Module):
    """A model during whose call torch warns, and its author too."""

    def forward(self, x: Tensor) -> Tensor:
        """Return the input."""
        with torch.backends.mkldnn.flags(enabled=True):
            warnings.warn("mine", stacklevel=1)
            return x * 1


def test_torch_s_warnings_are_not_heard_but_the_user_s_are() -> None:
    """What torch says about its own kernels does not concern a program; the author's words do."""
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        capture(recipe_of(Loud(), lambda _: (torch.ones(1),), lambda m, x: m(x)))
    assert [str(warning.message) for warning in heard] == ["mine"]
