"""Checking: the first wrong token of an answer by one pass over it, and what it commits to."""

from collections.abc import Sequence

import numpy as np

from moot.offchain.commitments.tensors import Array
from moot.offchain.errors import UsageError
from moot.offchain.frontend.generation.answering import Question, draw
from moot.offchain.serving.answered import Answered, Reason
from moot.offchain.serving.choosing import Chooser
from moot.offchain.serving.committing import commit
from moot.offchain.serving.pool import Pool
from moot.offchain.serving.programs import Programs

CHUNK = 64
"""Tokens of a pass."""


def check_answer(
    programs: Programs, question: Question, answer: Sequence[int], reason: Reason = Reason.STOP
) -> tuple[int | None, Answered | None]:
    """Return the place of the first wrong token, or what the answer commits to, in one pass.

    What is returned is what whoever has answered so had to commit to.

    Raises:
        UsageError: there are no tokens, or more than were asked for.
    """
    if not 1 <= len(answer) <= question.most:
        raise UsageError(
            f"an answer of {len(answer)} tokens to a question for {question.most} at most; "
            "give the whole answer"
        )
    text = [*question.prompt, *answer]
    if min(text) < 0 or max(text) >= programs.vocabulary:
        raise UsageError(f"the text has tokens that are none of 0 to {programs.vocabulary - 1}")
    length = programs.find_length(question)
    pool = Pool(programs.reader.heads, 1, length)
    wrong = _read(programs, question, text, pool)
    if wrong is not None:
        return wrong, None
    arrays = pool.read(0, len(text) - 1, length)
    return None, commit(programs, question, answer, reason, arrays)


def _read(programs: Programs, question: Question, text: Sequence[int], pool: Pool) -> int | None:
    """Read a text but for its last token; return the place of the first wrong token."""
    chooser, first = Chooser(programs.vocabulary), len(question.prompt)
    draws = draw(question.sampling.seed, question.tokens)[0]
    program = programs.find_chunk(1, CHUNK, pool.length, has_logits=True)
    for start in range(0, len(text) - 1, CHUNK):
        count = min(CHUNK, len(text) - 1 - start)
        tokens = np.zeros((1, CHUNK), np.int64)
        tokens[0, :count] = text[start : start + count]
        logits, *made = program.run(tokens, np.array([start]), pool.view(0, 1))
        pool.write(0, start, made, 0, count)
        for place in range(max(first - 1, start), start + count):
            row: Array = logits[0, place - start]
            if chooser.choose(row, question.sampling, draws[place]) != text[place + 1]:
                return place + 1 - first
    return None
