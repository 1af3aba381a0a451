"""Engine: answers many requests at once, which join and leave at any step.

Each turn reads a chunk of one prompt, and decodes a token of every text whose prompt was read. A
text's bits do not depend on who else is there, on chunks, or on what was known of its prompt: each
operator computes every row by itself, and `generation.attention` folds in one order.
"""

import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from threading import Condition, Lock, Thread
from typing import Any

import numpy as np

from moot.contracts.model.types import ZERO
from moot.offchain.commitments.tensors import Array
from moot.offchain.errors import MootError, RequestRefused
from moot.offchain.frontend.generation.answering import Question, draw
from moot.offchain.serving.answered import Answered, Reason
from moot.offchain.serving.choosing import Chooser
from moot.offchain.serving.committing import commit
from moot.offchain.serving.pool import Pool
from moot.offchain.serving.prefixes import Prefixes
from moot.offchain.serving.programs import Programs
from moot.offchain.serving.requests import Counts, Limits, Request
from moot.offchain.text import show_error

_GROWTH = 4
"""How many times as many positions the caches have where they have too few."""

_turns = Lock()
"""Engines take turns: each has all threads of the kernels in its own."""


@dataclass(eq=False, slots=True)
class _Row:
    """A text in work: what is known of it, and how many of its tokens were read."""

    request: Request
    tokens: list[int]
    draws: Array
    position: int = 0

    @property
    def unread(self) -> int:
        return len(self.tokens) - self.position


class Engine:
    """Answers requests of one model.

    Args:
        programs: the model's programs.
        limits: the limits.
        has_claims: whether answers have roots; without, those are zeros, and nothing is hashed.
    """

    def __init__(
        self,
        programs: Programs,
        limits: Limits = Limits(),  # noqa: B008 - it is frozen
        *,
        has_claims: bool = True,
    ) -> None:
        self.programs, self.limits = programs, limits
        self._has_claims = has_claims
        self.counts = Counts()
        self._chooser = Chooser(programs.vocabulary)
        self._prefixes = Prefixes(limits.prefix_bytes)
        self._least = min(limits.least_length, programs.context)
        self._pool = Pool(programs.reader.heads, limits.slots, self._least)
        self._rows: list[_Row] = []
        self._queue: deque[Request] = deque()
        self._changed = Condition()
        self._is_stopped = False
        self._thread: Thread | None = None

    def list_sizes(self) -> list[tuple[int, int, int]]:
        """Return texts, tokens and positions of the passes that there may be, small ones first."""
        lengths = [self._least]
        while lengths[-1] < self.programs.context:
            lengths.append(min(_GROWTH * lengths[-1], self.programs.context))
        slots = self.limits.slots
        texts = sorted({min(1 << n, slots) for n in range((slots - 1).bit_length() + 1)})
        groups = sorted({1, min(self.limits.group, slots)})
        longest = self.programs.context - 2  # of a prompt, but for the token that is decoded first
        counts = [n for less, n in pairwise((0, *self.limits.chunks)) if less < longest]
        chunks = [(n, count) for n in groups for count in counts]
        return [(*it, length) for length in lengths for it in [*((n, 1) for n in texts), *chunks]]

    def prepare(self, size: tuple[int, int, int]) -> None:
        """Make a pass ready, which would be made when it is needed first."""
        texts, count, length = size
        self.programs.find_chunk(texts, count, length, has_logits=count == 1)

    @property
    def active(self) -> int:
        """Texts in work."""
        return len(self._rows)

    @property
    def waiting(self) -> int:
        """Requests that wait for a slot."""
        return len(self._queue)

    def check(self, question: Question) -> None:
        """Refuse a question that the model can't answer.

        Raises:
            RequestRefused: it is too long, or has tokens that the model does not know.
        """
        if question.tokens > self.programs.context:
            raise RequestRefused(
                f"{len(question.prompt)} tokens of prompt and {question.most} of answer are more "
                f"than the {self.programs.context} of the context; ask for less",
                "max_tokens",
            )
        least, most = min(question.prompt), max(question.prompt)
        if least < 0 or most >= self.programs.vocabulary:
            raise RequestRefused(
                f"the prompt has the token {least if least < 0 else most}; the model's are 0 to "
                f"{self.programs.vocabulary - 1}",
                "prompt",
            )

    def submit(self, request: Request) -> None:
        """Let a request wait for a slot.

        Raises:
            RequestRefused: it can't be answered, or too many wait.
        """
        self.check(request.question)
        with self._changed:
            if self._is_stopped or len(self._queue) >= self.limits.waiting:
                raise RequestRefused("too many requests wait; try again later", None, 429)
            self._queue.append(request)
            self._changed.notify()

    def start(self) -> None:
        """Answer from now on, on a thread of the engine's own."""
        self._thread = Thread(target=self._work, name="engine", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End all requests, and the thread."""
        with self._changed:
            self._is_stopped = True
            self._changed.notify()
        if self._thread is not None:
            self._thread.join()
        for request in [*(row.request for row in self._rows), *self._queue]:
            request.done(RequestRefused("the server stops; ask another one", None, 503))
        self._rows.clear()
        self._queue.clear()

    def _work(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._is_stopped or self._queue or self._rows)
                if self._is_stopped:
                    return
            with _turns:
                self.turn()

    def turn(self) -> None:
        """Admit who waits, read chunks of prompts, and decode a token of every other text."""
        self.counts.turns += 1
        self._drop_ended()
        self._admit()
        if self._rows:
            try:
                self._fit()
                self._read()
                self._decode()
            except Exception as error:  # noqa: BLE001 - the thread goes on, whatever has failed
                self._fail(error)

    def _fail(self, error: Exception) -> None:
        """End all texts in work by an error."""
        known = error if isinstance(error, MootError) else None
        told = known or RequestRefused(f"the engine failed: {show_error(error)}", None, 500)
        self.counts.failed += len(self._rows)
        for row in self._rows:
            row.request.done(told)
        self._rows.clear()

    def _drop_ended(self) -> None:
        """Free the slots of requests that were cancelled or take too long."""
        latest = time.monotonic() - self.limits.request_s
        with self._changed:
            gone = [it for it in self._queue if it.is_cancelled or it.arrived < latest]
            for request in gone:
                self._queue.remove(request)
        for number in reversed(range(len(self._rows))):
            request = self._rows[number].request
            if request.is_cancelled or request.arrived < latest:
                gone.append(request)
                self._remove(number)
        for request in gone:
            self.counts.cancelled += 1
            slow = RequestRefused(
                f"not answered within {self.limits.request_s:g} s; ask for less", None, 504
            )
            request.done(None if request.is_cancelled else slow)

    def _admit(self) -> None:
        while len(self._rows) < self.limits.slots:
            with self._changed:
                if not self._queue:
                    return
                request = self._queue.popleft()
            question = request.question
            draws = draw(question.sampling.seed, question.tokens)[0]
            row = _Row(request, list(question.prompt), draws)
            self._pool.clear(len(self._rows))
            self._rows.append(row)
            self.counts.prompt_tokens += len(question.prompt)
            found = self._prefixes.find(question.prompt[:-1])
            if found is not None:
                prefix, row.position = found
                self._grow(row.position)
                self._pool.write(len(self._rows) - 1, 0, prefix.arrays, 0, row.position)
                self.counts.known_tokens += row.position

    def _fit(self) -> None:
        """Give the pool as many positions as are needed, or as few, while nobody is there."""
        most = self.limits.chunks[-1] + 1  # a chunk, and the token that is decoded after it
        reach = max(row.position + min(row.unread, most) for row in self._rows)
        if len(self._rows) == 1 and self._pool.length > self._least:
            self._pool.resize(self._find_length(reach), 1)
        self._grow(reach)

    def _grow(self, reach: int) -> None:
        length = self._find_length(reach)
        if length > self._pool.length:
            self._pool.resize(length, len(self._rows))

    def _find_length(self, reach: int) -> int:
        length = self._least
        while length < reach:
            length = min(_GROWTH * length, self.programs.context)
        return length

    def _read(self) -> None:
        """Read a chunk of each prompt, up to a turn's tokens; the last one is left to decoding.

        Several prompts, since a pass that decodes costs the same for few texts as for all. Those
        side by side whose chunks are as long are read in one pass, if they are most of a group.
        """
        left, chunks = self.limits.turn_tokens, [*map(self._choose_chunk, self._rows)]
        group = min(self.limits.group, self.limits.slots)
        for first in range(len(chunks)):
            chunk, texts = chunks[first], 1
            if not chunk or left <= 0:
                continue
            near = range(first, min(first + group, len(chunks)))
            alike = [number for number in near if chunks[number] == chunk]
            has_room = first + group <= self.limits.slots and group * chunk <= left
            if has_room and 2 * len(alike) > group:
                texts = group
            self._read_chunks(first, texts, chunk, alike[:texts])
            left -= texts * chunk
            for number in alike[:texts]:
                chunks[number] = 0

    def _choose_chunk(self, row: _Row) -> int:
        """Return how long the chunk is that a text's prompt is read in next; 0 if it was read."""
        wanted, chunks = row.unread - 1, self.limits.chunks
        return next((n for n in chunks if n >= wanted), chunks[-1]) if wanted else 0

    def _read_chunks(self, first: int, texts: int, chunk: int, numbers: Sequence[int]) -> None:
        """Read a chunk of each of some prompts, which are among so many texts side by side."""
        tokens, starts = np.zeros((texts, chunk), np.int64), np.zeros(texts, np.int64)
        counts = {n: min(self._rows[n].unread - 1, chunk) for n in numbers}
        for number, count in counts.items():
            row = self._rows[number]
            starts[number - first] = row.position
            tokens[number - first, :count] = row.tokens[row.position : row.position + count]
        program = self.programs.find_chunk(texts, chunk, self._pool.length, has_logits=False)
        made = program.run(tokens, starts, self._pool.view(first, texts))
        for number, count in counts.items():
            row = self._rows[number]
            self._pool.write(number, row.position, made, number - first, count)
            row.position += count

    def _decode(self) -> None:
        ready = [n for n, row in enumerate(self._rows) if row.unread == 1]
        if not ready:
            return
        texts = 1 << (len(self._rows) - 1).bit_length()
        texts = min(texts, self.limits.slots)
        tokens, starts = np.zeros((texts, 1), np.int64), np.zeros(texts, np.int64)
        for number in ready:
            row = self._rows[number]
            tokens[number, 0], starts[number] = row.tokens[-1], row.position
        program = self.programs.find_chunk(texts, 1, self._pool.length, has_logits=True)
        logits, *made = program.run(tokens, starts, self._pool.view(0, texts))
        for number in ready:
            row = self._rows[number]
            self._pool.write(number, row.position, made, number, 1)
            row.position += 1
        for number in reversed(ready):
            self._extend(number, logits[number, 0])

    def _extend(self, number: int, logits: Any) -> None:
        """Choose a text's next token; end it where it is to end."""
        row = self._rows[number]
        request, question = row.request, row.request.question
        chosen = self._chooser.choose(logits, question.sampling, row.draws[row.position - 1])
        token = self.write(chosen, len(row.tokens) - len(question.prompt))
        row.tokens.append(token)
        self.counts.answer_tokens += 1
        try:
            is_over = request.take(token, logits) or token in request.ends
        except Exception as error:  # noqa: BLE001 - a tokenizer's fault is one request's, not all's
            self._remove(number)
            self.counts.failed += 1
            request.done(RequestRefused(f"the answer can't be written: {error}", None, 500))
            return
        if is_over or len(row.tokens) == question.tokens:
            answered = self._answer(number, Reason.STOP if is_over else Reason.LENGTH)
            self._remove(number)
            self.counts.answers += 1
            request.done(answered)

    def write(self, chosen: int, place: int) -> int:
        """Return the token that is written at a place of an answer: the one that was chosen."""
        del place
        return chosen

    def _answer(self, number: int, reason: Reason) -> Answered:
        """Return what a text that ends commits to."""
        row = self._rows[number]
        question, begun = row.request.question, time.perf_counter()
        answer = tuple(row.tokens[len(question.prompt) :])
        length = self.programs.find_length(question)
        if self._has_claims:
            arrays = self._pool.read(number, row.position, length)
            made = commit(self.programs, question, answer, reason, arrays)
        else:
            header = self.programs.find_answer(length).header
            made = Answered(question, answer, reason, length, header, ZERO, ZERO, ZERO, 0)
        size = row.position * self._pool.position_bytes
        if self._prefixes.can_keep(size):
            self._prefixes.keep(row.tokens[: row.position], self._pool.read(number, row.position))
        self.counts.hashing_s += time.perf_counter() - begun
        return made

    def _remove(self, number: int) -> None:
        """Free a row, which the last one takes."""
        last = len(self._rows) - 1
        if number != last:
            self._pool.move(last, number)
            self._rows[number] = self._rows[last]
        self._rows.pop()
