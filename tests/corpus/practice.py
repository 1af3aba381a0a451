"""Whole programs of modern practice, each judged beside eager torch's training loop.

The oracle is the loop that a user would write, on the user's own objects. It runs `STEPS` steps
without being set back; how far rounding carries such a run is measured by loops whose weights are
off by a few units in the last place. A program that draws random numbers has other draws than
torch: its steps are compared by capture's own rehearsal, which gives torch the program's draws,
and here its state only has to stay finite.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from importlib import import_module
from inspect import isfunction

import numpy as np
import torch
from torch import Tensor

from moot.offchain.execution.executor import Executor
from moot.offchain.frontend.capture import Captured
from moot.offchain.frontend.clipping import ClipNorm
from moot.offchain.frontend.exchange import widen
from moot.offchain.frontend.recipe import InferenceRecipe, Recipe, TrainingRecipe
from tests.corpus.judge import Judgement, State, attempt

TOPICS: Mapping[str, str] = {
    "attention": "attention, positions, transformers",
    "recurrence": "state spaces, linear attention, recurrent networks",
    "experts": "mixtures of experts",
    "training": "optimizers of users, averages, ways to train",
    "policies": "preferences, reinforcement learning, world models",
    "generation": "diffusion, flows, autoencoders, adversaries",
    "representation": "contrast, self-distillation, masks",
    "science": "physics, operators of functions, probability",
    "graphs": "graphs, sets, points, molecules",
    "compression": "adapters, quantization, sparsity, distillation",
    "vision": "networks of pictures and their losses",
    "signals": "speech, tables, series, ranking, survival",
    "decoding": "decoding and sampling",
}
"""File of programs -> its topic."""

Make = Callable[[], Recipe]

STEPS = 4
"""One more than capture's rehearsal compares."""

OF_CHANGE = 1e-3
"""A tensor may be off by this part of the largest change that the steps made of it."""

OF_NOISE = 8.0
"""It may also be off by this many times what the loops that begin elsewhere are off."""

NEARBY = (1, 2, 3)
"""Seeds of the loops that begin elsewhere."""

OFF = 2.0**-21
"""How much weights are off where such a loop begins, relative to each."""


def list_programs() -> Iterator[tuple[str, Make]]:
    """Yield all programs by name, in the order of the files."""
    for file in TOPICS:
        module = import_module(f"tests.corpus.practice_{file}")
        for name, make in vars(module).items():
            if isfunction(make) and make.__module__ == module.__name__ and name[0] != "_":
                yield f"practice of {file}: {name.replace('_', ' ')}", make


PROGRAMS: Mapping[str, Make] = dict(list_programs())


def count(refusals: Collection[str]) -> str:
    """Return a table of how many programs each topic has, and how many of these are captured."""
    lines = ["| topic | programs | captured | refused |", "|---|---|---|---|"]
    total = refused = 0
    for file, topic in TOPICS.items():
        names = [name for name in PROGRAMS if name.startswith(f"practice of {file}: ")]
        out = sum(name in refusals for name in names)
        lines.append(f"| {topic} | {len(names)} | {len(names) - out} | {out} |")
        total, refused = total + len(names), refused + out
    lines.append(f"| **all** | {total} | {total - refused} | {refused} |")
    return "\n".join(lines) + "\n"


def judge_program(make: Make, *, trust: bool = False) -> Judgement:
    """Return what becomes of a program, its capture trusted or compared like any other."""
    captured = attempt(build(make), trust=trust)
    return captured if isinstance(captured, Judgement) else compare(make, captured)


def build(make: Make) -> Recipe:
    """Return a program's recipe; each call gives an equal one."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return make()


def compare(make: Make, captured: Captured) -> Judgement:
    """Return whether a captured program does what a user's loop does."""
    found = run_program(captured)
    with torch.random.fork_rng(devices=[]):
        before = torch.get_rng_state()
        expected = run_loop(build(make))
        is_drawn = not torch.equal(before, torch.get_rng_state())
    for name, tensor in (found if is_drawn else expected).items():
        if not name.startswith("buffer.") and not tensor.isfinite().all():
            return Judgement("wrong", f"{name}: not finite")
    if is_drawn:
        return Judgement("captured")
    nearby = [run_loop(build(make), seed) for seed in NEARBY]
    begun = _name(build(make))
    for name, tensor in expected.items():
        runs = [run[name] for run in nearby]
        before = begun.get(name, torch.zeros_like(tensor))
        difference = describe_difference(found[name], tensor, before, runs)
        if difference:
            return Judgement("wrong", f"{name}: {difference}")
    return Judgement("captured")


def run_program(captured: Captured) -> State:
    """Return the state of a captured program after its steps."""
    executor, state = Executor(captured.program), captured.initial_state
    for step in range(STEPS):
        state = executor.run(state, captured.batch(step), step)
    slots = captured.program.state
    return {s.name: torch.from_numpy(np.array(a)) for s, a in zip(slots, state, strict=True)}


def run_loop(recipe: Recipe, seed: int | None = None) -> State:
    """Return what a loop of eager torch comes to, by the names of a program's slots.

    Args:
        recipe: the recipe, whose model is trained.
        seed: draws by how little each weight is off where the loop begins.
    """
    if seed is not None:
        move(recipe.model, seed)
    if isinstance(recipe, InferenceRecipe):
        with torch.no_grad():
            for step in range(STEPS):
                result = recipe.forward(recipe.model, *recipe.batch(step))
        outputs = result if isinstance(result, (tuple, list)) else [result]
        return _name(recipe) | {f"output.{k}": x for k, x in enumerate(outputs)}
    for step in range(STEPS):
        loss = train(recipe, step)
    return _name(recipe) | {"output.loss": loss}


def train(recipe: TrainingRecipe, step: int) -> Tensor:
    """Make one step of training, as a user would, and return its loss."""
    chosen = recipe.optimizer
    optimizers = [chosen] if isinstance(chosen, torch.optim.Optimizer) else list(chosen)
    recipe.model.zero_grad()
    total = torch.zeros(())
    for number in range(step * recipe.accumulate, (step + 1) * recipe.accumulate):
        loss = recipe.loss(recipe.model, *recipe.batch(number)) / recipe.accumulate
        loss.backward()
        total += loss.detach()
    if isinstance(recipe.clip, ClipNorm):
        torch.nn.utils.clip_grad_norm_(recipe.model.parameters(), recipe.clip.max_norm)
    elif recipe.clip is not None:
        torch.nn.utils.clip_grad_value_(recipe.model.parameters(), recipe.clip.limit)
    for optimizer in optimizers:
        optimizer.step()
    return total


def move(model: torch.nn.Module, seed: int) -> None:
    """Scale every weight of a model by a number near 1."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for weight in model.parameters():
            weight.mul_(1 + OFF * (2 * torch.rand(weight.shape, generator=generator) - 1))


def describe_difference(found: Tensor, expected: Tensor, begun: Tensor, runs: list[Tensor]) -> str:
    """Return how a tensor differs from the one of a user's loop; nothing where they agree.

    Args:
        found: the program's.
        expected: the loop's.
        begun: what both were before the first step.
        runs: those of the loops that began elsewhere.
    """
    expected = widen(expected)
    if found.dtype != expected.dtype or found.shape != expected.shape:
        return f"{found.dtype} {list(found.shape)}, not {expected.dtype} {list(expected.shape)}"
    noise = max(_measure(run, expected) for run in runs)
    rounding = STEPS * torch.finfo(torch.float32).eps * _measure(expected, expected * 0)
    change = OF_CHANGE * _measure(expected, begun) if expected.is_floating_point() else 0.0
    off, allowed = _measure(found, expected), change + OF_NOISE * noise + rounding
    return f"off by {off:.3g}, of {allowed:.3g} allowed" if not off <= allowed else ""


def _measure(a: Tensor, b: Tensor) -> float:
    """Return the largest difference of two tensors; equal infinities have none."""
    apart = (a.double() - b.double()).abs().masked_fill((a == b) | (a.isnan() & b.isnan()), 0)
    return float(apart.nan_to_num(nan=torch.inf).max()) if apart.numel() else 0.0


def _name(recipe: Recipe) -> State:
    """Return copies of a model's tensors, by the names of a program's slots."""
    model = recipe.model
    named = {f"parameter.{n}": p.detach().clone() for n, p in model.named_parameters()}
    return named | {f"buffer.{n}": b.detach().clone() for n, b in model.named_buffers()}
