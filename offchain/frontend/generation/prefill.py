"""Checking generated tokens in one pass over all of them, instead of a step for each."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from moot.offchain.arithmetic.philox import uniform_bits
from moot.offchain.commitments.tensors import Array
from moot.offchain.errors import UsageError
from moot.offchain.frontend.capture import capture
from moot.offchain.frontend.generation.cache import PrefillCache
from moot.offchain.frontend.generation.decoding import Generation, make_tokens
from moot.offchain.frontend.recipe import InferenceRecipe
from moot.offchain.programs.graph import Program

Run = Callable[[Program, Sequence[Array], Sequence[Array], int], Sequence[Array]]
"""Runs one step of a program, given state, batch and step: one of the executors."""

STREAM = 0
"""The stream of decoding's draws, which are its only random numbers."""


@dataclass(frozen=True, slots=True)
class Prefill:
    """The results of one pass at every position, bit for bit those of decoding step by step.

    Attributes:
        chosen: INT64 (samples, length), the token that step s chooses, at s.
        logits: float32 (samples, length, vocabulary), the logits of step s, at s.
    """

    chosen: Array
    logits: Array


def make_prefill_recipe(generation: Generation, tokens: Tensor) -> InferenceRecipe:
    """Return the recipe of one pass over texts, INT64 (samples, length)."""

    def forward(model: nn.Module, tokens: Tensor, draws: Tensor) -> tuple[Tensor, Tensor]:
        logits = model(tokens, PrefillCache(generation.length))
        return generation.choice(logits, draws), logits

    draws = torch.from_numpy(_draw(generation))
    return InferenceRecipe(generation.model, forward, lambda _: (tokens, draws), generation.seed)


def prefill(generation: Generation, tokens: Array, run: Run) -> Prefill:
    """Return what decoding yields at every position of these texts, by one pass.

    `cache` explains why the bits are the same.

    Args:
        generation: what was to be generated.
        tokens: INT64 (samples, count), the first tokens of the texts; what is computed after
            them, up to the length, means nothing.
        run: an executor.

    Raises:
        UsageError: the texts are of another number, too long, or have other prompts.
    """
    texts = make_tokens(generation)
    samples, length = texts.shape
    given = torch.from_numpy(np.asarray(tokens, np.int64))
    if given.ndim != 2 or len(given) != samples or given.shape[1] > length:
        raise UsageError(
            f"the tokens are of shape {tuple(given.shape)}; "
            f"give {samples} texts of at most {length} tokens"
        )
    for row, (text, prompt) in enumerate(zip(given.tolist(), generation.prompts, strict=True)):
        if text[: len(prompt)] != list(prompt)[: len(text)]:
            raise UsageError(f"text {row} does not begin with its prompt; give the whole text")
    texts[:, : given.shape[1]] = given
    captured = capture(make_prefill_recipe(generation, texts))
    state = run(captured.program, captured.initial_state, captured.batch(0), 0)
    return Prefill(*state[-2:])


def find_wrong_token(generation: Generation, tokens: Array, run: Run) -> tuple[int, int] | None:
    """Return text and position of the first token that the model did not choose, or None.

    Arguments and errors are those of `prefill`. Of several wrong texts, the first is named.
    """
    chosen = prefill(generation, tokens, run).chosen
    for row, prompt in enumerate(generation.prompts):
        for position in range(len(prompt), tokens.shape[1]):
            if tokens[row, position] != chosen[row, position - 1]:
                return row, position
    return None


def _draw(generation: Generation) -> Array:
    """Return the draws of all steps, float32 (samples, length)."""
    samples = range(len(generation.prompts))
    bits = [
        [uniform_bits(generation.seed, step, STREAM, row) for step in range(generation.length)]
        for row in samples
    ]
    return np.array(bits, np.uint32).view(np.float32)
