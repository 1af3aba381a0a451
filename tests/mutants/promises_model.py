"""The judge of mutants of the models of promises and premiums, by the calls of their tests."""

import sys
from importlib import import_module
from types import FunctionType
from typing import Any, ClassVar

from moot.contracts.reasons import Revert
from tests.mutants.apart import run_apart
from tests.mutants.generate import Mutant
from tests.mutants.played import Said, copy_vault, play_tests

RECORDING_SECONDS = 1_000


class Judge:
    """A judge that knows the models' answers; a process with one may judge one mutant.

    Attributes:
        SECONDS: how long a mutant may take; one that takes longer goes round in a loop.
        order: the places of the calls, those first that have told mutants apart lately.
    """

    SECONDS: ClassVar[int] = 60

    def __init__(self) -> None:
        self._said: list[Said] = run_apart(_play, seconds=RECORDING_SECONDS)
        self._answers = [_ask(said) for said in self._said]
        self.order = list(range(len(self._said)))

    def judge(self, mutant: Mutant) -> tuple[str, int]:
        """Return what becomes of a mutant, and the place of the call that kills it."""
        try:
            install(mutant)
        except Exception:  # noqa: BLE001 - a mutant may fail in any way
            return "stillborn", -1
        for place in self.order:
            if _ask(self._said[place]) != self._answers[place]:
                return "killed", place
        return "survived", -1


def _play() -> list[Said]:
    return play_tests()[1]


def _ask(said: Said) -> str:
    """Return what a model answers to a call, and what its vault is after it."""
    vault = copy_vault(said.vault)
    play = import_module(f"moot.contracts.model.{said.model}").call
    try:
        answer = repr(play(vault, said.name, said.message, *said.args))
    except Revert as refusal:
        answer = str(refusal)
    except Exception as error:  # noqa: BLE001 - a mutant may fail in any way
        answer = type(error).__name__
    vault.referees, vault.events = {}, []
    return f"{answer} {vault!r}"


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
