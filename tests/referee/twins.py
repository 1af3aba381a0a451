"""The model, with all invariants checked, beside the contract in a bare EVM."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from moot.contracts.compiler import compile_contract
from moot.contracts.deployment import deploy_referee
from moot.contracts.model.abi import CALLED_THROUGH, EventReader, pack_call
from moot.contracts.model.step_invariants import Step, is_unchanged
from moot.contracts.model.types import NOBODY, Address, Event, Message, Pair, Store, copy_store
from moot.contracts.model.watch import Watcher
from moot.contracts.reasons import Phase, Revert
from moot.offchain.arithmetic.base import Arithmetic
from moot.offchain.arithmetic.ordered import ORDERED
from moot.offchain.disputes.referee.gas import calculate_gas_limit
from tests.machine import BALANCE_WEI, Deployed, Machine, Result, make_log
from tests.projection import call_model, compare_words


class Contract:
    """The deployed bytecode, with the comparison of its storage with the model's."""

    asked = frozenset(CALLED_THROUGH.values())
    """The contracts through which calls are made."""

    def __init__(self, accounts: Sequence[Address], arithmetic: Arithmetic = ORDERED) -> None:
        self.arithmetic = arithmetic
        self.machine = Machine((*accounts, NOBODY))
        deployed = self.deploy()
        self.address, self._raw, self._codec = deployed.address, deployed.raw, deployed.codec
        self._reader = EventReader()
        self._others = {
            name: self.machine.at(
                compile_contract(name, arithmetic=arithmetic.contracts),
                self.view(f"{name}_contract"),
            )
            for name in self.asked
        }

    def deploy(self) -> Deployed:
        """Put the referee into the machine."""
        return deploy_referee(self.machine, NOBODY, self.arithmetic)

    def call(self, name: str, message: Message, args: tuple[Any, ...]) -> Result:
        """Make a call with the gas that our parties offer, less what its data cost."""
        to, data = self._encode(name, args)
        zeros = data.count(0)
        paid = 21_000 + 4 * zeros + 16 * (len(data) - zeros)
        return self.machine.call(
            to,
            data,
            sender=message.sender,
            value_wei=message.value_wei,
            block=message.block,
            gas=calculate_gas_limit(name, data) - paid,
        )

    def _encode(self, name: str, args: tuple[Any, ...]) -> tuple[bytes, bytes]:
        """Return to whom a call goes, and its data; other contracts call the referee."""
        raw, codec = self._raw, self._codec
        if name in CALLED_THROUGH:
            other = self._others[CALLED_THROUGH[name]]
            raw, codec = other.raw, other.codec
        return raw, codec.encode_call(name, pack_call(name, args, self.address))

    def read_events(self, result: Result, block: int) -> tuple[Event, ...]:
        """Return what a call has announced of the referee, as the model says it."""
        found = zip(result.emitters, result.logs, strict=True)
        logs = (make_log(self._raw, block, *log) for by, log in found if by == self._raw)
        events = map(self._codec.decode_log, logs)
        return tuple(self._reader.read(e.name, tuple(e.args.values())) for e in events)

    def view(self, name: str, *args: Any) -> Any:
        """Return what a getter says."""
        data = self._codec.encode_call(name, args)
        result = self.machine.call(self._raw, data, sender=NOBODY, value_wei=0, block=0)
        assert result.reason is None
        return self._codec.decode_result(name, args, result.output)


class Twins:
    """The model and, if there is one, the contract: after every call both have to agree.

    Attributes:
        block: the block of the next call; the caller lets time pass.
        seen: how often each (call, phase, answer) has been met; the answer is a reason, or what
            the last event says.
    """

    def __init__(self, accounts: Sequence[Address], contract: Contract | None) -> None:
        self.contract = contract
        address = contract.address if contract else "0x" + "c1" * 20
        self.store = Store(
            contract.machine.chain_id if contract else 1,
            address,
            arithmetic=contract.arithmetic if contract else ORDERED,
        )
        self.balances = dict.fromkeys((*accounts, NOBODY), BALANCE_WEI)
        self.watcher = Watcher()
        self.block = 1
        self.seen: Counter[tuple[str, str, str]] = Counter()

    def call(self, name: str, sender: Address, *args: Any, value_wei: int = 0) -> str | None:
        """Make a call on both, and compare all that can be seen; return why it was refused."""
        message, before = Message(sender, value_wei, self.block), copy_store(self.store)
        phase = self._get_phase(args)
        reason, events = None, tuple[Event, ...]()
        try:
            events = call_model(self.store, name, message, *args)
        except Revert as refusal:
            reason = str(refusal)
            assert is_unchanged(before, self.store)
        else:
            self._note(message, events, self.store.burned_wei - before.burned_wei)
            self.watcher.watch(Step(before, name, message, args, self.store, events))
        if self.contract is not None:
            self._compare(self.contract, name, message, args, reason, events)
        self.seen[name, phase, reason or _summarise(events)] += 1
        return reason

    def _get_phase(self, args: tuple[Any, ...]) -> str:
        if args and isinstance(args[0], Pair) and args[0] in self.watcher.positions:
            return self.watcher.positions[args[0]].phase.name
        return Phase.NONE.name

    def _note(self, message: Message, events: Sequence[Event], burned_wei: int) -> None:
        paid = sum(e.args[2] for e in events if e.name == "Collected")  # type: ignore[misc]
        self.balances[message.sender] += paid - message.value_wei
        self.balances[NOBODY] += burned_wei

    def _compare(
        self,
        contract: Contract,
        name: str,
        message: Message,
        args: tuple[Any, ...],
        reason: str | None,
        events: tuple[Event, ...],
    ) -> None:
        result = contract.call(name, message, args)
        if reason is not None:
            assert result.reason == reason, (name, args, result.reason, reason)
            self._compare_money(contract)
            return
        assert result.reason is None, (name, args, result.reason)
        assert contract.read_events(result, message.block) == events
        job_id = events[0].args[0]
        assert isinstance(job_id, int)
        compare_words(contract.view, self.store, job_id)
        self._compare_money(contract)

    def _compare_money(self, contract: Contract) -> None:
        assert {a: contract.machine.balance(a) for a in self.balances} == self.balances
        assert contract.machine.balance(contract.address) == self.store.balance_wei


def _summarise(events: Sequence[Event]) -> str:
    """Return the outcome of a call: the next phase, how a match ended, or the event's name."""
    last = events[-1]
    match last.name, last.args[3:]:
        case "Moved", (position, *_):
            return str(position.phase.name)  # type: ignore[attr-defined]
        case "MatchEnded", (outcome, ending, _):
            return f"{ending.name} {outcome.name}"  # type: ignore[attr-defined]
    if last.name == "Settled":
        return str(last.args[1].name)  # type: ignore[attr-defined]
    return last.name
