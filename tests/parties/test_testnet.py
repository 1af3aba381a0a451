"""A net of processes that plays a job in an arithmetic, from its first block to the result."""

import json
import subprocess

import pytest

from tests.end_to_end.command import complaint, moot
from tests.parties.nets import MOOT, PATIENCE_S


@pytest.mark.slow
@pytest.mark.parametrize("arithmetic", ["exact", "logged"])
def test_a_net_plays_a_job_in_an_arithmetic(arithmetic: str) -> None:
    """The referee, the job and all parties have it; in `logged`, a verifier is started, too."""
    words = ("testnet", "up", "--job", "mlp", "--steps", "2", "--arithmetic", arithmetic, "--json")
    done = subprocess.run(  # noqa: S603 - ours
        [*MOOT, *words], capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert done.returncode == 0, done.stderr
    events = [json.loads(line) for line in done.stdout.splitlines()]
    assert any("WON" in it["line"] for it in events)
    is_ruled = any(it.get("party") == "verifier" for it in events)
    assert is_ruled == (arithmetic == "logged")


def test_a_net_without_such_an_arithmetic_does_not_begin() -> None:
    """An arithmetic that there is none of, and a leaf that no contract computes, are refused."""
    for more in (("--arithmetic", "exakt"), ("--arithmetic", "logged", "--leaf", "scalar")):
        line = complaint(moot("testnet", "up", *more), status=2)
        assert "exact" in line or "choose the leaf operator" in line
