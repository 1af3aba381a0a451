"""Capture: the layout of the state, the names and lines of operators, dropout, and refusals."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional

from moot.offchain.arithmetic.functions import DType, Function
from moot.offchain.arithmetic.philox import uniform_bits
from moot.offchain.commitments.tensors import Array
from moot.offchain.errors import CaptureError, UsageError
from moot.offchain.execution.readable import run_step
from moot.offchain.frontend.capture import Captured, capture
from moot.offchain.frontend.optimizers import SGD, Adam
from moot.offchain.frontend.recipe import InferenceRecipe, TrainingRecipe
from moot.offchain.programs.graph import Kind, Origin
from tests.program_helpers import assert_close, capture_function, run_both, run_function


class Tied(torch.nn.Module):
    """A model with a tied weight, a frozen and an unused parameter, a buffer and a counter."""

    scale: torch.Tensor
    calls: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Linear(3, 3)
        self.second = torch.nn.Linear(3, 3, bias=False)
        self.second.weight = self.first.weight
        self.frozen = torch.nn.Parameter(torch.ones(3), requires_grad=False)
        self.unused = torch.nn.Parameter(torch.ones(2))
        self.register_buffer("scale", torch.full((3,), 2.0))
        self.register_buffer("calls", torch.tensor(0))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Count the call, and use everything but the unused parameter."""
        self.calls = self.calls + 1
        hidden: torch.Tensor = self.second(self.first(x)) * self.frozen
        return hidden * self.scale


def tied_loss(model: torch.nn.Module, points: torch.Tensor) -> torch.Tensor:
    """Return a number that depends on all of `Tied` but the unused parameter."""
    result: torch.Tensor = model(points).square().mean()
    return result


def points(step: int) -> tuple[torch.Tensor, ...]:
    """Return a batch that differs from step to step."""
    return (torch.arange(6.0).reshape(2, 3) / 4 - step,)


def capture_tied(optimizer: Any) -> tuple[Tied, Captured]:
    """Return the model and its training program."""
    torch.manual_seed(0)
    model = Tied()
    return model, capture(TrainingRecipe(model, tied_loss, optimizer, points))


def by_name(captured: Captured, state: list[Array]) -> dict[str, Array]:
    """Return the state's tensors by the names of their slots."""
    return {slot.name: array for slot, array in zip(captured.program.state, state, strict=True)}


def test_layout() -> None:
    """Slots are in order: parameters (tied ones once), buffers, moments, counters, the loss."""
    _, captured = capture_tied(Adam())
    learned = ("unused", "first.weight", "first.bias")
    assert [slot.name for slot in captured.program.state] == [
        *("parameter.frozen", "parameter.unused", "parameter.first.weight", "parameter.first.bias"),
        *("buffer.scale", "buffer.calls"),
        *(f"optimizer.{p}.{m}" for p in learned for m in ("first_moment", "second_moment")),
        *("optimizer.beta1_power", "optimizer.beta2_power", "output.loss"),
    ]
    assert [slot.name for slot in captured.program.batch] == ["points"]
    state = by_name(captured, captured.initial_state)
    assert state["optimizer.beta1_power"] == 1
    assert state["optimizer.first.bias.first_moment"].tolist() == [0, 0, 0]
    assert state["output.loss"] == 0


def test_two_steps_are_torch_s() -> None:
    """Two steps change learned parameters and buffers as torch does, and nothing else."""
    model, captured = capture_tied(SGD(0.1, momentum=0.5))
    state = captured.initial_state
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.5)
    for step in range(2):
        state = run_step(captured.program, state, captured.batch(step), step)
        loss = tied_loss(model, *points(step))
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]  # torch's is untyped
        optimizer.step()
        named = by_name(captured, state)
        assert_close(named["output.loss"], loss.item())
        for name, tensor in (*model.named_parameters(), *model.named_buffers()):
            kind = "buffer" if name in ("scale", "calls") else "parameter"
            found = named[f"{kind}.{name}"]
            assert_close(found, tensor.detach())


def test_the_model_is_left_alone() -> None:
    """Capture changes neither the model's tensors nor its hooks, and shares no memory with it."""
    model, captured = capture_tied(SGD(0.1))
    assert model.calls == 0
    assert not model._forward_pre_hooks
    assert not model._forward_hooks
    assert all(type(p) is torch.nn.Parameter for p in model.parameters())
    state = by_name(captured, captured.initial_state)
    state["parameter.frozen"][0] = 7
    assert model.frozen[0] == 1


def test_sources_and_sinks() -> None:
    """Only sources read slots, each once; sinks come last; that of an unchanged slot reads it."""
    program = capture_tied(Adam())[1].program
    reads = [(o.origin, o.reference) for n in program.nodes for o in n.operands]
    slots = [pair for pair in reads if pair[0] in (Origin.STATE, Origin.BATCH)]
    assert len(slots) == len(set(slots))
    for node in program.nodes:
        from_slot = any(o.origin in (Origin.STATE, Origin.BATCH) for o in node.operands)
        assert from_slot == (node.kind is Kind.SOURCE)
    for index, slot in enumerate(program.state):
        assert program.names[program.first_sink + index] == f"next:{slot.name}"
    sink = program.nodes[program.names.index("next:parameter.frozen")]
    assert sink.operands[0].reference == program.names.index("state:parameter.frozen")
    assert program.names.index("batch:points") < program.first_sink


def test_unused_batch_tensors_have_no_source() -> None:
    """A batch tensor that nothing reads keeps its slot, but no operator."""
    program = capture_function(lambda x, _: x + 1, torch.ones(2), torch.ones(3)).program
    assert [slot.name for slot in program.batch] == ["input.0", "input.1"]
    assert "batch:input.0" in program.names
    assert "batch:input.1" not in program.names


def test_operators_are_named_after_the_traced_graph() -> None:
    """The operator that yields a traced node's result has its name; its parts have longer ones."""
    program = capture_function(lambda x: (x @ x).softmax(-1), torch.ones(3, 3)).program
    parts = ["_softmax.max", "_softmax.sub", "_softmax.exp", "_softmax.sum", "_softmax"]
    assert program.names == ("batch:input.0", "mm", *parts, "next:output.0")
    assert program.nodes[program.names.index("mm")].kind is Kind.CONTRACT


def test_equal_operators_occur_once() -> None:
    """What is computed twice from the same operands is one operator; random numbers never are."""
    program = capture_function(lambda x: (x.exp(), x.exp() + 1), torch.ones(3)).program
    assert sum(node.function is Function.EXP for node in program.nodes) == 1
    noise = capture_function(lambda x: (torch.rand_like(x), torch.rand_like(x)), torch.ones(3))
    streams = [node.stream for node in noise.program.nodes if node.kind is Kind.RANDOM]
    assert streams == [0, 1]


def test_lines_point_at_the_user_s_code() -> None:
    """Forward and backward operators carry the module and the line that they come from."""
    program = capture_tied(SGD(0.1))[1].program
    lines = dict(zip(program.names, program.lines, strict=True))
    here = "test_program_capture.py"
    assert lines["addmm"].startswith(f"first {here}:")
    assert lines["addmm"].endswith(
        "hidden: torch.Tensor = self.second(self.first(x)) * self.frozen"
    )
    backward = [n for n in program.names if n.startswith("mm_")]
    assert {lines[name].split()[0] for name in backward} == {"first", "second"}
    assert all(here in lines[name] for name in backward)
    assert lines["next:output.loss"] == ""


def test_dropout_is_philox() -> None:
    """Dropout keeps elements whose uniform number is below 1 - p, and scales them by 1/(1 - p)."""
    x = torch.arange(1.0, 41.0)
    (found,) = run_function(lambda x: functional.dropout(x, 0.25), x)
    draws = np.array([uniform_bits(7, 0, 0, i) for i in range(40)], np.uint32).view(np.float32)
    kept = draws < np.float32(0.75)
    assert 20 < kept.sum() < 40
    assert_close(found, np.where(kept, x.numpy() / 0.75, 0))


def test_dropout_depends_on_the_step_and_masks_its_gradient() -> None:
    """Every step drops other elements, and a dropped element has no gradient."""
    model = torch.nn.ParameterList([torch.ones(32)])
    recipe = TrainingRecipe(
        model, lambda m: functional.dropout(m[0], 0.5).sum(), SGD(1.0), lambda _: (), seed=3
    )
    captured = capture(recipe)
    masks = []
    for step in range(2):
        state = by_name(captured, run_step(captured.program, captured.initial_state, [], step))
        gradient = 1 - state["parameter.0"]
        assert set(gradient.tolist()) == {0.0, 2.0}
        assert gradient.sum() == state["output.loss"]
        masks.append(gradient.tolist())
    assert masks[0] != masks[1]


def test_bernoulli() -> None:
    """Bernoulli numbers are uniform numbers below the chance, from a number or from a tensor."""
    chances = torch.tensor([0.0, 1.0, 0.5, 0.5])
    draws = [uniform_bits(7, 0, 0, i) for i in range(4)]
    below = np.array(draws, np.uint32).view(np.float32) < chances.numpy()
    (found,) = run_function(torch.bernoulli, chances)
    assert found.tolist() == below.tolist()


def test_constants_become_slots() -> None:
    """Tensor constants and counters are slots that never change; equal ones share one."""
    table = torch.tensor([1.5, 2.5, 3.5])

    def function(x: torch.Tensor) -> torch.Tensor:
        return x * table + torch.arange(3) + torch.arange(3)

    captured = capture_function(function, torch.ones(3))
    names = [slot.name for slot in captured.program.state]
    assert names == ["constant.0", "constant.1", "output.0"]
    state = run_step(captured.program, captured.initial_state, captured.batch(0), 0)
    for before, after in zip(captured.initial_state[:2], state[:2], strict=True):
        assert before.tolist() == after.tolist()
    assert state[2].tolist() == [1.5, 4.5, 7.5]


def test_constant_outputs() -> None:
    """An output that depends on nothing is still computed by an operator."""
    found = run_function(lambda _: (torch.full((2,), 3.0), torch.tensor(1)), torch.ones(1))
    assert [array.tolist() for array in found] == [[3, 3], 1]


REFUSALS: dict[str, tuple[Callable[..., Any], tuple[torch.Tensor, ...], str]] = {
    "item": (lambda x: x * x.sum().item(), (torch.ones(2),), "_local_scalar_dense"),
    "branch": (lambda x: x if x.sum() > 0 else -x, (torch.ones(2),), "_local_scalar_dense"),
    "nonzero": (lambda x: x.nonzero(), (torch.ones(2),), "nonzero"),
    "mask": (lambda x: x[x > 0], (torch.ones(2),), "x[mask]"),
    "double": (lambda x: x.double(), (torch.ones(2),), "_to_copy"),
    "long cumsum": (lambda x: x.cumsum(0), (torch.ones(5_000),), "cumsum"),
    "deep": (lambda x: x.reshape((2,) + (1,) * 8).exp(), (torch.ones(2),), "exp"),
    "huge": (lambda x: x.expand(1 << 31, 1 << 30), (torch.ones(1),), "expand"),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_refusals(name: str) -> None:
    """What a program cannot express is refused by name, with the user's module and line."""
    function, inputs, operator = REFUSALS[name]
    with pytest.raises(CaptureError) as caught:
        capture_function(function, *inputs)
    assert operator in (caught.value.operator or "")
    assert caught.value.module == "model"
    assert (caught.value.source_line or "").startswith("test_program_capture.py:")
    assert "\n" not in caught.value.message


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.complex64, torch.uint16])
def test_refused_types(dtype: torch.dtype) -> None:
    """Tensors of other types are refused, and the message says which types there are."""
    with pytest.raises(CaptureError, match="use float32, int64, int32, bool, bfloat16"):
        capture_function(lambda x: x, torch.ones(2, dtype=dtype))


def test_refused_ranks() -> None:
    """A slot of more dimensions than operators may have is refused."""
    with pytest.raises(CaptureError, match="at most 8"):
        capture_function(lambda x: x, torch.ones((1,) * 9))


def test_a_loss_is_one_number() -> None:
    """A loss with several elements, or without a parameter in it, is refused."""
    model = torch.nn.Linear(2, 2)
    for loss in (lambda m, x: m(x), lambda _, x: x.sum()):
        recipe = TrainingRecipe(model, loss, SGD(0.1), lambda _: (torch.ones(1, 2),))
        with pytest.raises(CaptureError, match="one number"):
            capture(recipe)


def test_batches_keep_their_shape() -> None:
    """A batch of another shape or type than the first one is refused."""
    recipe = InferenceRecipe(
        torch.nn.Module(), lambda _, x: x + 1, lambda step: (torch.ones(2 + step),)
    )
    with pytest.raises(CaptureError, match="step 1"):
        capture(recipe)


def test_a_batch_may_be_written_to() -> None:
    """A model that changes its input in place is expressed without changing the batch."""

    def function(_: torch.nn.Module, x: torch.Tensor) -> torch.Tensor:
        x.add_(1)[0] = 5
        return x * 2

    captured = capture(InferenceRecipe(torch.nn.Module(), function, lambda _: (torch.ones(2),)))
    found = run_both(captured.program, captured.initial_state, captured.batch(0))[-1]
    assert found.tolist() == [10, 4]


@pytest.mark.parametrize("seed", [-1, 1 << 64])
def test_seeds_have_64_bits(seed: int) -> None:
    """A seed that Philox has no key for is refused."""
    recipe = InferenceRecipe(torch.nn.Module(), lambda _: torch.ones(1), lambda _: (), seed)
    with pytest.raises(UsageError, match="64 bits"):
        capture(recipe)


def test_capture_is_deterministic() -> None:
    """Capturing twice gives the same program, names and lines included."""
    first, second = (capture_tied(Adam())[1].program for _ in range(2))
    assert first == second
    assert (first.names, first.lines) == (second.names, second.lines)


def test_inference_outputs() -> None:
    """Every output of an inference has a slot of its type and shape."""
    program = capture_function(lambda x: (x > 0, x.argmax(1)), torch.ones(2, 3)).program
    assert [(s.name, s.dtype, s.shape) for s in program.state] == [
        ("output.0", DType.BOOL, (2, 3)),
        ("output.1", DType.INT64, (2,)),
    ]
