"""Committing: the roots of an answer's states, of which those of the weights are known."""

from collections.abc import Iterable, Sequence

import numpy as np

from moot.offchain.commitments.tensors import Array
from moot.offchain.frontend.generation.answering import Question, fill_in
from moot.offchain.serving.answered import Answered, Reason
from moot.offchain.serving.programs import TOKENS, Programs


def commit(
    programs: Programs,
    question: Question,
    answer: Sequence[int],
    reason: Reason,
    arrays: Iterable[Array],
) -> Answered:
    """Return what an answer commits to, given the keys and values after its last step."""
    length = programs.find_length(question)
    program = programs.find_answer(length)
    given = fill_in(question, length)
    tokens = given[TOKENS].copy()
    tokens[0, len(question.prompt) : len(question.prompt) + len(answer)] = answer
    position = min(len(question.prompt) + len(answer) - 1, length - 1)
    made = {
        TOKENS: tokens,
        "buffer.position": np.array(position, np.int64),
        "output.0": np.array([answer[-1]], np.int64),
    }
    names = [f"buffer.{kind}_{n}" for n in programs.reader.heads for kind in ("keys", "values")]
    made |= dict(zip(names, arrays, strict=True))
    start_root, end_root, answer_root = program.hash_run(given, made)
    return Answered(
        question,
        tuple(answer),
        reason,
        length,
        program.header,
        start_root,
        end_root,
        answer_root,
        program.slots[TOKENS],
    )
