"""Random play of whole jobs: mostly right calls, at times wrong ones.

Every choice is made by a function that picks one of several values, so that Hypothesis and seeded
generators drive the same stage.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

from moot.contracts.model.checks import name_job, name_match
from moot.contracts.model.types import (
    MAX_BOND_WEI,
    MIN_BOND_WEI,
    ZERO,
    Address,
    Dive,
    Pair,
    Terms,
)
from moot.contracts.model.words import hash_commitment
from moot.contracts.reasons import LeafMode, Phase, Standing, Status
from moot.offchain.arithmetic.base import Arithmetic
from moot.offchain.arithmetic.ordered import ORDERED
from moot.offchain.disputes.play.players import decide, find_move
from moot.offchain.disputes.referee.board import Board, follow
from moot.offchain.disputes.referee.terms import Stakes, make_terms
from moot.sim.synthetic.products import Lie, ProductRun, ProductTask, Size, make_task
from tests.lockstep.spoiling import Pick, spoil
from tests.lockstep.twin import RefereeTwin
from tests.referee.search import SALT, Call, list_detours

ACCOUNTS = tuple(f"0x{number:040x}" for number in range(0x1111, 0x9999, 0x1111))
CLIENT, VERIFIER, *PROVIDERS = ACCOUNTS
SIZES = (
    Size(checkpoints=5, checkpoint_every=1, operators=6, rows=1, columns=2, terms=3),
    Size(checkpoints=3, checkpoint_every=18, operators=20, rows=32, columns=40, terms=70),
)
"""The second has trees of two blocks, two rounds of a fold and checkpoints far apart."""
SINGLE = Size(checkpoints=1, checkpoint_every=3, operators=6, rows=1, columns=2, terms=3)
"""It has one checkpoint, which no move descends to."""
DEEP = Size(checkpoints=300, checkpoint_every=300, operators=300, rows=128, columns=136, terms=70)
"""Its trees are of three blocks, which a match descends without arriving or entering."""
LIES = (
    Lie(step=0),
    Lie(step=0, mask=2),
    Lie(step=1, operator=2, element=1, term=1),
    Lie(step=1, operator=2, element=1, term=1, mask=6),
    Lie(step=1, operator=2, element=1, term=40),
    Lie(step=2, operator=3, element=1, term=0),
    Lie(step=2, operator=5, element=0, term=2),
    Lie(step=2, operator=6, element=1),
    Lie(step=2, operator=6, element=1, mask=2),
    Lie(step=2, operator=20, element=1),
    Lie(step=2, operator=20, element=1, mask=2),
)
"""Some go with the same history, and some differ in the same place: in the first step, in an
element, and in the state after the step, where the operator is their number."""
NO_DIVE = Dive(0, ZERO, (), ())
NO_TOPS = (ZERO, ZERO)


@cache
def get_task(size: Size, arithmetic: Arithmetic = ORDERED) -> ProductTask:
    """Return the job of a size."""
    return make_task(size, arithmetic)


@cache
def get_run(size: Size, lie: Lie | None, arithmetic: Arithmetic = ORDERED) -> ProductRun:
    """Return an account of a job: the truth, or a lie."""
    return ProductRun(get_task(size, arithmetic), lie)


@dataclass
class Cast:
    """A job, with the history that each account in it stands by."""

    job_id: int
    size: Size
    runs: dict[Address, ProductRun] = field(default_factory=dict)
    boards: dict[Pair, Board] = field(default_factory=dict)


@dataclass
class Stage:
    """All jobs of a referee.

    Args:
        twins: the referee.
        pick: makes every choice.
        sizes: those of the jobs.
    """

    twins: RefereeTwin
    pick: Pick
    sizes: Sequence[Size] = SIZES
    casts: list[Cast] = field(default_factory=list)
    made: list[tuple[Cast, Call]] = field(default_factory=list)
    accepted: int = 0
    refused: int = 0

    def make(self, cast: Cast, call: Call) -> bool:
        """Make a call, and say whether it was accepted."""
        twins = self.twins
        reason = twins.call(call.name, call.sender, *call.args, value_wei=call.value_wei)
        if reason is not None:
            self.refused += 1
            return False
        self.accepted += 1
        self.made.append((cast, call))
        for event in twins.store.events:
            follow(cast.boards, event, twins.store.arithmetic)
            if event.name == "Claimed":
                self._recognise(cast, *event.args[1:3])
        return True

    def _recognise(self, cast: Cast, member: Any, top: Any) -> None:
        """Note by which account a member goes that has come by chance."""
        for lie in (None, *LIES):
            if self.get_run(cast, lie).history.top == top:
                cast.runs.setdefault(member, self.get_run(cast, lie))

    def get_run(self, cast: Cast, lie: Lie | None) -> ProductRun:
        """Return an account of a job in the referee's arithmetic."""
        return get_run(cast.size, lie, self.twins.store.arithmetic)

    # The calls around the matches.

    def open(self, size: Size | None = None, **changes: Any) -> None:
        """Open a job, of any size if not said otherwise; its terms may be absurd."""
        size = size or self.pick(self.sizes)
        stakes = Stakes(
            commit_blocks=6, reveal_blocks=6, window_blocks=4, clock_blocks=9, increment_blocks=2
        )
        terms = make_terms(get_task(size, self.twins.store.arithmetic), stakes)
        mode = self.pick((LeafMode.SCALAR, LeafMode.SCALAR, LeafMode.OPERATOR))
        terms = replace(terms, **({"leaf_mode": mode, "verifier": VERIFIER} | changes))
        cast = Cast(len(self.twins.store.jobs), size)
        value_wei = self.pick((0, 1, 1001))
        if self.make(cast, Call("open_job", CLIENT, (terms,), value_wei)):
            self.casts.append(cast)

    def open_absurdly(self) -> None:
        """Open a job with terms that no referee can take."""
        changes = (
            {"bond_wei": MIN_BOND_WEI - 1},
            {"bond_wei": MAX_BOND_WEI + 1},
            {"clock_blocks": 0},
            {"increment_blocks": 10},
            {"steps": 0},
            {"checkpoint_every": 1 << 32},
            {"state_slots": 0},
            {"window_blocks": (1 << 20) + 1},
        )
        self.open(**self.pick(changes))

    def get_terms(self, cast: Cast) -> Terms:
        """Return the terms of a job."""
        return self.twins.store.jobs[cast.job_id].terms

    def join(self, cast: Cast) -> None:
        """Commit to a claim, or come late with one, mostly with the right bond."""
        account = self.pick([a for a in PROVIDERS if a not in cast.runs] or PROVIDERS)
        run = self.get_run(cast, self.pick((None, *LIES)))
        job = self.twins.store.jobs[cast.job_id]
        value_wei = job.terms.bond_wei - self.pick((0,) * 7 + (1,))
        if self.twins.block <= job.reveal_deadline:
            self.commit(cast, account, run, value_wei)
            return
        args = (cast.job_id, run.history.top, self._name_job(cast.job_id))
        if self.make(cast, Call("join", account, args, value_wei)):
            cast.runs[account] = run

    def commit(
        self, cast: Cast, account: Address, run: ProductRun, value_wei: int | None = None
    ) -> None:
        """Commit to a claim, with the right bond if not said otherwise."""
        store, job_id = self.twins.store, cast.job_id
        digest = hash_commitment(store, job_id, account, run.history.top, SALT)
        bond_wei = self.get_terms(cast).bond_wei if value_wei is None else value_wei
        args = (job_id, digest, self._name_job(job_id))
        if self.make(cast, Call("commit", account, args, bond_wei)):
            cast.runs[account] = run

    def _name_job(self, job_id: int) -> int:
        """Return what a call that joins names the job by, now and then that of another."""
        others = [name_job(self.twins.store, job) for job in self.twins.store.jobs]
        return self.pick([name_job(self.twins.store, job_id)] * 9 + others)

    def _pick_top(self, cast: Cast) -> bytes:
        return bytes(self.pick([run.history.top for run in cast.runs.values()] or [ZERO]))

    def reveal(self, cast: Cast) -> None:
        """Show the claim that has been committed to, mostly one's own."""
        members = self.twins.store.members
        hidden = [a for a in cast.runs if members[cast.job_id, a].standing is Standing.COMMITTED]
        account = self.pick(hidden or PROVIDERS)
        own = cast.runs.get(account, self.get_run(cast, None)).history.top
        top = self.pick((own,) * 9 + (self._pick_top(cast),))
        self.make(cast, Call("reveal", account, (cast.job_id, top, SALT)))

    def start(self, cast: Cast) -> None:
        """Begin a match between any two accounts, mostly of different claims."""
        members = self.twins.store.members
        left = [a for a in cast.runs if members[cast.job_id, a].is_contender]
        one = self.pick(left * 9 + list(PROVIDERS))
        top = cast.runs[one].history.top if one in cast.runs else ZERO
        others = [a for a in left if cast.runs[a].history.top != top]
        other = self.pick(others * 9 + list(PROVIDERS))
        pair = sorted((one, other))
        pair = self.pick((pair,) * 9 + (pair[::-1],))
        *args, tops, rivals = name_match(self.twins.store, Pair(cast.job_id, pair[0], pair[1]))
        tops = self.pick((tops,) * 9 + (tops[::-1],))
        rivals = self.pick((rivals,) * 9 + (rivals[::-1], tops))
        self.make(cast, Call("start_match", self.pick(ACCOUNTS), (*args, tops, rivals)))

    def close(self, cast: Cast) -> None:
        """Settle the job, or collect what it owes."""
        account = self.pick((CLIENT, *(cast.runs or PROVIDERS)))
        if self.twins.store.jobs[cast.job_id].status is Status.OPEN:
            args = (cast.job_id, self._pick_left(cast))
            self.make(cast, Call("settle", account, args))
        else:
            self.make(cast, Call("collect", account, (cast.job_id,)))

    def _pick_left(self, cast: Cast) -> bytes:
        claims = self.twins.store.claims.items()
        left = [claim.top for (i, _), claim in claims if i == cast.job_id and claim.contenders]
        return bytes(self.pick(left * 3 + [self._pick_top(cast)]))

    def meddle(self, cast: Cast) -> None:
        """Make any of these calls at the wrong time, or for a job that does not exist."""
        job_id = self.pick((cast.job_id, len(self.twins.store.jobs)))
        account, top = self.pick(ACCOUNTS), self._pick_top(cast)
        named = self._name_job(job_id)
        bond_wei = self.get_terms(cast).bond_wei
        calls = (
            Call("commit", account, (job_id, top, named), bond_wei),
            Call("reveal", account, (job_id, top, SALT)),
            Call("join", account, (job_id, top, named), bond_wei),
            Call("settle", account, (job_id, top)),
            Call("settle", account, (job_id, top), 1),
            Call("collect", account, (job_id,)),
            Call("start_match", account, (job_id, *PROVIDERS[:2], NO_TOPS, NO_TOPS)),
        )
        self.make(cast, self.pick(calls))

    # The moves of a match.

    def move(self, cast: Cast) -> bool:
        """Make the next move of a match, as one of the accounts that go with the claim has it."""
        call = self._find(cast)
        return call is not None and self.make(cast, call)

    def play(self, cast: Cast) -> None:
        """Make some moves."""
        for _ in range(self.pick((4, 9))):
            if not self.move(cast):
                break
            self.wait(self.pick((0, 0, 1, 2)))

    def _find(self, cast: Cast) -> Call | None:
        if not cast.boards:
            return None
        board = self.pick(list(cast.boards.values()))
        position, terms = board.position, self.get_terms(cast)
        side = position.mover
        player = (board.pair.first, board.pair.second)[side]
        if position.phase is Phase.VERIFIER:
            outcome = self.pick((0, 1, 2, 3))
            sender = self.pick((VERIFIER, VERIFIER, VERIFIER, player))
            return Call("rule", sender, (board.pair, position, outcome))
        if player not in cast.runs:
            return None
        run = self.pick(self._list_faces(cast, player))
        if position.phase in {Phase.LEAF, Phase.SINK}:
            move = decide(run, board, side)
        elif (found := find_move(run, terms, board, side)) is not None:
            move = self.pick([found] * 12 + list(list_detours(run, board, found)))
        else:
            return None
        sender = self.pick((player,) * 7 + (CLIENT,))
        return Call(move.call, sender, (board.pair, position, *move.args))

    def _list_faces(self, cast: Cast, player: Address) -> list[ProductRun]:
        own = cast.runs[player]
        runs = [self.get_run(cast, lie) for lie in LIES]
        return [own] * 3 + [run for run in runs if run.history.top == own.history.top]

    def time_out(self, cast: Cast) -> None:
        """End a match by its clock, mostly after it has run out."""
        if cast.boards:
            board = self.pick(list(cast.boards.values()))
            late = board.position.deadline + 1 - self.twins.block
            self.wait(self.pick((0, max(0, late - 1), max(0, late), max(0, late))))
            self.make(cast, Call("timeout", self.pick(ACCOUNTS), (board.pair, board.position)))

    def spoil(self, cast: Cast) -> None:
        """Make a move that is right but for one thing."""
        call = self._find(cast)
        if call is None:
            return
        place = self.pick(range(-1, len(call.args)))
        if place < 0:
            self.make(cast, replace(call, sender=self.pick(ACCOUNTS)))
            return
        args = spoil(self.pick, call.args, ACCOUNTS, place)
        self.make(cast, replace(call, args=args))

    def repeat(self) -> None:
        """Make a call that was accepted once more."""
        if self.made:
            self.make(*self.pick(self.made[-12:]))

    def confuse(self, cast: Cast) -> None:
        """Make a move of any phase where another may be due."""
        if not cast.boards:
            return
        board = self.pick(list(cast.boards.values()))
        place, run = (board.facts,), self.get_run(cast, None)
        encoding = run.task.commitment.encodings[2]
        calls: dict[str, tuple[Any, ...]] = {
            "descend": (NO_DIVE,),
            "enter_claimed": (*place, ZERO, ZERO, (), NO_DIVE),
            "enter_tensor": (*place, encoding, (), ZERO, NO_DIVE),
            "enter_state": (ZERO, NO_DIVE),
            "reach_chunk": (*place, NO_DIVE, b""),
            "pick_element": (*place, b"", b"", b""),
            "pick_segment": (*place, b"", 0, 0, b""),
            "leaf": (*place, 0, encoding, ZERO, (), b""),
            "prove_sink": (*place, 1, ZERO, ()),
            "rule": (1,),
            "timeout": (),
        }
        name = self.pick(sorted(calls))
        sender = self.pick((*ACCOUNTS, board.pair.first, board.pair.second))
        self.make(cast, Call(name, sender, (board.pair, board.position, *calls[name])))

    def wait(self, blocks: int) -> None:
        """Let blocks go by."""
        self.twins.block += blocks

    def wait_for(self, cast: Cast) -> None:
        """Let blocks go by up to a deadline, or to the block after it."""
        job = self.twins.store.jobs[cast.job_id]
        deadlines = [job.commit_deadline, job.reveal_deadline, job.window_end]
        ahead = [d for d in deadlines if d >= self.twins.block] or [self.twins.block]
        self.twins.block = ahead[0] + self.pick((0, 1, 1, 1))
