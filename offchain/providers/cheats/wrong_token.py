"""The cheat of an answering provider that writes another token than its model chooses."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Self

from moot.offchain.commitments.tensors import Array
from moot.offchain.errors import UsageError
from moot.offchain.providers.behaviour import Behaviour, Patch
from moot.offchain.providers.cheats.drawing import Draws, flip_bit, settled

TOKENS, PROMPT_LENGTH = "buffer.tokens", "buffer.prompt_length"
"""The slots of a program of answers that it looks at."""


@dataclass(eq=False)
class WrongToken(Behaviour):
    """Writes another token in one place of an answer, and goes on from there as the model does.

    Attributes:
        token: the place in the answer, counted from 0; the last one is read by no step.
        operator: who writes tokens; known by the program.
        step: the step that writes this one; likewise.
    """

    name = "wrong-token"
    token: int | None = None
    operator: int | None = field(default=None, init=False)
    step: int | None = field(default=None, init=False)

    def draw(self, draws: Draws) -> Self:
        """Draw a place in the answer."""
        task, program = draws.task, draws.task.program
        names = [slot.name for slot in program.state]
        if TOKENS not in names or PROMPT_LENGTH not in names:
            raise UsageError("wrong-token is for answers of language models; choose another cheat")
        prompt = int(task.initial_state[names.index(PROMPT_LENGTH)][0])
        token = draws.integer("token", self.token, task.steps - prompt)
        sink = program.nodes[program.first_sink + names.index(TOKENS)]
        found = replace(self, token=token)
        found.operator = sink.operands[0].reference
        found.step = prompt - 1 + token
        return found

    def patch(self, step: int, state: Sequence[Array]) -> Patch | None:
        """Write another token."""
        del state
        if step != self.step:
            return None
        element = settled(self.step) + 1
        return {settled(self.operator): lambda output: flip_bit(output, element, 0)}
