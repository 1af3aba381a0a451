"""The workshop and its process: whatever ends one of them, the other does not wait for it."""

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pytest

from moot.offchain.disputes.availability.demands import Lack, TensorProof
from moot.offchain.parties import workshop as workshops
from moot.offchain.parties.settings import Settings
from moot.offchain.parties.workshop import (
    Checks,
    Errand,
    Result,
    Workshop,
    decode_lack,
    encode_lack,
)
from tests.parties.sleeper import DEADLY, DEATH, STUCK

NOWHERE = Settings(chain="http://127.0.0.1:1,http://127.0.0.1:2", referee="0x" + "ab" * 20)
PATIENCE_S = 60.0


@pytest.mark.slow
@pytest.mark.parametrize("told", ["", '{"chain": "http', "{}\n[0, "])
def test_a_worker_whose_party_dies_says_nothing(told: str) -> None:
    """The input ends before the settings, within them, or within a job: the worker ends."""
    words = [sys.executable, "-m", "moot.offchain.parties.worker"]
    done = subprocess.run(  # noqa: S603 - ours
        words, input=told, capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_what_is_lacking_survives_the_way_between_two_processes() -> None:
    """What is written as JSON is read as it was: places, and what shows that there are chunks."""
    tensors = {(1, 0): TensorProof(b"\1\0", b"\7" * 32, (b"\1" * 32, b"\2" * 32))}
    for lack in (Lack(), Lack(((1, 0, 3), (0, 2, 0)), 9, tensors)):
        assert decode_lack(json.loads(json.dumps(encode_lack(lack)))) == lack


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_worker_that_is_not_heard_any_more_is_given_up() -> None:
    """If telling fails, the job comes back as one that was not computed, and is tried again."""

    def tell(event: str, line: str, **about: object) -> None:
        raise OSError(event, line, about)

    with Workshop(NOWHERE, tell) as workshop:
        workshop.submit(Errand(7, Checks.NONE))
        found: list[Result] = []
        end = time.monotonic() + PATIENCE_S
        while not found and time.monotonic() < end:
            found = workshop.collect()
            time.sleep(0.05)
    ((job_id, is_final),) = [(it.job_id, it.is_final) for it in found]
    assert (job_id, is_final) == (7, False)


@dataclass
class Shop:
    """A workshop whose process computes nothing, and what it has told."""

    workshop: Workshop
    running: list[int]
    results: list[Result] = field(default_factory=list)

    def wait(self, is_over: Callable[[], bool], *, collects: bool = True) -> None:
        """Collect results until something holds, or merely wait for it."""
        end = time.monotonic() + PATIENCE_S
        while not is_over():
            assert time.monotonic() < end, (self.running, self.results)
            self.results += self.workshop.collect() if collects else []
            time.sleep(0.01)

    def wait_for(self, *done: int) -> None:
        """Collect results until these are all, and are what the process has told."""
        self.wait(lambda: len(self.results) >= len(done))
        assert [it.job_id for it in self.results] == [*done]
        told = [it for it in self.results if not it.is_final]
        assert told == [Result(it.job_id, "", False, Lack((), it.job_id)) for it in told]


@pytest.fixture
def shop(monkeypatch: pytest.MonkeyPatch) -> Iterator[Shop]:
    """A workshop that is at nothing."""
    monkeypatch.setattr(workshops, "WORKER", "tests.parties.sleeper")
    running: list[int] = []

    def tell(event: str, line: str, **about: object) -> None:
        del event, line
        running.append(int(str(about["job"])))

    with Workshop(NOWHERE, tell) as workshop:
        yield Shop(workshop, running)
        workshop.cancel(STUCK)


def test_a_job_begins_without_anybody_who_collects_results(shop: Shop) -> None:
    """It begins when it is submitted, or when what it has waited for is cancelled."""
    shop.workshop.submit(Errand(STUCK, Checks.ALL))
    shop.wait(lambda: shop.running == [STUCK], collects=False)
    shop.workshop.submit(Errand(1, Checks.ALL))
    shop.workshop.cancel(STUCK)
    shop.wait(lambda: shop.running == [STUCK, 1], collects=False)
    shop.wait_for(1)


def test_a_process_that_was_ended_says_nothing_more(shop: Shop) -> None:
    """It is killed at once and buried, and that its output has ended is nobody's result."""
    shop.workshop.submit(Errand(STUCK, Checks.ALL))
    shop.wait(lambda: shop.running == [STUCK])
    process, began = shop.workshop._process, time.monotonic()
    shop.workshop.cancel(STUCK)
    assert time.monotonic() - began < workshops.END_S
    assert process is not None
    assert process.returncode is not None
    shop.wait(lambda: not shop.workshop._results.empty(), collects=False)
    assert shop.workshop.collect() == []


def test_the_time_that_a_job_took_before_it_gave_way_counts(shop: Shop) -> None:
    """It has taken too long while another is computed, and is not begun again."""
    shop.workshop.submit(Errand(STUCK, Checks.ALL, limit_s=100.0, spent_s=99.9))
    shop.wait(lambda: shop.running == [STUCK], collects=False)
    time.sleep(0.1)
    shop.workshop.submit(Errand(1, Checks.NONE))
    shop.wait(lambda: len(shop.results) == 2)
    assert {it.job_id: it.is_final for it in shop.results} == {STUCK: True, 1: False}
    assert shop.running == [STUCK, 1]


def test_what_a_claim_needs_never_waits_for_a_check(shop: Shop) -> None:
    """A job that is checked gives way to one that has to be computed, and is taken up again."""
    shop.workshop.submit(Errand(STUCK, Checks.ALL, worth=5.0))
    shop.wait(lambda: shop.running == [STUCK])
    shop.workshop.submit(Errand(1, Checks.NONE))
    shop.wait_for(1)
    shop.wait(lambda: shop.running == [STUCK, 1, STUCK])


def test_what_a_claim_needs_does_not_end_what_another_needs(shop: Shop) -> None:
    """The second waits, and when the workshop ends, its process has ended, too."""
    shop.workshop.submit(Errand(STUCK, Checks.NONE))
    shop.wait(lambda: shop.running == [STUCK])
    process = shop.workshop._process
    shop.workshop.submit(Errand(1, Checks.NONE))
    assert shop.workshop._process is process
    shop.workshop.cancel(STUCK)
    shop.wait_for(1)
    assert shop.running == [STUCK, 1]
    process = shop.workshop._process
    assert process is not None
    shop.workshop.__exit__()
    assert process.returncode is not None


def test_what_is_cancelled_is_not_begun(shop: Shop) -> None:
    """A job that waits is forgotten, and whatever else waits is not."""
    shop.workshop.submit(Errand(STUCK, Checks.ALL, worth=1.0))
    shop.wait(lambda: shop.running == [STUCK])
    for job_id in (1, 2):
        shop.workshop.submit(Errand(job_id, Checks.ALL))
    shop.workshop.cancel(1)
    shop.workshop.cancel(STUCK)
    shop.wait_for(2)
    assert shop.running == [STUCK, 2]


def test_jobs_go_by_what_they_pay_for_what_they_cost(shop: Shop) -> None:
    """The best is first of those that wait, whoever came first; none ends what is computed."""
    shop.workshop.submit(Errand(STUCK, Checks.ALL, worth=1.0, limit_s=100.0))
    shop.wait(lambda: shop.running == [STUCK])
    process = shop.workshop._process
    for job_id, worth in ((1, 0.0), (2, 1.5), (3, 1.8)):
        shop.workshop.submit(Errand(job_id, Checks.ALL, worth))
    shop.workshop.submit(Errand(4, Checks.ALL, worth=1e9))
    assert shop.workshop.collect() == []
    assert shop.workshop._process is process
    shop.workshop.cancel(STUCK)
    shop.wait_for(4, 3, 2, 1)
    assert shop.running == [STUCK, 4, 3, 2, 1]


def test_a_job_that_takes_too_long_is_given_up(shop: Shop) -> None:
    """It is left with one line, wherever its process hangs, and the next one is computed."""
    shop.workshop.submit(Errand(STUCK, Checks.ALL, worth=2.0, limit_s=0.0))
    shop.workshop.submit(Errand(1, Checks.ALL))
    shop.wait_for(STUCK, 1)
    assert shop.results[0].is_final
    assert shop.results[0].problem == "it takes more than 0 seconds; it is given up"


def test_a_job_that_has_waited_too_long_is_not_begun(shop: Shop) -> None:
    """What can't be claimed any more is no work, while another job goes on."""
    shop.workshop.submit(Errand(STUCK, Checks.ALL, worth=2.0))
    shop.workshop.submit(Errand(1, Checks.ALL, until=time.monotonic()))
    shop.wait_for(1)
    assert shop.results[0].is_final
    assert 1 not in shop.running


def test_a_job_of_which_processes_die_is_tried_twice(shop: Shop) -> None:
    """Then it is left, unless a claim of it has to be defended."""
    for checks, ends in ((Checks.ALL, [False, True]), (Checks.NONE, [False, False])):
        found = []
        for _ in range(2):
            shop.workshop.submit(Errand(DEADLY, checks, worth=1.0))
            shop.wait(lambda: bool(shop.results))
            found += [it.is_final for it in shop.results]
            (problem,) = [it.problem for it in shop.results]
            assert problem == f"the process that computes has ended with status {DEATH}"
            shop.results.clear()
        assert found == ends
