"""A referee that remembers what it has accepted, whatever interrupts those who called it."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from moot.interrupts import deferring
from moot.offchain.disputes.play.game import Played
from moot.offchain.disputes.referee.on_chain import ChainReferee
from moot.offchain.disputes.referee.port import Answer, Call, Outcome
from moot.offchain.disputes.referee.stages import get_stage


class RecordingReferee(ChainReferee):
    """A referee on a chain, with every call that it has accepted, in order.

    An interrupt of the keyboard waits until a question is answered, or transactions are in blocks.

    Attributes:
        accepted: the calls.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.accepted: list[Played] = []

    @contextmanager
    def _clock(self) -> Iterator[None]:
        with deferring(), super()._clock():
            yield

    def transact_all(self, calls: Sequence[Call]) -> list[Answer]:
        """Make calls, and note those that are accepted."""
        with deferring():
            answers = super().transact_all(calls)
            self.accepted += [
                Played(get_stage(call), call.player, call.name, answer.events, answer.receipt)
                for call, answer in zip(calls, answers, strict=True)
                if isinstance(answer, Outcome)
            ]
        return answers

    def forget(self) -> None:
        """Forget what was read of jobs, which is read again."""
        self._logs.clear()
