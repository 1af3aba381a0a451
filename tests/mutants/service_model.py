"""The judge of mutants of the models of receipts, by the calls of their tests."""

from collections.abc import Iterator, Sequence
from importlib import import_module
from typing import Any

from moot.contracts.model.service_invariants import copy_service
from tests.mutants import promises_model
from tests.mutants.promises_model import answer
from tests.mutants.served import Said, play_tests
from tests.projection import call_model


class Judge(promises_model.Judge):
    """A judge that knows the answers of the models of receipts, of which one calls the other."""

    @staticmethod
    def play() -> Sequence[Any]:
        """Return the calls of models that the tests make."""
        return play_tests()[1]

    def ask(self, said: Said) -> Iterator[str]:
        """Yield what a model answers to a call, and what both remember after it."""
        service = copy_service(said.service)
        model = service if said.is_service else service.challenges
        name = "service" if said.is_service else "challenges"
        play = import_module(f"moot.contracts.model.{name}").call
        args = (said.name, said.message, *said.args)
        yield answer(
            lambda: repr(call_model(model, *args, play=play)) + repr(service.challenges.events)
        )
        service.events = service.challenges.events = []
        yield repr(
            [
                service.get_bond(it, service.stakes[it].last_block + n)
                for it in service.stakes
                for n in (0, 1)
            ]
        )
        yield repr(service)
