"""A contract upon which parts are demanded: its model beside the bytecode in a bare EVM."""

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Generic, TypeVar

from eth_abi import encode

from moot.contracts.model.abi import pack_args, unpack_demand, unpack_promise
from moot.contracts.model.answers import Demand, Promise, Subject, Vault, hash_subject, make_subject
from moot.contracts.model.checks import require
from moot.contracts.model.types import NOBODY, Address, Event, Message
from moot.contracts.reasons import Reason, Revert
from moot.offchain.commitments.keccak import keccak256
from moot.offchain.disputes.availability.demands import Promised
from moot.offchain.disputes.play.players import Move
from moot.offchain.disputes.referee.port import Call
from moot.offchain.disputes.referee.terms import make_terms
from moot.offchain.providers.task import Task
from tests.machine import BALANCE_WEI, Deployed, Machine, make_log
from tests.referee.stage import ACCOUNTS, CLIENT
from tests.referee.twins import Contract, Twins

VaultT = TypeVar("VaultT", bound=Vault)
_LIMITS = {("show_operator", 2): 2_048, ("show_chunk", 4): 66, ("show_chunk", 5): 256}
_LIMITS |= {("demand", 4): 66}


class Vaults(Generic[VaultT]):
    """Both referees with a job, and both vaults, which have to agree after every call.

    Args:
        task: what the job is about.
        deploy: puts the contract into a machine.
        make_vault: makes its model.
        play: makes a call of the model.
    """

    def __init__(
        self,
        task: Task,
        deploy: Callable[[Machine, str], Deployed],
        make_vault: Callable[..., VaultT],
        play: Callable[..., tuple[Event, ...]],
    ) -> None:
        self.referee = Contract(ACCOUNTS)
        self.twins = Twins(ACCOUNTS, self.referee)
        self.task, self.terms, self.play = task, make_terms(task), play
        self.twins.call("open_job", CLIENT, self.terms, value_wei=1001)
        self.machine = self.referee.machine
        self.contract = deploy(self.machine, NOBODY)
        store = self.twins.store
        self.vault = make_vault({store.address: store})
        self.subject = make_subject(self.terms, store.address, 0)
        self.balances = self.twins.balances
        self.log: list[Event] = []
        self.block = 2

    def show_by(self, sender: Address, subject: Subject, move: Move, **changes: Any) -> str | None:
        """Let somebody show something, with other arguments at some places (`at_2=…`)."""
        args = list(move.args)
        for name, value in changes.items():
            args[int(name.removeprefix("at_"))] = value
        return self.call(move.call, sender, subject, *args)

    def view_of(self, subject: Subject) -> Promised:
        """Return what the chain shows of a promise."""
        demands = {p[1:]: it for p, it in self.vault.demands.items() if p[0] == subject}
        name = hash_subject(subject)
        shown = (e.args for e in self.log if e.name == "Shown" and e.args[0] == name)
        authors = {tuple(args[2:]): str(args[1]) for args in shown}
        return Promised(subject, self.vault.promises[subject], demands, self.block, authors)

    def make(self, each: Call) -> str | None:
        """Make an actor's call."""
        return self.call(each.name, each.sender, *each.args, value_wei=each.value_wei)

    def call(self, name: str, sender: Address, *args: Any, value_wei: int = 0) -> str | None:
        """Make a call on both, and compare all that can be seen; return why it was refused."""
        message, reason, events = Message(sender, value_wei, self.block), None, tuple[Event, ...]()
        burned_wei, held_wei = self.vault.burned_wei, self.vault.balance_wei
        try:
            require(_fits(name, args), Reason.NO_REASON)
            events = self.play(self.vault, name, message, *args)
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
        self.log += events
        self.compare()
        return reason

    def compare(self) -> None:
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
        return unpack_promise(self.read("promises", hash_subject(subject)))

    def read_demand(self, place: tuple[Subject, int, int, int]) -> Demand | None:
        """Return the contract's demand of something."""
        subject, *where = place
        types = ["bytes32", "uint256", "uint256", "uint256"]
        key = keccak256(encode(types, [hash_subject(subject), *where]))
        return unpack_demand(self.read("demands", key))

    def read(self, name: str, *args: Any) -> Any:
        """Return what a getter of the contract says."""
        codec, raw = self.contract.codec, self.contract.raw
        data = codec.encode_call(name, args)
        result = self.machine.call(raw, data, sender=NOBODY, value_wei=0, block=0)
        return codec.decode_result(name, args, result.output)


def _fits(name: str, args: tuple[Any, ...]) -> bool:
    """Whether the contract's types have room for the arguments."""
    for place, arg in enumerate(args):
        if isinstance(arg, bytes) and len(arg) > _LIMITS.get((name, place), 32):
            return False
        if isinstance(arg, tuple) and len(arg) > 56:
            return False
    return True


def spoil(rng: random.Random, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return arguments of which one is another."""
    at = rng.randrange(len(args))
    arg = args[at]
    if isinstance(arg, int):
        other: Any = rng.choice((arg + 1, max(arg - 1, 0), arg ^ 1, 1 << 54, 1 << 255))
    elif isinstance(arg, bytes):
        bit = rng.randrange(max(8 * len(arg), 1))
        flipped = int.from_bytes(arg, "big") ^ (1 << bit)
        other = flipped.to_bytes(len(arg), "big") if arg else b"\1"
        if len(arg) != 32:
            other = rng.choice((other, arg[:-1], arg + b"\0"))
    elif isinstance(arg, tuple):
        other = rng.choice((arg[1:], (*arg, bytes(32)), tuple(bytes(32) for _ in arg)))
    else:
        field = rng.choice(("job_id", "operators", "state_slots", "batch_slots", "steps"))
        other = replace(arg, **{field: getattr(arg, field) + 1})
    return (*args[:at], other, *args[at + 1 :])
