"""Plays scenarios on the chain in memory, each from the same beginning, and keeps the receipts."""

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from moot.contracts.model.types import Address
from moot.contracts.reasons import LeafMode, Outcome, Standing
from moot.offchain.arithmetic.base import Arithmetic
from moot.offchain.arithmetic.table import find_arithmetic
from moot.offchain.chain import Chain, Contract
from moot.offchain.chain.tester import Tester
from moot.offchain.disputes.play.actors import Player, View
from moot.offchain.disputes.play.game import Game, Played
from moot.offchain.disputes.referee.on_chain import ChainReferee
from moot.offchain.disputes.referee.port import Call
from moot.offchain.providers.agreement import make_task
from moot.offchain.providers.lineup import make_runs, settle
from moot.offchain.providers.setting import Setting
from moot.offchain.providers.task import Task
from moot.offchain.providers.testimony import Testimony
from moot.sim.gas.scenarios import Scenario
from moot.sim.gas.variants import Deployment, agreeing, deploy
from moot.sim.synthetic.elements import make_runs as make_element_runs
from moot.sim.synthetic.products import ProductRun
from moot.sim.synthetic.products import make_task as make_product_task

ACCOUNTS = 8
SETTING = Setting(size="tiny", steps=4, checkpoint_every=2)
"""The size and the length of the real programs that are run."""


@dataclass(frozen=True, slots=True)
class Measured:
    """A scenario with the contracts that it was played on, and all its calls, in order."""

    scenario: Scenario
    deployments: tuple[Deployment, ...]
    played: tuple[Played, ...]


class Stage:
    """A chain in memory with a referee for each arity and arithmetic, as new before every scenario.

    The gas of a call depends on what has happened on the chain before; all scenarios start alike.

    Args:
        node: the chain.
    """

    def __init__(self, node: Tester | None = None) -> None:
        self._chain = Chain(node or Tester(ACCOUNTS), None)
        self._empty = self._chain.snapshot()
        self._referees: dict[tuple[int, str], tuple[Contract, tuple[Deployment, ...], Any]] = {}

    def measure(self, scenario: Scenario) -> Measured:
        """Play a scenario from its beginning to its end."""
        with agreeing(scenario.arity_log2):
            arithmetic = find_arithmetic(scenario.arithmetic)
            contract, deployments, mark = self._get_referee(scenario.arity_log2, arithmetic)
            self._chain.revert(mark)
            block = self._chain.block_number()
            referee = ChainReferee(self._chain, contract, block, arithmetic)
            with tempfile.TemporaryDirectory(prefix="moot-") as folder:
                game = seat(scenario, referee, Path(folder))
                return Measured(scenario, deployments, tuple(game.play()))

    def _get_referee(
        self, arity_log2: int, arithmetic: Arithmetic
    ) -> tuple[Contract, tuple[Deployment, ...], Any]:
        form = (arity_log2, arithmetic.name)
        if form not in self._referees:
            self._chain.revert(self._empty)
            deployed = deploy(self._chain, arity_log2, arithmetic)
            self._referees[form] = (*deployed, self._chain.snapshot())
        return self._referees[form]


class Latecomer(Player):
    """A member that joins its claim once the first match has begun."""

    def commit(self, view: View) -> Iterator[Call]:
        """Stay away."""
        del view
        yield from ()

    def enter(self, view: View) -> Iterator[Call]:
        """Join late."""
        if view.tournament.meetings and view.get_standing(self.address) is Standing.NONE:
            yield self.join(view, self.claim)


def seat(scenario: Scenario, referee: ChainReferee, folder: Path) -> Game:
    """Return the game of a scenario: the client, the honest members and then the liars.

    Args:
        scenario: what is played.
        referee: where it is played.
        folder: where runs of real programs keep their states, as long as the game is played.
    """
    task, honest, liars = _make_runs(scenario, folder)
    client, verifier, *accounts = referee.accounts
    names = [f"honest-{i + 1}" for i in range(scenario.honest)]
    names += [f"liar-{i + 1}" for i in range(len(liars))]
    runs = [*[honest] * scenario.honest, *liars]
    members = [Player(*member) for member in zip(names, accounts, runs, strict=False)]
    if scenario.is_late:
        late = members.pop(scenario.honest - 1)
        members.append(Latecomer(late.name, late.address, late.run))
    game = Game(referee, task, client, members)
    return _let_rule(game, verifier) if scenario.is_ruled else game


def _make_runs(scenario: Scenario, folder: Path) -> tuple[Task, Testimony, Sequence[Testimony]]:
    """Return the job, the true run of it and those of the liars."""
    arithmetic = find_arithmetic(scenario.arithmetic)
    if scenario.program:
        setting = replace(SETTING, program=scenario.program, arithmetic=scenario.arithmetic)
        real = make_task(setting)
        runs = make_runs(setting, real, folder, lambda *_: None, is_durable=False)
        settle(runs.values())
        return real, runs.pop("honest-1"), list(runs.values())
    if scenario.subject is not None:
        honest, liar = make_element_runs(scenario.subject, arithmetic)
        return honest.task, honest, [liar]
    assert scenario.size is not None, "a scenario is of a program, an operator, or synthetic"
    task = make_product_task(scenario.size, arithmetic)
    return task, ProductRun(task), [ProductRun(task, lie) for lie in scenario.lies]


def _let_rule(game: Game, verifier: Address) -> Game:
    """Name a verifier, who always decides for the honest member."""

    def rule(_: object, board: Any, __: object) -> Outcome:
        honest = game.players[0].address
        return Outcome.FIRST if board.pair.first == honest else Outcome.SECOND

    return replace(game, leaf_mode=LeafMode.OPERATOR, verifier=verifier, ruler=rule)
