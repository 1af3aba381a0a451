"""Drawn stories of small jobs, with honest and dishonest members and calls that must be refused.

Each is drawn from its own seed: who joins and when, who lies where, who answers, who lets a clock
run out, and what hostile calls come in between. The trees are small, the moves are real.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import Any

import numpy as np

from moot.contracts.model.checks import name_job, name_match
from moot.contracts.model.types import MIN_BOND_WEI, ZERO, Dive, Terms
from moot.contracts.model.words import hash_commitment
from moot.contracts.reasons import LeafMode, Phase, Status
from moot.offchain.disputes.play.players import find_move
from moot.offchain.disputes.play.tournament import Tournament
from moot.offchain.disputes.referee.board import Board
from moot.offchain.disputes.referee.terms import Stakes, make_terms
from moot.sim.synthetic.products import Lie, ProductRun, ProductTask, Size, make_task
from tests.mutants.replay import Call
from tests.mutants.tape import ACCOUNTS, CLIENT, MEMBERS, SALT, VERIFIER, Tape

_MOST_STEPS = 400


@dataclass
class Teller:
    """The author of one drawn story; in a calm one nearly every call is a right one."""

    rng: np.random.Generator
    tape: Tape = field(default_factory=Tape)
    runs: dict[str, ProductRun] = field(default_factory=dict)
    is_calm: bool = False

    def tell(self) -> list[Call]:
        """Make up the story, and return its calls."""
        arithmetic = self.tape.store.arithmetic
        task = make_task(self._draw_size(), arithmetic)
        self._cast(task)
        terms = self._make_terms(task)
        self._send(CLIENT, "open_job", replace(terms, steps=0), value_wei=5)
        self._send(CLIENT, "open_job", terms, value_wei=10**17 + 1)
        self._join(terms)
        tournament = Tournament(0, terms, arithmetic)
        for _ in range(_MOST_STEPS):
            if self.tape.store.jobs[0].status is not Status.OPEN:
                break
            self._take_turn(terms, tournament)
        for account in (CLIENT, *self.runs, *list(self.runs)[:2], VERIFIER):
            self._send(account, "collect", 0)
        return self.tape.calls

    def _chance(self, likelihood: float) -> bool:
        return bool(self.rng.random() < likelihood)

    def _draw(self, low: int, high: int) -> int:
        return int(self.rng.integers(low, high + 1))

    def _draw_size(self) -> Size:
        return Size(
            checkpoints=self._draw(1, 40),
            checkpoint_every=self._draw(1, 3) if self._chance(0.5) else 1,
            operators=self._draw(6, 24),
            rows=self._draw(1, 24),
            columns=self._draw(1, 40),
            terms=int(self.rng.choice([1, 2, 3, 50, 64, 65, 130, 300])),
        )

    def _cast(self, task: ProductTask) -> None:
        """Decide who lies about what; some tell the same lie, and most stories have an honest."""
        size = task.size
        lies = [
            Lie(
                step=self._draw(0, task.steps - 1),
                operator=self._draw(2, size.operators - 3) if self._chance(0.8) else size.operators,
                element=self._draw(0, size.rows * size.columns - 1),
                term=self._draw(0, size.terms - 1),
                mask=1 << self._draw(0, 22),
            )
            for _ in range(self._draw(1, 3))
        ]
        for member in MEMBERS[: self._draw(2, 6)]:
            lie = None if self._chance(0.35) else lies[self._draw(0, len(lies) - 1)]
            self.runs[member] = ProductRun(task, lie)

    def _make_terms(self, task: ProductTask) -> Terms:
        stakes = Stakes(
            bond_wei=MIN_BOND_WEI + self._draw(0, 1),
            commit_blocks=self._draw(1, 9),
            reveal_blocks=self._draw(1, 9),
            window_blocks=self._draw(1, 40),
            clock_blocks=self._draw(10, 40),
            increment_blocks=self._draw(1, 3),
        )
        mode = LeafMode.OPERATOR if self._chance(0.15) else LeafMode.SCALAR
        return make_terms(task, stakes, mode, VERIFIER)

    def _join(self, terms: Terms) -> None:
        bond, late = terms.bond_wei, self._draw(0, 1)
        early = list(self.runs)[: len(self.runs) - late]
        for member in early:
            top = self.runs[member].history.top
            digest = hash_commitment(self.tape.store, 0, member, top, SALT)
            named = name_job(self.tape.store, 0)
            self._send(member, "commit", 0, digest, named, value_wei=bond)
            if self._chance(0.2):
                self._send(member, "commit", 0, digest, named, value_wei=bond)
        self.tape.block = max(self.tape.block, 2 + terms.commit_blocks)
        for member in early:
            if self._chance(0.95):
                self._send(member, "reveal", 0, self.runs[member].history.top, SALT)
        self.tape.block = max(self.tape.block, 2 + terms.commit_blocks + terms.reveal_blocks)

    def _take_turn(self, terms: Terms, tournament: Tournament) -> None:
        """Do one of the things that somebody could do now."""
        tournament.read(self.tape.log)
        if self._chance(0.1):
            self._join_late(terms)
        pairs = list(tournament.find_pairs(self.tape.block))
        boards = list(tournament.boards.values())
        if pairs and (not boards or self._chance(0.3)):
            pair = pairs[self._draw(0, len(pairs) - 1)]
            *args, tops, rivals = name_match(self.tape.store, pair)
            tops = (tops[0], ZERO) if self._chance(0.03) else tops
            rivals = self._confuse(rivals) if self._chance(0.1) else rivals
            self._send(CLIENT, "start_match", *args, tops, rivals)
        elif boards:
            self._move(boards[self._draw(0, len(boards) - 1)], terms)
        else:
            left = [*tournament.get_claims(), ZERO]
            if self._chance(0.3):
                self._send(CLIENT, "settle", 0, left[0])
            self.tape.block += self._draw(1, 9)
        if self._chance(0.03):
            self._send(CLIENT, "settle", 0, ZERO)
            self._send(MEMBERS[0], "collect", 0)

    def _confuse(self, rivals: tuple[bytes, bytes]) -> tuple[bytes, bytes]:
        """Return one of the claims that two others met, and in place of its opposite any claim."""
        tops = [*sorted({run.history.top for run in self.runs.values()}), ZERO]
        wrong = tops[self._draw(0, len(tops) - 1)]
        return (rivals[0], wrong) if self._chance(0.5) else (wrong, rivals[1])

    def _join_late(self, terms: Terms) -> None:
        tops = list({run.history.top for run in self.runs.values()})
        top = tops[self._draw(0, len(tops) - 1)]
        joined = [member for job, member in self.tape.store.members if job == 0]
        free = [member for member in MEMBERS if member not in joined]
        if free:
            value = terms.bond_wei - (0 if self._chance(0.8) else 1)
            known = {run.history.top: run for run in self.runs.values()}
            if self._send(free[0], "join", 0, top, name_job(self.tape.store, 0), value_wei=value):
                self.runs[free[0]] = known[top]

    def _move(self, board: Board, terms: Terms) -> None:
        pair, position = board.pair, board.position
        if self.tape.block > position.deadline or self._chance(0.03):
            if self._chance(0.5):
                self.tape.block = max(self.tape.block, position.deadline + self._draw(0, 1))
            self._send(CLIENT, "timeout", pair, position)
            return
        if position.phase is Phase.VERIFIER:
            sender = VERIFIER if self._chance(0.8) else CLIENT
            self._send(sender, "rule", pair, position, self._draw(0, 3))
            return
        members = (pair.first, pair.second)
        mover = members[position.mover]
        # Whoever has data that fits may try: the mover, its friends, the other side.
        sender = mover if self._chance(0.8) else members[1 - position.mover]
        move = find_move(self.runs[mover], terms, board, position.mover)
        if move is None:
            self.tape.block += self._draw(0, 2)
            return
        args = (pair, position, *move.args)
        if self._chance(0.35):
            self._send(sender, move.call, *self._bend(args))
        if self._chance(0.1):
            self.tape.block += self._draw(0, 3)
        accepted = self._send(sender, move.call, *args)
        if accepted and self._chance(0.1):
            self._send(sender, move.call, *args)

    def _send(self, sender: str, name: str, *args: Any, value_wei: int = 0) -> bool:
        """Make a call, and say whether it is accepted."""
        reason = self.tape.call(name, sender, *args, value_wei=value_wei)
        self.tape.block += self._chance(0.3)
        return reason is None

    def _bend(self, args: Sequence[Any]) -> tuple[Any, ...]:
        """Change one thing in the arguments of a move."""
        place = self._draw(0, len(args) - 1)
        return (*args[:place], self._bend_value(args[place]), *args[place + 1 :])

    def _bend_value(self, value: Any) -> Any:  # noqa: PLR0911 - one for each type
        if is_dataclass(value) and not isinstance(value, type):
            name = fields(value)[self._draw(0, len(fields(value)) - 1)].name
            part = getattr(value, name)
            if isinstance(part, tuple) and not isinstance(value, Dive):
                side = self._draw(0, 1)
                bent = self._bend_value(part[side])
                return replace(value, **{name: (bent, part[1]) if side == 0 else (part[0], bent)})
            return replace(value, **{name: self._bend_value(part)})
        if isinstance(value, bool):
            return not value
        if isinstance(value, int):
            choices = [abs(value + step) for step in (-1, 1, 2)] + [0, value << 1]
            return (
                type(value)(choices[self._draw(0, 2)])
                if type(value) is not int
                else choices[self._draw(0, len(choices) - 1)]
            )
        if isinstance(value, str):
            return ACCOUNTS[self._draw(0, len(ACCOUNTS) - 1)]
        if isinstance(value, bytes):
            return self._bend_bytes(value) if len(value) != 32 else self.rng.bytes(32)
        return self._bend_list(value)

    def _bend_bytes(self, value: bytes) -> bytes:
        if self._chance(0.3):
            return value[:-1] if value and self._chance(0.5) else value + b"\0"
        if not value:
            return b"\1"
        place = self._draw(0, len(value) - 1)
        flipped = value[place] ^ (1 << self._draw(0, 7))
        return value[:place] + bytes([flipped]) + value[place + 1 :]

    def _bend_list(self, value: Sequence[Any]) -> tuple[Any, ...]:
        items = list(value)
        if not items or (self._chance(0.3) and len(items) < 8):
            return (*items, bytes(32))
        if self._chance(0.3) and not isinstance(items[0], int):
            return tuple(items[:-1])
        place = self._draw(0, len(items) - 1)
        items[place] = self._bend_value(items[place])
        return tuple(items)
