"""Checkpoints: folders of the transformers library as models that answer.

Weights of bfloat16 or float16 become float32, which has all their numbers; nothing is rounded. With
`int8`, linear layers have int8 weights afterwards (`frontend/quantization.py`).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

import torch

from moot.offchain.errors import CannotTranslate, UsageError
from moot.offchain.frontend.environment import standard_torch
from moot.offchain.frontend.generation.reading import Reader
from moot.offchain.frontend.interop.folders import load_model, load_tokenizer
from moot.offchain.frontend.lora import Adapted
from moot.offchain.frontend.quantization import quantize
from moot.offchain.serving.adapters import adapt
from moot.offchain.serving.programs import Programs

PRECISIONS = ("fp32", "int8")


@dataclass(frozen=True)
class Model:
    """A model that answers.

    Attributes:
        name: the name that requests have.
        programs: its programs.
        tokenizer: of the checkpoint.
        ends: the tokens after which an answer ends.
        about: what else is known of it, for whoever lists models.
    """

    name: str
    programs: Programs
    tokenizer: Any
    ends: frozenset[int]
    about: Mapping[str, Any] = field(default_factory=dict)


@standard_torch()
def load_all(
    folder: Path,
    name: str = "",
    *,
    adapters: Mapping[str, Path] = MappingProxyType({}),
    context: int | None = None,
    precision: str = "fp32",
) -> list[Model]:
    """Return the model of a checkpoint folder, and those that adapters make of it.

    Args:
        folder: what `save_pretrained` has written.
        name: the name that requests have; the folder's by default.
        adapters: folders of adapters, as PEFT writes them, by the names that requests have.
        context: tokens of a prompt and its answer at most; all that the model sees by default.
        precision: one of `PRECISIONS`.

    Raises:
        CannotTranslate: a folder is no checkpoint or adapter, has pickled weights or no tokenizer.
        UsageError: the model is none that can be decoded a token a step, or an option makes no
            sense.
    """
    if precision not in PRECISIONS:
        raise UsageError.unknown("precision", precision, PRECISIONS)
    if adapters and precision != "fp32":
        raise UsageError("adapters are products of float32; choose --precision fp32 with them")
    base = load_model(folder, torch.float32)
    if base.get_output_embeddings() is None:
        problem = f"{type(base).__name__} is no causal language model"
        advice = "give one that has a head over its vocabulary"
        raise CannotTranslate(f"the checkpoint {folder}", problem, advice)
    tokenizer = load_tokenizer(folder)
    name = name or folder.resolve().name
    if name in adapters:
        raise UsageError(f"an adapter and the model are both named {name}; choose another name")
    adapted = {it: adapt(base, path) for it, path in adapters.items()}
    base = quantize(base) if precision == "int8" else base
    found: list[Model] = []
    for it, model in {name: base, **adapted}.items():
        about = {"precision": precision, **({"base": name} if it in adapters else {})}
        found.append(_make(it, model, tokenizer, context, about, folder))
    return found


def _make(
    name: str,
    model: Any,
    tokenizer: Any,
    context: int | None,
    about: dict[str, Any],
    folder: Path,
) -> Model:
    """Return a model that answers."""
    shapes = [(it, tuple(x.shape)) for it, x in model.named_parameters()]
    # All that a program follows from beside the sources: captures are kept by it.
    scales = [(it, x.scale) for it, x in model.named_modules() if isinstance(x, Adapted)]
    kind, config = type(model).__name__, model.config.to_json_string()
    described = f"{kind} {about} {config} {shapes} {scales}"
    programs = Programs(Reader(model.eval()), described, context)
    if len(tokenizer) > programs.vocabulary:
        problem = f"its tokenizer has {len(tokenizer)} tokens, the model {programs.vocabulary}"
        advice = "save the tokenizer that belongs to the model"
        raise CannotTranslate(f"the checkpoint {folder}", problem, advice)
    about["context"] = programs.context
    return Model(name, programs, tokenizer, _find_ends(model, tokenizer), about)


def _find_ends(model: Any, tokenizer: Any) -> frozenset[int]:
    """Return the tokens that end an answer: those of the generation config, or the tokenizer's."""
    named = getattr(model.generation_config, "eos_token_id", None)
    if named is None:
        named = tokenizer.eos_token_id
    several = named if isinstance(named, (list, tuple)) else [named]
    return frozenset(int(token) for token in several if token is not None)
