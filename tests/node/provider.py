"""A provider in a process of its own, with the agreed task, its store and the chain only."""

import time
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

from moot.contracts.deployment import bind_referee
from moot.contracts.model.types import Address
from moot.offchain.chain import Address as ChainAddress
from moot.offchain.chain import Chain, Contract, connect
from moot.offchain.disputes.play.actors import Player
from moot.offchain.disputes.play.game import Game
from moot.offchain.disputes.referee.on_chain import ChainReferee
from moot.offchain.providers.agreement import make_task as capture_task
from moot.offchain.providers.behaviour import Behaviour
from moot.offchain.providers.run import Run
from moot.offchain.providers.setting import Setting
from moot.offchain.providers.store import Store
from moot.offchain.providers.task import Task
from moot.sim.synthetic.products import ProductRun, make_task
from tests.node.table import HONEST, SIZE, STAKES

POLL_S = 0.01
MODEL = Setting(program="mlp", steps=4, checkpoint_every=2, seed=5)


@dataclass(frozen=True, slots=True)
class Seat:
    """The place of a provider: its chain and account, and a store unless its task is synthetic."""

    url: str
    referee: str
    first_block: int
    job_id: int
    account: Address
    store: Path | None

    def make_run(self) -> Run:
        """Compute what is not in the store yet."""
        if self.store is None:
            return ProductRun(make_task(SIZE))
        run = Run(make_model_task(), Behaviour(), Store(self.store))
        run.compute()
        return run


class PatientReferee(ChainReferee):
    """A referee on a chain whose blocks others make: whoever waits says so, and looks again."""

    def __init__(
        self, chain: Chain, contract: Contract, first_block: int, waiting: Connection
    ) -> None:
        super().__init__(chain, contract, first_block)
        self._waiting = waiting

    def mine(self, blocks: int) -> None:
        """Wait for a moment instead of mining."""
        self._waiting.send(blocks)
        time.sleep(POLL_S)


def make_model_task() -> Task:
    """Capture the model and agree on its data."""
    return capture_task(MODEL)


def work(seat: Seat, waiting: Connection) -> None:
    """Play for one provider until its job is closed and it is paid."""
    with connect(seat.url) as chain:
        contract = bind_referee(chain, ChainAddress(seat.referee))
        referee = PatientReferee(chain, contract, seat.first_block, waiting)
        run = seat.make_run()
        players = [Player(HONEST, seat.account, run)]
        game = Game(referee, run.task, seat.account, players, STAKES, job_id=seat.job_id)
        for _ in game.play():
            pass
