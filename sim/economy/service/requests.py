"""The requests of clients, drawn one after the other, each purpose from a stream of its own."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from moot.sim.economy.config import Config
from moot.sim.economy.streams import open_generator

_MANY = 4096
"""Requests that are drawn ahead at once."""

_MOST_TOKENS = 10**6

_FACTOR, _MASK = 6364136223846793005, (1 << 62) - 1
_SHIFT, _SCALE = 31, 1 << 31


class Request(NamedTuple):
    """What chance decides about a request, whatever becomes of it.

    Attributes:
        waiting: blocks since the request before.
        client: whose it is, by index.
        tokens: of its answer.
        ticket: 62 bits, from which it is drawn who is asked.
        checked: the client checks the answer if this is below its share.
        sampled: 62 bits, from which it is drawn who samples the receipt, and when.
        word: where between the first and the last watcher the one is whose word is asked.
        case: which case a challenge is.
    """

    waiting: float
    client: int
    tokens: int
    ticket: int
    checked: float
    sampled: int
    word: float
    case: int


def draw_requests(config: Config) -> Iterator[Request]:
    """Yield what chance decides about one request after the other."""
    service, clients = config.service, config.clients
    purposes = ("requests", "askers", "tokens", "routing", "checks", "samples", "words", "trials")
    waiting, who, tokens, tickets, checked, sampled, words, cases = (
        open_generator(config.seed, name) for name in purposes
    )
    while True:
        counts = service.tokens * np.exp(service.token_spread * tokens.standard_normal(_MANY))
        columns = (
            waiting.exponential(1.0 / service.requests_per_block, _MANY),
            who.integers(0, clients.count, _MANY),
            np.rint(counts).clip(1, _MOST_TOKENS).astype(np.int64),
            tickets.integers(0, 1 << 62, _MANY),
            checked.random(_MANY),
            sampled.integers(0, 1 << 62, _MANY),
            words.random(_MANY),
            cases.integers(0, config.cases, _MANY),
        )
        yield from map(Request._make, zip(*(column.tolist() for column in columns), strict=True))


def draw_shares(seed: int) -> Iterator[float]:
    """Yield numbers between 0 and 1, 1 excluded, that depend on 62 drawn bits alone."""
    while True:
        seed = (seed * _FACTOR + 1) & _MASK
        yield (seed >> _SHIFT) / _SCALE
