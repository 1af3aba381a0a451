"""Generation as a program: one step reads one token of every text and writes the next one.

The first steps read the prompts; where a text's prompt ends, the chosen token is written. Texts of
one batch do not see each other, so prompts may differ in length.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from moot.offchain.errors import UsageError
from moot.offchain.frontend.generation.cache import PrefillCache, StepCache
from moot.offchain.frontend.generation.choice import Greedy, Sampled
from moot.offchain.frontend.recipe import InferenceRecipe
from moot.offchain.frontend.schedules import require_count


@dataclass(frozen=True, slots=True)
class Generation:
    """Texts that a language model continues.

    Attributes:
        model: a module as `cache` says, in its evaluation mode.
        prompts: the tokens that each text begins with, one at least.
        length: tokens of each text in the end, its prompt included.
        choice: how a token comes from logits.
        seed: key of the draws, 64 bits.
    """

    model: nn.Module
    prompts: Sequence[Sequence[int]]
    length: int
    choice: Greedy | Sampled = Greedy()  # noqa: RUF009 - it is frozen
    seed: int = 0

    def __post_init__(self) -> None:
        require_count("the length of the texts", self.length, 2)
        if not self.prompts or not all(self.prompts):
            raise UsageError("there is a text without a prompt; give each one token at least")
        longest = max(map(len, self.prompts))
        if longest > self.length:
            raise UsageError(
                f"a prompt has {longest} tokens, more than a text of {self.length}; "
                "choose a greater length"
            )
        if self.model.training:
            raise UsageError("the model is in training mode; call model.eval() before generating")

    @property
    def steps(self) -> int:
        """Steps until all tokens are there; step s reads position s."""
        return self.length - 1

    def make_recipe(self) -> InferenceRecipe:
        """Return the recipe whose steps yield the tokens after a position, and the logits.

        Its state holds `buffer.tokens`, INT64 (samples, length), of which those after the
        position are 0, `buffer.position`, and the keys and values of every layer.

        Raises:
            UsageError: a prompt has a token that the model's vocabulary does not.
        """
        return InferenceRecipe(Decoding(self), Decoding.__call__, lambda _: (), self.seed)


class Decoding(nn.Module):
    """A language model with the state of the texts that it generates."""

    tokens: Tensor
    prompt_lengths: Tensor
    position: Tensor

    def __init__(self, generation: Generation) -> None:
        super().__init__()
        self.eval()
        self.model = generation.model
        self._choice = generation.choice
        self.register_buffer("tokens", make_tokens(generation))
        lengths = [len(prompt) for prompt in generation.prompts]
        self.register_buffer("prompt_lengths", torch.tensor(lengths))
        self.register_buffer("position", torch.tensor(0))
        self._layers = []
        for layer, (keys, values) in _probe(self.model, self.tokens).items():
            self._layers.append(layer)
            self.register_buffer(f"keys_{layer}", torch.zeros_like(keys))
            self.register_buffer(f"values_{layer}", torch.zeros_like(values))

    def forward(self) -> tuple[Tensor, Tensor]:
        """Read a token, and return the chosen ones INT64 (samples,) and the logits."""
        samples, length = self.tokens.shape
        layers = {
            n: (getattr(self, f"keys_{n}"), getattr(self, f"values_{n}")) for n in self._layers
        }
        cache = StepCache(layers, self.position, length)
        token = self.tokens.index_select(1, self.position.reshape(1))
        logits = self.model(token, cache)[:, 0]
        draws = torch.rand(samples) if self._choice.is_random else None
        chosen = self._choice(logits, draws)
        following = self.position + 1
        is_next = torch.arange(length) == following
        is_free = (self.prompt_lengths <= following).unsqueeze(1)
        self.tokens = torch.where(is_next & is_free, chosen.unsqueeze(1), self.tokens)
        self.position = following.clamp(max=length - 1)
        for n, (keys, values) in cache.layers.items():
            setattr(self, f"keys_{n}", keys)
            setattr(self, f"values_{n}", values)
        return chosen, logits


def make_tokens(generation: Generation) -> Tensor:
    """Return the prompts, INT64 (samples, length), with zeros after them."""
    tokens = torch.zeros(len(generation.prompts), generation.length, dtype=torch.int64)
    for row, prompt in zip(tokens, generation.prompts, strict=True):
        row[: len(prompt)] = torch.tensor(prompt)
    return tokens


def _probe(model: nn.Module, tokens: Tensor) -> dict[int, tuple[Tensor, Tensor]]:
    """Return keys and values of the layers, by asking the model once; check the tokens."""
    cache = PrefillCache(tokens.shape[1])
    with torch.no_grad():
        logits = model(torch.zeros_like(tokens), cache)
    largest, least = int(tokens.max()), int(tokens.min())
    if least < 0 or largest >= logits.shape[-1]:
        raise UsageError(
            f"a prompt has the token {least if least < 0 else largest}; "
            f"the model's are 0 to {logits.shape[-1] - 1}"
        )
    return cache.layers
