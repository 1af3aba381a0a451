"""The command `moot market --watch`: what a user does, and does wrong; nothing is left behind."""

import json
import os
import signal
from pathlib import Path

import pytest

from tests.end_to_end.command import complaint, moot, showing
from tests.page_helpers import ask, wait_for

ENDLESS = "jobs=1000000"


def find_children(process: int) -> list[int]:
    """Return the processes that a process of ours has begun, as Linux knows them."""
    path = Path(f"/proc/{process}/task/{process}/children")
    if not path.exists():
        pytest.skip("this system does not list the children of a process")
    return [int(word) for word in path.read_text(encoding="ascii").split()]


def is_gone(process: int) -> bool:
    """Whether a process has ended."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return True
    state = Path(f"/proc/{process}/stat")
    return state.exists() and state.read_text(encoding="ascii").rpartition(")")[2].split()[0] == "Z"


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_a_market_is_shown_until_a_signal(number: signal.Signals) -> None:
    """The page is served while a market is played; a signal ends both, SIGKILL among them."""
    words = ("--watch", "--set", ENDLESS, "--set", "bond.eth=0.5")
    with showing("market", "baseline", *words) as (process, url), ask(url) as get:
        assert b"Moot market: baseline" in get("/").content
        wait_for(lambda: json.loads(get("/market").content)["status"] == "runs")
        told = json.loads(get("/market").content)
        assert (told["jobs"], told["values"]["bond.eth"]) == (10**6, 0.5)
        children = find_children(process.pid)
        assert len(children) == 1
        process.send_signal(number)
        _, stderr = process.communicate(timeout=120)
        status = -number if number == signal.SIGKILL else 0
        assert (process.returncode, stderr) == (status, "")
        wait_for(lambda: is_gone(children[0]))


def test_options_that_do_not_go_together_are_refused(tmp_path: Path) -> None:
    """A folder for tables, a port without a page and an impossible market are one line each."""
    folder = tmp_path / "results"
    done = moot("market", "baseline", "--watch", "-o", str(folder))
    assert "--watch leaves no tables" in complaint(done, status=2)
    assert not folder.exists()
    done = moot("market", "baseline", "--port", "0")
    assert "--port is where --watch listens" in complaint(done, status=2)
    done = moot("market", "baseline", "--watch", "--port", "0", "--set", "bond.name=none")
    assert "bond rule" in complaint(done, status=2)
