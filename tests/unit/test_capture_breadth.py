"""What users bring to capture: batches, results, schedulers and layers as their loops have them."""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from torch import Tensor, distributions, nn
from torch.nn.utils import rnn
from torch.optim import lr_scheduler as schedules
from torch.optim import swa_utils
from transformers import BatchEncoding, BertConfig, BertForSequenceClassification
from transformers.modeling_outputs import SequenceClassifierOutput

from moot.offchain.arithmetic.functions import DType
from moot.offchain.errors import CaptureError, UsageError
from moot.offchain.frontend.capture import Captured, capture
from moot.offchain.frontend.optimizers.timetables import tabulate
from moot.offchain.frontend.recipe import InferenceRecipe, TrainingRecipe
from tests.quick import every, only


def make_points(step: int) -> Tensor:
    """Return points."""
    return torch.randn(8, 4, generator=torch.Generator().manual_seed(step))


def make_recipe(loss: Callable[..., Any], batch: Any) -> TrainingRecipe:
    """Return a recipe of a linear layer."""
    torch.manual_seed(0)
    model = nn.Linear(4, 2)
    return TrainingRecipe(model, loss, torch.optim.SGD(model.parameters(), 0.1), batch)


def name_inputs(captured: Captured) -> list[str]:
    """Return the names of a program's batch tensors."""
    return [slot.name for slot in captured.program.batch]


class Pair(NamedTuple):
    """A batch as a named tuple."""

    x: Tensor
    y: Tensor


@dataclass
class Sample:
    """A batch as a dataclass, with another container in it."""

    x: Tensor
    targets: dict[str, Any]


def compare(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    """Return a loss."""
    return nn.functional.mse_loss(model(x), y)


def tag(x: Tensor) -> dict[str, Any]:
    """Return targets, with what is the same in all batches."""
    return {"all": [x[:, :2], (x[:, 2:],)], "kind": "points", "mask": None, "is_train": True}


FORMS: dict[str, tuple[Callable[[Tensor], Any], Callable[..., Any], list[str]]] = {
    "dict": (
        lambda x: {"x": x, "y": x[:, :2]},
        lambda m, batch: compare(m, **batch),
        ["x", "y"],
    ),
    "ordered": (
        lambda x: OrderedDict(x=x, y=x[:, :2]),
        lambda m, b: compare(m, **b) * isinstance(b, OrderedDict),
        ["x", "y"],
    ),
    "named tuple": (
        lambda x: Pair(x, x[:, :2]),
        lambda m, batch: compare(m, batch.x, batch.y),
        ["x", "y"],
    ),
    "dataclass": (
        lambda x: Sample(x, tag(x)),
        lambda m, batch: compare(m, batch.x, batch.targets["all"][1][0]),
        ["x", "targets.all.0", "targets.all.1.0"],
    ),
    "nested tuple": (
        lambda x: (x, {"all": [x[:, :2]], "none": None}),
        lambda m, x, rest: compare(m, x, rest["all"][0]),
        ["x", "rest.all.0"],
    ),
    "encoding": (
        lambda x: BatchEncoding({"x": x, "y": x[:, :2]}),
        lambda m, batch: compare(m, batch.x, batch["y"]),
        ["x", "y"],
    ),
    "output": (
        lambda x: SequenceClassifierOutput(loss=x[:, :2], logits=x),
        lambda m, batch: compare(m, batch.logits, batch["loss"]),
        ["loss", "logits"],
    ),
    "tensor": (lambda x: x, lambda m, x: m(x).square().mean(), ["input.0"]),
}


@pytest.mark.parametrize("form", every(6, FORMS))
def test_batches_have_their_form(form: str) -> None:
    """A loss gets a batch as the batch function has made it, and the rehearsal compares both."""
    make, loss, names = FORMS[form]
    captured = capture(make_recipe(loss, lambda step: make(make_points(step))))
    assert name_inputs(captured) == names


def test_batches_of_a_form_are_accumulated() -> None:
    """Each of the batches that a step accumulates has its form."""
    torch.manual_seed(0)
    model = nn.Linear(4, 2)
    recipe = TrainingRecipe(
        model,
        lambda m, batch: compare(m, **batch),
        torch.optim.SGD(model.parameters(), 0.1),
        lambda step: {"x": make_points(step), "y": make_points(step)[:, :2]},
        accumulate=2,
    )
    assert name_inputs(capture(recipe)) == ["x.0", "y.0", "x.1", "y.1"]


def test_a_batch_of_another_form_is_refused() -> None:
    """A batch with another key, or with another constant, is refused by what differs."""
    renamed = make_recipe(
        lambda m, batch: m(next(iter(batch.values()))).sum(),
        lambda step: {f"x{min(step, 1)}": make_points(step)},
    )
    with pytest.raises(CaptureError, match=r"^batch\(1\) is a dict of x1, but batch\(0\) is .* x0"):
        capture(renamed)
    changed = make_recipe(
        lambda m, batch: m(batch["x"]).sum(),
        lambda step: {"x": make_points(step), "at": f"line {step}"},
    )
    with pytest.raises(CaptureError, match=r"^batch\(1\) has 'line 1' at at, and batch\(0\) 'line"):
        capture(changed)


def test_a_number_in_a_batch_is_refused_by_its_place() -> None:
    """What is no tensor is refused, and the line says where it is."""
    recipe = make_recipe(lambda m, b: m(b["x"]).sum(), lambda s: {"x": make_points(s), "n": [3]})
    with pytest.raises(UsageError, match=r"^batch\(0\) has a int in it, at n\.0; return tensors"):
        capture(recipe)


def test_a_loss_that_takes_other_arguments_is_refused() -> None:
    """A dictionary is one argument, and a loss with one for each key is refused in one line."""
    recipe = make_recipe(compare, lambda s: {"x": make_points(s), "y": make_points(s)})
    with pytest.raises(UsageError, match=r"called with .* batch\(0\), a dict, which is one .*'y'"):
        capture(recipe)


def make_classifier() -> Any:
    """Return a model of the transformers library."""
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=11,
        hidden_size=8,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=8,
        max_position_embeddings=8,
    )
    return BertForSequenceClassification(config)


def make_tokens(step: int) -> BatchEncoding:
    """Return a batch as a tokenizer and a collator make it."""
    generator = torch.Generator().manual_seed(step)
    tokens = torch.randint(11, (3, 5), generator=generator)
    mask = torch.ones_like(tokens)
    return BatchEncoding({"input_ids": tokens, "attention_mask": mask, "labels": tokens[:, 0] % 2})


@pytest.mark.slow
def test_a_model_of_transformers_is_its_own_loss() -> None:
    """The usual loop, `model(**batch).loss`, needs no more: the loss is found in the output."""
    model = make_classifier()
    captured = capture(
        TrainingRecipe(
            model,
            lambda model, batch: model(**batch),
            torch.optim.AdamW(model.parameters(), lr=1e-3),
            make_tokens,
        )
    )
    assert name_inputs(captured) == ["input_ids", "attention_mask", "labels"]


def test_all_tensors_of_an_output_are_outputs() -> None:
    """An inference returns the tensors that lie in an output, in order."""
    recipe = InferenceRecipe(make_classifier().eval(), lambda m, b: m(**b), make_tokens)
    slots = capture(recipe).program.state
    outputs = [slot.shape for slot in slots if slot.name.startswith("output.")]
    assert outputs == [(), (3, 2)]


Schedule = Callable[[torch.optim.Optimizer], Any]


def warm_up_and_decay(optimizer: torch.optim.Optimizer) -> Any:
    """Return a scheduler of several."""
    first = schedules.LinearLR(optimizer, 0.1, total_iters=3)
    second = schedules.CosineAnnealingLR(optimizer, 7)
    return schedules.SequentialLR(optimizer, [first, second], [3])


def chain(optimizer: torch.optim.Optimizer) -> Any:
    """Return schedulers that are stepped one after the other."""
    first = schedules.ExponentialLR(optimizer, 0.9)
    return schedules.ChainedScheduler([first, schedules.ConstantLR(optimizer, 0.5, 4)], optimizer)


SCHEDULERS: dict[str, Schedule] = {
    "lambda": lambda o: schedules.LambdaLR(o, lambda step: 1 / (step + 3) ** 0.5),
    "step": lambda o: schedules.StepLR(o, 3, 0.3),
    "cosine": lambda o: schedules.CosineAnnealingLR(o, 10, 1e-3),
    "one cycle": lambda o: schedules.OneCycleLR(o, 0.2, total_steps=12),
    "linear": lambda o: schedules.LinearLR(o, 0.2, 0.9, 6),
    "sequential": warm_up_and_decay,
    "chained": chain,
    "restarts": lambda o: schedules.CosineAnnealingWarmRestarts(o, 3, 2),
    "cyclic": lambda o: schedules.CyclicLR(o, 0.01, 0.1, 3, cycle_momentum=False),
    "cyclic momentum": lambda o: schedules.CyclicLR(o, 0.01, 0.1, 3, mode="exp_range", gamma=0.9),
    "several": lambda o: [schedules.StepLR(o, 2, 0.5), schedules.MultiStepLR(o, [3, 5], 0.7)],
}


def schedule(
    make: Callable[[Any], torch.optim.Optimizer], scheduler: Schedule
) -> tuple[TrainingRecipe, torch.optim.Optimizer]:
    """Return a recipe with a scheduler, and the optimizer that it drives."""
    torch.manual_seed(0)
    model = nn.Linear(4, 2)
    optimizer = make(model.parameters())
    recipe = TrainingRecipe(
        model,
        lambda m, x: m(x).square().mean(),
        optimizer,
        make_points,
        scheduler=scheduler(optimizer),
    )
    return recipe, optimizer


def momentum(parameters: Any) -> torch.optim.Optimizer:
    """Return an optimizer with a momentum, which cycles may change."""
    return torch.optim.SGD(parameters, 0.1, momentum=0.9)


@pytest.mark.parametrize("name", every(16, SCHEDULERS))
def test_rates_are_those_of_torch(name: str) -> None:
    """The rate and the momentum of every update are torch's, to the last bit of float32."""
    recipe, optimizer = schedule(momentum, SCHEDULERS[name])
    given: Any = recipe.scheduler
    schedulers = list(given) if isinstance(given, list) else [given]
    timetables = tabulate(schedulers, [optimizer])
    (changed,) = timetables.changes[id(optimizer)]
    assert "lr" in changed
    for update in range(min(timetables.updates, 40)):
        for option, table in changed.items():
            expected = torch.tensor(optimizer.param_groups[0][option], dtype=torch.float32)
            assert torch.equal(table(torch.tensor(update)), expected)
        for scheduler in schedulers if update + 1 < timetables.updates else ():
            optimizer.step()
            scheduler.step()


@pytest.mark.slow
@pytest.mark.parametrize("name", every(6, ["sequential", "one cycle", "several"]))
def test_schedulers_are_rehearsed(name: str) -> None:
    """The program steps as torch's own scheduler and optimizer do, which are left as they were."""
    recipe, optimizer = schedule(momentum, SCHEDULERS[name])
    before = {k: v for k, v in optimizer.param_groups[0].items() if k != "params"}
    capture(recipe)
    assert {k: v for k, v in optimizer.param_groups[0].items() if k != "params"} == before
    capture(recipe)


def test_a_cycle_of_betas_is_rehearsed() -> None:
    """What a scheduler makes of Adam's first beta is the program's."""
    make = torch.optim.AdamW
    recipe, _ = schedule(lambda p: make(p, lr=1e-2), SCHEDULERS["one cycle"])
    capture(recipe)


@pytest.mark.parametrize("base", [torch.optim.SGD, torch.optim.AdamW])
def test_an_optimizer_of_the_users_is_scheduled(base: Any) -> None:
    """An optimizer that is traced as it is gets its rates from the table."""
    kind = type("Own", (base,), {})
    recipe, _ = schedule(lambda p: kind(p, lr=0.1), SCHEDULERS["step"])
    names = [slot.name for slot in capture(recipe).program.state]
    assert "optimizer.scheduled" in names


class Plain(torch.optim.Optimizer):
    """An optimizer that has what its author gave it, and no option of torch's own."""

    def __init__(self, parameters: Any, lr: float) -> None:
        super().__init__(parameters, {"lr": lr})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:
        """Follow the gradients."""
        del closure
        for group in self.param_groups:
            for parameter in group["params"]:
                parameter.add_(parameter.grad, alpha=-group["lr"])


def test_a_plain_optimizer_of_the_users_is_scheduled() -> None:
    """The options that torch adds to whatever is copied are no change by a scheduler."""
    recipe, _ = schedule(lambda p: Plain(p, lr=0.1), SCHEDULERS["step"])
    assert "differentiable" not in recipe.optimizer.defaults
    assert "optimizer.scheduled" in [slot.name for slot in capture(recipe).program.state]
    assert "differentiable" not in recipe.optimizer.defaults


def test_rates_that_end_are_asked_for_no_further() -> None:
    """Behind the last step that torch's scheduler can make, a batch is refused in one line."""
    recipe, _ = schedule(momentum, SCHEDULERS["one cycle"])
    batch = capture(recipe).batch
    batch(12)
    with pytest.raises(CaptureError, match=r"rates end after 13 updates, and this is step 13"):
        batch(13)


def make_plateau(optimizer: torch.optim.Optimizer) -> Any:
    """Return a scheduler that needs what is measured."""
    return schedules.ReduceLROnPlateau(optimizer)


def drive_another(optimizer: torch.optim.Optimizer) -> Any:
    """Return a scheduler of another optimizer."""
    del optimizer
    return schedules.StepLR(torch.optim.SGD(nn.Linear(1, 1).parameters(), 0.1), 3)


@pytest.mark.parametrize(
    ("make", "scheduler", "says"),
    [
        (momentum, make_plateau, "^ReduceLROnPlateau: its rates depend on what is measured"),
        (momentum, drive_another, "^StepLR: it drives an optimizer that is not the recipe's"),
        (momentum, lambda _: "cosine", "^the scheduler is a str; give an object"),
        (torch.optim.Rprop, SCHEDULERS["step"], "^Rprop: a scheduler changes its lr, which has"),
        (
            lambda p: torch.optim.RMSprop(p, momentum=0.9),
            SCHEDULERS["one cycle"],
            "^RMSprop: a scheduler changes its momentum, .*; set cycle_momentum=False",
        ),
    ],
)
def test_schedulers_that_no_program_follows_are_refused(
    make: Any, scheduler: Schedule, says: str
) -> None:
    """A scheduler that depends on data, or is another optimizer's, is refused in one line."""
    recipe, _ = schedule(make, scheduler)
    with pytest.raises(UsageError, match=says):
        capture(recipe)


class Counting(nn.Module):
    """A layer with a counter, a ring of rows, and a function that uses them."""

    def __init__(self, function: Callable[..., Tensor]) -> None:
        super().__init__()
        self.linear, self.function = nn.Linear(4, 4), function
        self.register_buffer("count", torch.ones((), dtype=torch.int64))
        self.register_buffer("ring", torch.arange(24.0).sin().reshape(6, 4))
        self.count: Tensor
        self.ring: Tensor

    def forward(self, x: Tensor) -> Tensor:
        """Return a loss."""
        result = self.function(self, self.linear(x))
        with torch.no_grad():
            self.count.add_(1)
        return result


def count_in_buffer(function: Callable[[Any, Tensor], Tensor]) -> TrainingRecipe:
    """Return a recipe whose loss is a function of a layer with a counter, and of its outputs."""
    torch.manual_seed(0)
    model = Counting(function)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    return TrainingRecipe(model, lambda m, x: m(x), optimizer, make_points)


def enqueue(model: Any, y: Tensor) -> Any:
    """Compare with a ring, as momentum contrast does, and write over its oldest rows."""
    loss = (y @ model.ring.clone().T).logsumexp(1).mean()
    places = (model.count * 2 + torch.arange(2)) % 6
    model.ring[places] = y[:2].detach()
    return loss


def enqueue_by_copy(model: Any, y: Tensor) -> Any:
    """Write a row by index_copy_, one by a number, and add to one."""
    loss = (y - model.ring[model.count % 6]).square().mean()
    with torch.no_grad():
        model.ring.index_copy_(0, (model.count % 6).reshape(1), y[:1])
        model.ring[-model.count % 6] = y[1]
        model.ring[(model.count + 3) % 6, 1:] += 1
    return loss


def pick_everywhere(model: Any, y: Tensor) -> Tensor:
    """Pick by numbers among slices, new axes and other indices."""
    cube, i = y.reshape(2, 2, 2, 4), model.count % 2
    two = torch.tensor([[0, 1]])
    parts = [cube[i, ..., i - 3], cube[:, None, i, two, -1], cube[..., i, :], cube[two, i]]
    changed = cube * 2
    changed[i, 0, :, i] = parts[0][0, 0]
    changed[..., i] *= 3
    weights = torch.arange(1, 5)
    others = sum(((part * 0.5).sin() * weights[: part.shape[-1]]).sum() for part in parts)
    return (changed * weights).square().sum() + others


@pytest.mark.parametrize("function", every(6, [enqueue, enqueue_by_copy, pick_everywhere]))
def test_counters_are_indices(function: Callable[[Any, Tensor], Tensor]) -> None:
    """A counter in a buffer picks and writes as the number does that torch makes of it."""
    capture(count_in_buffer(function))


@pytest.mark.parametrize(
    ("function", "says"),
    [
        (lambda m, y: y[int(m.count)].sum(), r"index with the tensor itself, as in x\[i\] or "),
        (lambda m, y: y.sum() * m.count.item(), r"compute and index with the tensor itself"),
        (lambda m, y: y.sum() * m.ring.sum().item(), r"shape; compute with the tensor itself in"),
        (
            lambda m, y: m.ring[m.count].copy_(y[0].detach()).sum() + y.sum(),
            r"^x\[i\]: it is changed in place later; assign to x\[i\] instead in model ",
        ),
    ],
)
def test_numbers_of_counters_are_refused(function: Any, says: str) -> None:
    """Where a model makes a number of a counter, the line says what to write instead."""
    with pytest.raises(CaptureError, match=says):
        capture(count_in_buffer(function))


def pack(cell: nn.Module, lengths: Any, *, is_sorted: bool = True) -> Callable[[Any, Tensor], Any]:
    """Return a loss that runs a recurrent layer over sequences of several lengths."""

    def function(_: Any, y: Tensor) -> Any:
        rows = y.reshape(2, 4, 4)
        packed = rnn.pack_padded_sequence(rows, lengths, batch_first=True, enforce_sorted=is_sorted)
        outputs, last = cell(packed)
        padded, known = rnn.pad_packed_sequence(outputs, batch_first=True, total_length=5)
        final = last[0] if isinstance(last, tuple) else last
        return (padded.square().sum((1, 2)) / known).sum() + final.sum() + outputs.data.sum()

    return function


@pytest.mark.parametrize(
    ("cell", "lengths", "is_sorted"),
    every(
        6,
        [
            (nn.GRU(4, 3, batch_first=True), torch.tensor([4, 2]), True),
            (nn.LSTM(4, 3, batch_first=True, bidirectional=True), [2, 4], False),
            (nn.RNN(4, 3, batch_first=True), [3, 3], True),
        ],
    ),
)
def test_packed_sequences_of_known_lengths(cell: Any, lengths: Any, *, is_sorted: bool) -> None:
    """Sequences are packed where the lengths are numbers, or a tensor of numbers."""
    capture(count_in_buffer(pack(cell, lengths, is_sorted=is_sorted)))


def test_lengths_that_data_give_are_refused() -> None:
    """Lengths that a step computes are refused, and the line says what to give."""
    recipe = count_in_buffer(
        lambda m, y: pack(nn.GRU(4, 3), (m.count + torch.tensor([3, 1])))(m, y)
    )
    with pytest.raises(CaptureError, match=r"give the lengths as numbers, or use a mask in model "):
        capture(recipe)


class Averaging(nn.Module):
    """A layer, and an average of what it has been."""

    def __init__(self, **options: Any) -> None:
        super().__init__()
        self.layer = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4))
        self.average = swa_utils.AveragedModel(self.layer, **options)

    def forward(self, x: Tensor) -> Any:
        """Return a loss."""
        self.average.update_parameters(self.layer)
        return (self.layer(x) + self.average(x).detach()).square().mean()


@pytest.mark.parametrize(
    "options",
    every(
        6,
        [
            {},
            {"avg_fn": swa_utils.get_ema_avg_fn(0.9), "use_buffers": True},  # type: ignore[no-untyped-call]  # torch's
            {"multi_avg_fn": swa_utils.get_ema_multi_avg_fn(0.9)},  # type: ignore[no-untyped-call]  # likewise
        ],
    ),
)
def test_averages_of_models_are_kept(options: dict[str, Any]) -> None:
    """Averages of torch's, of weights, begin as copies and move with every step."""
    torch.manual_seed(0)
    model = Averaging(**options)
    optimizer = torch.optim.SGD(model.layer.parameters(), 0.1)
    capture(TrainingRecipe(model, lambda m, x: m(x), optimizer, make_points))


def estimate(model: Any, y: Tensor) -> Any:
    """Return a likelihood with a covariance, which torch validates."""
    covariance = y.T @ y + torch.eye(4)
    density = distributions.MultivariateNormal(model.ring[0], covariance)
    likelihood: Tensor = density.log_prob(y)  # type: ignore[no-untyped-call]  # torch's is untyped
    return density.rsample().square().sum() - likelihood.mean()


COUNTS: dict[str, Callable[[Any, Tensor], Tensor]] = {
    "covariance": estimate,
    "normal": lambda _, y: (y * torch.normal(1.0, 2.0, size=(8, 4))).square().mean(),
    "bincount": lambda _, y: (y * torch.bincount(y.argmax(1), minlength=4)).square().mean(),
    "weighted bincount": lambda _, y: (
        (y * torch.bincount(y.argmax(1), y[:, 0].detach(), minlength=4)).square().mean()
    ),
    "histogram": lambda _, y: (y * torch.histogram(y.detach(), 4, range=(-1, 1))[0]).mean(),
    "histogram of all": lambda _, y: (
        (y * torch.histogram(y.detach(), 4, density=True)[0]).square().mean()
    ),
    "histogram by edges": lambda m, y: (
        y * torch.histogram(y.detach(), m.ring.flatten()[:5].sort()[0])[0]
    ).mean(),
}


@pytest.mark.parametrize("name", only(["bincount"], COUNTS))
def test_counts_and_densities(name: str) -> None:
    """Counts of known length, and what torch checks of a distribution's arguments."""
    capture(count_in_buffer(COUNTS[name]))


@pytest.mark.parametrize(
    ("function", "says"),
    [
        (lambda _, y: y.sum() * torch.bincount(y.argmax(1))[0], r"shape; give minlength in model"),
        (
            lambda _, y: y[y.nonzero()].cumsum(0).mean(),
            r"cumsum of nonzero: .* weigh by the mask",
        ),
    ],
)
def test_shapes_of_data_are_refused(function: Any, says: str) -> None:
    """Where a shape depends on data, the line says how to keep it."""
    with pytest.raises(CaptureError, match=says):
        capture(count_in_buffer(function))


BYTES = torch.arange(232, 256, dtype=torch.uint8).reshape(6, 4)
SIGNED = torch.arange(-120, 120, 10, dtype=torch.int8).reshape(6, 4)

NARROW: dict[str, Callable[[Tensor], Tensor]] = {
    "product": lambda b: b * 7,
    "sum": lambda b: b + b,
    "difference": lambda b: b - 100,
    "negative": lambda b: -b,
    "not": lambda b: ~b,
    "quotient": lambda b: b // 3,
    "remainder": lambda b: b % 7,
    "left shift": lambda b: b << 3,
    "right shift": lambda b: b >> 2,
    "total": lambda b: b.sum(0, dtype=b.dtype) + b,
    "wide total": lambda b: b.sum(0) + b,
    "absolute": lambda b: b.abs() + b.sign(),
    "clamp": lambda b: b.clamp(3, 100),
    "sorted": lambda b: b.sort(1)[0] * (b > 3),
    "picked": lambda b: b[b.long().argmax(0)],
    "converted": lambda b: (b.int() * 99).to(torch.int8) + b.to(torch.uint8),
    "matrices": lambda b: b @ b[:4],
    "wide matrices": lambda b: b.int() @ b.int()[:4] + b.long() @ b.long()[:4],
    "batch of matrices": lambda b: b.int().reshape(2, 3, 4) @ b.int()[:4].expand(2, 4, 4),
}


@pytest.mark.parametrize(
    "kind", every(6, [BYTES, SIGNED, SIGNED.short() * 273]), ids=["uint8", "int8", "int16"]
)
def test_small_integers_wrap(kind: Tensor) -> None:
    """Integers of 8 or 16 bits in a batch are computed modulo 2^8 or 2^16, as torch does."""
    model = nn.Linear(4, 4)

    def answer(_: nn.Module, x: Tensor) -> list[Tensor]:
        return [function(x).int() for function in NARROW.values()]

    captured = capture(InferenceRecipe(model, answer, lambda step: (kind + step,)))
    dtype, array_type = (
        (DType.INT8, np.int8) if kind.dtype is torch.int8 else (DType.INT32, np.int32)
    )
    assert [slot.dtype for slot in captured.program.batch] == [dtype]
    assert [array.dtype for array in captured.batch(3)] == [array_type]


def test_buffers_of_8_bits_are_kept() -> None:
    """A quantized table in a buffer is read, multiplied and written to."""

    def function(model: Any, y: Tensor) -> Any:
        quantized = (y.detach() * 20).round().clamp(-128, 127).to(torch.int8)
        product = (quantized.int() @ model.table.int().T).float()
        model.table.copy_(quantized[:6] + model.table)
        return (y.sum(1) * product.sum(1)).mean()

    recipe = count_in_buffer(function)
    recipe.model.register_buffer("table", SIGNED.clone())
    capture(recipe)


def test_batches_of_8_bits_keep_their_type() -> None:
    """A batch that is of 8 bits in step 0 only is refused."""
    recipe = InferenceRecipe(
        nn.Linear(4, 4), lambda _, x: x.float(), lambda s: (BYTES if not s else BYTES.int(),)
    )
    with pytest.raises(
        CaptureError, match=r"batch\(1\) has torch.int32 at 0, and batch\(0\) torch."
    ):
        capture(recipe)
