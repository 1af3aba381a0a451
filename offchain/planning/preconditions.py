"""The preconditions of kernels: what a kernel takes for granted, and planning has to show.

A form of operators that one kernel computes is a `Form`. It names its preconditions, and none can
be made that breaks one. Planning makes forms by `make_form`; where a precondition does not hold,
the operators run one by one, in kernels that compute whatever a program may ask for.
"""

import os
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple, TypeVar

from moot.offchain.errors import BrokenPrecondition

DEBUG_VARIABLE = "MOOT_DEBUG"

IS_DEBUG = os.environ.get(DEBUG_VARIABLE, "") not in {"", "0"}
"""Whether runs look at every tensor that a kernel is given and returns."""

_FormT = TypeVar("_FormT", bound="Form")


class Precondition(NamedTuple):
    """One thing that a kernel takes for granted of its form.

    Attributes:
        name: what it is about, unique in its form.
        sentence: what has to hold.
        holds: whether it does, of a form.
    """

    name: str
    sentence: str
    holds: Callable[[Any], bool]


class Form:
    """What a kernel computes, as frozen data; a subclass lists the preconditions of its kernel."""

    __slots__ = ()

    preconditions: ClassVar[tuple[Precondition, ...]] = ()

    def __post_init__(self) -> None:
        """Refuse a form that breaks a precondition of its kernel.

        Raises:
            BrokenPrecondition: it does; the message says which one.
        """
        for precondition in self.preconditions:
            if not precondition.holds(self):
                raise BrokenPrecondition(type(self).__name__, *precondition[:2])


def make_form(kind: Callable[..., _FormT], *arguments: Any, **named: Any) -> _FormT | None:
    """Return a form, or None if it breaks a precondition of its kernel."""
    try:
        return kind(*arguments, **named)
    except BrokenPrecondition:
        return None
