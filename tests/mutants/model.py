"""The judge of mutants of the model, by the stories of the corpus and the original's answers."""

import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from types import FunctionType, ModuleType
from typing import Any, ClassVar

from tests.mutants.corpus import make_corpus
from tests.mutants.generate import Mutant
from tests.mutants.replay import replay_model
from tests.mutants.tape import CHAIN_ID


class Judge:
    """A judge that knows the model's answers; a process with one may judge one mutant.

    Attributes:
        SECONDS: how long a mutant may take; one that takes longer goes round in a loop.
        order: the places of the stories, those first that have told mutants apart lately.
    """

    SECONDS: ClassVar[int] = 12

    def __init__(self) -> None:
        self._stories = make_corpus()
        self._said: Sequence[list[str]] = [
            list(replay_model(story.calls, CHAIN_ID)) for story in self._stories
        ]
        self.order = list(range(len(self._stories)))

    def judge(self, mutant: Mutant) -> tuple[str, int]:
        """Return what becomes of a mutant, and the place of the story that kills it."""
        try:
            _install(mutant)
        except Exception:  # noqa: BLE001 - a mutant may fail in any way
            return "stillborn", -1
        for place in self.order:
            said = replay_model(self._stories[place].calls, CHAIN_ID)
            if any(new != old for new, old in zip(said, self._said[place], strict=True)):
                return "killed", place
        return "survived", -1


def _install(mutant: Mutant) -> None:
    """Run a module's mutant in place of it, and give its functions to whoever imported them."""
    module = import_module(f"moot.contracts.model.{mutant.file.removesuffix('.py')}")
    before = dict(vars(module))
    exec(compile(mutant.text, mutant.file, "exec"), vars(module))  # noqa: S102 - our own source
    changed = {
        id(old): vars(module)[name]
        for name, old in before.items()
        if isinstance(old, (FunctionType, type)) and old.__module__ == module.__name__
    }
    constants = {
        name: vars(module)[name]
        for name, old in before.items()
        if name.isupper() and vars(module)[name] is not old
    }
    for other in [
        m for n, m in sys.modules.items() if n.startswith(("moot.contracts.model", __name__))
    ]:
        _rebind(other, changed, constants)
    _rebind(sys.modules["tests.mutants.replay"], changed, constants)


def _rebind(module: ModuleType, changed: Mapping[int, Any], constants: Mapping[str, Any]) -> None:
    for name, value in list(vars(module).items()):
        if id(value) in changed:
            setattr(module, name, changed[id(value)])
        elif isinstance(value, dict) and name == "CALLS":
            for key, handler in value.items():
                value[key] = changed.get(id(handler), handler)
        elif name in constants:
            setattr(module, name, constants[name])
