"""The numbering of a step's random draws, by which a repeated draw gets its first number again.

A draw is known by the state that torch's generator has before it. Gradient checkpointing sets that
state back when it computes something again, so that the draw gets its first number again.
"""

from typing import Any, NamedTuple

import torch
from torch.utils._python_dispatch import _disable_current_modes


def is_random(func: Any, args: tuple[Any, ...]) -> bool:
    """Return whether an operator of torch draws random numbers when it is called like this."""
    if torch.Tag.nondeterministic_seeded not in getattr(func, "tags", ()):  # of functions: none
        return False
    if func is torch.ops.aten.native_dropout.default:
        return 0 < args[1] < 1 and args[2] is not False
    return True


class Draw(NamedTuple):
    """A draw that an operator makes.

    Attributes:
        number: which random numbers they are.
        call: number of the operator among those that draw; several draw the same numbers.
    """

    number: int
    call: int


class Draws:
    """Numbers the draws of one step: 0, 1, ..., and again the same where one is repeated."""

    def __init__(self) -> None:
        self._numbers: dict[bytes, int] = {}
        self._made = 0

    def find(self, state: bytes) -> int:
        """Return the number of the draw before which the generator has this state."""
        return self._numbers.setdefault(state, len(self._numbers))

    def make(self) -> Draw:
        """Return the next draw, and move the generator on."""
        number = self.find(get_generator_state())
        with _disable_current_modes():
            torch.rand(())
        self._made += 1
        return Draw(number, self._made - 1)


def get_generator_state() -> bytes:
    """Return the state of torch's generator."""
    with _disable_current_modes():
        return torch.default_generator.get_state().numpy().tobytes()
