"""The check of a receipt: the answer is run again, and the roots are compared.

The outcomes are those of draft ERC-8404: a receipt is verified, refuted or unverifiable, by a run
that reproduced it, diverged from it, or could not be made.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from moot.contracts.model.receipts import Receipt, is_sound
from moot.offchain.receipts.packed import SignedReceipt
from moot.offchain.receipts.weakness import list_weaknesses
from moot.offchain.serving.checking import check_answer
from moot.offchain.serving.programs import TOKENS, Programs
from moot.offchain.serving.tasks import Asked


class Verdict(StrEnum):
    """What a check says of a receipt."""

    VERIFIED = "VERIFIED"
    """The run that it is about has the history that it claims."""
    REFUTED = "REFUTED"
    """It has another one: a challenge would be won."""
    UNVERIFIABLE = "UNVERIFIABLE"
    """It is about something else than what is at hand, or no challenge could be decided."""


class Recomputation(StrEnum):
    """What came of the run that a check has made."""

    REPRODUCED = "REPRODUCED"
    DIVERGED = "DIVERGED"
    NOT_RECOMPUTED = "NOT_RECOMPUTED"


@dataclass(frozen=True, slots=True)
class Checked:
    """The result of a check.

    Attributes:
        verdict: what it says.
        recomputation: what came of the run.
        line: why, in one line.
        token: the place in the answer of the first token that is wrong, if one is.
        step: the step that chose it.
        operator: the number of the operator whose output differs there.
        element: the element of that output.
    """

    verdict: Verdict
    recomputation: Recomputation
    line: str
    token: int | None = None
    step: int | None = None
    operator: int | None = None
    element: int | None = None


def check_receipt(signed: SignedReceipt, asked: Asked, programs: Programs) -> Checked:
    """Run an answer again, in one pass over its tokens, and compare it with its receipt.

    Args:
        signed: the receipt, whose signature is its provider's.
        asked: what was asked, and the answer that came.
        programs: the model's programs.
    """
    obstacle = next(_list_obstacles(signed.receipt, asked, programs), None)
    if obstacle is not None:
        return Checked(Verdict.UNVERIFIABLE, Recomputation.NOT_RECOMPUTED, obstacle)
    token, answered = check_answer(programs, asked.question, asked.answer)
    if token is not None:
        place = len(asked.question.prompt) + token
        operator = programs.find_program(asked.question).writer
        line = (
            f"token {token} of the answer, {asked.answer[token]}, is not what the model chooses: "
            f"operator {operator} of step {place - 1}, element {place}"
        )
        found = (token, place - 1, operator, place)
        return Checked(Verdict.REFUTED, Recomputation.DIVERGED, line, *found)
    assert answered is not None
    if answered.history_top != signed.receipt.history:
        line = "its tokens are the model's, and the state that it claims after them is another"
        return Checked(Verdict.REFUTED, Recomputation.DIVERGED, line)
    line = f"all {len(asked.answer)} tokens, and the state after them, are the model's"
    return Checked(Verdict.VERIFIED, Recomputation.REPRODUCED, line)


def _list_obstacles(receipt: Receipt, asked: Asked, programs: Programs) -> Iterator[str]:
    """Yield why a receipt says nothing about an answer of a model, if it does not."""
    if not is_sound(receipt):
        yield "no challenge of it could be decided: its terms are not sound"
    yield from list_weaknesses(receipt)
    if receipt.stake_wei == 0:
        yield "nothing backs it: its stake is 0"
    if receipt.steps != asked.steps or receipt.checkpoint_every != receipt.steps:
        yield (
            f"it is of {receipt.steps} steps, and this answer takes {asked.steps}; "
            "it belongs to another answer"
        )
    most, vocabulary = programs.context, programs.vocabulary
    if asked.question.tokens > most:
        yield f"the model sees {most} tokens, and the question is about {asked.question.tokens}"
    if max(*asked.question.prompt, *asked.answer) >= vocabulary:
        yield f"the text has tokens that are none of the model's {vocabulary}"
    program = programs.find_program(asked.question)
    header = program.header
    stated = (receipt.layout, receipt.program_top, receipt.operators, receipt.state_slots)
    if stated != (header.layout, header.top, header.operators, header.state_slots):
        yield (
            "it is of another program than this model's; get the model that it is of, or name the "
            "adapter"
        )
    if receipt.start_root != program.hash_start(asked.question):
        yield "it is of other weights, or of another question than this file's"
    if receipt.answer_slot != program.slots[TOKENS]:
        yield "what it calls the answer are not the tokens"
    if receipt.answer != asked.hash_text(program):
        yield "it is of another text than this file's"
