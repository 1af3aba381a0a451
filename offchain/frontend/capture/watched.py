"""Watched numbers: they stand for Python's numbers that a step moves, and see what becomes of them.

Arithmetic gives further watched numbers, and text shows them. Whatever else takes one may make
another step of it: a tensor, an index, a key, a conversion. Such a use is refused. A comparison is
a decision, which a run can take the other way, so that what both ways make can be compared.
"""

import math
import operator
import sys
from collections.abc import Callable, Mapping
from types import FrameType
from typing import Any

import numpy as np

from moot.offchain.errors import CaptureError
from moot.offchain.frontend.lines import show_line
from moot.offchain.frontend.lowering.graph import refusal
from moot.offchain.frontend.neighbours import is_of_user

FAR = 10_000
"""How far a watched number is from the one that it stands for."""

MOST_DECISIONS = 32
"""Decisions of one step that are looked at."""

ADVICE = "register it as a buffer, and choose by torch.where"

_BOTH = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "lshift", "rshift", "and", "or")
_ALONE = ("neg", "pos", "abs", "invert", "round", "floor", "ceil", "trunc")
_COMPARISONS = ("lt", "le", "eq", "ne", "gt", "ge")
_CONVERSIONS: Mapping[str, Callable[[Any], Any]] = {
    "int": int,
    "float": float,
    "index": int,
    "complex": complex,
    "hash": hash,
}


class Watch:
    """A run with watched numbers.

    Args:
        turned: the number of the decision that is taken the other way, if one is.
        why: what changes the numbers.
        advice: what to do where a use is refused.

    Attributes:
        decisions: the numbers' paths and the users' lines of the decisions so far.
        refused: the first use that is refused, which a user's `except` may have caught.
    """

    def __init__(
        self, turned: int | None = None, why: str = "a step changes it", advice: str = ADVICE
    ) -> None:
        self._why, self._advice = why, advice
        self.decisions: list[tuple[str, str]] = []
        self.refused: CaptureError | None = None
        self._turned = turned

    def decide(self, path: str, outcome: bool) -> bool:  # noqa: FBT001 - what a comparison gives
        """Note a decision by a watched number, and return the way that it takes."""
        is_turned = len(self.decisions) == self._turned
        if len(self.decisions) == MOST_DECISIONS:
            self.refuse(path, "decides by it too often")
        self.decisions.append((path, find_line()))
        return outcome is not is_turned

    def refuse(self, path: str, use: str) -> None:
        """Refuse a use of a watched number.

        Raises:
            CaptureError: always.
        """
        error = refusal(f"{self._why}, and the step {use}; {self._advice}", path, find_line())
        self.refused = self.refused or error
        raise error


class Watched:
    """A number that stands for one of Python.

    Args:
        watch: sees what is done with it.
        path: the place of the number that it stands for.
        value: the number.
    """

    __array_ufunc__ = None

    def __init__(self, watch: Watch, path: str, value: Any) -> None:
        self.watch, self.path, self.value = watch, path, value

    def __str__(self) -> str:
        return str(self.value)

    def __repr__(self) -> str:
        return repr(self.value)

    def __format__(self, spec: str) -> str:
        return format(self.value, spec)

    def __copy__(self) -> "Watched":
        return self

    def __deepcopy__(self, _: Any) -> "Watched":
        return self

    def __bool__(self) -> bool:
        return self.watch.decide(self.path, bool(self.value))

    def __getattr__(self, name: str) -> Any:
        if name[:2] == "__":
            raise AttributeError(name)
        return self.watch.refuse(self.path, f"takes its {name}")


def is_number(value: Any) -> bool:
    """Return whether a value is a number, which can be watched."""
    return isinstance(value, (int, float, np.number)) and not isinstance(value, bool)


def _read(value: Any) -> Any:
    return value.value if isinstance(value, Watched) else value


def _make_arithmetic(function: Callable[..., Any], *, is_turned: bool) -> Callable[..., Any]:
    def compute(self: Watched, *others: Any) -> Any:
        values = [_read(other) for other in others]
        for value in values:
            if not isinstance(value, (int, float, complex, np.number, type(None))):
                self.watch.refuse(self.path, "computes with it")
        operands = [*values, self.value] if is_turned else [self.value, *values]
        return Watched(self.watch, self.path, function(*operands))

    return compute


def _make_comparison(function: Callable[..., Any]) -> Callable[..., Any]:
    def compare(self: Watched, other: Any) -> Any:
        return self.watch.decide(self.path, bool(function(self.value, _read(other))))

    return compare


def _make_conversion(name: str, convert: Callable[[Any], Any]) -> Callable[..., Any]:
    def use(self: Watched) -> Any:
        if sys._getframe(1).f_globals.get("__name__") == "logging":  # noqa: SLF001 - who shows it
            return convert(self.value)
        return self.watch.refuse(self.path, f"uses it as {name}")

    return use


def _get_function(name: str) -> Callable[..., Any]:
    if name == "round":
        return round
    function: Callable[..., Any] = getattr(operator, f"__{name}__", None) or getattr(math, name)
    return function


for _name in (*_BOTH, *_ALONE):
    setattr(Watched, f"__{_name}__", _make_arithmetic(_get_function(_name), is_turned=False))
for _name in _BOTH:
    setattr(Watched, f"__r{_name}__", _make_arithmetic(_get_function(_name), is_turned=True))
for _name in _COMPARISONS:
    setattr(Watched, f"__{_name}__", _make_comparison(getattr(operator, _name)))
for _name, _convert in _CONVERSIONS.items():
    _described = {"index": "an index", "hash": "a key", "int": "an int"}.get(_name, f"a {_name}")
    setattr(Watched, f"__{_name}__", _make_conversion(_described, _convert))


def watch_number(watch: Watch, path: str, value: Any) -> Watched:
    """Return what stands for a number, far from it."""
    return Watched(watch, path, value + FAR)


def find_line() -> str:
    """Return the innermost line of the user's, in the form of `LineTracker`."""
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001 - looks without copying the stack
    while frame is not None:
        if is_of_user(frame.f_code.co_filename):
            return show_line("model", frame.f_code.co_filename, frame.f_lineno)
        frame = frame.f_back
    return ""
