"""A provider that serves is killed while clients ask: no answer lacks its receipt, nor its place.

The processes are those of `moot serve`, with a key, a bond and a book, and end by SIGKILL at drawn
points. What clients have is then compared with the book, and with runs of the book's tasks.
"""

import json
import random
import signal
import subprocess
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.client import HTTPException
from pathlib import Path
from typing import Any

import pytest

from moot.contracts.model.types import MIN_BOND_WEI
from moot.offchain.chain.devnode.server import DevNode, serve
from moot.offchain.commitments.tags import Tag
from moot.offchain.commitments.tensors import commit_tensors, compute_state_root
from moot.offchain.commitments.tree import Tree
from moot.offchain.execution.executor import Executor
from moot.offchain.receipts.book import BookReader
from moot.offchain.receipts.conflicts import find_fault
from moot.offchain.receipts.packed import SignedReceipt
from moot.offchain.serving.checkpoints import load_all
from moot.offchain.serving.tasks import TaskFinder
from tests.end_to_end.command import MOOT
from tests.parties.test_services import Net
from tests.serving_checkpoints import make_checkpoint

CLIENTS = 4
CONTEXT = 32
"""Few programs, so that a process begins soon."""
PROMPTS = ("the cat", "the dog ate", "that hat, and")
SEEDS = 3
MOST_TOKENS = 6
BOND_WEI = 10**18
MOST_ANSWERS = 8
"""Clients have at most so many answers of a process before it is killed."""
MOST_DELAY_S = 0.1
PATIENCE_S = 60.0
BLOCK_S = 0.1
"""Receipts end after 300 blocks, so that some have ended by the end of a test."""


@dataclass
class Crowd:
    """Clients that ask whatever process serves at a time, and keep each answer that is whole.

    Attributes:
        answers: the names of answers with their receipts; None for one that came without.
        problems: what no client should see.
        cut: how many requests ended without an answer.
    """

    answers: dict[str, str | None] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    cut: int = 0
    _came: threading.Condition = field(default_factory=threading.Condition)

    def start(self, url: str, seed: int) -> list[threading.Thread]:
        """Begin to ask a process, until it is gone; return the threads that do."""
        threads = [
            threading.Thread(target=self._ask_on, args=(url, random.Random(f"{seed} {client}")))
            for client in range(CLIENTS)
        ]
        for thread in threads:
            thread.start()
        return threads

    def wait(self, more: int) -> None:
        """Wait until so many more answers are there."""
        with self._came:
            enough = len(self.answers) + more
            assert self._came.wait_for(
                lambda: len(self.answers) >= enough or self.problems, PATIENCE_S
            )

    def _ask_on(self, url: str, draw: random.Random) -> None:
        while True:
            try:
                name, receipt = ask(url, draw)
            except urllib.error.HTTPError as error:
                with self._came:
                    self.problems.append(error.read().decode())
                    self._came.notify()
                return
            except (OSError, HTTPException):  # it was killed
                with self._came:
                    self.cut += 1
                return
            with self._came:
                self.answers[name] = receipt
                self._came.notify()


def ask(url: str, draw: random.Random) -> tuple[str, str | None]:
    """Ask for a drawn text, whole or as a stream; return the name of the answer and its receipt.

    Raises:
        OSError, HTTPException: the answer did not come to its end.
    """
    body: dict[str, Any] = {
        "model": "tiny",
        "prompt": draw.choice(PROMPTS),
        "max_tokens": draw.randint(1, MOST_TOKENS),
        "seed": draw.randrange(SEEDS),
        "stream": draw.random() < 1 / 2,
    }
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(  # noqa: S310 - a server of this test
        f"{url}/completions", json.dumps(body).encode(), headers
    )
    with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:  # noqa: S310 - likewise
        if not body["stream"]:
            whole = json.loads(answer.read())
            assert answer.headers["Moot-Receipt"] == whole.get("receipt")
            return whole["id"], whole.get("receipt")
        for line in answer:
            if line.startswith(b"data: {"):
                part = json.loads(line.removeprefix(b"data: "))
                assert "error" not in part, part
                if part["choices"][0]["finish_reason"]:
                    return part["id"], part.get("receipt")
    raise HTTPException("a stream ended before its answer")


@contextmanager
def killed(net: Net, model: Path, log: Path) -> Iterator[str]:
    """Serve a model by a process of its own, and kill that at the end; yield where it answers."""
    options = ["--model", str(model), "--receipts", str(net.folder / "receipts"), "--json"]
    sizes = ["--port", "0", "--slots", "2", "--context", str(CONTEXT)]
    bond = ["--config", str(net.configs["p"]), "--service", net.service, "--stake-wei", "1"]
    command = [MOOT, "serve", *options, *sizes, *bond]
    with (
        log.open("a") as errors,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True) as process,  # noqa: S603 - our own command
    ):
        assert process.stdout is not None
        try:
            told: dict[str, Any] = {}
            while "answering" not in told:
                line = process.stdout.readline()
                assert line, log.read_text()
                told[json.loads(line)["event"]] = json.loads(line)
            assert told["covered"]["answers"] == BOND_WEI
            yield told["answering"]["url"]
            assert process.poll() is None
        finally:
            process.send_signal(signal.SIGKILL)
            process.wait()


class Ledger:
    """Compares what clients have with a book, and with runs of its tasks.

    Args:
        net: the provider's; its book is there.
        model: the checkpoint.
    """

    def __init__(self, net: Net, model: Path) -> None:
        self._folder, self._model = net.folder, load_all(model, "tiny", context=CONTEXT)[0]
        self._tops: dict[tuple[bytes, int], bytes] = {}
        self._executors: dict[int, Executor] = {}

    def compare(self, answers: dict[str, str | None]) -> int:
        """Check each answer and the whole book; return how many receipts the book has."""
        assert None not in answers.values()
        shown = [SignedReceipt.decode(receipt or "") for receipt in answers.values()]
        book = BookReader(self._folder / "receipts")
        kept = list(book.list_from(0))
        assert [it.receipt.number for it in kept] == list(range(len(kept)))
        assert find_fault([*kept, *shown]) is None
        assert len({it.receipt.number for it in shown}) == len(shown)
        assert set(shown) <= set(kept)
        find = TaskFinder(book, lambda _: [self._model.programs], lambda _: 0)
        for it in kept:
            assert self._run(find, it) == it.receipt.history
        for name, receipt in answers.items():
            found = book.find_answer(name.rpartition("-")[2])
            assert found is not None
            assert found[0].encode() == receipt
        book.close()
        return len(kept)

    def _run(self, find: TaskFinder, signed: SignedReceipt) -> bytes:
        """Return the top of the history of a receipt's task, which the book and the model make."""
        receipt = signed.receipt
        key = (receipt.start_root, receipt.steps)
        if key not in self._tops:
            task = find(0, receipt.make_terms(MIN_BOND_WEI))
            assert task is not None
            assert (task.start_root, task.steps) == key
            program = id(task.program)  # each of the model's programs is one object
            if program not in self._executors:
                self._executors[program] = Executor(task.program)
            state = [*task.initial_state]
            for step in range(task.steps):
                state = self._executors[program].run(state, (), step)
            root = compute_state_root([it.root for it in commit_tensors(state)])
            self._tops[key] = Tree(Tag.HISTORY_NODE, [root]).top
        return self._tops[key]


@pytest.mark.slow
@pytest.mark.parametrize("kills", [12, 300])
def test_killed_provider_owes_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kills: int
) -> None:
    """Whatever a client has is in the book and can be run again; numbers follow, each used once."""
    monkeypatch.setenv("MOOT_STATE", str(tmp_path / "state"))
    model = make_checkpoint(tmp_path / "tiny")
    draw, crowd = random.Random(11), Crowd()
    with serve(DevNode(8, BLOCK_S)) as node:
        net = Net(tmp_path, node)
        net.run("p", "stake", "1")
        ledger = Ledger(net, model)
        for _ in range(kills):
            before = len(crowd.answers)
            with killed(net, model, tmp_path / "errors") as url:
                threads = crowd.start(url, draw.randrange(1 << 32))
                crowd.wait(draw.randint(1, MOST_ANSWERS))
                time.sleep(draw.uniform(0, MOST_DELAY_S))
            for thread in threads:
                thread.join(PATIENCE_S)
                assert not thread.is_alive()
            assert crowd.problems == []
            assert len(crowd.answers) > before
            kept = ledger.compare(crowd.answers)
    assert kept >= len(crowd.answers) >= kills
    assert crowd.cut == kills * CLIENTS
