"""The judge of mutants of the model, by the stories of the corpus and the original's answers."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from types import FunctionType, ModuleType
from typing import Any, ClassVar

from tests.machines.base import CHAIN_ID
from tests.mutants import promises_model
from tests.mutants.corpus import make_corpus
from tests.mutants.generate import Mutant
from tests.mutants.replay import Story, replay_model


class Judge(promises_model.Judge):
    """A judge that knows the answers of the model of the referee."""

    SECONDS: ClassVar[int] = 30

    def record(self) -> Sequence[Story]:
        """Return what is asked: the stories of the corpus."""
        return make_corpus()

    def ask(self, said: Story) -> Iterator[str]:
        """Yield what the model says to each call of a story, and at last how it stands."""
        return replay_model(said, CHAIN_ID)

    @staticmethod
    def install(mutant: Mutant) -> None:
        """Run a module's mutant in place of it."""
        _install(mutant)


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
