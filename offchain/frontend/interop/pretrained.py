"""Pretrained: the recipe of a checkpoint folder of the transformers library."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from moot.offchain.errors import CannotTranslate, UsageError
from moot.offchain.frontend.environment import standard_torch
from moot.offchain.frontend.interop import texts
from moot.offchain.frontend.interop.folders import load_model, load_tokenizer
from moot.offchain.frontend.interop.texts import SIZES, Window
from moot.offchain.frontend.optimizers import AdamW, Optimizer
from moot.offchain.frontend.recipe import Batch, InferenceRecipe, Recipe, TrainingRecipe
from moot.offchain.programs.catalogue import FOLDER

_RATE = 5e-5
_LENGTHS = ("max_position_embeddings", "n_positions")
_OWN_BATCHES = "give batch=, a function of the step's number that returns the model's arguments"


@standard_torch()
def from_pretrained(
    folder: str | Path,
    *,
    inference: bool = False,
    batch: Batch | None = None,
    data: Path | None = None,
    samples: int = 2,
    tokens: int = 16,
    optimizer: Optimizer | torch.optim.Optimizer | None = None,
    dtype: torch.dtype = torch.float32,
    seed: int = 0,
) -> Recipe:
    """Return the recipe of a checkpoint folder: its training, or its forward pass.

    The folder has a `config.json`, weights as safetensors (in shards, too) and, where it reads a
    text, a tokenizer. Nothing is downloaded, unpickled, or run that the folder has brought.

    Args:
        folder: what `save_pretrained` has written.
        inference: the forward pass, with dropout off, instead of the training.
        batch: returns the model's arguments of a step, as a dictionary; for training, with labels.
            If it is left out, batches are windows of a text: a causal language model learns to
            predict it, a masked one to find what is hidden of it.
        data: the file of the text; the standard library's source by default.
        samples: windows of a batch.
        tokens: tokens of a window.
        optimizer: how the model learns; AdamW at a rate of 5e-5 by default.
        dtype: the type of the weights: float32, or bfloat16.
        seed: of the windows, and of dropout.

    Raises:
        CannotTranslate: the folder is no checkpoint, is incomplete, has pickled weights or no
            tokenizer, or its architecture is unknown.
        UsageError: the text is too short, or can't be read.

    Example:
        >>> import moot, tempfile, torch
        >>> from transformers import GPT2Config, GPT2LMHeadModel
        >>> folder = tempfile.mkdtemp()
        >>> sizes = {"vocab_size": 32, "n_positions": 8, "n_embd": 8, "n_layer": 1, "n_head": 1}
        >>> GPT2LMHeadModel(GPT2Config(**sizes)).save_pretrained(folder)
        >>> ids = torch.arange(8).reshape(1, 8)
        >>> both = {"input_ids": ids, "labels": ids}
        >>> recipe = moot.from_pretrained(folder, batch=lambda step: both)
        >>> type(recipe).__name__
        'TrainingRecipe'
    """
    path = Path(folder)
    model = load_model(path, dtype)
    if batch is None:
        window = Window(samples, _limit(model.config, tokens))
        batch = _read_windows(model, path, data, window, seed, inference=inference)
    elif data is not None:
        raise UsageError("the batches are given, and a text, too; leave one of them out")
    if inference:
        return InferenceRecipe(model, _answer, batch, seed)
    rule = AdamW(_RATE, weight_decay=0.0) if optimizer is None else optimizer
    return TrainingRecipe(model.train(), _learn, rule, batch, seed)


def load_folder(spec: str, size: str, seed: int, data: Path | None, *, inference: bool) -> Recipe:
    """Return the recipe of a folder that the command line names, `hf:FOLDER`.

    Args:
        spec: the folder, with `hf:` before it.
        size: of the batches, one of `SIZES`.
        seed: of the windows, and of dropout.
        data: the file of the text.
        inference: the forward pass instead of the training.

    Raises:
        UsageError: see `from_pretrained`; or there is no such size.
    """
    if size not in SIZES:
        raise UsageError.unknown("size", size, SIZES)
    window = SIZES[size]
    return from_pretrained(
        spec.removeprefix(FOLDER),
        inference=inference,
        data=data,
        samples=window.samples,
        tokens=window.tokens,
        seed=seed,
    )


def _limit(config: Any, tokens: int) -> int:
    """Return the tokens of a window, no more than a model sees."""
    limits = [getattr(config, name, None) for name in _LENGTHS]
    return min([tokens, *(limit for limit in limits if isinstance(limit, int) and limit > 0)])


def _read_windows(
    model: Any, folder: Path, data: Path | None, window: Window, seed: int, *, inference: bool
) -> Batch:
    """Return batches of windows of a text, for a language model."""
    from transformers.models.auto.modeling_auto import (  # noqa: PLC0415 - heavy and optional
        MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
        MODEL_FOR_MASKED_LM_MAPPING_NAMES,
    )

    kind, subject = type(model).__name__, f"the checkpoint {folder}"
    is_causal = kind in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES.values()
    is_masked = kind in MODEL_FOR_MASKED_LM_MAPPING_NAMES.values()
    if model.main_input_name != "input_ids" or not (is_causal or is_masked):
        problem = f"{kind} is no language model, so that a text is not all that it needs"
        raise CannotTranslate(subject, problem, _OWN_BATCHES)
    tokenizer = load_tokenizer(folder)
    read = texts.tokenize(tokenizer, data, subject)
    if read.max() >= model.config.get_text_config().vocab_size:
        problem = f"its tokenizer has the token {read.max()}, which the model has no weights for"
        raise CannotTranslate(subject, problem, "save the tokenizer that belongs to the model")
    if inference:
        return texts.make_batches(read, window, seed, texts.ask)
    if is_causal:
        return texts.make_batches(read, window, seed, texts.predict_next)
    if tokenizer.mask_token_id is None:
        problem = "its tokenizer has no mask token, which a masked language model learns by"
        raise CannotTranslate(subject, problem, _OWN_BATCHES)
    return texts.make_batches(read, window, seed, texts.find_masked(tokenizer.mask_token_id))


def _learn(model: torch.nn.Module, batch: Mapping[str, torch.Tensor]) -> Any:
    """Return what a model makes of its arguments, its loss among it."""
    outputs = model(**batch)
    return outputs if hasattr(outputs, "loss") else outputs[0]


def _answer(model: torch.nn.Module, batch: Mapping[str, torch.Tensor]) -> Any:
    """Return what a model answers."""
    return model(**batch)
