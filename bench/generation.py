"""Text generation with a cache: a pass over the prompt, and tokens one by one.

Both sides read the same tokens, so that neither goes another way where two are as likely. Stock is
the transformers library with its own cache and fused attention, called as its users call it.
"""

import copy
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from moot.bench.shapes import TINY_GENERATION, GenerationSizes
from moot.bench.sides import Comparison
from moot.bench.timing import Side
from moot.offchain.commitments.tensors import Array
from moot.offchain.execution.executor import Executor
from moot.offchain.frontend.capture import capture
from moot.offchain.frontend.examples import build
from moot.offchain.frontend.generation.decoding import Generation
from moot.offchain.frontend.generation.huggingface import CausalModel
from moot.offchain.frontend.generation.prefill import make_prefill_recipe
from moot.offchain.frontend.recipe import Recipe

GROUP = "generation"

MODELS = ("gpt2", "llama")

_POSITION = "buffer.position"


def list_comparisons(*, is_tiny: bool) -> Iterator[Comparison]:
    """Yield the pass over a prompt, and tokens after it, of every model and number of texts."""
    sizes = TINY_GENERATION if is_tiny else GenerationSizes()
    for name, model, texts in list_texts(sizes):
        yield Comparison(
            GROUP,
            f"{name}, prompt",
            f"{len(texts)} x {sizes.prompt}",
            _make_our_prefill(model, texts[:, : sizes.prompt]),
            _make_stock_prefill(model, texts[:, : sizes.prompt]),
        )
        yield Comparison(
            GROUP,
            f"{name}, {sizes.tokens} tokens after it",
            f"{len(texts)} x 1",
            make_our_decoding(model, texts, sizes.prompt),
            make_stock_decoding(model, texts, sizes.prompt),
        )


def list_texts(sizes: GenerationSizes) -> Iterator[tuple[str, nn.Module, Tensor]]:
    """Yield the models by name, each with every number of texts: (texts, tokens) int64."""
    for name in MODELS:
        model = build(name, sizes.size, inference=True).model
        generator = torch.Generator().manual_seed(0)
        for count in sizes.texts:
            length = sizes.prompt + sizes.tokens
            vocabulary = int(model.config.vocab_size)  # type: ignore[union-attr, arg-type]  # the library's
            yield name, model, torch.randint(vocabulary, (count, length), generator=generator)


def _make_generation(model: nn.Module, texts: Tensor) -> Generation:
    """Return a generation whose prompts are the whole texts, so that no token is chosen."""
    return Generation(CausalModel(model), texts.tolist(), texts.shape[1])


def _make_our_prefill(model: nn.Module, texts: Tensor) -> Side:
    recipe = make_prefill_recipe(_make_generation(model, texts), texts)
    captured = _capture(recipe)
    executor, batch = Executor(captured.program), captured.batch(0)
    state = captured.initial_state
    return lambda: executor.run(state, batch, 0)[-1]


def make_our_decoding(model: nn.Module, texts: Tensor, prompt: int) -> Side:
    """Return ours of the tokens that come after a prompt of so many."""
    captured = _capture(_make_generation(model, texts).make_recipe())
    executor, state = Executor(captured.program), captured.initial_state
    place = [slot.name for slot in captured.program.state].index(_POSITION)

    def advance(first: int, stop: int) -> Array:
        state[place] = np.array(first)
        for step in range(first, stop):
            executor.advance(state, (), step)
        logits: Array = state[-1].copy()
        return logits

    advance(0, prompt)
    return lambda: advance(prompt, texts.shape[1])


def _capture(recipe: Recipe) -> Any:
    return capture(recipe, trust=True)  # `compare` looks at the logits


def _make_stock(model: nn.Module) -> Any:
    stock: Any = copy.deepcopy(model)
    stock.set_attn_implementation("sdpa")
    return stock


def _make_stock_prefill(model: nn.Module, texts: Tensor) -> Side:
    stock = _make_stock(model)

    @torch.no_grad()
    def run() -> Tensor:
        logits: Tensor = stock(texts, use_cache=True).logits
        return logits

    return run


def make_stock_decoding(model: nn.Module, texts: Tensor, prompt: int) -> Side:
    """Return the library's of the tokens that come after a prompt of so many."""
    stock = _make_stock(model)
    with torch.no_grad():
        cache = stock(texts[:, :prompt], use_cache=True).past_key_values

    @torch.no_grad()
    def run() -> Tensor:
        logits = torch.empty(0)
        for place in range(prompt, texts.shape[1]):
            token = texts[:, place, None]
            logits = stock(token, past_key_values=cache, use_cache=True).logits[:, 0]
        cache.crop(prompt - texts.shape[1])
        return logits

    return run
