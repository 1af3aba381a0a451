"""A contract upon which parts are demanded: its model beside the bytecode in a bare EVM."""

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from eth_abi import encode

from moot.contracts.model.abi import unpack_demand, unpack_promise
from moot.contracts.model.answers import Demand, Promise, Subject, Vault, hash_subject, make_subject
from moot.contracts.model.types import NOBODY, Address, Event, Message
from moot.offchain.commitments.keccak import keccak256
from moot.offchain.disputes.availability.demands import Promised
from moot.offchain.disputes.play.players import Move
from moot.offchain.disputes.referee.port import Call
from moot.offchain.disputes.referee.terms import make_terms
from moot.offchain.providers.task import Task
from tests.lockstep.contracts import Contract, RefereeContract
from tests.lockstep.twin import RefereeTwin, Side, Twin
from tests.machines.base import BALANCE_WEI, Deployed, Machine
from tests.referee.stage import ACCOUNTS, CLIENT

VaultT = TypeVar("VaultT", bound=Vault)


class Vaults(Twin, Generic[VaultT]):
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
        self.referee = RefereeContract(ACCOUNTS)
        self.twins = RefereeTwin(ACCOUNTS, self.referee)
        self.task, self.terms = task, make_terms(task)
        self.twins.call("open_job", CLIENT, self.terms, value_wei=1001)
        self.machine = self.referee.machine
        self.contract = Contract(self.machine, deploy(self.machine, NOBODY))
        store = self.twins.store
        self.vault = make_vault({store.address: store})
        super().__init__(ACCOUNTS, Side(self.vault, play, self.contract))
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

    def check(self, before: Any, side: Any, name: str, message: Message, *answer: Any) -> None:
        """Note what is announced."""
        super().check(before, side, name, message, *answer)
        self.log += self.events

    def compare(self) -> None:
        """Compare every word that is remembered, and everybody's money."""
        for subject, promise in self.vault.promises.items():
            assert self.read_promise(subject) == promise
        for place, demand in self.vault.demands.items():
            assert self.read_demand(place) == demand
        super().compare()
        held_wei = self.vault.balance_wei + self.twins.store.balance_wei
        assert sum(self.balances.values()) + held_wei == BALANCE_WEI * len(self.balances)

    def read_promise(self, subject: Subject) -> Promise | None:
        """Return the contract's promise about a subject."""
        return unpack_promise(self.contract.view("promises", hash_subject(subject)))

    def read_demand(self, place: tuple[Subject, int, int, int]) -> Demand | None:
        """Return the contract's demand of something."""
        subject, *where = place
        types = ["bytes32", "uint256", "uint256", "uint256"]
        key = keccak256(encode(types, [hash_subject(subject), *where]))
        return unpack_demand(self.contract.view("demands", key))
