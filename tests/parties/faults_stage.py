"""A stage for faults: a node, a referee, a store, and parties as processes that start at once.

A case is one job with a client, an honest provider and one that cheats, each with an account of its
own. What is broken meanwhile is a fault's: `faults_kinds.py`.
"""

import json
import multiprocessing
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from random import Random
from typing import Any, Protocol
from unittest.mock import patch

from moot.contracts.model.types import Job
from moot.contracts.reasons import Standing, Status
from moot.offchain.chain import Address
from moot.offchain.chain.accounts import create_keystore
from moot.offchain.chain.accounts.journal import FOLDER_VARIABLE
from moot.offchain.chain.devnode.__main__ import LISTENING
from moot.offchain.chain.receipts import Transaction
from moot.offchain.disputes.referee.on_chain import ChainReferee, deploy
from tests.sending.payer import make_step

BLOCK_S = 0.2
LENGTH = (
    *("--steps", "4", "--checkpoint-every", "2", "--commit-blocks", "400"),
    *("--reveal-blocks", "200", "--window-blocks", "16", "--clock-blocks", "300"),
)
REWARD_WEI = 10**17
FUND_WEI = 100 * 10**18
PATIENCE_S = 150.0
SAFE_BLOCKS = 25
"""Blocks that reorganisations leave alone before a deadline that the test skips to."""
LIGHT_SCRYPT = 2**12
PARTIES = ("client", "honest", "cheat")
_PRELOADED = [
    "moot.command.main",
    "moot.offchain.parties.provider",
    "moot.offchain.providers.lineup",
]


def run_moot(
    words: Sequence[str], log: str, state: str, kill_at: int | None, leap_s: float
) -> None:
    """Be the command `moot`, in a process that writes to a log, and may die at one of its steps."""
    from moot.command import main  # noqa: PLC0415 - of the process

    os.setsid()
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for number in (1, 2):
        os.dup2(output, number)
    os.environ[FOLDER_VARIABLE] = state
    sys.argv = ["moot", *words]
    with dying(kill_at), leaping(leap_s):
        main()


@contextmanager
def dying(kill_at: int | None) -> Iterator[None]:
    """Kill this process before or after one of its calls that make something last."""
    step = make_step(kill_at)

    def count(function: Any) -> Any:
        def counted(*args: Any, **options: Any) -> Any:
            step()
            answer = function(*args, **options)
            step()
            return answer

        return counted

    names = ("moot.offchain.chain.accounts.sender.Sender._send_raw", "os.fsync", "os.replace")
    if kill_at is None:
        yield
        return
    with (
        patch(names[0], count(_find_sender()._send_raw)),
        patch(names[1], count(os.fsync)),
        patch(names[2], count(os.replace)),
        patch.object(Path, "replace", count(Path.replace)),
    ):
        yield


def _find_sender() -> Any:
    from moot.offchain.chain.accounts.sender import Sender  # noqa: PLC0415 - of the process

    return Sender


@contextmanager
def leaping(leap_s: float) -> Iterator[None]:
    """Let the clock of this process jump there and back, by turns of a second."""
    if not leap_s:
        yield
        return
    now = time.time
    with patch("time.time", lambda: now() + leap_s * (int(time.monotonic()) % 2)):
        yield


class Fault(Protocol):
    """What is broken, at every tick of a case; `counts` says how often what was done."""

    counts: dict[str, int]

    def begin(self, case: "Case") -> None:
        """Prepare the case, before its parties start."""

    def act(self, case: "Case") -> None:
        """Do something now, or nothing."""

    def end(self, case: "Case") -> None:
        """Undo what would be in the way of later cases."""


@dataclass
class Stage:
    """Where cases are played one after another; see `opened_stage`."""

    folder: Path
    url: str
    referee: ChainReferee
    store_url: str
    cases: int = 0

    def ask(self, method: str, *params: Any) -> Any:
        """Ask the node itself."""
        return self.referee.chain.node._ask(method, *params)  # type: ignore[attr-defined] # of JSON-RPC

    def fund(self, address: Address) -> None:
        """Give an account money."""
        chain = self.referee.chain
        gift = Transaction(
            chain.chain_id, "fund", chain.accounts[0], address, b"", FUND_WEI, 21_000
        )
        chain.send([gift])


@contextmanager
def opened_stage(folder: Path) -> Iterator[Stage]:
    """Start a node and a store, and deploy a referee."""
    (folder / "password").write_text("faults\n")
    (folder / "store").mkdir()
    node = (sys.executable, "-m", "moot.offchain.chain.devnode", "--block-seconds", str(BLOCK_S))
    serve = ("from moot.command import main; main()", "store", "serve", str(folder / "store"))
    with (
        _running(*node) as url,
        _running(sys.executable, "-c", *serve, "--json") as served,
    ):
        referee = deploy(url.removeprefix(LISTENING))
        yield Stage(folder, url.removeprefix(LISTENING), referee, json.loads(served)["url"])
        referee.chain.close()


@contextmanager
def _running(*command: str) -> Iterator[str]:
    """Run a process, and give its first line."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:  # noqa: S603 - ours
        try:
            assert process.stdout is not None
            yield process.stdout.readline().strip()
        finally:
            process.kill()


@dataclass
class Case:
    """A job and its parties.

    Attributes:
        stage: where it is played.
        random: what is drawn.
        chain_urls: the nodes that the honest provider uses.
        store_url: the store that it uses.
        processes: the parties that run, by name.
        killed: the session ids of processes that were killed.
    """

    stage: Stage
    random: Random
    folder: Path = field(init=False)
    chain_urls: str = field(init=False)
    store_url: str = field(init=False)
    addresses: dict[str, Address] = field(default_factory=dict)
    processes: dict[str, ForkServerProcess] = field(default_factory=dict)
    ids: list[int] = field(default_factory=list)
    started: dict[str, float] = field(default_factory=dict)
    leap_s: float = 0.0
    job_id: int = -1
    first_block: int = 0
    _logs: dict[str, Path] = field(default_factory=dict)

    def __post_init__(self) -> None:
        stage = self.stage
        stage.cases += 1
        self.folder = stage.folder / f"case-{stage.cases}"
        self.chain_urls, self.store_url = stage.url, stage.store_url
        self.folder.mkdir()
        for name in PARTIES:
            key = self.folder / f"{name}.json"
            self.addresses[name] = create_keystore(key, "faults", scrypt_n=LIGHT_SCRYPT)
            stage.fund(self.addresses[name])

    def configure(self, name: str, **more: object) -> Path:
        """Write the settings of a party."""
        is_faulty = name == "honest"
        values: dict[str, object] = {
            "chain": self.chain_urls if is_faulty else self.stage.url,
            "referee": self.stage.referee.address,
            "key": str(self.folder / f"{name}.json"),
            "password_from": f"file:{self.stage.folder / 'password'}",
            "store": self.store_url if is_faulty else self.stage.store_url,
            "folder": str(self.folder / name),
        }
        path = self.folder / f"{name}.toml"
        path.write_text("".join(f"{k} = {json.dumps(it)}\n" for k, it in (values | more).items()))
        return path

    def start(self, name: str, *verb: str, kill_at: int | None = None) -> None:
        """Start a party, in place of one that has ended."""
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(_PRELOADED)
        log = self._logs.setdefault(name, self.folder / f"{name}.log")
        words = [*verb, "--config", str(self.folder / f"{name}.toml"), "--json"]
        args = (words, str(log), str(self.folder / "state"), kill_at, self.leap_s)
        process = context.Process(target=run_moot, args=args)
        process.start()
        assert process.pid is not None
        self.ids.append(process.pid)
        self.started[name] = time.monotonic()
        self.processes[name] = process

    def start_provider(self, name: str, kill_at: int | None = None) -> None:
        """Start a provider."""
        self.start(name, "provider", "run", kill_at=kill_at)

    def kill(self, name: str) -> None:
        """End a party in the middle of what it does."""
        self.processes[name].kill()
        self.processes[name].join()

    def is_up(self, name: str) -> bool:
        """Whether a party runs."""
        return self.processes[name].is_alive()

    def job(self) -> Job:
        """Return the job as it stands."""
        return self.stage.referee.job(self.job_id)

    def standing(self, name: str) -> Standing:
        """Return how a provider stands."""
        return self.stage.referee.member(self.job_id, self.addresses[name]).standing

    def play(self, fault: Fault) -> None:
        """Play the job to its end under a fault; what is left of it is ended."""
        try:
            fault.begin(self)
            self._begin()
            deadline = time.monotonic() + PATIENCE_S
            while not self._is_over():
                assert time.monotonic() < deadline, f"the job does not end: {self.explain()}"
                self._skip()
                fault.act(self)
                self._restart()
                time.sleep(0.05)
        finally:
            for name in self.processes:
                self.kill(name)
            fault.end(self)

    def explain(self) -> str:
        """Return how everything stands, for a failure's message."""
        standings = {name: self.standing(name).name for name in PARTIES[1:]}
        tails = {name: log.read_text()[-600:] for name, log in self._logs.items()}
        return f"{self.folder}: {self.job().status.name} {standings} {tails}"

    def _begin(self) -> None:
        self.configure("client", store=str(self.stage.folder / "store"))
        self.configure("honest")
        self.configure("cheat", cheat="wrong-output")
        referee = self.stage.referee
        self.first_block = referee.block_number()
        self.start("client", "client", "post", "--program", "mlp", *LENGTH)
        self.start_provider("cheat")
        self.start_provider("honest")
        self.processes["client"].join(PATIENCE_S)
        assert self.processes["client"].exitcode == 0, self._logs["client"].read_text()
        opened = self._logs["client"].read_text().splitlines()
        self.job_id = next(it["job"] for it in map(json.loads, opened) if "job" in it)
        self._await_client()

    def _await_client(self) -> None:
        self.start("client", "client", "await", str(self.job_id))

    def _restart(self) -> None:
        """Start again a client or a cheat that has ended; the fault does it with the honest."""
        if not self.is_up("client") and self.job().status is Status.OPEN:
            self._await_client()
        if not self.is_up("cheat"):
            self.start_provider("cheat")

    def _skip(self) -> None:
        """Let the time pass in which nobody has anything to do any more."""
        job, block = self.job(), self.stage.referee.block_number()
        for standing, last in (
            (Standing.COMMITTED, job.commit_deadline),
            (Standing.REVEALED, job.reveal_deadline),
        ):
            both = {self.standing(name) for name in PARTIES[1:]}
            if both == {standing} and block < last - SAFE_BLOCKS:
                if standing is Standing.REVEALED and block <= job.commit_deadline:
                    continue
                self.stage.ask("anvil_mine", hex(last + 1 - block))
                return

    def _is_over(self) -> bool:
        if self.job().status is Status.OPEN or self.is_up("client"):
            return False
        return not self.stage.referee.debt(self.job_id, self.addresses["honest"])
