"""Drawn jobs: whatever members do, a record's state is the referee's after every call."""

from collections.abc import Sequence
from typing import Any

import pytest

from moot.contracts.model.referee import call
from moot.contracts.model.types import NOBODY, Event, Message, Store
from moot.offchain.arithmetic.base import Arithmetic
from moot.offchain.arithmetic.exact import EXACT
from moot.offchain.arithmetic.ordered import ORDERED
from moot.offchain.record.entries import Entry, read_encoding, read_leaf
from moot.offchain.record.reducer import Reducer
from tests.record_helpers import get_state
from tests.referee.games_table import play_job

JOBS = {ORDERED: 120, EXACT: 30}


class ReducedReferee:
    """A referee's model whose calls are reduced to frames, each compared with the model."""

    def __init__(self, arithmetic: Arithmetic) -> None:
        self.store = Store(1, NOBODY, arithmetic=arithmetic)
        self.reducer = Reducer(NOBODY, 1, arithmetic)
        self.names: set[str] = set()
        self.scalars = 0

    def send(self, name: str, message: Message, args: tuple[Any, ...]) -> Sequence[Event]:
        """Make a call, and compare what is known of it with what the model remembers."""
        events = call(self.store, name, message, *args)
        opened = self.store.jobs[len(self.store.jobs) - 1] if name == "open_job" else None
        entry = Entry(
            block=message.block,
            events=events,
            call=name,
            sender=message.sender,
            job=opened,
            encoding=read_encoding(name, args),
            leaf=read_leaf(name, args),
        )
        (frame,) = self.reducer.reduce([entry])
        assert get_state(self.reducer.books.store) == get_state(self.store)
        for match in frame.matches:
            is_scalar = match.end is not None and match.end.ending == "scalar"
            assert is_scalar == (match.scalar is not None)
            self.scalars += is_scalar
        self.names.add(name)
        return events


@pytest.mark.parametrize("arithmetic", JOBS, ids=str)
def test_the_state_is_the_models_in_drawn_jobs(arithmetic: Arithmetic) -> None:
    """Lies, silence, late members, several matches at a time: no call leaves another state."""
    names: set[str] = set()
    scalars = 0
    for number in range(JOBS[arithmetic]):
        reduced = ReducedReferee(arithmetic)
        play_job(number, reduced.store, reduced.send)
        names |= reduced.names
        scalars += reduced.scalars
    assert scalars > JOBS[arithmetic] / 10
    assert names >= {"join", "timeout", "leaf", "prove_sink", "enter_state", "pick_segment"}
