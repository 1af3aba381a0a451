"""The model of clients' promises beside the contract in a bare EVM, and a job to promise about."""

from dataclasses import replace
from typing import Any

import numpy as np
from eth_abi import encode

from contracts.deployment import deploy_availability
from contracts.model.abi import pack_args, unpack_demand, unpack_promise
from contracts.model.answers import (
    MIN_DEPOSIT_WEI,
    Demand,
    Promise,
    Subject,
    Vault,
    hash_subject,
)
from contracts.model.availability import call
from contracts.model.checks import require
from contracts.model.types import NOBODY, Address, Event, Message
from contracts.reasons import Reason, Revert
from offchain.arithmetic.functions import DType
from offchain.commitments.keccak import keccak256
from offchain.commitments.tensors import Array
from offchain.disputes.availability import Place, Promised, find_answer, make_subject
from offchain.disputes.referee import Call
from offchain.disputes.terms import make_terms
from offchain.programs.graph import Slot
from offchain.providers.task import Task
from tests.machine import BALANCE_WEI, make_log
from tests.referee.illegal import LEGAL
from tests.referee.stage import ACCOUNTS, CLIENT
from tests.referee.twins import Contract, Twins

STEPS = 3
BOND_WEI, DEPOSIT_WEI = 10**18 + 1, MIN_DEPOSIT_WEI + 1
ANSWER_BLOCKS, LAST_BLOCK = 5, 40
STATE: tuple[Array, ...] = (
    np.arange(70, dtype=np.float32),
    np.zeros((0, 3), np.float32),
    np.array(-1, np.int64),
)
"""Two chunks, of which the last is ragged; no elements; one element of no dimension."""
BATCH: tuple[Array, ...] = (np.ones(600, np.bool_), np.zeros(64, np.float32))
"""Three chunks, of which the last is ragged; one chunk of zeros."""
F32, BOOL, INT64 = DType.FLOAT32, DType.BOOL, DType.INT64
PROGRAM = replace(
    LEGAL,
    state=(Slot("s", F32, (70,)), Slot("e", F32, (0, 3)), Slot("n", INT64, ())),
    batch=(Slot("b", BOOL, (600,)), Slot("z", F32, (64,))),
)
TASK = Task(PROGRAM, STATE, lambda step: (BATCH[0], BATCH[1] * (step + 1)), STEPS, 1)
PLACES: tuple[Place, ...] = (
    *((0, index, 0) for index in range(4)),
    *((1, index, chunk) for index in range(3) for chunk in range(3)),
    *((2, index, chunk) for index in range(6) for chunk in range(4)),
)
"""All that can be demanded, and chunks beyond the end of every tensor."""
_LIMITS = {("show_operator", 2): 2_048, ("show_chunk", 4): 66, ("show_chunk", 5): 256}
_LIMITS |= {("show_end", 4): 66}


class Promises:
    """Both referees with a job, and both vaults, which have to agree after every call.

    Args:
        task: what the job is about.
    """

    def __init__(self, task: Task = TASK) -> None:
        self.referee = Contract(ACCOUNTS)
        self.twins = Twins(ACCOUNTS, self.referee)
        self.task, self.terms = task, make_terms(task)
        self.twins.call("open_job", CLIENT, self.terms, value_wei=1001)
        self.machine = self.referee.machine
        self.contract = deploy_availability(self.machine, NOBODY)
        store = self.twins.store
        self.vault = Vault({store.address: store})
        self.subject = make_subject(self.terms, store.address, 0)
        self.balances = self.twins.balances
        self.block = 2

    def promise(self) -> str | None:
        """Let the client promise, on the usual terms."""
        terms = (DEPOSIT_WEI, ANSWER_BLOCKS, LAST_BLOCK)
        return self.call("promise", CLIENT, self.subject, *terms, value_wei=BOND_WEI)

    def demand(self, asker: Address, place: Place) -> str | None:
        """Let somebody demand something."""
        return self.call("demand", asker, self.subject, *place, value_wei=DEPOSIT_WEI)

    def show(self, sender: Address, place: Place, **changes: Any) -> str | None:
        """Let somebody show what is demanded, with other arguments at some places (`at_2=…`)."""
        move = find_answer(self.task, place)
        args = list(move.args)
        for name, value in changes.items():
            args[int(name.removeprefix("at_"))] = value
        return self.call(move.call, sender, self.subject, *args)

    def make(self, each: Call) -> str | None:
        """Make an actor's call."""
        return self.call(each.name, each.sender, *each.args, value_wei=each.value_wei)

    def call(self, name: str, sender: Address, *args: Any, value_wei: int = 0) -> str | None:
        """Make a call on both, and compare all that can be seen; return why it was refused."""
        message, reason, events = Message(sender, value_wei, self.block), None, tuple[Event, ...]()
        burned_wei, held_wei = self.vault.burned_wei, self.vault.balance_wei
        try:
            require(_fits(name, args), Reason.NO_REASON)
            events = call(self.vault, name, message, *args)
        except Revert as refusal:
            reason = str(refusal)
        burned_wei = self.vault.burned_wei - burned_wei
        self.balances[NOBODY] += burned_wei
        self.balances[sender] += held_wei - self.vault.balance_wei - burned_wei
        data = self.contract.codec.encode_call(name, pack_args(args))
        place = {"sender": sender, "value_wei": value_wei, "block": self.block}
        result = self.machine.call(self.contract.raw, data, **place)
        assert result.reason == reason, (name, args, result.reason, reason)
        logs = (make_log(self.contract.raw, self.block, *log) for log in result.logs)
        found = [
            (e.name, tuple(e.args.values())) for e in map(self.contract.codec.decode_log, logs)
        ]
        assert found == [(e.name, pack_args(e.args)) for e in events]
        self._compare()
        return reason

    def view(self) -> Promised:
        """Return what the chain shows of the promise."""
        demands = {p[1:]: demand for p, demand in self.vault.demands.items()}
        promise = self.vault.promises[self.subject]
        return Promised(self.subject, promise, demands, self.block)

    def _compare(self) -> None:
        """Compare every word that is remembered, and everybody's money."""
        for subject, promise in self.vault.promises.items():
            assert self.read_promise(subject) == promise
        for place, demand in self.vault.demands.items():
            assert self.read_demand(place) == demand
        assert {a: self.machine.balance(a) for a in self.balances} == self.balances
        assert self.machine.balance(self.contract.address) == self.vault.balance_wei
        held_wei = self.vault.balance_wei + self.twins.store.balance_wei
        assert sum(self.balances.values()) + held_wei == BALANCE_WEI * len(self.balances)

    def read_promise(self, subject: Subject) -> Promise | None:
        """Return the contract's promise about a subject."""
        return unpack_promise(self._read("promises", hash_subject(subject)))

    def read_demand(self, place: tuple[Subject, int, int, int]) -> Demand | None:
        """Return the contract's demand of something."""
        subject, *where = place
        types = ["bytes32", "uint256", "uint256", "uint256"]
        key = keccak256(encode(types, [hash_subject(subject), *where]))
        return unpack_demand(self._read("demands", key))

    def _read(self, name: str, key: bytes) -> Any:
        codec, raw = self.contract.codec, self.contract.raw
        data = codec.encode_call(name, (key,))
        result = self.machine.call(raw, data, sender=NOBODY, value_wei=0, block=0)
        return codec.decode_result(name, (key,), result.output)


def _fits(name: str, args: tuple[Any, ...]) -> bool:
    """Whether the contract's types have room for the arguments."""
    for place, arg in enumerate(args):
        if isinstance(arg, bytes) and len(arg) > _LIMITS.get((name, place), 32):
            return False
        if isinstance(arg, tuple) and len(arg) > 56:
            return False
    return True
