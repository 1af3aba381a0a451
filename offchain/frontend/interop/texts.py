"""Texts: the batches that a checkpoint's own tokenizer makes of a text."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from moot.offchain.errors import CannotTranslate, UsageError
from moot.offchain.frontend.data import IGNORED, MASKED_SHARE, make_generator, read_text
from moot.offchain.frontend.recipe import Batch

MOST_LETTERS = 1 << 20
"""Letters of a text that are read: a tokenizer takes seconds for so many."""


@dataclass(frozen=True, slots=True)
class Window:
    """The size of a batch of texts: so many windows of so many tokens."""

    samples: int
    tokens: int


SIZES = {"tiny": Window(2, 16), "small": Window(4, 64), "full": Window(4, 256)}
"""Batches of a checkpoint on the command line, by the names that examples have, too."""


def tokenize(tokenizer: Any, path: Path | None, subject: str) -> NDArray[np.int64]:
    """Return the tokens of a text, of the standard library's source if no file is given.

    Raises:
        UsageError: the file can't be read, or is no text.
    """
    try:
        text = read_text(path).tobytes().decode()[:MOST_LETTERS]
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is no text in UTF-8: {error.reason}") from error
    tokens = np.asarray(tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"])
    if not len(tokens):
        raise CannotTranslate(subject, "its tokenizer makes no token of the text", "give another")
    return tokens.astype(np.int64)


def make_batches(
    tokens: NDArray[np.int64],
    window: Window,
    seed: int,
    label: Callable[[torch.Tensor, np.random.Generator], dict[str, torch.Tensor]],
) -> Batch:
    """Return batches of windows of a text, as a model of the transformers library takes them.

    Args:
        tokens: the text.
        window: the size of a batch.
        seed: draws the windows, together with the step.
        label: makes the arguments of the model of the tokens, of shape (samples, tokens).

    Raises:
        UsageError: the text is shorter than a window.
    """
    if len(tokens) < window.tokens:
        raise UsageError(
            f"the text has {len(tokens)} tokens, and a window {window.tokens}; give a longer one"
        )

    def batch(step: int) -> dict[str, torch.Tensor]:
        generator = make_generator(seed, step)
        starts = generator.integers(0, len(tokens) - window.tokens + 1, window.samples)
        rows = tokens[starts[:, None] + np.arange(window.tokens)]
        return label(torch.from_numpy(rows), generator)

    return batch


def ask(tokens: torch.Tensor, generator: np.random.Generator) -> dict[str, torch.Tensor]:
    """Return the arguments of a model that answers only."""
    del generator
    return {"input_ids": tokens}


def predict_next(tokens: torch.Tensor, generator: np.random.Generator) -> dict[str, torch.Tensor]:
    """Return the arguments of a model that learns to predict every next token."""
    del generator
    return {"input_ids": tokens, "labels": tokens.clone()}


def find_masked(
    mask: int,
) -> Callable[[torch.Tensor, np.random.Generator], dict[str, torch.Tensor]]:
    """Return what makes the arguments of a model that learns to find masked tokens.

    Args:
        mask: the token that is put over them.
    """

    def label(tokens: torch.Tensor, generator: np.random.Generator) -> dict[str, torch.Tensor]:
        draws = generator.random(tuple(tokens.shape))
        is_masked = torch.from_numpy(draws < MASKED_SHARE)
        is_masked[0, 0] = True  # a batch without any label has no loss
        labels = tokens.masked_fill(~is_masked, IGNORED)
        return {"input_ids": tokens.masked_fill(is_masked, mask), "labels": labels}

    return label
