"""Nets of processes for tests: what they tell, and the verbs of a client."""

import json
import subprocess
import sys
import time
from typing import Any

from moot.offchain.execution.executor import Executor
from moot.offchain.parties import testnet
from moot.offchain.providers.agreement import make_task
from moot.offchain.providers.setting import Setting
from tests.training_helpers import encode

MOOT = (sys.executable, "-c", "from moot.command import main; main()")
LENGTH = (
    *("--steps", "4", "--checkpoint-every", "2"),
    *("--commit-blocks", "80", "--clock-blocks", "100"),
)
PATIENCE_S = 240
EASY: dict[str, object] = {"crowd": 4, "block_seconds": 3.0}
"""Settings of a provider that finds clocks long enough on a machine that is busy with tests."""


class Heard:
    """The events of a net, as they are told."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []

    def __call__(self, event: str, line: str, **about: object) -> None:
        """Keep an event."""
        self.events.append({"event": event, "line": line, **about})

    def wait(self, event: str, **about: object) -> dict[str, Any]:
        """Return the first event of a name that is about this, when it is told."""
        end = time.monotonic() + PATIENCE_S
        while time.monotonic() < end:
            for found in self.events:
                if found["event"] == event and about.items() <= found.items():
                    return found
            time.sleep(0.05)
        raise AssertionError((event, about, self.events[-5:]))


def call_client(net: testnet.Testnet, *verb: str, status: int = 0) -> list[dict[str, Any]]:
    """Return the events of a client's verb."""
    words = [*MOOT, "client", *verb, "--config", str(net.folder / "client.toml"), "--json"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE_S, check=False)  # noqa: S603 - ours
    assert done.returncode == status, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def compute_result() -> list[bytes]:
    """Return the final state of the job, as anybody can compute it."""
    task = make_task(Setting(program="mlp", steps=4, checkpoint_every=2, trust_capture=True))
    state = list(task.initial_state)
    for step in range(task.steps):
        state = Executor(task.program).run(state, task.batch(step), step)
    return encode(state)


def post(net: testnet.Testnet, *more: str) -> int:
    """Let the client open a job, and return its number."""
    opened, *_ = call_client(net, "post", "--program", "mlp", *LENGTH, *more)
    return int(opened["job"])
