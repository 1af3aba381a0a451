import random
from collections import Counter
from functools import cache

import pytest

from contracts.model.referee import compute_commitment
from contracts.reasons import Revert
from tests.lockstep.claims import Claim, cheating, flip
from tests.lockstep.game import SALT, Game, Move
from tests.lockstep.harness import Lockstep
from tests.lockstep.mutations import mutate_move, other_moves
from tests.lockstep.tasks import honest_kinds, kinds

STEPS = 220
TERMS = {"commit_blocks": 12, "reveal_blocks": 12, "clock_blocks": 16, "increment_blocks": 4}


@cache
def pool() -> tuple[Claim, ...]:
    """Claims of all sorts, the honest one twice."""
    task = kinds(3, 2)
    return (
        honest_kinds(3, 2),
        honest_kinds(3, 2),
        cheating(task, 2, 6),
        cheating(task, 1, 13, 66),
        cheating(task, 0, 10, 2),
        cheating(task, 0, 17),
        Claim(task, fake=lambda step, s: (flip(s[0]), *s[1:]) if step == 1 else s),
        Claim(task, fake=lambda step, s: (*s[:2], flip(s[2])) if step == -1 else s),
    )


class Walk:
    """A walk through some jobs, two at once: right, wrong, late and early calls by everybody."""

    def __init__(self, referee: Lockstep, seed: int) -> None:
        self.referee = referee
        self.rng = random.Random(seed)
        self.accepted: Counter[str] = Counter()
        self.refused: Counter[str] = Counter()
        self.games: list[Game] = []
        self.accounts = referee.chain.accounts
        for _ in range(2):
            self.open()

    def open(self) -> None:
        """Open another job."""
        verifier = self.accounts[8]
        game = Game(self.referee, kinds(3, 2), [], TERMS | {"verifier": verifier})
        game.members = ()
        self.games.append(game)

    def step(self) -> None:
        """Do one thing with one of the last two jobs, mostly one whose time it is."""
        game = self.rng.choice(self.games[-2:])
        actions = [self.join, self.show, self.call, self.wait]
        block = self.referee.chain.block_number() + 1
        if game.job.match is not None:
            actions = [self.move, self.mutate, self.other, self.call, self.wait]
            weights = [70, 16, 4, 5, 5]
        elif block <= game.job.commit_deadline:
            weights = [80, 5, 5, 10]
        elif block <= game.job.reveal_deadline:
            weights = [5, 80, 5, 10]
        else:
            weights = [2, 2, 86, 10]
        if game.job.is_settled and self.rng.random() < 0.2:
            self.open()
        self.rng.choices(actions, weights)[0](game)

    def make(self, game: Game, move: Move, value_wei: int = 0) -> bool:
        """Make a call, and count what comes of it."""
        try:
            self.referee.call(move.name, move.sender, *move.args, value_wei=value_wei)
        except Revert as refusal:
            self.refused[refusal.reason] += 1
            return False
        self.accepted[move.name] += 1
        if move.name in {"open", "open_chunk", "open_fold"}:
            game.shown = move.args[2]
        return True

    def join(self, game: Game) -> None:
        """Commit to some claim, mostly with the right bond."""
        account, claim = self.rng.choice(self.accounts[1:6]), self.rng.choice(pool())
        store = self.referee.store
        digest = compute_commitment(store, game.job_id, account, claim.history.top, SALT)
        value_wei = game.job.terms.bond_wei - (self.rng.random() < 0.1)
        if self.make(game, Move("commit", account, (game.job_id, digest)), value_wei):
            game.claims.append(claim)
            game.members = (*game.members, account)

    def show(self, game: Game) -> None:
        """Reveal some claim, mostly one's own."""
        if game.members:
            seat = self.rng.randrange(len(game.members))
            claim = game.claims[seat] if self.rng.random() < 0.9 else self.rng.choice(pool())
            args = (game.job_id, claim.history.top, SALT)
            self.make(game, Move("reveal", game.members[seat], args))

    def call(self, game: Game) -> None:
        """Start, settle, withdraw, rule or end by the clock."""
        account = self.rng.choice(self.accounts)
        name = self.rng.choice(["start_match", "settle", "withdraw", "timeout", "rule"])
        args: tuple[object, ...] = () if name == "withdraw" else (game.job_id,)
        if name in {"timeout", "rule"}:
            has_match = game.job.match is not None
            args += (self.referee.position(game.job_id) if has_match else SALT,)
        if name == "rule":
            args += (self.rng.random() < 0.5,)
            account = self.rng.choice([account, self.accounts[8]])
        self.make(game, Move(name, account, args))

    def move(self, game: Game) -> None:
        """Make the right move, if it is a party's."""
        if game.match.phase.name != "VERIFIER":
            self.make(game, game.next_move())

    def mutate(self, game: Game) -> None:
        """Make a move that is almost right."""
        if game.match.phase.name != "VERIFIER":
            self.make(game, self.rng.choice(list(mutate_move(game, game.next_move()))))

    def other(self, game: Game) -> None:
        """Make a move of another phase."""
        self.make(game, self.rng.choice(list(other_moves(game))))

    def wait(self, game: Game) -> None:
        """Let some blocks go by, at times up to a deadline."""
        blocks = self.rng.choice([1, 1, 2, 5, 13])
        if self.rng.random() < 0.3:
            deadline = self.rng.choice([game.job.commit_deadline, game.job.reveal_deadline])
            blocks = max(deadline - 1 - self.referee.chain.block_number(), 0)
        self.referee.chain.mine(blocks)


@pytest.mark.parametrize("seed", range(6))
def test_random_walks_stay_in_lockstep(referee: Lockstep, seed: int) -> None:
    """However calls are mixed, model and contract agree after each of them."""
    walk = Walk(referee, seed)
    for _ in range(STEPS):
        walk.step()
    referee.compare_all()
    assert len(walk.accepted) >= 8
    assert len(walk.refused) >= 6
