"""A receipt of a synthetic run, or of a lie about it, and its matches, played to their ends."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from moot.contracts.model.types import MIN_BOND_WEI, Address, Pair
from moot.offchain.disputes.referee.terms import make_terms
from moot.sim.synthetic_jobs import Lie, Size, SyntheticRun, make_task
from tests.lockstep.story import find_call
from tests.referee.services import CHALLENGERS, PROVIDER, STRANGER, Services, make_receipt

ONE_ANSWER = Size(checkpoints=1, checkpoint_every=5, operators=9, rows=8, columns=16, terms=70)
"""One checkpoint, after the last of a few steps, as answers have it."""
LIE = Lie(step=3, operator=4, element=77, term=33)


@dataclass
class Dispute:
    """A receipt of a run, which somebody challenges with another.

    Attributes:
        both: the service.
        claimed: the run that the provider signs.
        others: the runs of those who challenge it and join.
        size: how long the run is.
    """

    both: Services
    claimed: Lie | None
    others: Mapping[Address, Lie | None] = field(default_factory=lambda: {CHALLENGERS[0]: None})
    size: Size = ONE_ANSWER
    changes: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Sign the receipt."""
        self.task = make_task(self.size, self.both.store.arithmetic)
        lies = {PROVIDER: self.claimed, **self.others}
        self.runs = {account: SyntheticRun(self.task, lie) for account, lie in lies.items()}
        self.terms = make_terms(self.task)
        it = self.terms
        named = {
            "layout": it.layout,
            "program_top": it.program_top,
            "start_root": it.start_root,
            "data_top": it.data_top,
            "history": self.runs[PROVIDER].history.top,
            "operators": it.operators,
            "state_slots": it.state_slots,
            "batch_slots": it.batch_slots,
            "steps": it.steps,
            "checkpoint_every": it.checkpoint_every,
            "stake_wei": MIN_BOND_WEI,
            "total_wei": MIN_BOND_WEI,
            "clock_blocks": 64,
        }
        self.receipt = make_receipt(**named, **self.changes)

    def challenge(self, challenger: Address = CHALLENGERS[0]) -> str | None:
        """Let somebody challenge the receipt with its own run."""
        return self.both.challenge(self.receipt, challenger, self.runs[challenger].history.top)

    def move(self, pair: Pair) -> str | None:
        """Make the next move of a job's only match."""
        pair, board = self.both.look(pair.job_id)
        terms = self.both.store.jobs[pair.job_id].terms
        side = board.position.mover
        member = (pair.first, pair.second)[side]
        move = find_call(self.runs[member], terms, board, side)
        return self.both.play(move.call, member, pair, board.position, *move.args)

    def lose(self, loser: Address) -> None:
        """Let a member of the last job's only match lose it by silence, once it is to move."""
        pair, board = self.both.look()
        if (pair.first, pair.second)[board.position.mover] != loser:
            assert self.move(pair) is None
            _, board = self.both.look()
        assert (pair.first, pair.second)[board.position.mover] == loser
        self.both.block = max(self.both.block, board.position.deadline + 1)
        assert self.both.play("timeout", STRANGER, pair, board.position) is None

    def finish(self) -> Address | None:
        """Play the only match of the last job to its end; return who has won it."""
        pair, _ = self.both.look()
        while pair in self.both.store.matches:
            assert self.move(pair) is None
            self.both.block += 1
        *_, outcome, _, _ = self.both.log[pair.job_id][-1].args
        assert isinstance(outcome, int)
        return (pair.first, pair.second)[outcome] if outcome < 2 else None
