"""The entries of a referee's log: accepted calls, as a chain or a referee in memory has them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from moot.contracts.model.types import Address, Event, Job
from moot.offchain.disputes.referee.port import Answer, Call, Outcome, Referee
from moot.offchain.record.numbers import LeafCall

_ENCODING_AT = {"enter_tensor": 3, "leaf": 4}
"""The calls that show an operator, and the place of its encoding among their arguments."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One accepted call.

    Attributes:
        block: the block that it is in.
        events: what it has announced; at least one event.
        call: its name; empty where nobody knows it.
        sender: who sent it.
        job: the job that it has opened, if it has.
        encoding: the operator that it has shown, if it has.
        leaf: what it has proven, if it is the last call of a match.
        transaction: its hash on a chain.
        gas: what it used there.
        calldata_bytes: the length of its calldata.
        gas_price_wei: what a unit of gas cost.
    """

    block: int
    events: tuple[Event, ...]
    call: str
    sender: Address
    job: Job | None = None
    encoding: bytes | None = None
    leaf: LeafCall | None = None
    transaction: str = ""
    gas: int = 0
    calldata_bytes: int = 0
    gas_price_wei: int = 0


def read_encoding(call: str, args: Sequence[Any]) -> bytes | None:
    """Return the operator that a call shows, if it is one that does."""
    return bytes(args[_ENCODING_AT[call]]) if call in _ENCODING_AT else None


def read_leaf(call: str, args: Sequence[Any]) -> LeafCall | None:
    """Return what a match's last call proves, if it is that call."""
    if call != "leaf":
        return None
    return LeafCall(int(args[3]), bytes(args[4]), bytes(args[5]), bytes(args[7]))


class Recorder:
    """A referee in front of another one in memory, which notes the calls that are accepted."""

    def __init__(self, referee: Referee) -> None:
        self._referee = referee
        self.entries: list[Entry] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._referee, name)

    def transact(self, name: str, *args: Any, sender: Address, value_wei: int = 0) -> Outcome:
        """Make a call, and note it."""
        outcome = self._referee.transact(name, *args, sender=sender, value_wei=value_wei)
        self._note(Call(name, sender, args, value_wei), outcome)
        return outcome

    def transact_all(self, calls: Sequence[Call]) -> list[Answer]:
        """Make calls at once, and note those that were accepted."""
        answers = self._referee.transact_all(calls)
        for call, answer in zip(calls, answers, strict=True):
            self._note(call, answer)
        return answers

    def _note(self, call: Call, answer: Answer) -> None:
        if not isinstance(answer, Outcome):
            return
        opened = [event for event in answer.events if event.name == "JobOpened"]
        self.entries.append(
            Entry(
                block=self._referee.block_number(),
                events=answer.events,
                call=call.name,
                sender=call.sender,
                job=self._referee.job(int(str(opened[0].args[0]))) if opened else None,
                encoding=read_encoding(call.name, call.args),
                leaf=read_leaf(call.name, call.args),
            )
        )
