"""What it costs to be a party: a node, a client and providers, each a process of its own.

Every provider asks the node under a path of its own, for which the node counts what it is asked.
"""

import json
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple
from unittest.mock import patch

from moot.bench.answers import Answers, list_answers
from moot.contracts.deployment import bind_referee
from moot.contracts.model.abi import EventReader
from moot.contracts.reasons import Standing, Status
from moot.offchain.chain import connect
from moot.offchain.chain.accounts.journal import FOLDER_VARIABLE
from moot.offchain.chain.transports import open_transport
from moot.offchain.disputes.referee.on_chain import ChainReferee
from moot.offchain.disputes.referee.terms import Stakes
from moot.offchain.errors import MootError
from moot.offchain.native.memory import get_peak_bytes
from moot.offchain.parties.client import post, read_task
from moot.offchain.parties.context import opened_context
from moot.offchain.parties.settings import read_settings
from moot.offchain.parties.testnet import CLIENT, Testnet
from moot.offchain.providers.task import Task

MOOT = (sys.executable, "-c", "from moot.command import main; main()")
CHEAT = "wrong-output"
SETTLING_BLOCKS, IDLE_BLOCKS = 10, 30
START_S, JOB_S = 180.0, 120.0
PROGRAM, STEPS, CHECKPOINT_EVERY = "mlp", 4, 2


class Traffic(NamedTuple):
    """What a party has asked the node: HTTP requests, questions in them, bytes both ways."""

    requests: int = 0
    questions: int = 0
    sent_bytes: int = 0
    received_bytes: int = 0

    def since(self, earlier: "Traffic") -> "Traffic":
        """Return what came after an earlier look."""
        return Traffic(*(now - then for now, then in zip(self, earlier, strict=True)))


class Look(NamedTuple):
    """A block, and what every party has asked until then."""

    block: int
    traffic: Mapping[str, Traffic]


class Bench:
    """A net, its parties, and what was measured.

    Args:
        net: the net.
        providers: how many; the first cheats if there are several.
        jobs: how many, each posted as soon as the one before is.
    """

    def __init__(self, net: Testnet, providers: int, jobs: int, stakes: Stakes) -> None:
        self._net = net
        self._names = [f"provider-{number + 1}" for number in range(providers)]
        self._jobs = jobs
        self._stakes = stakes
        self._url = str(net.common["chain"])
        self._transport = open_transport(self._url)
        self._chain = connect(self._url)
        contract = bind_referee(self._chain, str(net.common["referee"]))
        self._contract = contract
        self._referee = ChainReferee(self._chain, contract, 0)
        self._addresses: dict[str, str] = {}

    def run(self) -> dict[str, Any]:
        """Measure, and return rows of parties and of jobs."""
        self._start()
        self._await_blocks(SETTLING_BLOCKS)
        before = self._look()
        self._await_blocks(IDLE_BLOCKS)
        idle = self._look()
        started = time.monotonic()
        posted = self._post_all()
        settled = self._await_end(posted)
        seconds = time.monotonic() - started
        end = self._look()
        sent = self._list_sent(idle.block)
        answers = self._list_answers(idle.block, end.block)
        parties = [
            self._describe(name, before, idle, end, sent)
            | _describe_answers(answers.get(self._addresses[name], Answers()))
            for name in self._names
        ]
        jobs = [self._describe_job(job, at, settled[job]) for job, at in posted.items()]
        return {
            "parties": parties,
            "jobs": jobs,
            "blocks": end.block - idle.block,
            "seconds": seconds,
            "jobs_per_minute": 60 * len(jobs) / seconds,
            "missed_claims": sum(it["missed_claims"] for it in jobs),
            "missed_clocks": sum(it["missed_clocks"] for it in parties),
        }

    def _start(self) -> None:
        for number, name in enumerate(self._names):
            cheat = CHEAT if number == 0 and len(self._names) > 1 else ""
            self._net.add_provider(name, cheat=cheat, chain=f"{self._url}/{name}")
            key = json.loads((self._net.folder / f"{name}.json").read_text())
            self._addresses[name] = "0x" + str(key["address"]).removeprefix("0x").lower()
        self._net.await_results(len(self._names), START_S)

    def _post_all(self) -> dict[int, float]:
        """Let the client open all jobs, one after another; return when each was open."""
        task = self._publish()
        settings = read_settings(self._net.folder / f"{CLIENT}.toml", {}, {})
        opened: dict[int, float] = {}
        with opened_context(settings, _hear) as context:
            for _ in range(self._jobs):
                opened[post(context, task, self._stakes)] = time.monotonic()
        return opened

    def _publish(self) -> Task:
        """Return the task of all jobs, as `moot program publish` prepares it."""
        folder = self._net.folder / "task"
        words = (*MOOT, "program", "publish", PROGRAM, str(folder), "--steps", str(STEPS))
        done = subprocess.run(words, capture_output=True, text=True, check=False)  # noqa: S603 - ours
        if done.returncode:
            raise MootError(f"the task could not be prepared: {done.stderr.strip()}")
        return read_task(folder, CHECKPOINT_EVERY)

    def _await_end(self, posted: Mapping[int, float]) -> dict[int, tuple[int, float]]:
        """Return for each job its last block and when that was; all is collected then.

        A job that nobody has claimed in time stays open, as its client settles nothing here.
        """
        settled: dict[int, tuple[int, float]] = {}
        deadline = time.monotonic() + START_S + JOB_S * len(posted)
        while len(settled) < len(posted) or any(map(self._is_owed, posted)):
            if time.monotonic() > deadline:
                raise MootError(f"of {len(posted)} jobs {len(settled)} have ended in time")
            for job in posted:
                if job not in settled and self._is_over(job):
                    settled[job] = self._referee.block_number(), time.monotonic()
            time.sleep(self._net.block_seconds)
        return settled

    def _is_over(self, job: int) -> bool:
        found = self._referee.job(job)
        is_late = self._referee.block_number() >= found.commit_deadline
        is_claimed = found.claims > 0 or found.hidden > 0
        return found.status is not Status.OPEN or (is_late and not is_claimed)

    def _is_owed(self, job: int) -> bool:
        debts = [self._referee.debt(job, address) for address in self._addresses.values()]
        return any(debts)

    def _await_blocks(self, count: int) -> None:
        last = self._referee.block_number() + count
        while self._referee.block_number() < last:
            time.sleep(self._net.block_seconds)

    def _look(self) -> Look:
        traffic = {path.strip("/"): Traffic(*it) for path, it in self._ask("moot_traffic").items()}
        return Look(self._referee.block_number(), traffic)

    def _ask(self, method: str, *params: Any) -> Any:
        return self._transport.ask(method, params)["result"]

    def _list_sent(self, first: int) -> dict[str, list[int]]:
        """Return the gas of every transaction, by the account that sent it."""
        sent: dict[str, list[int]] = {}
        for number in range(first + 1, self._referee.block_number() + 1):
            for it in self._ask("eth_getBlockByNumber", hex(number), True)["transactions"]:
                receipt = self._ask("eth_getTransactionReceipt", it["hash"])
                sent.setdefault(it["from"].lower(), []).append(int(receipt["gasUsed"], 16))
        return sent

    def _list_answers(self, first: int, last: int) -> dict[str, Answers]:
        """Return what each account did in its matches."""
        reader = EventReader()
        found = self._contract.events(first, last)
        events = (
            (place[0], reader.read(event.name, tuple(event.args.values())))
            for place, event in found
        )
        return {address.lower(): it for address, it in list_answers(events).items()}

    def _describe(
        self, name: str, before: Look, idle: Look, end: Look, sent: Mapping[str, Sequence[int]]
    ) -> dict[str, Any]:
        """Return the row of a provider."""
        nothing = Traffic()
        gas = sent.get(self._addresses[name], [])
        resting = idle.traffic.get(name, nothing).since(before.traffic.get(name, nothing))
        busy = end.traffic.get(name, nothing).since(idle.traffic.get(name, nothing))
        blocks = end.block - idle.block
        return {
            "party": name,
            "idle_requests_a_block": resting.requests / (idle.block - before.block),
            "idle_questions_a_block": resting.questions / (idle.block - before.block),
            "busy_requests_a_block": busy.requests / blocks,
            "busy_questions_a_block": busy.questions / blocks,
            "rpc_bytes": busy.sent_bytes + busy.received_bytes,
            "transactions": len(gas),
            "gas": sum(gas),
            "questions_a_transaction": busy.questions / max(1, len(gas)),
            "peak_bytes": get_peak_bytes(self._net.processes[name].pid),
            "computing_peak_bytes": sum(
                map(get_peak_bytes, _list_children(self._net.processes[name].pid))
            ),
        }

    def _describe_job(self, job: int, opened: float, settled: tuple[int, float]) -> dict[str, Any]:
        """Return the row of a job."""
        found = self._referee.job(job)
        members = [self._referee.member(job, it).standing for it in self._addresses.values()]
        return {
            "job": job,
            "status": found.status.name.lower(),
            "meetings": found.meetings,
            "defeated": found.defeated,
            "missed_claims": sum(it in {Standing.NONE, Standing.COMMITTED} for it in members),
            "blocks": settled[0] - found.opened_block,
            "seconds": settled[1] - opened,
        }


def _describe_answers(found: Answers) -> dict[str, Any]:
    """Return the part of a provider's row that is about its matches."""
    return {
        "matches": found.matches,
        "most_matches": found.most_matches,
        "answers": len(found.blocks),
        "mean_answer_blocks": found.mean,
        "worst_answer_blocks": found.worst,
        "missed_clocks": found.missed,
    }


def measure_parties(
    providers: int, jobs: int, block_seconds: float, stakes: Stakes
) -> dict[str, Any]:
    """Return what being a party costs; see `moot bench parties`.

    Args:
        providers: how many; the first cheats if there are several.
        jobs: how many are open at once.
        block_seconds: time between blocks.
        stakes: money and clocks of every job.

    Returns:
        rows of `parties` and of `jobs`, and of all together blocks, seconds, jobs a minute, and the
        claims and clocks that were missed.
    """
    with (
        TemporaryDirectory(prefix="moot-parties-") as name,
        patch.dict("os.environ", {FOLDER_VARIABLE: str(Path(name) / "accounts")}),
        Testnet(Path(name) / "net", MOOT, _hear, block_seconds) as net,
    ):
        return Bench(net, providers, jobs, stakes).run()


def _hear(event: str, line: str, **about: object) -> None:
    """Take what the parties tell."""
    del event, line, about


def _list_children(process: int) -> list[int]:
    """Return the processes that a process has started, which still run."""
    return [*map(int, Path(f"/proc/{process}/task/{process}/children").read_text().split())]
