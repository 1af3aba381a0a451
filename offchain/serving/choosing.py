"""Choosing: tokens by logits, fast, and equal to what `generation.sampling` defines.

Of finite logits, the likeliest tokens are found by a partial sort, and what is drawn among them, or
among all, by a small program of the definition's own functions. Other logits go through the whole
definition.
"""

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from moot.offchain.commitments.tensors import Array
from moot.offchain.execution.executor import Executor
from moot.offchain.frontend.capture import capture_once
from moot.offchain.frontend.generation.answering import Sampling
from moot.offchain.frontend.generation.sampling import (
    LIKELIEST,
    choose,
    choose_of_all,
    choose_place,
)
from moot.offchain.frontend.recipe import InferenceRecipe


class Chooser:
    """Chooses tokens of one vocabulary.

    Args:
        vocabulary: how many tokens there are.
    """

    def __init__(self, vocabulary: int) -> None:
        self._vocabulary = vocabulary
        self._count = min(LIKELIEST, vocabulary)

    def choose(self, logits: Array, sampling: Sampling, draw: Array) -> int:
        """Return the token of a text.

        Args:
            logits: float32 (vocabulary,).
            sampling: the text's settings.
            draw: float32 (), the step's number.
        """
        row: Any = logits.reshape(1, -1)
        if not np.isfinite(row).all():
            return self._whole(row, sampling, draw)
        if sampling.temperature == 0:
            return int(row.argmax())
        temperature = np.array([sampling.temperature], np.float32)
        draws = draw.reshape(1)
        if sampling.top_k == 0 and np.float32(sampling.top_p) >= 1:
            return self._run(self._of_all, row, temperature, draws)
        tokens = find_likeliest(row[0], self._count)
        settings = np.array([sampling.top_k]), np.array([sampling.top_p], np.float32)
        best = np.ascontiguousarray(row[:, tokens])
        return int(tokens[self._run(self._of_best, best, temperature, *settings, draws)])

    def _whole(self, row: Array, sampling: Sampling, draw: Array) -> int:
        temperature = np.array([sampling.temperature], np.float32)
        settings = np.array([sampling.top_k]), np.array([sampling.top_p], np.float32)
        return self._run(self._definition, row, temperature, *settings, draw.reshape(1))

    def _run(self, made: tuple[Executor, list[Array]], *batch: Array) -> int:
        executor, state = made
        return int(executor.run(state, batch, 0)[-1][0])

    @cached_property
    def _definition(self) -> tuple[Executor, list[Array]]:
        return _prepare(choose, self._vocabulary, has_settings=True)

    @cached_property
    def _of_best(self) -> tuple[Executor, list[Array]]:
        return _prepare(choose_place, self._count, has_settings=True)

    @cached_property
    def _of_all(self) -> tuple[Executor, list[Array]]:
        return _prepare(choose_of_all, self._vocabulary, has_settings=False)


def find_likeliest(logits: Array, count: int) -> Any:
    """Return tokens of the largest finite logits, largest first, the first of equals first."""
    values: Any = logits
    if count >= len(values):
        return np.argsort(-values, kind="stable")
    least = np.partition(values, len(values) - count)[len(values) - count]
    above = np.flatnonzero(values > least)
    equal = np.flatnonzero(values == least)[: count - len(above)]
    order = np.argsort(-values[above], kind="stable")
    return np.concatenate([above[order], equal])


class _Function(nn.Module):
    """A function as a module without parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.eval()


def _prepare(
    function: Callable[..., Tensor], count: int, *, has_settings: bool
) -> tuple[Executor, list[Array]]:
    """Return what runs a function of logits (1, count), and its state."""
    logits, one = torch.zeros(1, count), torch.ones(1)
    settings = (torch.zeros(1, dtype=torch.int64), torch.ones(1)) if has_settings else ()
    batch = logits, one, *settings, torch.zeros(1)

    def forward(_model: nn.Module, *given: Tensor) -> Tensor:
        return function(*given)

    captured = capture_once(InferenceRecipe(_Function(), forward, lambda _: batch))
    return Executor(captured.program), captured.initial_state
