"""The judge of mutants of the models of promises and premiums, by the calls of their tests."""

import sys
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from types import FunctionType
from typing import Any, ClassVar

from moot.contracts.reasons import Revert
from tests.mutants.apart import run_apart
from tests.mutants.generate import Mutant
from tests.mutants.played import copy_vault, play_tests

RECORDING_SECONDS = 1_000


class Judge:
    """A judge that knows the models' answers; a process with one may judge one mutant.

    Attributes:
        SECONDS: how long a mutant may take; one that takes longer goes round in a loop.
        order: the places of what is asked, that first which has told mutants apart lately.
    """

    SECONDS: ClassVar[int] = 60

    def __init__(self) -> None:
        self._asked = self.record()
        self._answers = [list(self.ask(each)) for each in self._asked]
        self.order = list(range(len(self._asked)))

    def record(self) -> Sequence[Any]:
        """Return what is asked: the calls that the tests make."""
        said: Sequence[Any] = run_apart(self.play, seconds=RECORDING_SECONDS)
        return said

    @staticmethod
    def play() -> Sequence[Any]:
        """Return the calls of models that the tests make."""
        return play_tests()[1]

    def ask(self, said: Any) -> Iterator[str]:
        """Yield what a model answers to a call, and what its vault is after it."""
        vault = copy_vault(said.vault)
        play = import_module(f"moot.contracts.model.{said.model}").call
        yield answer(lambda: repr(play(vault, said.name, said.message, *said.args)))
        vault.referees, vault.events = {}, []
        yield repr(vault)

    @staticmethod
    def install(mutant: Mutant) -> None:
        """Run a module's mutant in place of it."""
        install(mutant)

    def judge(self, mutant: Mutant) -> tuple[str, int]:
        """Return what becomes of a mutant, and the place of the call that kills it."""
        try:
            self.install(mutant)
        except Exception:  # noqa: BLE001 - a mutant may fail in any way
            return "stillborn", -1
        for place in self.order:
            said = self.ask(self._asked[place])
            if any(new != old for new, old in zip(said, self._answers[place], strict=True)):
                return "killed", place
        return "survived", -1


def answer(ask: Callable[[], str]) -> str:
    """Return what a model answers, or why it does not."""
    try:
        return ask()
    except Revert as refusal:
        return str(refusal)
    except Exception as error:  # noqa: BLE001 - a mutant may fail in any way
        return type(error).__name__


def install(mutant: Mutant) -> None:
    """Run a module's mutant in place of it; its classes stay, and get the mutant's methods."""
    module = import_module(f"moot.contracts.model.{mutant.file.removesuffix('.py')}")
    before = dict(vars(module))
    exec(compile(mutant.text, mutant.file, "exec"), vars(module))  # noqa: S102 - our own source
    changed: dict[int, Any] = {}
    for name, old in before.items():
        if getattr(old, "__module__", "") != module.__name__:
            continue
        new = vars(module)[name]
        if isinstance(old, type):
            _take_methods(old, new)
            setattr(module, name, old)
        elif isinstance(old, FunctionType):
            changed[id(old)] = new
    constants = {name: old for name, old in before.items() if name.isupper()}
    for other in [
        it for name, it in sys.modules.items() if name.startswith("moot.contracts.model")
    ]:
        for name, value in list(vars(other).items()):
            if id(value) in changed:
                setattr(other, name, changed[id(value)])
            elif name == "CALLS":
                value.update({key: changed.get(id(it), it) for key, it in value.items()})
            elif name in constants and value is constants[name]:
                setattr(other, name, vars(module)[name])


def _take_methods(old: type, new: type) -> None:
    """Give a class the methods of its mutant."""
    for key, value in vars(new).items():
        if isinstance(value, (FunctionType, property)):
            setattr(old, key, value)
