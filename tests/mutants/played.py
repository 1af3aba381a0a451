"""The calls that the tests of promises and premiums make, of the contracts and of their models.

The tests are run in this process; what they call is recorded with the state before it.
"""

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, fields
from typing import Any
from unittest.mock import patch

import pytest

from moot.contracts.model.answers import Vault
from moot.contracts.model.types import Event, Message, copy_store
from tests.machine import Machine, Result, Words
from tests.referee.vaults import Vaults

TESTS = (
    "tests/referee/test_availability.py",
    "tests/referee/test_delivery.py",
    "tests/attacks/test_promises.py",
    "tests/attacks/test_deliveries.py",
)
_QUIET = ("-W", "ignore::pytest.PytestAssertRewriteWarning")
"""Whoever judges has imported plugins of pytest's before."""
OPTIONS = ("-q", "--no-header", "-p", "no:cacheprovider", *_QUIET)
BALANCE = -1
"""The slot under which `tests.machine.Memory` has a balance."""


@dataclass(frozen=True, slots=True)
class Made:
    """A call of a contract, and the storage before it."""

    contract: str
    data: bytes
    sender: str
    value_wei: int
    block: int
    before: Words


@dataclass(frozen=True, slots=True)
class Said:
    """A call of a model, and a copy of the vault before it."""

    model: str
    vault: Vault
    name: str
    message: Message
    args: tuple[Any, ...]


def play_tests() -> tuple[list[Made], list[Said]]:
    """Run the tests, and return the calls that they make."""
    found = _Recorder()
    places = [
        patch.object(Machine, "__init__", found.notes.wrap()),
        patch.object(Vaults, "__init__", _wrap(Vaults.__init__, found.begin)),
        patch.object(Machine, "call", found.make_call()),
    ]
    run_tests(places, *TESTS)
    return found.made, found.said


def run_tests(places: Sequence[Any], *words: str) -> None:
    """Run tests in this process, which have to pass, under some patches."""
    for place in places:
        place.start()
    try:
        status = pytest.main([*OPTIONS, *words])
    finally:
        for place in places:
            place.stop()
    assert status == 0, "the tests fail"


def copy_vault(vault: Vault) -> Vault:
    """Return a vault that remembers the same, and goes its own way."""
    found = copy(vault)
    for each in fields(vault):
        setattr(found, each.name, copy(getattr(vault, each.name)))
    found.referees = {it: copy_store(store) for it, store in vault.referees.items()}
    return found


def _wrap(usual: Any, then: Any) -> Any:
    def wrapped(it: Any, *args: Any, **options: Any) -> None:
        usual(it, *args, **options)
        then(it)

    return wrapped


class Notes:
    """The words that machines write; machines are kept, so that no two have one number."""

    def __init__(self) -> None:
        self._touched: dict[int, dict[tuple[bytes, int], None]] = {}
        self._machines: list[Machine] = []

    def wrap(self) -> Any:
        """Return how machines are made whose writes are noted."""
        return _wrap(Machine.__init__, self._watch)

    def _watch(self, machine: Machine) -> None:
        touched = self._touched[id(machine)] = {}
        self._machines.append(machine)
        state = machine._state
        set_storage, set_balance = state.set_storage, state.set_balance

        def note_word(address: Any, slot: int, value: int) -> None:
            touched[bytes(address), slot] = None
            set_storage(address, slot, value)

        def note_balance(address: Any, balance: int) -> None:
            touched[bytes(address), BALANCE] = None
            set_balance(address, balance)

        state.set_storage, state.set_balance = note_word, note_balance

    def add_balance(self, machine: Machine, address: bytes) -> None:
        """Note a balance, too, which nobody may have written."""
        self._touched[id(machine)][address, BALANCE] = None

    def read(self, machine: Machine) -> Words:
        """Return the words that a machine has written, as they are now."""
        state = machine._state
        return {
            (it, slot): state.get_balance(it) if slot == BALANCE else state.get_storage(it, slot)
            for it, slot in self._touched[id(machine)]
        }


class _Recorder:
    """Records calls."""

    def __init__(self) -> None:
        self.made: list[Made] = []
        self.said: list[Said] = []
        self.notes = Notes()
        self._names: dict[int, tuple[str, bytes]] = {}

    def begin(self, vaults: "Vaults[Any]") -> None:
        """Note which contract a machine has, and record what its model is asked."""
        (side,) = vaults.sides
        play = side.play
        name = play.__module__.rpartition(".")[2]
        self._names[id(vaults.machine)] = name, vaults.contract.raw
        self.notes.add_balance(vaults.machine, vaults.contract.raw)

        def record(vault: Vault, call: str, message: Message, *args: Any) -> tuple[Event, ...]:
            self.said.append(Said(name, copy_vault(vault), call, message, args))
            return play(vault, call, message, *args)

        side.play = record

    def make_call(self) -> Any:
        """Return what machines do instead of a call."""
        usual = Machine.call

        def call(machine: Machine, to: bytes, data: bytes, **where: Any) -> Result:
            name, raw = self._names.get(id(machine), ("", b""))
            if name and to == raw:
                self.made.append(Made(name, data, before=self.notes.read(machine), **where))
            return usual(machine, to, data, **where)

        return call
