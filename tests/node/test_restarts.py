"""A provider that is killed at every block, and started again with its store and the chain."""

import multiprocessing
import time
from collections.abc import Iterator
from dataclasses import replace
from multiprocessing.context import ForkServerContext
from pathlib import Path

import pytest

from moot.offchain.chain import connect
from moot.offchain.disputes.play.game import Game
from moot.offchain.disputes.referee.on_chain import ChainReferee
from moot.offchain.providers.behaviour import Behaviour
from moot.sim.synthetic.products import Lie
from tests.end_to_end import fixtures
from tests.end_to_end.fixtures import Case, Court
from tests.node.anvil import Anvil
from tests.node.provider import Seat, make_model_task, work
from tests.node.table import (
    HONEST,
    SCALAR,
    SILENT,
    SINK,
    STAKES,
    get_course,
    make_game,
    play,
    set_up,
)

PRELOADED = ("tests.node.provider", "tests.node.warm", "pytest")
"""What is imported once for all processes; the last because the main one was started with it."""
PATIENCE_S = 300.0
"""How long a provider may take to come to its next call, on a machine that is busy."""
LIES = [
    pytest.param(SCALAR, id="scalar", marks=pytest.mark.slow),
    pytest.param(SINK, id="sink", marks=pytest.mark.slow),
    pytest.param(SILENT, id="silent"),
]


@pytest.fixture(scope="module")
def processes() -> ForkServerContext:
    """Makes processes that know nothing but the code."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(list(PRELOADED))
    return context


def live(context: ForkServerContext, node: Anvil, seat: Seat) -> str:
    """Start a provider, and kill it once it has made a call, or has to wait.

    Returns which it was: `called`, `waits`, or `done` if it has ended by itself.
    """
    height = node.get_height()
    here, there = context.Pipe(duplex=False)
    process = context.Process(target=work, args=(seat, there))
    process.start()
    there.close()
    try:
        deadline = time.monotonic() + PATIENCE_S
        while process.is_alive():
            assert time.monotonic() < deadline, "the provider neither calls nor waits"
            if node.get_height() != height:
                return "called"
            if here.poll(0.002):
                break
        try:
            here.recv()
        except EOFError:
            process.join()
            assert process.exitcode == 0
            return "done"
        return "waits"
    finally:
        process.kill()
        process.join()
        here.close()


def play_killed(context: ForkServerContext, node: Anvil, game: Game, store: Path | None) -> int:
    """Play a game whose honest member is such a provider; return how often it was killed."""
    honest, *others = game.players
    assert isinstance(game.referee, ChainReferee)
    rest = replace(game, players=others)
    moves: Iterator[object] = rest.play()
    next(moves)
    game.job_id = rest.job_id
    first = node.get_height()
    seat = Seat(node.url, game.referee.address, first, game.job_id, honest.address, store)
    kills, is_over = 0, False
    while (state := live(context, node, seat)) != "done" or not is_over:
        kills += state != "done"
        if state != "called":
            is_over = next(moves, None) is None
    return kills


@pytest.mark.parametrize("lie", LIES)
def test_killed_at_every_block(node: Anvil, processes: ForkServerContext, lie: Lie) -> None:
    """A provider whose process is killed at each of its blocks wins as one that lives on."""
    with connect(node.url) as chain:
        referee = set_up(chain)
        expected, moves = play(make_game(referee, lie))
        game = make_game(referee, lie)
        kills = play_killed(processes, node, game, None)
        assert get_course(game) == expected
        assert kills >= sum(move.player == HONEST for move in moves)


@pytest.mark.slow
def test_killed_at_every_block_with_a_store(
    node: Anvil, processes: ForkServerContext, tmp_path: Path
) -> None:
    """The same with a real program, whose checkpoints are in the store."""
    task = make_model_task()
    case = Case(task, fixtures.run(task, Behaviour(), "honest"))
    liar = fixtures.draw_cheat(case, "wrong-output", 12)
    players = {HONEST: case.honest, "wrong-output-1": liar}
    with connect(node.url) as chain:
        court = Court(set_up(chain), chain.accounts)
        expected, _ = play(fixtures.make_game(court, case, players, stakes=STAKES))
        game = fixtures.make_game(court, case, players, stakes=STAKES)
        play_killed(processes, node, game, tmp_path / "store")
        assert get_course(game) == expected
