"""The preparation of one dispute: capture the program, run the providers, open the chain."""

import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from moot.offchain.arithmetic.table import find_arithmetic
from moot.offchain.disputes.actors import Player
from moot.offchain.disputes.game import Game, Played
from moot.offchain.disputes.needs import keep_need, recall_need
from moot.offchain.disputes.terms import Stakes
from moot.offchain.native.memory import touching
from moot.offchain.providers.agreement import make_task, post_logs
from moot.offchain.providers.lineup import Report, make_runs, settle
from moot.offchain.providers.run import Run
from moot.offchain.providers.setting import (
    Setting,
    check_setting,
    choose_leaf,
    describe_example,
    load,
)
from moot.offchain.providers.task import Task

if TYPE_CHECKING:
    from moot.offchain.disputes.chain_referee import ChainReferee


@dataclass
class Session:
    """A dispute that is ready to be played, or has been played.

    Attributes:
        setting: what it is about.
        task: what is agreed.
        game: the game.
        runs: what each player has run, by its name.
        run_seconds: time that the providers took for their runs.
        play_seconds: time that the game took.
        chain_seconds: how much of that was spent on the chain.
    """

    setting: Setting
    task: Task
    game: Game
    runs: Mapping[str, Run]
    referee: "ChainReferee"
    run_seconds: float
    play_seconds: float = 0.0
    chain_seconds: float = 0.0
    moves: list[Played] = field(default_factory=list)
    before: dict[str, int] = field(default_factory=dict)
    after: dict[str, int] = field(default_factory=dict)

    def play(self) -> Iterator[Played]:
        """Play the game, noting every move and what everybody has before and after."""
        self.before = self._balances()
        started, on_chain = time.perf_counter(), self.referee.seconds
        try:
            for played in self.game.play():
                self.moves.append(played)
                yield played
        finally:
            settle(self.runs.values())
        self.play_seconds = time.perf_counter() - started
        self.chain_seconds = self.referee.seconds - on_chain
        self.after = self._balances()

    def _balances(self) -> dict[str, int]:
        names = ["client", "verifier", *(player.name for player in self.game.players)]
        accounts = {name: self.referee.balance(self.game.address_of(name)) for name in names}
        return accounts | {"referee": self.referee.balance(self.referee.address)}

    @property
    def honest_won(self) -> bool:
        """Whether the honest claim is the one that was left."""
        return any(name.startswith("honest") for name in self.game.get_winners())


def prepare(
    setting: Setting, directory: Path, report: Report, *, is_durable: bool = True
) -> Session:
    """Do everything that comes before the first transaction's move.

    Args:
        setting: what the dispute is about.
        directory: where the providers keep their stores.
        report: told of progress.
        is_durable: whether the stores outlive this process, and so have to outlive a failure.
    """
    from moot.offchain.disputes.chain_referee import deploy  # noqa: PLC0415 - imports the chain
    from moot.offchain.disputes.evidence import rule_for  # noqa: PLC0415 - imports the verifier
    from moot.offchain.frontend.tracing import count_state_bytes  # noqa: PLC0415 - imports torch

    check_setting(setting)
    example = describe_example(setting) if setting.trust_capture else None
    need = recall_need(example) if example is not None else 0
    with ExitStack() as meanwhile:
        meanwhile.enter_context(touching(need))
        referee = deploy(setting.chain, find_arithmetic(setting.arithmetic))
        report("capture", 0, 1)
        recipe = load(setting)
        if setting.trust_capture and not need:
            # A part, so that capture takes less than a run; without trust it runs the step itself.
            meanwhile.enter_context(touching(count_state_bytes(recipe) * 3 // 4))
        setting, task = post_logs(setting, make_task(setting, recipe=recipe))
    del recipe  # whose weights take memory
    report("capture", 1, 1)
    started = time.perf_counter()
    runs = make_runs(setting, task, directory, report, is_durable=is_durable)
    run_seconds = time.perf_counter() - started
    if example is not None:
        keep_need(example, task.preparation.replacing.needed_bytes)
    client, verifier, *others = referee.accounts
    game = Game(
        referee=referee,
        task=task,
        client=client,
        players=[
            Player(name, address, run)
            for (name, run), address in zip(runs.items(), others, strict=False)
        ],
        stakes=Stakes(bond_wei=setting.bond_wei),
        leaf_mode=choose_leaf(setting.leaf, setting.arithmetic),
        verifier=verifier,
        ruler=rule_for,
        seed=setting.seed,
    )
    return Session(setting, task, game, runs, referee, run_seconds)
