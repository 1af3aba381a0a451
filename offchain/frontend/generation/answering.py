"""Answers as programs: one for each model and length, with all that is asked for in its state.

A step reads one token and writes the next one, as in `decoding`; but prompt, settings and draws are
in the start state, and not in the program. So every request of a model has the same program root,
and whoever asks can compute the start state alone. The draws are the Philox numbers of (seed, step,
stream 0, element 0).

An answer of n tokens to a prompt of p takes p + n - 1 steps, wherever it stops, and its claim is
the state after them. Lengths are powers of two, so that a short answer has a short cache.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from moot.offchain.arithmetic.philox import philox
from moot.offchain.commitments.tensors import Array
from moot.offchain.errors import UsageError
from moot.offchain.frontend.generation.attention import ChunkCache, RowCache
from moot.offchain.frontend.generation.reading import Reader
from moot.offchain.frontend.generation.sampling import LIKELIEST, choose
from moot.offchain.frontend.recipe import InferenceRecipe

LEAST_LENGTH = 32
"""The shortest length of a text with its prompt."""

_WORD = 0xFFFFFFFF


@dataclass(frozen=True, slots=True)
class Sampling:
    """The settings of a request: how a token is chosen.

    Attributes:
        temperature: 0 for the likeliest token, at most 100.
        top_k: of the likeliest tokens only this many; 0 for all.
        top_p: of the likeliest tokens only those that have this part of the weight; 1 for all.
        seed: key of the draws, 64 bits.
    """

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.temperature <= 100:
            raise UsageError(f"temperature is {self.temperature}; choose one from 0 to 100")
        if not 0 <= self.top_k <= LIKELIEST:
            raise UsageError(f"top_k is {self.top_k}; choose one up to {LIKELIEST}, or 0 for all")
        if not 0 < np.float32(self.top_p) <= 1:
            raise UsageError(f"top_p is {self.top_p}; choose one above 0 and at most 1")
        if not 0 <= self.seed < 1 << 64:
            raise UsageError(f"the seed is {self.seed}; choose one from 0 to 2^64 - 1")


@dataclass(frozen=True, slots=True)
class Question:
    """A prompt and how it is answered.

    Attributes:
        prompt: its tokens, one at least.
        most: tokens of the answer at most, one at least.
        sampling: how they are chosen.
    """

    prompt: Sequence[int]
    most: int
    sampling: Sampling = Sampling()

    def __post_init__(self) -> None:
        if not self.prompt:
            raise UsageError("the prompt has no token; give one at least")
        if self.most < 1:
            raise UsageError(f"an answer of at most {self.most} tokens; ask for one at least")

    @property
    def tokens(self) -> int:
        """Tokens of the text, at most."""
        return len(self.prompt) + self.most

    def find_length(self, limit: int | None) -> int:
        """Return the length of the program, a power of two or all that a model sees."""
        length = max(LEAST_LENGTH, 1 << (self.tokens - 1).bit_length())
        return length if limit is None else min(length, limit)


def draw(seed: int, length: int) -> Array:
    """Return the draws of a text, float32 (1, length): that of step s at s."""
    steps = np.arange(length, dtype=np.uint64)
    zero = np.zeros(length, np.uint64)
    words = philox((zero, zero, steps, zero), (seed & _WORD, seed >> 32))
    return ((words[0] >> np.uint64(8)).astype(np.float32) * np.float32(2.0**-24)).reshape(1, -1)


def fill_in(question: Question, length: int) -> dict[str, Array]:
    """Return what a question is in the start state, by the names of slots; all else is zeros."""
    tokens = np.zeros((1, length), np.int64)
    tokens[0, : len(question.prompt)] = question.prompt
    sampling = question.sampling
    return {
        "buffer.tokens": tokens,
        "buffer.prompt_length": np.array([len(question.prompt)], np.int64),
        "buffer.temperature": np.array([sampling.temperature], np.float32),
        "buffer.top_k": np.array([sampling.top_k], np.int64),
        "buffer.top_p": np.array([sampling.top_p], np.float32),
        "buffer.draws": draw(sampling.seed, length),
    }


class Answering(nn.Module):
    """A step of an answer, with the state of its text.

    Args:
        reader: the model.
        length: tokens of the text at most, its prompt included.
    """

    tokens: Tensor
    prompt_length: Tensor
    position: Tensor
    temperature: Tensor
    top_k: Tensor
    top_p: Tensor
    draws: Tensor

    def __init__(self, reader: Reader, length: int) -> None:
        super().__init__()
        self.eval()
        self.model = reader
        self.register_buffer("tokens", torch.zeros(1, length, dtype=torch.int64))
        self.register_buffer("prompt_length", torch.ones(1, dtype=torch.int64))
        self.register_buffer("position", torch.tensor(0))
        self.register_buffer("temperature", torch.zeros(1))
        self.register_buffer("top_k", torch.zeros(1, dtype=torch.int64))
        self.register_buffer("top_p", torch.ones(1))
        self.register_buffer("draws", torch.zeros(1, length))
        for layer, (heads, width) in reader.heads.items():
            self.register_buffer(f"keys_{layer}", torch.zeros(1, heads, length, width))
            self.register_buffer(f"values_{layer}", torch.zeros(1, heads, length, width))

    def forward(self) -> Tensor:
        """Read a token, and return the chosen one, INT64 (1,)."""
        length = self.tokens.shape[1]
        place = self.position.reshape(1)
        layers = {
            n: (getattr(self, f"keys_{n}"), getattr(self, f"values_{n}")) for n in self.model.heads
        }
        cache = RowCache(layers, self.position)
        logits = self.model(self.tokens.index_select(1, place), cache)[:, 0]
        draws = self.draws.index_select(1, place)[:, 0]
        chosen = choose(logits, self.temperature, self.top_k, self.top_p, draws)
        following = self.position + 1
        is_next = torch.arange(length) == following
        is_free = (self.prompt_length <= following).unsqueeze(1)
        self.tokens = torch.where(is_next & is_free, chosen.unsqueeze(1), self.tokens)
        self.position = following.clamp(max=length - 1)
        for n, (keys, values) in cache.layers.items():
            setattr(self, f"keys_{n}", keys)
            setattr(self, f"values_{n}", values)
        return chosen


class Chunk(nn.Module):
    """A pass over T tokens of several texts at once, which reads their caches and keeps nothing.

    It is what an engine runs in place of T steps of each text, and no part of a claim.

    Args:
        reader: the model.
        count: T.
        has_logits: whether the logits of all tokens are wanted, or only their keys and values.
    """

    def __init__(self, reader: Reader, count: int, *, has_logits: bool) -> None:
        super().__init__()
        self.eval()
        self.model = reader
        self._count, self._has_logits = count, has_logits

    def forward(self, tokens: Tensor, starts: Tensor, *caches: Tensor) -> tuple[Tensor, ...]:
        """Return keys and values of the chunk (texts, heads, T, width), after logits if wanted.

        Args:
            tokens: INT64 (texts, T).
            starts: INT64 (texts,), how many positions come before each chunk.
            caches: keys and values (texts, heads, L, width) of all layers.
        """
        pairs = zip(caches[::2], caches[1::2], strict=True)
        cache = ChunkCache(dict(zip(self.model.heads, pairs, strict=True)), starts, self._count)
        if self.model.limit:  # what follows a text's end is computed, and left out
            cache.positions = cache.positions.clamp(max=self.model.limit - 1)
        logits = self.model(tokens, cache)
        made = [x for n in self.model.heads for x in cache.layers[n]]
        return (logits, *made) if self._has_logits else tuple(made)

    def make_recipe(self, texts: int, length: int) -> InferenceRecipe:
        """Return the recipe for so many texts, whose caches have so many positions."""
        caches = [
            torch.zeros(texts, heads, length, width)
            for heads, width in self.model.heads.values()
            for _ in range(2)
        ]
        tokens = torch.zeros(texts, self._count, dtype=torch.int64)
        batch = tokens, torch.zeros(texts, dtype=torch.int64), *caches
        return InferenceRecipe(self, Chunk.__call__, lambda _: batch)


def make_answer_recipe(reader: Reader, length: int) -> InferenceRecipe:
    """Return the recipe of answers of a length.

    Raises:
        UsageError: the model sees fewer tokens.
    """
    if reader.limit and length > reader.limit:
        raise UsageError(f"a text of {length} tokens; the model sees {reader.limit}, ask for fewer")
    return InferenceRecipe(Answering(reader, length), Answering.__call__, lambda _: ())
