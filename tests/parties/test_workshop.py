"""The workshop and its process: whatever ends one of them, the other does not wait for it."""

import subprocess
import sys
import time

import pytest

from offchain.parties.settings import Settings
from offchain.parties.workshop import Checks, Result, Workshop

pytestmark = pytest.mark.slow
NOWHERE = Settings(chain="http://127.0.0.1:1,http://127.0.0.1:2", referee="0x" + "ab" * 20)
PATIENCE_S = 60.0


@pytest.mark.parametrize("told", ["", '{"chain": "http', "{}\n[0, "])
def test_a_worker_whose_party_dies_says_nothing(told: str) -> None:
    """The input ends before the settings, within them, or within a job: the worker ends."""
    words = [sys.executable, "-m", "offchain.parties.worker"]
    done = subprocess.run(  # noqa: S603 - ours
        words, input=told, capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_worker_that_is_not_heard_any_more_is_given_up() -> None:
    """If telling fails, the job comes back as one that was not computed, and is tried again."""

    def tell(event: str, line: str, **about: object) -> None:
        raise OSError(event, line, about)

    with Workshop(NOWHERE, tell) as workshop:
        workshop.submit(7, Checks.NONE)
        found: list[Result] = []
        end = time.monotonic() + PATIENCE_S
        while not found and time.monotonic() < end:
            found = workshop.collect()
            time.sleep(0.05)
    ((job_id, is_final),) = [(it.job_id, it.is_final) for it in found]
    assert (job_id, is_final) == (7, False)
