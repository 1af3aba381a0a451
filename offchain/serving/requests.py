"""Requests of an engine, its limits, and what it has done."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from moot.offchain.commitments.tensors import Array
from moot.offchain.errors import MootError
from moot.offchain.frontend.generation.answering import Question
from moot.offchain.serving.answered import Answered

Take = Callable[[int, Array], bool]
"""Is shown a token and the logits that it was chosen by; returns whether the answer ends here."""

Done = Callable[[Answered | MootError | None], None]
"""Is given the answer; None where the request was cancelled."""


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of an engine.

    Attributes:
        slots: texts in work at once.
        waiting: requests that wait for a slot.
        request_s: seconds from a request's arrival to its last token.
        prefix_bytes: what texts take that are kept for prompts to come.
        chunks: the numbers of tokens of a prompt that are read at once, ascending.
        turn_tokens: tokens of prompts after which a turn reads no further prompt.
        group: prompts that are read in one pass, if most of them have chunks that are as long.
        least_length: positions of the caches, while no text has more; then four times as many.
    """

    slots: int = 8
    waiting: int = 256
    request_s: float = 600.0
    prefix_bytes: int = 1 << 28
    chunks: tuple[int, ...] = (16, 32, 64, 128)
    turn_tokens: int = 512
    group: int = 4
    least_length: int = 256


@dataclass(eq=False)
class Request:
    """A question in an engine; its functions are called on the engine's thread.

    Attributes:
        question: what is asked.
        take: sees every token.
        done: is told how it ends.
        ends: the tokens after which an answer ends, which it still has.
        is_cancelled: whether nobody waits for it any more; anybody may set it.
        arrived: when it came, in seconds of a clock.
    """

    question: Question
    take: Take
    done: Done
    ends: frozenset[int] = frozenset()
    is_cancelled: bool = False
    arrived: float = field(default_factory=time.monotonic)


@dataclass(slots=True)
class Counts:
    """What an engine has done."""

    answers: int = 0
    cancelled: int = 0
    failed: int = 0
    prompt_tokens: int = 0
    known_tokens: int = 0
    answer_tokens: int = 0
    turns: int = 0
    hashing_s: float = 0.0
