"""Checkpoints: folders of the transformers library as models that answer.

Weights of bfloat16 or float16 become float32, which has all their numbers; nothing is rounded. With
`int8`, linear layers have int8 weights afterwards (`frontend/quantization.py`).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from moot.offchain.errors import CannotTranslate, UsageError
from moot.offchain.frontend.environment import standard_torch
from moot.offchain.frontend.generation.reading import Reader
from moot.offchain.frontend.interop.folders import load_model, load_tokenizer
from moot.offchain.frontend.quantization import quantize
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
def load(
    folder: Path,
    name: str = "",
    *,
    context: int | None = None,
    precision: str = "fp32",
) -> Model:
    """Return the model of a checkpoint folder.

    Args:
        folder: what `save_pretrained` has written.
        name: the name that requests have; the folder's by default.
        context: tokens of a prompt and its answer at most; all that the model sees by default.
        precision: one of `PRECISIONS`.

    Raises:
        CannotTranslate: the folder is no checkpoint, has pickled weights or no tokenizer.
        UsageError: the model is none that can be decoded a token a step, or an option makes no
            sense.
    """
    if precision not in PRECISIONS:
        raise UsageError.unknown("precision", precision, PRECISIONS)
    model = load_model(folder, torch.float32)
    if not hasattr(model, "lm_head") and model.get_output_embeddings() is None:
        subject = f"the checkpoint {folder}"
        problem = f"{type(model).__name__} is no causal language model"
        raise CannotTranslate(subject, problem, "give one that has a head over its vocabulary")
    tokenizer = load_tokenizer(folder)
    if precision == "int8":
        model = quantize(model)
    config: Any = model.config
    described = f"{type(model).__name__} {precision} {config.to_json_string()}"
    programs = Programs(Reader(model.eval()), described, context)
    if len(tokenizer) > programs.vocabulary:
        problem = f"its tokenizer has {len(tokenizer)} tokens, the model {programs.vocabulary}"
        advice = "save the tokenizer that belongs to the model"
        raise CannotTranslate(f"the checkpoint {folder}", problem, advice)
    about = {"context": programs.context, "precision": precision}
    ends = _find_ends(model, tokenizer)
    return Model(name or folder.resolve().name, programs, tokenizer, ends, about)


def _find_ends(model: Any, tokenizer: Any) -> frozenset[int]:
    """Return the tokens that end an answer: those of the generation config, or the tokenizer's."""
    named = getattr(model.generation_config, "eos_token_id", None)
    if named is None:
        named = tokenizer.eos_token_id
    several = named if isinstance(named, (list, tuple)) else [named]
    return frozenset(int(token) for token in several if token is not None)
