"""Tokens that are chosen fast are those that the definition chooses."""

from functools import cache
from typing import Any

import numpy as np
import pytest
import torch

from moot.offchain.frontend.generation import sampling
from moot.offchain.frontend.generation.answering import Sampling
from moot.offchain.frontend.generation.sampling import choose
from moot.offchain.serving.choosing import Chooser, find_likeliest

WORDS = 90


@cache
def make_chooser() -> Chooser:
    """Return a chooser of more tokens than those that are looked at."""
    assert WORDS > sampling.LIKELIEST
    return Chooser(WORDS)


def draw_logits(generator: np.random.Generator, kind: int) -> Any:
    """Return logits: ordinary, of few values, or with some that are no numbers."""
    logits = generator.normal(size=WORDS).astype(np.float32) * 3
    if kind == 1:
        logits = np.round(logits)
    if kind == 2:
        logits[generator.integers(WORDS, size=40)] = -np.inf
    return logits


@pytest.mark.parametrize("kind", [0, 1, 2])
def test_fast_choices_are_those_of_the_definition(kind: int) -> None:
    """Whatever the logits and the settings are, both choose one token."""
    generator, chooser = np.random.default_rng(kind), make_chooser()
    for _ in range(40):
        logits = draw_logits(generator, kind)
        top_k, top_p = int(generator.integers(0, 5)), float(generator.choice([0.2, 0.9, 1.0]))
        settings = Sampling(float(generator.choice([0.0, 0.7, 1.5])), top_k, top_p)
        draw = np.float32(generator.integers(1 << 24) * 2.0**-24)
        fast = chooser.choose(logits, settings, np.asarray(draw))
        assert fast == chooser._whole(logits.reshape(1, -1), settings, np.asarray(draw))


def test_the_likeliest_come_in_order() -> None:
    """Of equals the first comes first, also where not all of them are taken."""
    logits = np.array([1, 3, 2, 3, 2, 2, 0], np.float32)
    assert find_likeliest(logits, 4).tolist() == [1, 3, 2, 4]
    assert find_likeliest(logits, 9).tolist() == [1, 3, 2, 4, 5, 0, 6]


def test_a_nucleus_has_what_comes_before_its_part() -> None:
    """top_p keeps tokens before which less than its part of the weight lies, top_k the first."""
    logits = torch.tensor([[0.5, 0.3, 0.15, 0.05]]).log()

    def reach(top_k: int, top_p: float) -> set[int]:
        draws = np.linspace(0, 1 - 2.0**-24, 200, dtype=np.float32)
        return {
            int(
                choose(
                    logits,
                    torch.ones(1),
                    torch.tensor([top_k]),
                    torch.tensor([top_p]),
                    torch.tensor([draw]),
                )
            )
            for draw in draws
        }

    assert reach(0, 1.0) == {0, 1, 2, 3}
    assert reach(0, 0.4) == {0}
    assert reach(0, 0.6) == {0, 1}
    assert reach(0, 0.9) == {0, 1, 2}
    assert reach(2, 1.0) == {0, 1}
    assert reach(3, 0.5) == {0}
