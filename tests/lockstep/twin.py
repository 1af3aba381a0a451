"""A model beside its contract: every call goes to both, which have to agree."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from moot.contracts.model.referee import Memory, call
from moot.contracts.model.step_invariants import Step, is_unchanged
from moot.contracts.model.types import NOBODY, Address, Event, Message, Pair, Store, copy_store
from moot.contracts.model.watch import Watcher
from moot.contracts.reasons import Phase, Revert
from moot.offchain.arithmetic.base import Arithmetic
from moot.offchain.arithmetic.ordered import ORDERED
from tests.lockstep.contracts import Port, RefereePort
from tests.machines.base import BALANCE_WEI
from tests.projection import call_model, compare_words

ModelT = TypeVar("ModelT", bound=Memory)


@dataclass(eq=False)
class Side(Generic[ModelT]):
    """A model, and the contract that has to do the same.

    Attributes:
        model: what the model remembers.
        play: makes a call of the model.
        contract: the contract; None if the model is alone.
    """

    model: ModelT
    play: Callable[..., tuple[Event, ...]]
    contract: Port | None


class Twin:
    """Models beside their contracts: after every call both have to agree.

    Both say the same: accepted or refused, and why; the events; everybody's money; and every word
    that is remembered.

    Args:
        accounts: those that make calls.
        sides: the contracts that are called, one of which may call the next.
        is_thorough: whether money and words are compared after every call, and not only answers and
            events.

    Attributes:
        block: the block of the next call; the caller lets time pass.
        balances: what everybody has, in wei.
        seen: how often each (call, phase, answer) has been met; the answer is a reason, or what the
            last event says.
    """

    block: int = 1

    def __init__(
        self, accounts: Sequence[Address], *sides: Side[Any], is_thorough: bool = True
    ) -> None:
        self.sides, self.is_thorough = sides, is_thorough
        self.balances = dict.fromkeys((*accounts, NOBODY), BALANCE_WEI)
        self.seen: Counter[tuple[str, str, str]] = Counter()

    @property
    def events(self) -> tuple[Event, ...]:
        """What the last call has announced: none if it was refused."""
        return tuple(event for side in self.sides for event in side.model.events)

    def call(self, name: str, sender: Address, *args: Any, value_wei: int = 0) -> str | None:
        """Make a call of the first contract on both sides; return why it was refused."""
        return self.tell(self.sides[0], name, Message(sender, value_wei, self.block), args)

    def tell(
        self, side: Side[Any], name: str, message: Message, args: tuple[Any, ...]
    ) -> str | None:
        """Make a call, and compare all that can be seen; return why it was refused."""
        phase = self.get_phase(args)
        reason = self.play_model(side, name, message, args)
        if side.contract is not None:
            self._compare_answers(side.contract, name, message, args, reason)
            if self.is_thorough:
                self.compare()
        self.seen[name, phase, reason or _summarise(self.events)] += 1
        return reason

    def play_model(
        self, side: Side[Any], name: str, message: Message, args: tuple[Any, ...]
    ) -> str | None:
        """Make a call of the model, and check what it does; return why it was refused."""
        before, reason = self.remember(), None
        held_wei, burned_wei = self._count_money()
        for each in self.sides:
            # What is called has to forget them itself.
            each.model.events = each.model.events if each is side else []
        try:
            call_model(side.model, name, message, *args, play=side.play)
        except Revert as refusal:
            reason = str(refusal)
            for each in self.sides:
                each.model.events = []
        self._book(message, held_wei, burned_wei)
        self.check(before, side, name, message, args, reason)
        return reason

    def remember(self) -> Any:
        """Return what `check` needs to know of the time before a call."""

    def check(
        self,
        before: Any,
        side: Side[Any],
        name: str,
        message: Message,
        args: tuple[Any, ...],
        reason: str | None,
    ) -> None:
        """Check what the model has done, which has refused the call if there is a reason."""

    def get_phase(self, args: tuple[Any, ...]) -> str:
        """Return the phase of the match that a call is about."""
        del args
        return Phase.NONE.name

    def compare(self) -> None:
        """Compare everybody's money."""
        balances = dict(self.balances)
        for side in self.sides:
            assert side.contract is not None
            balances[side.contract.address] = side.model.balance_wei
            machine = side.contract.machine
        assert {account: machine.balance(account) for account in balances} == balances

    def _count_money(self) -> tuple[int, int]:
        """Return what the models hold, and what they have burned."""
        models = [side.model for side in self.sides]
        return sum(it.balance_wei for it in models), sum(it.burned_wei for it in models)

    def _book(self, message: Message, held_wei: int, burned_wei: int) -> None:
        """Note who has paid what since so much was held and burned."""
        now_held_wei, now_burned_wei = self._count_money()
        burned_wei = now_burned_wei - burned_wei
        gained_wei = held_wei - now_held_wei - burned_wei
        self.balances[NOBODY] += burned_wei
        self.balances[message.sender] += gained_wei
        paid = [event.args[2] for event in self.events if event.name == "Collected"]
        assert paid in ([], [gained_wei + message.value_wei])

    def _compare_answers(
        self,
        contract: Port,
        name: str,
        message: Message,
        args: tuple[Any, ...],
        reason: str | None,
    ) -> None:
        result = contract.call(name, message, args)
        assert result.reason == reason, (name, args, result.reason, reason)
        for account, fee_wei in result.fees.items():
            self.balances[account] -= fee_wei
        for side in self.sides:
            assert side.contract is not None
            assert side.contract.has_announced(result, message.block, side.model.events)


class RefereeTwin(Twin):
    """The model of the referee, with all invariants checked, beside the contract.

    Args:
        accounts: those that make calls.
        contract: the referee; None if the model is alone.
        arithmetic: that of a model alone.
        is_thorough: see `Twin`.

    Attributes:
        watcher: what checks the invariants.
    """

    def __init__(
        self,
        accounts: Sequence[Address],
        contract: RefereePort | None,
        arithmetic: Arithmetic = ORDERED,
        *,
        is_thorough: bool = True,
    ) -> None:
        self.contract = contract
        side = Side(make_store(contract, arithmetic), call, contract)
        super().__init__(accounts, side, is_thorough=is_thorough)
        self.watcher = Watcher()

    @property
    def store(self) -> Store:
        """What the model remembers."""
        store: Store = self.sides[0].model
        return store

    def remember(self) -> Store:
        """Return a copy of what is remembered."""
        return copy_store(self.store)

    def check(
        self,
        before: Store,
        side: Side[Any],
        name: str,
        message: Message,
        args: tuple[Any, ...],
        reason: str | None,
    ) -> None:
        """Check all invariants; a refused call has changed nothing."""
        del side
        if reason is not None:
            assert is_unchanged(before, self.store)
        else:
            self.watcher.watch(Step(before, name, message, args, self.store, self.events))

    def get_phase(self, args: tuple[Any, ...]) -> str:
        """Return the phase of the match that a call is about."""
        if args and isinstance(args[0], Pair) and args[0] in self.watcher.positions:
            return self.watcher.positions[args[0]].phase.name
        return super().get_phase(args)

    def compare(self) -> None:
        """Compare the job that has changed, and the money."""
        if self.events:
            job_id = self.events[0].args[0]
            assert isinstance(job_id, int)
            self.compare_job(job_id)
        super().compare()

    def compare_job(self, job_id: int) -> None:
        """Compare every word that is remembered of a job."""
        assert self.contract is not None
        compare_words(self.contract.view, self.store, job_id)


def make_store(contract: RefereePort | None, arithmetic: Arithmetic = ORDERED) -> Store:
    """Return the model of a referee as it was deployed; of an arithmetic if it is alone."""
    if contract is None:
        return Store(1, "0x" + "c1" * 20, arithmetic=arithmetic)
    return Store(contract.machine.chain_id, contract.address, arithmetic=contract.arithmetic)


def _summarise(events: Sequence[Event]) -> str:
    """Return the outcome of a call: the next phase, how a match ended, or the event's name."""
    if not events:
        return ""
    last = events[-1]
    match last.name, last.args[3:]:
        case "Moved", (position, *_):
            return str(position.phase.name)  # type: ignore[attr-defined]
        case "MatchEnded", (outcome, ending, _):
            return f"{ending.name} {outcome.name}"  # type: ignore[attr-defined]
    if last.name == "Settled":
        return str(last.args[1].name)  # type: ignore[attr-defined]
    return last.name
