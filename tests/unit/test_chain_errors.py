"""The drawing of the tree of errors is right, and errors pass unchanged between processes."""

import pickle
import re

import pytest

from moot.offchain import errors
from moot.offchain.errors import MootError


def find_subclasses(kind: type[MootError]) -> list[type[MootError]]:
    """Return a class and all below it in moot.offchain.errors."""
    below = [sub for sub in kind.__subclasses__() if sub.__module__ == errors.__name__]
    return [kind, *(found for sub in below for found in find_subclasses(sub))]


EXAMPLES: list[MootError] = [
    errors.UsageError.unknown("cheat", "lazzy", ["lazy", "silent"]),
    errors.CaptureError("no such operator", operator="aten.x", module="a.b", source_line="m.py:3"),
    errors.ProgramError("a program"),
    errors.CommitmentError("a commitment"),
    errors.StoreError("a store"),
    errors.ChainUnavailable("http://x", "nothing answers there"),
    errors.ChainIdChanged(1, 2),
    errors.NodeError("eth_call", "no", {"data": "0x"}),
    errors.CompileError("TypeMismatch: no", file="a.vy", line=3),
    errors.BadCall("join", "no"),
    errors.TransactionRefused("join", "no"),
    errors.TransactionLost("join", "0x12", 3.0),
    errors.Reverted("referee: late", "join", gas_used=5),
    errors.RefereeError("referee: late"),
    errors.CostBoundExceeded(resource="bytes", needed=2000, bound=1000),
]


def test_docstring_draws_the_tree() -> None:
    """Every class of the module stands in its docstring, under its base."""
    assert errors.__doc__ is not None
    drawn: dict[str, str | None] = {}
    path: list[str] = []
    for line in errors.__doc__.splitlines():
        if found := re.match(r"    ([│├└─ ]*)([A-Z]\w+)(?: {2,}|$)", line):
            depth = len(found[1]) // 4
            path[depth:] = [found[2]]
            drawn[found[2]] = path[depth - 1] if depth else None
    real = {
        kind.__name__: kind.__bases__[0].__name__ if kind is not MootError else None
        for kind in find_subclasses(MootError)
    }
    assert drawn == real


@pytest.mark.parametrize("error", EXAMPLES, ids=lambda error: type(error).__name__)
def test_errors_survive_pickling(error: MootError) -> None:
    """An error from another process has the same class, message and fields."""
    copy = pickle.loads(pickle.dumps(error))  # noqa: S301 - we made it just now
    assert type(copy) is type(error)
    assert (str(copy), vars(copy)) == (str(error), vars(error))


@pytest.mark.parametrize("error", EXAMPLES, ids=lambda error: type(error).__name__)
def test_messages_are_one_line(error: MootError) -> None:
    """What the user sees of an error is one line, and it is the message."""
    assert str(error) == error.message
    assert error.message
    assert "\n" not in error.message


def test_suggestions() -> None:
    """A close name is suggested; without one the choices are listed, sorted."""
    assert errors.suggest("lazzy", ["silent", "lazy"], "cheats") == "did you mean 'lazy'?"
    assert errors.suggest("GPT2", ["bert", "gpt2"], "programs") == "did you mean 'gpt2'?"
    assert errors.suggest("f", ["F", "Gap"], "functions") == "did you mean 'F'?"
    assert errors.suggest("x", {"silent", "lazy"}, "cheats") == "choose one of lazy, silent"
    assert errors.suggest("x", [], "cheats") == "there are no cheats to choose from"
    assert str(EXAMPLES[0]) == "unknown cheat 'lazzy'; did you mean 'lazy'?"
