"""Speech: the text of an answer while its tokens come, up to a stop string."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from moot.offchain.commitments.tensors import Array

_HALF = "\ufffd"
"""What a tokenizer says of bytes that are no whole character yet."""


class Speech:
    """The text of one answer.

    Args:
        tokenizer: the model's.
        stops: strings before which the text ends.
    """

    def __init__(self, tokenizer: Any, stops: Sequence[str]) -> None:
        self._tokenizer, self._stops = tokenizer, stops
        self._tokens: list[int] = []
        self._begun = self._said = 0
        self._held = ""
        self.is_stopped = False

    def hear(self, token: int) -> str:
        """Return what of the text is certain after one more token."""
        self._tokens.append(token)
        before = self._decode(self._tokens[self._begun : self._said])
        after = self._decode(self._tokens[self._begun :])
        if after.endswith(_HALF) or len(after) <= len(before):
            return ""
        self._begun, self._said = self._said, len(self._tokens)
        return self._release(after[len(before) :])

    def finish(self) -> str:
        """Return what is left of the text."""
        if self.is_stopped:
            return ""
        before = self._decode(self._tokens[self._begun : self._said])
        rest = self._decode(self._tokens[self._begun :])[len(before) :]
        self._begun = self._said = len(self._tokens)
        said = self._release(rest)
        held, self._held = self._held, ""
        return said if self.is_stopped else said + held

    def _decode(self, tokens: Sequence[int]) -> str:
        text: str = self._tokenizer.decode(tokens, skip_special_tokens=True)
        return text

    def _release(self, new: str) -> str:
        """Return what may be said: nothing from a stop string on, nor what may begin one."""
        text = self._held + new
        found = [text.find(stop) for stop in self._stops]
        places = [place for place in found if place >= 0]
        if places:
            self.is_stopped, self._held = True, ""
            return text[: min(places)]
        count = max((_count_begun(text, stop) for stop in self._stops), default=0)
        self._held = text[len(text) - count :]
        return text[: len(text) - count]


def _count_begun(text: str, stop: str) -> int:
    """Return how many characters at a text's end may be the beginning of a stop string."""
    most = min(len(text), len(stop) - 1)
    return next((n for n in range(most, 0, -1) if text.endswith(stop[:n])), 0)


@dataclass(frozen=True, slots=True)
class Odds:
    """How likely a token was, at a temperature of 1: for information, and no part of a claim.

    Attributes:
        token: the token.
        log: the logarithm of its probability.
        best: the likeliest tokens, likewise.
    """

    token: int
    log: float
    best: tuple[tuple[int, float], ...]


def find_odds(token: int, logits: Array, count: int) -> Odds:
    """Return how likely a token was, and the likeliest ones."""
    scaled = np.asarray(logits, np.float64)
    logs = scaled - scaled.max()
    logs -= np.log(np.exp(logs).sum())
    best = np.argsort(-logs, kind="stable")[:count]
    return Odds(token, float(logs[token]), tuple((int(t), float(logs[t])) for t in best))
