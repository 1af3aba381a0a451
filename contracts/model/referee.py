"""The calls of the referee, by name, and how a call is made.

A handler `on_<call>` takes the store, the message and the call's arguments. A failed check raises
`Revert`, and the call has then changed nothing: `call` sees to that for every handler alike.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from moot.contracts.model import descent, legality, tournament, verdicts
from moot.contracts.model.checks import require
from moot.contracts.model.types import (
    MAX_BLOCKS,
    MAX_BOND_WEI,
    MAX_REWARD_WEI,
    MIN_BOND_WEI,
    Event,
    Job,
    Message,
    Store,
    Terms,
)
from moot.contracts.reasons import LeafMode, Reason, Revert
from moot.offchain.programs.limits import MAX_OPERATORS, MAX_SLOTS, MAX_STEPS


def call(store: Store, name: str, message: Message, *args: object) -> tuple[Event, ...]:
    """Make one call and return its events.

    Raises:
        Revert: the call is refused; the store is as it was.
    """
    return make_call(store, name, message, args, CALLS, _PAYABLE)


class Memory(Protocol):
    """What a contract remembers: its money, its events, and the way back from a refused call."""

    balance_wei: int
    burned_wei: int
    events: list[Event]

    def commit(self) -> None:
        """Keep what was written."""

    def rollback(self) -> None:
        """Undo what was written."""


def make_call(
    store: Memory,
    name: str,
    message: Message,
    args: Sequence[object],
    calls: Mapping[str, Callable[..., None]],
    payable: frozenset[str],
) -> tuple[Event, ...]:
    """Make one of the calls of a contract, whichever it has, and return its events.

    Raises:
        Revert: the call is refused; the store is as it was.
    """
    money = store.balance_wei, store.burned_wei
    store.events = []
    try:
        store.balance_wei += message.value_wei
        require(message.value_wei == 0 or name in payable, Reason.NO_REASON)
        calls[name](store, message, *args)
    except Revert:
        store.rollback()
        store.balance_wei, store.burned_wei = money
        store.events = []
        raise
    store.commit()
    return tuple(store.events)


def on_open_job(store: Store, message: Message, terms: Terms) -> None:
    """Open a job; the value is the reward, shared by the members of the winning claim."""
    require(terms.bond_wei >= MIN_BOND_WEI, Reason.BOND_TOO_SMALL)
    is_sound = are_terms_sound(terms) and message.value_wei <= MAX_REWARD_WEI
    require(is_sound, Reason.ABSURD_TERMS)
    windows = terms.commit_blocks + terms.reveal_blocks + terms.window_blocks
    job_id = len(store.jobs)
    job = Job(message.sender, terms, message.value_wei, message.block, message.block + windows)
    store.put(store.jobs, job_id, job)
    store.events.append(Event("JobOpened", (job_id, message.sender)))


def are_terms_sound(terms: Terms) -> bool:
    """Whether all counts, windows and clocks are within their bounds."""
    windows = (terms.commit_blocks, terms.reveal_blocks, terms.window_blocks)
    return (
        are_counts_sound(terms)
        and terms.leaf_mode in tuple(LeafMode)
        and all(1 <= window <= MAX_BLOCKS for window in windows)
    )


def are_counts_sound(terms: Terms) -> bool:
    """Whether the bond, all counts and the clocks are within their bounds."""
    return (
        terms.bond_wei <= MAX_BOND_WEI
        and 1 <= terms.state_slots <= MAX_SLOTS
        and terms.batch_slots <= MAX_SLOTS
        and terms.state_slots <= terms.operators <= MAX_OPERATORS
        and 1 <= terms.steps <= MAX_STEPS
        and 1 <= terms.checkpoint_every <= terms.steps
        and 1 <= terms.clock_blocks <= MAX_BLOCKS
        and 1 <= terms.increment_blocks <= terms.clock_blocks
    )


CALLS: dict[str, Callable[..., None]] = {
    "open_job": on_open_job,
    "commit": tournament.on_commit,
    "reveal": tournament.on_reveal,
    "join": tournament.on_join,
    "start_match": tournament.on_start_match,
    "settle": tournament.on_settle,
    "collect": tournament.on_collect,
    "descend": descent.on_descend,
    "enter_claimed": descent.on_enter_claimed,
    "enter_tensor": descent.on_enter_tensor,
    "enter_state": descent.on_enter_state,
    "reach_chunk": verdicts.on_reach_chunk,
    "pick_element": verdicts.on_pick_element,
    "pick_segment": verdicts.on_pick_segment,
    "leaf": verdicts.on_leaf,
    "prove_sink": verdicts.on_prove_sink,
    "rule": verdicts.on_rule,
    "timeout": verdicts.on_timeout,
    "prove_operator": legality.on_prove_operator,
    "prove_operand": legality.on_prove_operand,
}
_PAYABLE = frozenset({"open_job", "commit", "join"})
