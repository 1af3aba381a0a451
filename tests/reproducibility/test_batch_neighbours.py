"""The logits of a sample have the same bits alone, in a batch, and elsewhere in the batch."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch

from moot.offchain.commitments.tensors import Array
from moot.offchain.execution.executor import Executor
from moot.offchain.frontend.capture import capture
from moot.offchain.frontend.examples import build
from moot.offchain.frontend.recipe import InferenceRecipe
from tests.end_to_end.fixtures import programs

Tensors = tuple[torch.Tensor, ...]


def make_recipe(name: str) -> InferenceRecipe:
    """Return the inference of an example."""
    recipe = build(name, inference=True)
    assert isinstance(recipe, InferenceRecipe)
    return recipe


def infer(recipe: InferenceRecipe, *batches: Tensors) -> list[Array]:
    """Return the logits of batches of one size."""
    captured = capture(replace(recipe, batch=lambda step: batches[step % len(batches)]), trust=True)
    executor, start = Executor(captured.program), captured.initial_state
    names = [slot.name for slot in captured.program.state]
    place = names.index("output.0")
    return [executor.run(start, captured.batch(i), i)[place] for i in range(len(batches))]


def join(batches: list[Tensors]) -> Tensors:
    """Return one batch of the samples of several."""
    return tuple(torch.cat(tensors) for tensors in zip(*batches, strict=True))


@pytest.mark.parametrize("name", programs(quick=frozenset({"gpt2"})))
def test_neighbours_do_not_matter(name: str) -> None:
    """Logits of a sample alone are those in batches of several sizes, in any place of them."""
    recipe = make_recipe(name)
    samples = join([recipe.batch(step) for step in range(3)])
    count = len(samples[0])
    order = torch.randperm(count, generator=torch.Generator().manual_seed(1))
    together, shuffled = infer(recipe, samples, tuple(tensor[order] for tensor in samples))
    assert len(np.unique(together.reshape(count, -1), axis=0)) == count
    assert shuffled.tobytes() == together[order.numpy()].tobytes()
    some = (0, count - 1)
    singles = (tuple(tensor[sample : sample + 1] for tensor in samples) for sample in some)
    for sample, alone in zip(some, infer(recipe, *singles), strict=True):
        assert alone.tobytes() == together[sample : sample + 1].tobytes()


@pytest.mark.parametrize("normalize", [torch.nn.LayerNorm, torch.nn.BatchNorm1d])
def test_a_cross_batch_term_is_seen(normalize: Callable[[int], torch.nn.Module]) -> None:
    """The comparison is sharp: batch norm in training, which mixes samples, does not pass it."""
    generator = torch.Generator().manual_seed(2)
    samples = torch.randn(6, 5, generator=generator)
    recipe = InferenceRecipe(normalize(5), lambda model, x: model(x), lambda _: (samples,))
    (whole,), (part,) = infer(recipe, (samples,)), infer(recipe, (samples[:3],))
    assert (whole[:3].tobytes() == part.tobytes()) is (normalize is torch.nn.LayerNorm)
