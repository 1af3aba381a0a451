"""The fixtures of the end-to-end tests: captured tasks, honest runs, a referee, and games."""

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path

import numpy as np
from _pytest.mark import ParameterSet

from moot.contracts.model.types import Address
from moot.contracts.reasons import LeafMode
from moot.offchain.arithmetic.base import Arithmetic
from moot.offchain.arithmetic.ordered import ORDERED
from moot.offchain.disputes.evidence.rulings import rule_for
from moot.offchain.disputes.play.accounts import count_burned
from moot.offchain.disputes.play.actors import Player
from moot.offchain.disputes.play.game import Game
from moot.offchain.disputes.referee.on_chain import deploy
from moot.offchain.disputes.referee.port import ModelReferee, Referee
from moot.offchain.disputes.referee.terms import USUAL, Stakes
from moot.offchain.programs.graph import Kind
from moot.offchain.providers.agreement import make_task
from moot.offchain.providers.behaviour import Behaviour
from moot.offchain.providers.catalogue import CHEATS
from moot.offchain.providers.cheats.reading import make_cheat
from moot.offchain.providers.run import Run
from moot.offchain.providers.setting import Setting
from moot.offchain.providers.store import Store
from moot.offchain.providers.task import Task
from tests.quick import only

NAMES = ("mlp", "cnn", "gpt2", "llama", "bert", "resnet")
QUICK_NAMES = frozenset({"mlp", "gpt2"})


def programs(*, quick: frozenset[str] = QUICK_NAMES) -> list[ParameterSet]:
    """Return the example programs as parameters, those that are not quick marked as slow."""
    return only(quick, NAMES)


STEPS, CHECKPOINT_EVERY = 4, 2

LIARS = sorted(set(CHEATS) - {"false-flag"})
"""The cheats that claim something else than the truth."""

LONG = Stakes(commit_blocks=64, reveal_blocks=64, clock_blocks=1_000)
"""Windows for many: every call takes a block of its own."""

_DIRECTORY = tempfile.TemporaryDirectory(prefix="moot-tests-")


@dataclass(frozen=True, eq=False)
class Case:
    """A captured program, ready for disputes."""

    task: Task
    honest: Run


@cache
def get_case(
    program: str, *, inference: bool = False, arithmetic: str = "ordered", precision: str = "fp32"
) -> Case:
    """Capture a tiny program once, and run it honestly once."""
    steps = 1 if inference else STEPS
    every = min(CHECKPOINT_EVERY, steps)
    setting = Setting(
        program=program,
        steps=steps,
        checkpoint_every=every,
        seed=5,
        inference=inference,
        arithmetic=arithmetic,
        precision=precision,
        trust_capture=True,  # disputes are about what a program computes, right or wrong
    )
    task = make_task(setting)
    return Case(
        task, run(task, Behaviour(), f"{program}-{inference}-{arithmetic}-{precision}-honest")
    )


@dataclass(frozen=True)
class Court:
    """A referee, with accounts that have money on it."""

    referee: Referee
    accounts: tuple[Address, ...]


@cache
def open_chain_court(arithmetic: Arithmetic = ORDERED) -> Court:
    """Deploy one referee for all games of this process about programs of an arithmetic."""
    referee = deploy("tester", arithmetic)
    return Court(referee, referee.accounts)


def open_model_court(arithmetic: Arithmetic = ORDERED, accounts: int = 32) -> Court:
    """Return a new model."""
    addresses = tuple(Address(f"0x{number:040x}") for number in range(1, accounts + 1))
    balances = dict.fromkeys(addresses, 10**21)
    return Court(ModelReferee(balances, arithmetic=arithmetic), addresses)


COURTS: dict[str, Callable[..., Court]] = {"model": open_model_court, "chain": open_chain_court}
"""The kinds of referee: each function opens a court; that on the chain is one for all tests."""


def run(task: Task, behaviour: Behaviour, name: str) -> Run:
    """Run a task to its end."""
    directory = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=_DIRECTORY.name))
    done = Run(task, behaviour, Store(directory))
    done.compute()
    return done


@lru_cache(maxsize=1)
def draw_cheat(case: Case, cheat: str, seed: int) -> Run:
    """Run a cheat, drawn again until it changes the claim (a false flag's claim is honest).

    Games before one referee after the other are of the same run.
    """
    for draw in range(64):
        rng = np.random.default_rng([seed, draw])
        behaviour = make_cheat(cheat, case.task, rng)
        cheating = run(case.task, behaviour, "cheat")
        if cheating.history.top != case.honest.history.top or behaviour.name == "false-flag":
            return cheating
    raise AssertionError(f"{cheat} never changes anything")


def make_game(
    court: Court,
    case: Case,
    players: dict[str, Run],
    leaf: LeafMode = LeafMode.SCALAR,
    seed: int = 0,
    stakes: Stakes = USUAL,
) -> Game:
    """Return a game of these players, who get the court's accounts in a row."""
    client, verifier, *others = court.accounts
    return Game(
        referee=court.referee,
        task=case.task,
        client=client,
        players=[Player(n, a, r) for (n, r), a in zip(players.items(), others, strict=False)],
        stakes=stakes,
        leaf_mode=leaf,
        verifier=verifier,
        ruler=rule_for,
        seed=seed,
    )


def check_money(game: Game) -> None:
    """Check that the job on the model has paid out or burned all that was paid into it."""
    referee = game.referee
    assert isinstance(referee, ModelReferee)
    accounts = [game.client, game.verifier, *(player.address for player in game.players)]
    assert referee.store.balance_wei == 0
    assert referee.store.burned_wei == count_burned(game)
    spent = sum(10**21 - referee.balance(account) for account in accounts)
    assert spent == referee.store.burned_wei


def operators_of(task: Task, kind: Kind) -> list[int]:
    """Return the operators of a kind that have an output."""
    return [i for i, n in enumerate(task.program.nodes) if n.kind is kind and n.elements]
