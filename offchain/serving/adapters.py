"""Adapters: LoRA's thin products on a base model, as PEFT writes them.

An adapter stays beside the weights of its base, which several share: nothing is merged, so that the
sums of a program are those of its operators, and the base is there once.
"""

import copy
import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from moot.offchain.errors import CannotTranslate
from moot.offchain.frontend.lora import Adapted
from moot.offchain.text import show_error

_CONFIG, _WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
_PREFIX = "base_model.model."
_DOWN, _UP = ".lora_A.weight", ".lora_B.weight"
_PLAIN: dict[str, tuple[Any, ...]] = {
    "peft_type": ("LORA",),
    "bias": ("none", None),
    "use_dora": (False, None),
    "use_rslora": (False, None),
    "modules_to_save": (None, []),
    "rank_pattern": ({}, None),
    "alpha_pattern": ({}, None),
}
"""Settings, and the values of them that are understood."""


def adapt(model: nn.Module, folder: Path) -> nn.Module:
    """Return a model with an adapter, which shares its weights with the model that is given.

    Args:
        model: the base.
        folder: what PEFT's `save_pretrained` has written.

    Raises:
        CannotTranslate: it is no such folder, is of another kind, or does not fit the model.
    """
    settings = _read_settings(folder)
    pairs = _read_pairs(folder)
    shared = {id(it): it for it in (*model.parameters(), *model.buffers())}
    adapted = copy.deepcopy(model, shared)
    for name, (down, up) in pairs.items():
        _put(adapted, name, down, up, settings["lora_alpha"], folder)
    return adapted.eval()


def _put(model: nn.Module, name: str, down: Tensor, up: Tensor, alpha: float, folder: Path) -> None:
    """Put an adapter around the layer of a name."""
    try:
        layer = model.get_submodule(name)
    except AttributeError as error:
        problem = f"the model has no layer {name}"
        raise _refuse(folder, problem, "give the adapter of this base") from error
    shape: tuple[int, ...] = tuple(getattr(layer, "weight", torch.empty(0)).shape)
    inputs, outputs, rank = down.shape[1], up.shape[0], down.shape[0]
    is_plain = isinstance(layer, nn.Linear)
    if up.shape[1] != rank or shape != ((outputs, inputs) if is_plain else (inputs, outputs)):
        raise _refuse(folder, f"{name} has another shape", "give the adapter of this base")
    made = Adapted(layer, inputs, outputs, rank, alpha)
    with torch.no_grad():
        made.down.weight.copy_(down)
        made.up.weight.copy_(up)
    parent, _, last = name.rpartition(".")
    setattr(model.get_submodule(parent), last, made)


def _read_settings(folder: Path) -> dict[str, Any]:
    try:
        settings = json.loads((folder / _CONFIG).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        problem = f"its {_CONFIG} can't be read ({show_error(error)})"
        raise _refuse(folder, problem, "give a folder as PEFT writes it") from error
    for name, values in _PLAIN.items():
        if settings.get(name) not in values:
            problem = f"{name} is {settings.get(name)!r}"
            raise _refuse(folder, problem, f"give one of plain LoRA, with {values[0]!r}")
    if not isinstance(settings.get("lora_alpha"), (int, float)):
        raise _refuse(folder, "it has no lora_alpha", "give a folder as PEFT writes it")
    return dict(settings)


def _read_pairs(folder: Path) -> dict[str, tuple[Tensor, Tensor]]:
    """Return both factors of each layer's product, by the layers' names."""
    if not (folder / _WEIGHTS).is_file():
        problem = f"it has no {_WEIGHTS}, and pickled weights may run any code"
        raise _refuse(folder, problem, "save it with save_pretrained(folder), as safetensors")
    try:
        tensors = load_file(folder / _WEIGHTS)
    except Exception as error:  # whatever a damaged file makes the library raise
        problem = f"its weights can't be read ({show_error(error)})"
        raise _refuse(folder, problem, "copy the whole folder") from error
    downs = {it.removesuffix(_DOWN): x for it, x in tensors.items() if it.endswith(_DOWN)}
    ups = {it.removesuffix(_UP): x for it, x in tensors.items() if it.endswith(_UP)}
    is_whole = downs and downs.keys() == ups.keys() and len(tensors) == 2 * len(downs)
    if not is_whole or any(x.ndim != 2 for x in tensors.values()):
        problem = "it has more than the two factors of linear layers"
        raise _refuse(folder, problem, "give one of plain LoRA")
    return {
        name.removeprefix(_PREFIX): (downs[name].float(), ups[name].float())
        for name in sorted(downs)
    }


def _refuse(folder: Path, problem: str, advice: str) -> CannotTranslate:
    return CannotTranslate(f"the adapter {folder}", problem, advice)
