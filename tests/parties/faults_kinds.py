"""The kinds of fault: kills, reorganisations, bad ways to a node, full disks, jumping clocks."""

import json
import os
import resource
import signal
import time
import urllib.request
from collections import Counter
from contextlib import ExitStack, suppress
from pathlib import Path
from random import Random
from typing import Any

from moot.offchain.chain.accounts.fees import GWEI
from tests.parties.faults_lies import (
    Liar,
    lie_about_heights,
    lie_in_content,
    lie_in_form,
    lie_in_order,
)
from tests.parties.faults_stage import SAFE_BLOCKS, Case
from tests.parties.lies import encode
from tests.parties.store_way import StoreWay, open_store_way
from tests.sending.proxy import Proxy, open_proxy

KILLS, REORGANISATIONS = 15, 12
MOST_STEPS, LONGEST_LIFE_S = 60, 3.0
COPY_S = 30.0
CONFIRMATIONS = 8
PROXY_RATE = 0.1
STORE_RATE = 0.3


class Calm:
    """No fault; an honest provider that has ended of itself is started again."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.counts: Counter[str] = Counter()

    def begin(self, case: Case) -> None:
        """See Fault."""

    def act(self, case: Case) -> None:
        """See Fault."""
        if not case.is_up("honest"):
            self.counts["ended of itself"] += 1
            case.start_provider("honest")

    def end(self, case: Case) -> None:
        """See Fault."""


class Kills(Calm):
    """The honest provider dies at drawn steps and times of its life, and starts again."""

    left = KILLS
    dies_at = float("inf")

    def act(self, case: Case) -> None:
        """See Fault."""
        if case.is_up("honest"):
            if time.monotonic() >= self.dies_at:
                case.kill("honest")
            return
        was_killed = case.processes["honest"].exitcode == -signal.SIGKILL
        self.counts["kills" if was_killed else "ended of itself"] += 1
        self.left -= 1
        self.start(case)

    def start(self, case: Case) -> None:
        """Start it anew, with its next death drawn."""
        self.dies_at, kill_at = float("inf"), None
        if self.left > 0 and self.random.random() < 0.5:
            kill_at = self.random.randint(1, MOST_STEPS)
        if self.left > 0:  # also where it never gets to the step
            self.dies_at = time.monotonic() + self.random.uniform(0.0, LONGEST_LIFE_S)
        case.start_provider("honest", kill_at)


class KillsFromTheStart(Kills):
    """As Kills, with the first death in the first life."""

    def act(self, case: Case) -> None:
        """See Fault."""
        if self.left == KILLS and case.is_up("honest"):
            case.kill("honest")
        super().act(case)


class Reorganisations(Calm):
    """The latest blocks are replaced at drawn times, their transactions dropped or not."""

    most_depth = CONFIRMATIONS
    at = 0.0

    def act(self, case: Case) -> None:
        """See Fault."""
        super().act(case)
        if time.monotonic() < self.at or self.counts["reorganisations"] >= REORGANISATIONS:
            return
        if self.at:
            newest = case.stage.referee.block_number() - case.job().opened_block
            depth = self.random.randint(1, self.most_depth)
            if depth < newest:
                case.stage.ask("moot_reorganise", hex(depth), self.random.random() < 0.3)
                self.counts["reorganisations"] += 1
                self.counts[f"deeper than {CONFIRMATIONS}"] += depth > CONFIRMATIONS
        self.at = time.monotonic() + self.random.uniform(0.3, 3.0)


class DeepReorganisations(Reorganisations):
    """Reorganisations that may be deeper than the confirmations."""

    most_depth = SAFE_BLOCKS - 5


class Forward:
    """A way to a node that can be shut, and that lies at times."""

    def __init__(self, url: str, random: Random, rate: float, lie: Liar) -> None:
        self.url, self.random, self.rate, self.lie = url, random, rate, lie
        self.shut_until = 0.0
        self.lies = 0

    def answer(self, body: bytes) -> bytes:
        """Pass a request on."""
        if time.monotonic() < self.shut_until:
            raise ConnectionError
        request = urllib.request.Request(  # noqa: S310 - loopback
            self.url, body, {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=30) as response:  # noqa: S310 - loopback
            answer: bytes = response.read()
        return self._lie(body, answer) if self.random.random() < self.rate else answer

    def _lie(self, body: bytes, answer: bytes) -> bytes:
        """Tell something else than the node."""
        asked, told = json.loads(body), json.loads(answer)
        pairs: list[tuple[Any, Any]] = (
            list(zip(asked, told, strict=True)) if isinstance(asked, list) else [(asked, told)]
        )
        self.lies += self.lie(pairs, self.random)
        return encode(told)


class BadWay(Calm):
    """The honest provider's only way to the node errs: see tests/sending/proxy.py."""

    faults = (
        *("drop-request", "drop-answer", "delay", "repeat", "truncate", "stale"),
        *("status", "endless", "garble-answer", "overtaken"),
    )
    lie_rate, is_alone = 0.0, True
    lie: Liar = staticmethod(lie_about_heights)

    def begin(self, case: Case) -> None:
        """See Fault."""
        self.stack = ExitStack()
        self.way = Forward(case.stage.url, self.random, self.lie_rate, self.lie)
        self.proxy: Proxy = self.stack.enter_context(
            open_proxy(self.way, self.random, PROXY_RATE, self.faults)
        )
        urls = (self.proxy.url,) if self.is_alone else (self.proxy.url, case.stage.url)
        case.chain_urls = ",".join(urls)

    def act(self, case: Case) -> None:
        """See that nothing that a node says ends a party."""
        assert case.is_up("honest"), f"the honest provider has ended: {case.explain()}"

    def end(self, _: Case) -> None:
        """See Fault."""
        self.counts.update(
            f"proxy {it}" for it, n in self.proxy.faults.items() for _ in range(n) if it
        )
        self.counts["proxy lies"] += self.way.lies
        self.stack.close()


class TwoWays(BadWay):
    """The same with a good node as the second."""

    is_alone = False


class LyingWay(BadWay):
    """A way that lies about heights, and does nothing else."""

    faults = ("delay",)
    lie_rate = 0.2


class OddForms(BadWay):
    """A way whose answers are of a wrong form at times."""

    faults = ("delay",)
    lie_rate = 0.1
    lie = staticmethod(lie_in_form)


class OddOrder(OddForms):
    """A way that gives logs twice or out of order, and answers to other questions."""

    lie = staticmethod(lie_in_order)


class OddContent(OddForms):
    """A way that tells of what was not asked for, and of what cannot be."""

    lie = staticmethod(lie_in_content)


class TwoOddWays(OddContent):
    """The same with a good node as the second."""

    is_alone = False


class BadStore(Calm):
    """The honest provider's store errs: see tests/parties/store_way.py."""

    def begin(self, case: Case) -> None:
        """See Fault."""
        self.stack = ExitStack()
        self.way: StoreWay = self.stack.enter_context(
            open_store_way(case.stage.store_url, self.random, STORE_RATE)
        )
        case.store_url = self.way.url

    def end(self, _: Case) -> None:
        """See Fault."""
        self.counts.update({f"store {it}": n for it, n in self.way.faults.items() if it})
        self.stack.close()


class Copies(Calm):
    """The honest provider is started once more, by mistake, with its folder or another one."""

    at, left = 0.0, 3

    def act(self, case: Case) -> None:
        """See Fault."""
        super().act(case)
        if case.processes.get("copy"):
            self._judge(case)
        elif self.left and time.monotonic() >= self.at:
            if self.at and time.monotonic() - case.started["honest"] > LONGEST_LIFE_S:
                folder = self.random.choice(("honest", "copy"))
                case.configure(
                    "copy", key=str(case.folder / "honest.json"), folder=str(case.folder / folder)
                )
                case.start("copy", "provider", "run")
                self.left -= 1
            self.at = time.monotonic() + self.random.uniform(0.5, 3.0)

    def _judge(self, case: Case) -> None:
        """See that it has ended with an error, and the other has not."""
        if case.is_up("copy"):
            assert time.monotonic() - case.started["copy"] < COPY_S, "a copy did not refuse"
            return
        assert case.processes.pop("copy").exitcode, "a copy took itself for the only one"
        assert case.is_up("honest"), "a copy made the first one end"
        self.counts["copies refused"] += 1


class RestartingNode(BadWay):
    """A node that is gone for drawn times."""

    faults = ("delay",)
    at = 0.0

    def act(self, case: Case) -> None:
        """See Fault."""
        super().act(case)
        if time.monotonic() >= self.at:
            if self.at:
                self.way.shut_until = time.monotonic() + self.random.uniform(0.2, 4.0)
                self.counts["restarts of the node"] += 1
            self.at = time.monotonic() + self.random.uniform(4.0, 10.0)


class FullDisk(Calm):
    """For drawn times no file of the honest provider can grow beyond a drawn length."""

    at, is_full, left = 0.0, False, 4

    def act(self, case: Case) -> None:
        """See Fault."""
        super().act(case)
        if time.monotonic() < self.at or not (self.left or self.is_full):
            return
        pid = case.processes["honest"].pid
        if self.at and pid is not None:
            self.is_full = not self.is_full
            limit = self.random.choice((0, 100, 5_000)) if self.is_full else resource.RLIM_INFINITY
            for process in list_family(pid):
                with suppress(ProcessLookupError):
                    resource.prlimit(
                        process, resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY)
                    )
            self.counts["full disks"] += self.is_full
            self.left -= self.is_full
        self.at = time.monotonic() + self.random.uniform(0.2, 4.0)


def list_family(pid: int) -> list[int]:
    """Return a process and all that it has started, and these."""
    parents: dict[int, int] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            parents[int(path.parent.name)] = int(path.read_text().rpartition(")")[2].split()[1])
    family = [pid]
    for one in family:
        family += [child for child, parent in parents.items() if parent == one]
    return family


class Clocks(Calm):
    """The clock of the honest provider jumps by an hour, and time passes without it."""

    at = 0.0

    def begin(self, case: Case) -> None:
        """See Fault."""
        case.leap_s = self.random.choice((-3600.0, 3600.0))

    def act(self, case: Case) -> None:
        """See Fault."""
        super().act(case)
        if time.monotonic() < self.at:
            return
        pid = case.processes["honest"].pid
        if self.at and pid is not None:
            os.kill(pid, signal.SIGSTOP)
            time.sleep(self.random.uniform(0.2, 3.0))
            os.kill(pid, signal.SIGCONT)
            self.counts["pauses"] += 1
        self.at = time.monotonic() + self.random.uniform(2.0, 6.0)


class Dear(Calm):
    """Gas is three times as dear at drawn times, and cheap again."""

    at, wei = 0.0, GWEI

    def act(self, case: Case) -> None:
        """See Fault."""
        super().act(case)
        if time.monotonic() >= self.at:
            self.wei = self.wei * 3 if self.wei < 9 * GWEI else GWEI
            case.stage.ask("moot_setLeastBaseFee", hex(self.wei))
            self.counts["prices"] += 1
            self.at = time.monotonic() + self.random.uniform(1.0, 4.0)

    def end(self, case: Case) -> None:
        """See Fault."""
        case.stage.ask("moot_setLeastBaseFee", "0x1")


KINDS = {
    "calm": Calm,
    "kills": KillsFromTheStart,
    "reorganisations": Reorganisations,
    "deep-reorganisations": DeepReorganisations,
    "bad-way": BadWay,
    "two-ways": TwoWays,
    "lying-way": LyingWay,
    "odd-forms": OddForms,
    "odd-order": OddOrder,
    "odd-content": OddContent,
    "two-odd-ways": TwoOddWays,
    "restarting-node": RestartingNode,
    "bad-store": BadStore,
    "copies": Copies,
    "full-disk": FullDisk,
    "clocks": Clocks,
    "dear-gas": Dear,
}
