"""The preparation of one dispute: capture the program, run the providers, open the chain."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from moot.contracts.model.types import MIN_BOND_WEI
from moot.contracts.reasons import LeafMode
from moot.offchain.arithmetic.logged import LOGGED
from moot.offchain.arithmetic.table import find_arithmetic
from moot.offchain.backends.cpu.memory import touching
from moot.offchain.commitments.tensors import Array
from moot.offchain.disputes.actors import Player
from moot.offchain.disputes.game import Game, Played
from moot.offchain.disputes.needs import keep_need, recall_need
from moot.offchain.disputes.terms import Stakes
from moot.offchain.errors import UsageError
from moot.offchain.programs.catalogue import NAMES, is_file
from moot.offchain.providers.batches import Choice
from moot.offchain.providers.behaviour import Behaviour
from moot.offchain.providers.catalogue import ALL_CHEATS, LOG_CHEATS
from moot.offchain.providers.cheats import make_cheat, parse_cheat
from moot.offchain.providers.logs import agree_on_logs, write_logs
from moot.offchain.providers.run import Run
from moot.offchain.providers.store import Store
from moot.offchain.providers.task import Task, check_interval

if TYPE_CHECKING:
    from moot.offchain.disputes.chain_referee import ChainReferee
    from moot.offchain.frontend.recipe import Recipe

DRAWS = 32
"""The number of draws of a cheat, until one changes the claim."""

LEAVES = {"scalar": LeafMode.SCALAR, "operator": LeafMode.OPERATOR}

Report = Callable[[str, int, int], None]
"""Called during long work: with its name, the amount that is done, and the whole amount."""


@dataclass(frozen=True, slots=True)
class Setting:
    """The settings of a dispute; their names are those of the command line's options."""

    program: str = "gpt2"
    size: str = "tiny"
    steps: int = 16
    checkpoint_every: int = 4
    cheat: str = "wrong-output"
    arithmetic: str = "ordered"
    leaf: str = "scalar"
    chain: str = "tester"
    seed: int = 0
    data: Path | None = None
    precision: str = "fp32"
    inference: bool = False
    trust_capture: bool = False
    threads: int | None = None
    honest: int = 1
    bond_wei: int = 10**18


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


def load(setting: Setting) -> "Recipe":
    """Return the recipe that a setting names."""
    from moot.offchain.frontend.load import load_recipe  # noqa: PLC0415 - imports torch
    from moot.offchain.frontend.precision import set_precision  # noqa: PLC0415 - likewise

    recipe = load_recipe(
        setting.program,
        size=setting.size,
        seed=setting.seed,
        data=setting.data,
        inference=setting.inference,
    )
    return set_precision(recipe, setting.precision)


def _describe_example(setting: Setting) -> str | None:
    """Return what an example was asked for with; None where the program is a file of a user's."""
    if setting.program not in NAMES:
        return None
    names = ("program", "size", "precision", "inference", "seed")
    return " ".join(f"{name}={getattr(setting, name)}" for name in names)


def make_task(
    setting: Setting, choice: Choice | None = None, recipe: "Recipe | None" = None
) -> Task:
    """Capture the program and agree on its data.

    Args:
        setting: what is captured.
        choice: the batches that are made of a dataset, instead of the recipe's own.
        recipe: the recipe, where it is loaded already.

    Raises:
        UsageError: the dataset does not fit the program.
        CaptureError: there is no program of it, or a file's batches are others in a fresh process.
    """
    from moot.offchain.frontend.capture import capture  # noqa: PLC0415 - imports torch
    from moot.offchain.frontend.capture.elsewhere import check_elsewhere  # noqa: PLC0415 - likewise

    recipe = recipe or load(setting)
    arithmetic = find_arithmetic(setting.arithmetic)
    captured = capture(
        recipe,
        trust=setting.trust_capture,
        arithmetic=arithmetic,
        example=_describe_example(setting),
    )
    batch: Callable[[int], Sequence[Array]] = captured.batch
    if choice is None and is_file(setting.program):
        check_elsewhere(setting.program, setting.seed, captured.batch, captured.program.batch)
    if choice is not None:
        batch = choice.make_batches(captured.program.batch, setting.steps)
    task = Task(
        captured.program,
        captured.initial_state,
        batch,
        setting.steps,
        setting.checkpoint_every,
    )
    return agree_on_logs(task, write_logs(task)) if arithmetic == LOGGED else task


def post_logs(setting: Setting, task: Task) -> tuple[Setting, Task]:
    """Let a dishonest trainer post its logs: return what it was drawn to be, and the task then."""
    name, _ = parse_cheat(setting.cheat) if setting.cheat != "none" else ("none", {})
    if name not in LOG_CHEATS:
        return setting, task
    if task.logs is None:
        raise UsageError(f"{name} needs logs of roundings; choose --arithmetic logged")
    cheat = make_cheat(setting.cheat, task, np.random.default_rng(setting.seed))
    posted = [cheat.post_log(step, log) for step, log in enumerate(task.logs)]
    return replace(setting, cheat=cheat.describe()), agree_on_logs(task, posted)


def check_setting(setting: Setting) -> None:
    """Refuse what cannot be played, before anything slow begins."""
    if setting.leaf not in LEAVES:
        raise UsageError.unknown("leaf", setting.leaf, LEAVES, "leaves")
    if setting.leaf == "scalar" and not find_arithmetic(setting.arithmetic).ends_on_chain:
        raise UsageError(
            f"no contract computes a scalar operation of `{setting.arithmetic}`; choose the "
            "leaf operator, which the bounded verifier decides"
        )
    if setting.cheat != "none":
        parse_cheat(setting.cheat)
    if setting.bond_wei < MIN_BOND_WEI:
        raise UsageError(
            f"a bond of {setting.bond_wei / 10**18:g} ETH is too small; "
            f"the referee takes at least {MIN_BOND_WEI / 10**18:g} ETH"
        )
    check_interval(setting.checkpoint_every, setting.steps)


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
    example = _describe_example(setting) if setting.trust_capture else None
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
        leaf_mode=LEAVES[setting.leaf],
        verifier=verifier,
        ruler=rule_for,
        seed=setting.seed,
    )
    return Session(setting, task, game, runs, referee, run_seconds)


def make_runs(
    setting: Setting, task: Task, directory: Path, report: Report, *, is_durable: bool = True
) -> dict[str, Run]:
    """Run the providers, in the order in which they will join: the first one defends."""
    compute = Computer(setting, task, directory, report, is_durable)
    try:
        return _make_runs(setting, task, compute)
    except BaseException:
        settle(compute.writing)
        raise


def settle(runs: Iterable[Run]) -> None:
    """Wait until all states are written."""
    for run in runs:
        run.settle()


def _make_runs(setting: Setting, task: Task, compute: "Computer") -> dict[str, Run]:
    if setting.cheat == "none":
        names = [f"honest-{i + 1}" for i in range(max(2, setting.honest))]
        return {name: compute(name, Behaviour()) for name in names}
    # A cheat that this program has no room for is refused before anything is run.
    behaviour = make_cheat(setting.cheat, task, compute.rng(0))
    others = {
        f"honest-{i + 1}": compute(f"honest-{i + 1}", Behaviour()) for i in range(setting.honest)
    }
    honest = others["honest-1"]
    name, _ = parse_cheat(setting.cheat)
    if name == "false-flag":
        flag = compute("false-flag-1", behaviour)
        accomplice = compute.draw("wrong-output", honest)
        return {"false-flag-1": flag, **others, "wrong-output-1": accomplice}
    return {f"{name}-1": compute.draw(setting.cheat, honest), **others}


@dataclass(frozen=True, slots=True)
class Computer:
    """Runs providers for one setting.

    A state that need not outlive this process is written while the next provider runs; `writing`
    are the runs whose last one may be on its way.
    """

    setting: Setting
    task: Task
    directory: Path
    report: Report
    is_durable: bool = True
    writing: list[Run] = field(default_factory=list, init=False)

    def __call__(self, name: str, behaviour: Behaviour) -> Run:
        """Run one provider under a behaviour."""
        store = Store(self.directory / name, is_durable=self.is_durable)
        run = Run(self.task, behaviour, store, self.setting.threads)
        self.writing.append(run)
        steps = self.task.steps
        run.compute(lambda done: self.report(name, done, steps), waits=self.is_durable)
        settle(self.writing[:-1])
        del self.writing[:-1]
        return run

    def rng(self, draw: int) -> np.random.Generator:
        """Return the stream of one draw of a cheat."""
        return np.random.default_rng(np.random.SeedSequence(self.setting.seed, spawn_key=(draw,)))

    def draw(self, cheat: str, honest: Run) -> Run:
        """Run a cheat; draw it again while it changes nothing and something was left to draw."""
        name, given = parse_cheat(cheat)
        is_fixed = len(given) == len(ALL_CHEATS[name].settings)
        for draw in range(1 if is_fixed else DRAWS):
            behaviour = make_cheat(cheat, self.task, self.rng(draw))
            run = self(f"{name}-1.{draw}", behaviour)
            if run.history.top != honest.history.top:
                return run
        raise UsageError(
            f"this cheat computes the honest answer: {cheat}; choose another operator or element"
        )
