"""Providers serve a model, one of them lies, and a watcher takes the lie to the chain."""

import json
import signal
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.parties.nets import MOOT
from tests.serving_checkpoints import make_checkpoint

QUESTIONS = 3
END_S = 60


def listen(lines: Iterable[str]) -> Iterator[dict[str, Any]]:
    """Yield the events of a net, until it is ready and its watcher has looked at each answer."""
    is_ready, checked = False, 0
    for line in lines:
        event = json.loads(line)
        yield event
        is_ready |= event["event"] == "ready"
        checked += event["event"] == "checked"
        if is_ready and checked == QUESTIONS + 1:
            return


@pytest.mark.slow
def test_a_lie_that_was_served_loses_a_bond(tmp_path: Path) -> None:
    """Of two providers that serve a model, the one that lies loses a bond, and no other."""
    model = make_checkpoint(tmp_path / "tiny")
    options = ["--serve", str(model), "--folder", str(tmp_path / "net"), "--json"]
    with subprocess.Popen(  # noqa: S603 - our own command
        [*MOOT, "testnet", "up", *options], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        try:
            events = list(listen(process.stdout))
        finally:
            process.send_signal(signal.SIGTERM)
        process.communicate(timeout=END_S)
    verdicts = [it["verdict"] for it in events if it["event"] == "checked"]
    assert sorted(verdicts) == ["REFUTED", *["VERIFIED"] * QUESTIONS]
    assert [it["has_won"] for it in events if "has_won" in it] == [True]
    assert [it for it in events if it.get("call") == "leaf" and it["accepted"]]
