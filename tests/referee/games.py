"""Plays very many small games with known truths, and checks who wins and that no wei is left.

Use it as `python -m tests.referee.games --model 1000000 --evm 10000 --processes 2`.

A game has one honest member and one to three others, or liars only. Every liar tells one of
LIES, some of them never move; a game's seed is its number, so that any game can be played again.
"""

import argparse
import os
import random
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import cache
from multiprocessing import get_context
from typing import Any

from rich.console import Console
from rich.progress import track

from contracts.model.checks import get_tops
from contracts.model.referee import call
from contracts.model.types import MIN_BOND_WEI, Event, Message, Pair, Position, Store, Terms
from contracts.model.words import hash_commitment
from contracts.reasons import Phase, Standing
from offchain.disputes.board import Board
from offchain.disputes.game import Game, Stakes
from offchain.disputes.players import Move, find_move
from offchain.disputes.tournament import Tournament
from sim.paper import Lie, PaperRun, Size, make_task
from tests.referee.twins import Contract

STAKES = Stakes(MIN_BOND_WEI, 1001, 6, 6, 4, 12, 2)
SIZE = Size(checkpoints=5, checkpoint_every=2, operators=8, rows=2, columns=40, terms=70)
ACCOUNTS = tuple("0x" + f"{number:02x}" * 20 for number in range(0x21, 0x26))
CLIENT, *MEMBERS = ACCOUNTS
SALT = b"salt".ljust(32, b"\2")
PIECE = 500
LIES: dict[str, Callable[[random.Random], Lie]] = {
    "start": lambda rng: Lie(-1, mask=1 << rng.randrange(20)),
    "first step": lambda rng: Lie(0, rng.randrange(2, 5), rng.randrange(80), rng.randrange(70)),
    "last step": lambda rng: Lie(7, rng.randrange(2, 5), rng.randrange(80), rng.randrange(70)),
    "inside an interval": lambda rng: Lie(3, rng.randrange(2, 5), rng.randrange(80)),
    "first operator": lambda rng: Lie(rng.randrange(8), 2, rng.randrange(80), rng.randrange(70)),
    "last operator": lambda rng: Lie(rng.randrange(8), 4, rng.randrange(80), rng.randrange(70)),
    "first element": lambda rng: Lie(rng.randrange(8), 3, 0, rng.randrange(70)),
    "last element": lambda rng: Lie(rng.randrange(8), 3, 79, rng.randrange(70)),
    "second chunk": lambda rng: Lie(rng.randrange(8), 3, rng.randrange(64, 80)),
    "first term": lambda rng: Lie(rng.randrange(8), 3, rng.randrange(80), 0),
    "last term": lambda rng: Lie(rng.randrange(8), 3, rng.randrange(80), 69),
    "sign": lambda rng: Lie(rng.randrange(8), 3, rng.randrange(80), rng.randrange(70), 1 << 31),
    "state": lambda rng: Lie(rng.randrange(8), SIZE.operators, rng.randrange(80)),
    "silence": lambda rng: Lie(rng.randrange(8), 3, is_silent=True),
}
"""The lies, each of which is told in VARIANTS ways, with other places and bits."""
VARIANTS = 5


@cache
def _get_task() -> Any:
    return make_task(SIZE)


@cache
def _get_run(lie: Lie | None) -> PaperRun:
    return PaperRun(_get_task(), lie)


@cache
def _get_terms() -> Terms:
    return Game(None, _get_task(), CLIENT, (), STAKES).terms  # type: ignore[arg-type] # its terms alone


@cache
def _find(lie: Lie | None, board: Board, side: int) -> Move | None:
    return find_move(_get_run(lie), _get_terms(), board, side)


@dataclass
class Table:
    """One game on the model, or on the model and the contract in lock-step.

    Attributes:
        number: the game's number.
        send: makes a call and returns its events.
        store: the model.
    """

    number: int
    send: Callable[..., Sequence[Event]]
    store: Store
    block: int = 1
    log: list[Event] = field(default_factory=list)
    calls: int = 0

    def call(self, name: str, sender: str, *args: Any, value_wei: int = 0) -> None:
        """Make one call."""
        message = Message(sender, value_wei, self.block)
        self.log += self.send(name, message, args)
        self.calls += 1

    def play(self) -> Counter[str]:
        """Play the game, check its end, and return how its matches ended."""
        rng, terms = random.Random(self.number), _get_terms()
        names = rng.choices(list(LIES), k=rng.choice((1, 1, 2, 3)))
        lies: list[Lie | None] = [
            LIES[name](random.Random(rng.randrange(VARIANTS))) for name in names
        ]
        has_honest = rng.random() < 0.9
        if has_honest:
            lies.insert(rng.randrange(len(lies) + 1), None)
        seats = dict(zip(MEMBERS, lies, strict=False))
        self.call("open_job", CLIENT, terms, value_wei=STAKES.reward_wei)
        for member, lie in seats.items():
            top = _get_run(lie).history.top
            digest = hash_commitment(self.store, 0, member, top, SALT)
            self.call("commit", member, 0, digest, value_wei=terms.bond_wei)
        self.block += terms.commit_blocks + 1
        for member, lie in seats.items():
            self.call("reveal", member, 0, _get_run(lie).history.top, SALT)
        self.block += terms.reveal_blocks + 1
        self._dispute(seats, rng)
        return self._end(seats, has_honest=has_honest)

    def _dispute(self, seats: dict[str, Lie | None], rng: random.Random) -> None:
        tournament = Tournament(0, _get_terms())
        while True:
            tournament.read(self.log)
            job = self.store.jobs[0]
            if job.claims <= 1 and self.block > job.window_end:
                return
            for pair in list(tournament.find_pairs(self.block)):
                tops = get_tops(self.store, pair)
                self.call("start_match", CLIENT, 0, pair.first, pair.second, tops)
            tournament.read(self.log)
            for board in list(tournament.boards.values()):
                self._move(board, seats)
                tournament.read(self.log)
            self.block += rng.random() < 0.5 or not tournament.boards

    def _move(self, board: Board, seats: dict[str, Lie | None]) -> None:
        pair, position = board.pair, board.position
        if self.store.matches.get(pair) is None or not self._is_live(pair):
            return
        if self.block > position.deadline:
            self.call("timeout", CLIENT, pair, position)
            return
        for side in (position.mover, 1 - position.mover):
            member = (pair.first, pair.second)[side]
            move = _find(seats[member], _strip(board), side)
            if move is not None:
                self.call(move.call, member, pair, position, *move.args)
                return

    def _is_live(self, pair: Pair) -> bool:
        members = (self.store.members[0, pair.first], self.store.members[0, pair.second])
        return all(member.is_contender for member in members)

    def _end(self, seats: dict[str, Lie | None], *, has_honest: bool) -> Counter[str]:
        claims = [claim.top for claim in self.store.claims.values() if claim.contenders]
        self.call("settle", CLIENT, 0, claims[0] if claims else bytes(32))
        left = {member for (_, member), it in self.store.members.items() if it.is_contender}
        honest = {member for member, lie in seats.items() if lie is None}
        assert left == honest or not has_honest, (self.number, left, honest)
        for member in sorted(left):
            self.call("collect", member, 0)
        if self.store.jobs[0].is_client_owed:
            self.call("collect", CLIENT, 0)
        assert self.store.balance_wei == 0, self.number
        standings = {it.standing for it in self.store.members.values()}
        assert standings <= {Standing.PAID, Standing.DEFEATED}, self.number
        return Counter(str(e.args[4]) for e in self.log if e.name == "MatchEnded")


def _strip(board: Board) -> Board:
    """Return a board without what a move does not depend on, so that boards are found again."""
    position = board.position
    if position.phase is Phase.VERIFIER:
        return board
    plain = Position(
        phase=position.phase,
        mover=position.mover,
        deadline=0,
        spare_blocks=0,
        clock_blocks=0,
        increment_blocks=0,
        nodes=position.nodes,
        count=position.count,
        level=position.level,
        index=position.index,
        span=position.span,
        entered=position.entered,
        facts=position.facts,
    )
    return Board(Pair(0, "0x0", "0x1"), plain, board.facts, board.nodes, board.data)


def play_model(numbers: range) -> tuple[int, Counter[str]]:
    """Play games on the model; return the calls, and how the matches ended."""
    calls, endings = 0, Counter[str]()
    for number in numbers:
        store = Store(1, ACCOUNTS[0])

        def send(
            name: str, message: Message, args: tuple[Any, ...], store: Store = store
        ) -> Sequence[Event]:
            return call(store, name, message, *args)

        table = Table(number, send, store)
        endings += table.play()
        calls += table.calls
    return calls, endings


@cache
def _get_contract() -> Contract:
    return Contract(ACCOUNTS)


def play_evm(numbers: range) -> tuple[int, Counter[str]]:
    """Play games on the model and the bytecode in lock-step, as `play_model`.

    Every call's events are compared, and at the end every word that is remembered of the job.
    """
    contract = _get_contract()
    calls, endings = 0, Counter[str]()
    for number in numbers:
        mark = contract.machine.snapshot()
        store = Store(contract.machine.chain_id, contract.address)

        def send(
            name: str, message: Message, args: tuple[Any, ...], store: Store = store
        ) -> Sequence[Event]:
            events = call(store, name, message, *args)
            result = contract.call(name, message, args)
            assert result.reason is None, (name, args, result.reason)
            assert contract.read_events(result, message.block) == events
            return events

        table = Table(number, send, store)
        endings += table.play()
        calls += table.calls
        contract.compare(store, 0)
        contract.machine.revert(mark)
    return calls, endings


def split(games: int) -> Iterator[range]:
    """Yield the numbers of so many games, in pieces."""
    for first in range(0, games, PIECE):
        yield range(first, min(first + PIECE, games))


def main(arguments: Sequence[str]) -> int:
    """Play the games that were asked for."""
    parser = argparse.ArgumentParser(prog="python -m tests.referee.games", description=__doc__)
    parser.add_argument("--model", type=int, default=0, help="games on the model")
    parser.add_argument("--evm", type=int, default=0, help="games on model and bytecode")
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    options = parser.parse_args(arguments)
    console = Console(stderr=True)
    with ProcessPoolExecutor(options.processes, mp_context=get_context("spawn")) as pool:
        for name, play, games in (
            ("model", play_model, options.model),
            ("bytecode", play_evm, options.evm),
        ):
            pieces = list(split(games))
            done = track(pool.map(play, pieces), name, len(pieces), console=console)
            calls, endings = 0, Counter[str]()
            for made, ended in done:
                calls, endings = calls + made, endings + ended
            if games:
                ends = ", ".join(f"{count:,} by {end}" for end, count in sorted(endings.items()))
                console.print(f"{name}: {games:,} games, {calls:,} calls; matches: {ends}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
