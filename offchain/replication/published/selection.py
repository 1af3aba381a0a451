"""The adaptive selection of thresholds: each kind of layer, tried on two kinds of hardware.

Every leaf module of a model gets random inputs, and random gradients of its outputs, of the sizes
that it has in a step. Wherever the roundings of the results differ, both distances are noted, and a
layer's threshold is the largest one that all of its distances exceed.
"""

import zlib
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import count
from typing import Any

import torch
from torch import Tensor

from moot.offchain.errors import UsageError
from moot.offchain.frontend.calls import compute_loss
from moot.offchain.frontend.data import make_generator
from moot.offchain.frontend.recipe import Recipe, TrainingRecipe, count_batches, get_batch
from moot.offchain.frontend.subject import Subject
from moot.offchain.frontend.tracing import get_initial_state
from moot.offchain.replication.compare import Setting, running
from moot.offchain.replication.orders import Answer, Method, Order, choose_start
from moot.offchain.replication.profiles import ALL_PROFILES, Profile
from moot.offchain.replication.published.hooks import list_leaves, name_layer
from moot.offchain.replication.published.thresholds import note_distances, select
from moot.offchain.replication.sums import summing

METHOD = "published-layers"
"""The name in an order of what tries layers."""

Sizes = Mapping[str, tuple[torch.nn.Module, torch.Size]]
"""A module of each kind and size, and the size of its input."""


@dataclass(frozen=True, slots=True)
class Selected:
    """What was found of one kind and size of layer.

    Attributes:
        threshold: its threshold, as a multiple of the decimal exponent.
        noted: how many roundings differed.
        elements: how many were compared.
    """

    threshold: float
    noted: int
    elements: int


def find_layers(recipe: TrainingRecipe) -> Sizes:
    """Return the leaf modules that take one floating-point tensor, one of each kind and size."""
    found: dict[str, tuple[torch.nn.Module, torch.Size]] = {}

    def note(module: torch.nn.Module, inputs: tuple[Any, ...]) -> None:
        if len(inputs) == 1 and isinstance(inputs[0], Tensor) and inputs[0].is_floating_point():
            found.setdefault(name_layer(module), (module, inputs[0].shape))

    leaves = list_leaves(recipe.model).values()
    handles = [module.register_forward_pre_hook(note) for module in leaves]
    batch = get_batch(recipe, 0)
    batch = batch[: len(batch) // count_batches(recipe)]
    with torch.no_grad():
        compute_loss(recipe, [t.double() if t.is_floating_point() else t for t in batch])
    for handle in handles:
        handle.remove()
    return found


def try_layer(layer: str, module: torch.nn.Module, size: torch.Size, draw: int) -> Tensor:
    """Return a layer's outputs and its inputs' gradients for one draw of both, in one row."""
    generator = make_generator(zlib.crc32(layer.encode()), draw)
    x = torch.from_numpy(generator.standard_normal(tuple(size))).requires_grad_()
    torch.manual_seed(draw)
    y = module(x)
    if not isinstance(y, Tensor) or not y.requires_grad:
        return torch.empty(0, dtype=torch.float64)
    (gradient,) = torch.autograd.grad(y, x, torch.from_numpy(generator.standard_normal(y.shape)))
    return torch.cat([y.detach().reshape(-1), gradient.reshape(-1)])


def try_layers(recipe: Recipe, order: Order) -> Iterator[Answer]:
    """Yield the start, and then every layer's results for one draw after the other, in binary64."""
    if not isinstance(recipe, TrainingRecipe):
        raise UsageError("roundings are logged of a training; give a recipe that trains")
    own = {name: tensor.numpy() for name, tensor in get_initial_state(Subject.of(recipe)).items()}
    start = choose_start(order, own)
    recipe.model.double()
    with torch.no_grad():
        for name, tensor in Subject.of(recipe).tensors.items():
            tensor.copy_(torch.from_numpy(start[name]))
    layers = find_layers(recipe)
    yield Answer(start)
    for draw in count():
        with summing(ALL_PROFILES[order.profile]):
            results = {k: try_layer(k, *layer, draw).numpy() for k, layer in layers.items()}
        yield Answer(results, {"layers": list(results)})


def select_thresholds(
    setting: Setting, one: Profile, other: Profile, bits: int
) -> dict[str, Selected]:
    """Return what two profiles find of each layer, from as many draws as the setting has steps.

    Raises:
        ReplicationError: a process fails.
    """
    noted: defaultdict[str, list[float]] = defaultdict(list)
    elements: defaultdict[str, int] = defaultdict(int)
    with running(setting, (one, other), [Method(METHOD)] * 2) as pair:
        for _ in range(setting.steps):
            for process in pair:
                process.begin()
            results = [[torch.from_numpy(a.copy()) for a in process.finish()] for process in pair]
            for layer, a, b in zip(pair[0].report["layers"], *results, strict=True):
                noted[layer] += note_distances(a, b, bits).tolist()
                elements[layer] += a.numel()
    return {
        layer: Selected(select(noted[layer], bits), len(noted[layer]) // 2, elements[layer])
        for layer in elements
    }
