"""Answered: what an answer is, and what it commits to."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from moot.offchain.commitments.tags import Tag
from moot.offchain.commitments.tree import Digest, Tree
from moot.offchain.frontend.generation.answering import Question
from moot.offchain.programs.roots import ProgramHeader


class Reason(StrEnum):
    """Why an answer ends, in the words of the interface that it is asked by."""

    STOP = "stop"
    LENGTH = "length"


@dataclass(frozen=True, slots=True)
class Answered:
    """An answer, with all that a receipt says of it.

    Attributes:
        question: what was asked.
        tokens: the answer's tokens.
        reason: why it ends.
        length: which of the model's programs it is an answer of.
        header: that program's commitment.
        start_root: the root of the start state, which whoever asks can compute.
        end_root: the root of the state after the last step.
        answer_root: the root of the tensor of tokens in that state.
        answer_slot: its slot.
    """

    question: Question
    tokens: tuple[int, ...]
    reason: Reason
    length: int
    header: ProgramHeader
    start_root: Digest
    end_root: Digest
    answer_root: Digest
    answer_slot: int

    @property
    def steps(self) -> int:
        """The steps that were made: each token but the last was read."""
        return len(self.question.prompt) + len(self.tokens) - 1

    @property
    def history_top(self) -> Digest:
        """The top of the history, which has one checkpoint."""
        return Tree(Tag.HISTORY_NODE, [self.end_root]).top


class Issuer(Protocol):
    """Signs receipts of answers; its methods may be called from several threads."""

    def issue(self, answered: Answered, client: str, name: str, model: str) -> str:
        """Return the receipt of an answer as text of a header; both are on the disk by then.

        Args:
            answered: the answer.
            client: the address of whoever asks, checksummed; the zero address if unknown.
            name: what the answer is known by.
            model: the name of the model.

        Raises:
            MootError: there is none: the bond does not cover it, or the book can't be written.
        """

    def find(self, name: str) -> bytes | None:
        """Return a receipt and all that is needed to check its answer, as JSON.

        None if there is none of this name, whatever it is.
        """
