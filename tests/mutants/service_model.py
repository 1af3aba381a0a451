"""The judge of mutants of the models of receipts, by the calls of their tests."""

from importlib import import_module
from typing import ClassVar

from moot.contracts.model.service_invariants import copy_service
from moot.contracts.reasons import Revert
from tests.mutants.apart import run_apart
from tests.mutants.generate import Mutant
from tests.mutants.promises_model import RECORDING_SECONDS, install
from tests.mutants.served import Said, play_tests
from tests.projection import call_model


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
    """Return what a model answers to a call, and what both remember after it."""
    service = copy_service(said.service)
    name = "service" if said.is_service else "challenges"
    play = import_module(f"moot.contracts.model.{name}").call
    try:
        if said.is_service:
            answer = repr(play(service, said.name, said.message, *said.args))
        else:
            store = service.challenges
            answer = repr(call_model(store, said.name, said.message, *said.args, play=play))
        answer += repr(service.challenges.events)
    except Revert as refusal:
        answer = str(refusal)
    except Exception as error:  # noqa: BLE001 - a mutant may fail in any way
        answer = type(error).__name__
    service.events = service.challenges.events = []
    bonds = [
        service.get_bond(it, service.stakes[it].last_block + n)
        for it in service.stakes
        for n in (0, 1)
    ]
    return f"{answer} {bonds} {service!r}"
