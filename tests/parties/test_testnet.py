"""A net of processes that plays a job in an arithmetic, from its first block to the result."""

import json
import subprocess

import pytest

from moot.command.client import choose_clock
from moot.offchain.arithmetic.table import ARITHMETICS
from tests.end_to_end.command import complaint, moot
from tests.parties.nets import MOOT, PATIENCE_S


@pytest.mark.slow
@pytest.mark.parametrize("arithmetic", ARITHMETICS)
def test_a_net_plays_a_job_in_an_arithmetic(arithmetic: str) -> None:
    """The referee and all parties have it; in `logged`, a verifier is started. The liar loses."""
    words = ("testnet", "up", "--job", "mlp", "--steps", "2", "--cheat", "wrong-output:step=1")
    words += ("--precision", "bf16" if ARITHMETICS[arithmetic].short_factors else "fp32")
    done = subprocess.run(  # noqa: S603 - ours
        [*MOOT, *words, "--arithmetic", arithmetic, "--json"],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    events = [json.loads(line) for line in done.stdout.splitlines()]
    ended = {it["party"]: it for it in events if it.get("event") == "ended"}
    assert ended["provider-1"]["is_defeated"]
    assert not ended["provider-2"]["is_defeated"]
    assert ended["provider-2"]["status"] == "won"
    is_ruled = any(it.get("party") == "verifier" for it in events)
    assert is_ruled == (arithmetic == "logged")


@pytest.mark.parametrize(
    ("block_seconds", "blocks"), [(12.0, 64), (2.0, 64), (0.4, 250), (0.0, 100_000)]
)
def test_a_clock_is_a_time_where_blocks_are_fast(block_seconds: float, blocks: int) -> None:
    """A provider needs seconds to answer: in fewer blocks it would take no job."""
    assert choose_clock(block_seconds) == blocks


def test_a_net_without_such_an_arithmetic_does_not_begin() -> None:
    """An arithmetic that there is none of, and a leaf that no contract computes, are refused."""
    for more in (("--arithmetic", "exakt"), ("--arithmetic", "logged", "--leaf", "scalar")):
        line = complaint(moot("testnet", "up", *more), status=2)
        assert "exact" in line or "choose the leaf operator" in line
