"""The calls that the tests of promises and premiums make, of the contracts and of their models.

The tests are run in this process; what they call is recorded with the state before it.
"""

from collections.abc import Collection, Mapping
from contextlib import ExitStack
from copy import copy
from dataclasses import dataclass, fields
from typing import Any
from unittest.mock import patch

import pytest

from moot.contracts.model.answers import Vault
from moot.contracts.model.types import Event, Message, copy_store
from tests.machines.base import BALANCE, Result, Words
from tests.machines.pyevm import PyEvm
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
    found = Recorder()

    def begin(vaults: Vaults[Any]) -> None:
        """Record what a contract and its model are asked."""
        (side,) = vaults.sides
        play = side.play
        name = play.__module__.rpartition(".")[2]
        found.watch(vaults.machine, {vaults.contract.raw: name})

        def record(vault: Vault, call: str, message: Message, *args: Any) -> tuple[Event, ...]:
            found.said.append(Said(name, copy_vault(vault), call, message, args))
            return play(vault, call, message, *args)

        side.play = record

    found.run_tests(patch.object(Vaults, "__init__", _wrap(Vaults.__init__, begin)), *TESTS)
    return found.made, found.said


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
        self._machines: list[PyEvm] = []

    def wrap(self) -> Any:
        """Return how machines are made whose writes are noted."""
        return _wrap(PyEvm.__init__, self._watch)

    def _watch(self, machine: PyEvm) -> None:
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

    def add_balance(self, machine: PyEvm, address: bytes) -> None:
        """Note a balance, too, which nobody may have written."""
        self._touched[id(machine)][address, BALANCE] = None

    def read(self, machine: PyEvm) -> Words:
        """Return the words that a machine has written, as they are now."""
        state = machine._state
        return {
            (it, slot): state.get_balance(it) if slot == BALANCE else state.get_storage(it, slot)
            for it, slot in self._touched[id(machine)]
        }


class Recorder:
    """Records what contracts are asked, with the storage before it; and what models are asked.

    Args:
        views: the selectors of the views whose calls are recorded, too; of all, if it is None.
    """

    def __init__(self, views: Collection[bytes] | None = None) -> None:
        self.made: list[Made] = []
        self.said: list[Any] = []
        self._views, self._notes = views, Notes()
        self._names: dict[int, Mapping[bytes, str]] = {}

    def watch(self, machine: PyEvm, names: Mapping[bytes, str]) -> None:
        """Record the calls of the contracts at these addresses, under their names."""
        self._names[id(machine)] = names
        for address in names:
            self._notes.add_balance(machine, address)

    def run_tests(self, place: Any, *words: str) -> None:
        """Run tests in this process, which have to pass, under one more patch."""
        places = (
            patch.object(PyEvm, "__init__", self._notes.wrap()),
            patch.object(PyEvm, "call", self._make_call()),
            place,
        )
        with ExitStack() as stack:
            for each in places:
                stack.enter_context(each)
            status = pytest.main([*OPTIONS, *words])
        assert status == 0, "the tests fail"

    def _make_call(self) -> Any:
        """Return what machines do instead of a call."""
        usual = PyEvm.call

        def call(machine: PyEvm, to: bytes, data: bytes, **where: Any) -> Result:
            name = self._names.get(id(machine), {}).get(to)
            is_noted = self._views is None or where["block"] or data[:4] in self._views
            if name and is_noted:
                places = {key: where[key] for key in ("sender", "value_wei", "block")}
                self.made.append(Made(name, data, before=self._notes.read(machine), **places))
            return usual(machine, to, data, **where)

        return call
