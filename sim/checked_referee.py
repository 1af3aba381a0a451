"""A checked referee: the model makes every accepted call too, and all invariants are checked.

The model is the specification. So whatever plays on a checked referee, on the contract or on
another model, is known to announce what it should, and never to break a rule unnoticed.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

from moot.contracts.model.referee import call
from moot.contracts.model.step_invariants import Step
from moot.contracts.model.store_invariants import BrokenInvariantError
from moot.contracts.model.types import Address, Event, Message, copy_store
from moot.contracts.model.watch import Watcher
from moot.contracts.reasons import Revert
from moot.offchain.disputes.referee.port import Answer, Call, Outcome, Referee, open_store
from moot.sim.relay import Relay


class CheckedReferee(Relay):
    """A fresh referee whose every call is checked.

    Args:
        referee: the contract or a model.
        label: what an error begins with: how the simulation can be found again.

    Attributes:
        label: the same; it may change from job to job.
        store: what the model remembers after the same calls.
        logs: what has been announced of each job.
        watcher: checks the calls; whoever knows the honest members of a job tells it.
        on_step: is shown every accepted call while the stores are as it left them.
    """

    def __init__(self, referee: Referee, label: str) -> None:
        super().__init__(referee)
        self.label = label
        self.store = open_store(referee)
        self.logs: dict[int, list[Event]] = defaultdict(list)
        self.watcher = Watcher()
        self.on_step: Callable[[Step], None] = lambda _: None

    def transact(self, name: str, *args: Any, sender: Address, value_wei: int = 0) -> Outcome:
        """Make a call, on the model as well.

        Raises:
            BrokenInvariantError: the referee does something else than the model, or what it does
                breaks an invariant.
        """
        following = self.referee.block_number() + 1
        outcome = super().transact(name, *args, sender=sender, value_wei=value_wei)
        self._note(Call(name, sender, args, value_wei), outcome, following)
        return outcome

    def transact_all(self, calls: Sequence[Call]) -> list[Answer]:
        """Make calls at once, and on the model one after the other; raises as `transact` does."""
        following = self.referee.block_number() + 1
        answers = super().transact_all(calls)
        for made, answer in zip(calls, answers, strict=True):
            if isinstance(answer, Outcome):
                self._note(made, answer, following)
        return answers

    def _note(self, made: Call, outcome: Outcome, following: int) -> None:
        """Make an accepted call on the model; without a receipt it was in the block `following`."""
        block = outcome.receipt.block if outcome.receipt else following
        message = Message(made.sender, made.value_wei, block)
        try:
            self._repeat(made.name, message, made.args, outcome.events)
        except BrokenInvariantError as error:
            place = f"{self.label}: {made.name} by {made.sender} in block {block} breaks"
            raise BrokenInvariantError(f"{place} {error.message}") from error
        for event in outcome.events:
            self.logs[int(str(event.args[0]))].append(event)

    def _repeat(
        self, name: str, message: Message, args: tuple[Any, ...], announced: tuple[Event, ...]
    ) -> None:
        before = copy_store(self.store)
        try:
            events = call(self.store, name, message, *args)
        except Revert as refusal:
            reason = f"what_is_accepted_is_lawful: the model says {refusal.message!r}"
            raise BrokenInvariantError(reason) from refusal
        if events != announced:
            reason = f"what_is_announced_is_true: {announced} instead of {events}"
            raise BrokenInvariantError(reason)
        step = Step(before, name, message, args, self.store, events)
        self.watcher.watch(step)
        self.on_step(step)
