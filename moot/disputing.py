"""Disputes: the claims of some runs are put on a chain, and the referee says which one is right."""

import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from moot.contracts.reasons import LeafMode
from moot.display import Displayable, make_frame
from moot.offchain.arithmetic.table import find_arithmetic
from moot.offchain.chain import Chain
from moot.offchain.disputes.evidence.rulings import rule_for
from moot.offchain.disputes.play.accounts import calculate_fees, count_burned
from moot.offchain.disputes.play.actors import Player
from moot.offchain.disputes.play.game import Game, Played
from moot.offchain.disputes.referee.on_chain import deploy_as
from moot.offchain.disputes.referee.terms import Stakes
from moot.offchain.errors import UsageError
from moot.offchain.providers.lineup import settle
from moot.offchain.providers.run import Run as Testimony
from moot.offchain.providers.setting import check_bond, choose_leaf
from moot.offchain.providers.task import Task as Agreed
from moot.offchain.record.schema import Record
from moot.recording import RecordingReferee
from moot.replay import record_dispute
from moot.reporting import count_rounds, make_gas, make_move, make_verdict
from moot.results import Gas, Ledger, Move, Verdict
from moot.running import Run
from moot.tables import Rows
from moot.tasks import Task

WEI = 10**18
"""The wei of an ETH."""


class Dispute(Displayable):
    """A dispute that is ready to be played, is being played, or has been played.

    Iterate for the moves: each is played when it is asked for, and an iteration that comes later
    begins with the first one. What asks for the end, such as `verdict`, plays the rest. After an
    interrupt it goes on where it was; the runs can be disputed anew, too.

    Attributes:
        task: what was agreed.
        runs: what each player has run, by the player's name.
        game: the job on the referee, with its players.
        referee: the contract, with its chain.
        is_compared: whether the program was compared with eager torch.
        run_seconds: time that the runs took.
        play_seconds: time that playing has taken.
        chain_seconds: how much of that was spent on the chain.

    Example:
        >>> import moot
        >>> task = moot.Task("mlp", steps=2)
        >>> runs = [moot.run(task), moot.run(task, moot.cheats.SkippedStep(step=1))]
        >>> dispute = moot.dispute(task, runs)
        >>> [move.call for move in dispute][:2], dispute.verdict.winner
        (['open_job', 'commit'], 'honest-1')
    """

    def __init__(
        self,
        game: Game,
        referee: RecordingReferee,
        runs: Mapping[str, Testimony],
        run_seconds: float,
        *,
        is_compared: bool,
    ) -> None:
        self.game, self.referee, self.runs = game, referee, runs
        self.task: Agreed = game.task
        self.is_compared, self.run_seconds = is_compared, run_seconds
        self.play_seconds = self.chain_seconds = 0.0
        self._turns: Iterator[Played] | None = None
        self._before: dict[str, int] = {}
        self._after: dict[str, int] = {}

    def __repr__(self) -> str:
        calls, state = len(self.referee.accepted), "over" if self.is_over else "not over"
        return f"<Dispute of {', '.join(self.runs)}: {calls} calls so far, {state}>"

    def __iter__(self) -> Iterator[Move]:
        return map(make_move, self.play())

    def play(self) -> Iterator[Played]:
        """Yield every accepted call with its events, from the first on."""
        accepted, index = self.referee.accepted, 0
        while index < len(accepted) or self._advance():
            yield accepted[index]
            index += 1

    def finish(self) -> "Dispute":
        """Play what is left, and return the dispute."""
        while self._advance():
            pass
        return self

    @property
    def is_over(self) -> bool:
        """Whether the job is closed, and everybody paid."""
        return bool(self._after)

    def _advance(self) -> bool:
        """Play on until another call is accepted; return False if the dispute is over."""
        if self.is_over:
            return False
        self._before = self._before or self._read_balances()
        started, on_chain = time.perf_counter(), self.referee.seconds
        known = len(self.referee.accepted)
        try:
            self._turns = self._turns or self.game.play()
            for _ in self._turns:
                if len(self.referee.accepted) > known:
                    return True
        except BaseException:
            self._recover()
            raise
        finally:
            self.play_seconds += time.perf_counter() - started
            self.chain_seconds += self.referee.seconds - on_chain
        settle(self.runs.values())
        self._after = self._read_balances()
        return False

    def _recover(self) -> None:
        """Begin anew with what the chain holds, and with runs whose states are written."""
        self._turns = None
        opened = [it for it in self.referee.accepted if it.call == "open_job"]
        job_id = int(str(opened[0].events[0].args[0])) if opened else -1
        self.game = replace(self.game, job_id=job_id)
        self.referee.forget()
        settle(self.runs.values())

    def _read_balances(self) -> dict[str, int]:
        names = ["client", "verifier", *(player.name for player in self.game.players)]
        accounts = {name: self.referee.balance(self.game.address_of(name)) for name in names}
        return accounts | {"referee": self.referee.balance(self.referee.address)}

    @property
    def moves(self) -> Rows[Move]:
        """The transactions so far, which are a table, too."""
        return Rows(map(make_move, self.referee.accepted))

    @property
    def verdict(self) -> Verdict:
        """The end: who has won, and what was found about a liar."""
        return make_verdict(self.finish().game)

    @property
    def gas(self) -> Gas:
        """The gas of all transactions, once the dispute is over."""
        return make_gas(self.finish().referee.accepted)

    @property
    def ledger(self) -> Ledger:
        """The money of all accounts, in wei, once the dispute is over."""
        self.finish()
        fees = sum(calculate_fees(self.referee.accepted).values())
        return Ledger(self._before, self._after, count_burned(self.game), fees)

    def record(self) -> Record:
        """Return the record of what was played so far, which `moot court` shows."""
        return record_dispute(self.game, self.referee)

    def make_page(self) -> str:
        """Return the page of what was played so far: one HTML file that asks nothing of others."""
        from moot.sim.viewer.page import make_page  # noqa: PLC0415 - seldom needed

        return make_page(self.record())

    def to_dict(self) -> dict[str, Any]:
        """Return what `moot dispute --json` prints; amounts are wei, bit patterns hexadecimal."""
        verdict = self.verdict
        return {
            "verdict": verdict.to_dict(),
            "behaviours": {name: run.behaviour.describe() for name, run in self.runs.items()},
            "arithmetic": str(self.task.program.arithmetic),
            "compared_with_torch": self.is_compared,
            "located": verdict.located.to_dict(),
            "transactions": self.moves.to_dict(),
            "gas": self.gas.to_dict(),
            "moves": count_rounds(self.referee.accepted),
            "ledger": self.ledger.to_dict(),
            "roots": self._list_roots(),
            "seconds": {
                "run": round(self.run_seconds, 3),
                "trace": round(self.play_seconds - self.chain_seconds, 3),
                "chain": round(self.chain_seconds, 3),
            },
        }

    def _list_roots(self) -> dict[str, Any]:
        return {
            "program": self.task.commitment.header.root.hex(),
            "start": self.task.start_root.hex(),
            "data": self.task.data_root.hex(),
            "claims": {name: run.history_root.hex() for name, run in self.runs.items()},
            "final": {name: run.roots[-1].hex() for name, run in self.runs.items()},
        }

    def _repr_html_(self) -> str:
        if not self.referee.accepted:
            return "<p>a dispute of which nothing was played</p>"
        return make_frame(self.make_page())


def dispute(
    task: Task,
    runs: Sequence[Run],
    *,
    leaf: str | None = None,
    bond_eth: float = 1.0,
    chain: Chain | str = "tester",
    seed: int = 0,
) -> Dispute:
    """Put the claims of some runs on a chain, to be disputed; nothing is played yet.

    Args:
        task: what was run.
        runs: of this task, two or more, in the order in which they join; the first defends.
        leaf: `scalar` lets the contract compute the last operation, `operator` leaves it to the
            bounded verifier; None is the contract where it computes the task's arithmetic.
        bond_eth: what each player locks, in ETH.
        chain: `tester` is a new chain in this process, others are addresses of JSON-RPC nodes; or
            what `moot.connect` returns, with an account for everybody.
        seed: of the salts that hide claims.

    Raises:
        UsageError: a run is of another task, or the terms are impossible.
        ChainError: the chain does not answer.

    Example:
        >>> import moot
        >>> task = moot.Task("mlp", steps=1)
        >>> liar = moot.run(task, moot.cheats.GarbageRoot())
        >>> moot.dispute(task, [liar, moot.run(task)]).verdict.honest_won
        True
    """
    if len(runs) < 2:
        raise UsageError(f"a dispute is between two runs at least; it was given {len(runs)}")
    if any(run.task.agreed is not task.agreed for run in runs):
        raise UsageError("a run is of another task; dispute runs of one and the same Task object")
    arithmetic = task.agreed.program.arithmetic
    leaf_mode = choose_leaf(leaf, arithmetic.name)
    bond_wei = round(bond_eth * WEI)
    check_bond(bond_wei)
    referee = open_referee(chain, arithmetic.name)
    named = dict(zip(name_players(runs), (run.testimony for run in runs), strict=True))
    game = seat(task.agreed, named, referee, leaf_mode, bond_wei, seed)
    seconds = sum(run.seconds for run in runs)
    return Dispute(game, referee, named, seconds, is_compared=task.is_compared)


def open_referee(chain: Chain | str, arithmetic: str) -> RecordingReferee:
    """Deploy a referee that remembers what it has accepted."""
    return deploy_as(RecordingReferee, chain, find_arithmetic(arithmetic))


def name_players(runs: Sequence[Run]) -> list[str]:
    """Return a name for each run: what it does, and a number."""
    counts: Counter[str] = Counter()
    names = []
    for run in runs:
        counts[run.behaviour.name] += 1
        names.append(f"{run.behaviour.name}-{counts[run.behaviour.name]}")
    return names


def seat(
    task: Agreed,
    runs: Mapping[str, Testimony],
    referee: RecordingReferee,
    leaf_mode: LeafMode,
    bond_wei: int,
    seed: int,
) -> Game:
    """Return the game of some runs, whose players have the accounts after the first two.

    Raises:
        UsageError: the chain has too few accounts.
    """
    client, verifier, *others = referee.accounts
    if len(others) < len(runs):
        raise UsageError(
            f"the chain has {len(referee.accounts)} accounts; {len(runs)} runs, a client and a "
            "verifier need one each"
        )
    players = [
        Player(name, address, run)
        for (name, run), address in zip(runs.items(), others, strict=False)
    ]
    return Game(
        referee=referee,
        task=task,
        client=client,
        players=players,
        stakes=Stakes(bond_wei=bond_wei),
        leaf_mode=leaf_mode,
        verifier=verifier,
        ruler=rule_for,
        seed=seed,
    )
