"""A party of several jobs: what fails about one of them is waited for, and holds up no other."""

from types import SimpleNamespace
from typing import Any

import pytest

from moot.offchain.errors import ChainUnavailable, StoreError
from moot.offchain.parties.daemon import PartyDaemon, Work
from moot.offchain.parties.workshop import Result


class Kept(PartyDaemon):
    """A daemon with jobs of which it only notes what is done; `broken` ones fail."""

    def __init__(self, broken: set[int], failure: Exception) -> None:
        self.broken, self.failure = broken, failure
        self.done: list[int] = []
        self.waiting: list[int] = []
        self.told: list[str] = []
        referee = SimpleNamespace(news=[], look=lambda: None, block_gas=lambda: 1)
        chain = SimpleNamespace(tend=lambda: None)
        tell = lambda event, line, **_: self.told.append(f"{event} {line}")  # noqa: E731 - a fake
        settings = SimpleNamespace(block_seconds=1.0)
        self.context: Any = SimpleNamespace(
            referee=referee, chain=chain, tell=tell, settings=settings
        )
        self.works = {}
        self.workshop: Any = SimpleNamespace(collect=list)
        self._publisher: Any = SimpleNamespace(tend=lambda: None)
        self._results: list[Result] = []
        self._is_eager, self._has_looked, self._disk_problem = False, False, ""

    def _do(self, job_id: int) -> None:
        if job_id in self.broken:
            raise self.failure
        self.done.append(job_id)

    def _begin(self, job_id: int) -> None:
        self._do(job_id)

    def _advance(self, work: Work) -> None:
        self._do(work.job_id)

    def _take_result(self, work: Work, result: Result) -> None:
        del work
        self._do(result.job_id)

    def wait(self, work: Work, problem: str) -> None:
        """Note that a job waits."""
        self.waiting.append(work.job_id)
        assert problem == str(self.failure)


def give_jobs(daemon: Kept) -> None:
    """Let a daemon have three jobs."""
    works: Any = {it: SimpleNamespace(job_id=it, seat=None) for it in range(3)}
    daemon.works = works


def test_no_result_is_lost_if_the_node_fails() -> None:
    """What comes after a result that could not be dealt with is dealt with at the next turn."""
    daemon = Kept({1}, ChainUnavailable("here", "it is gone"))
    give_jobs(daemon)
    results = [[Result(it, "no store", is_final=False) for it in range(3)], []]
    daemon.workshop.collect = lambda: results.pop(0)
    with pytest.raises(ChainUnavailable):
        daemon.take_turn()
    assert daemon.done == [0]
    daemon.broken.clear()
    daemon.take_turn()
    assert daemon.done[:3] == [0, 1, 2]


def test_a_disk_that_fails_for_one_job_holds_up_no_other() -> None:
    """The job whose files fail waits; the others are looked after in the same turn."""
    daemon = Kept({1}, StoreError("the disk is full"))
    give_jobs(daemon)
    daemon.take_turn()
    assert (daemon.done, daemon.waiting) == ([0, 2], [1])


def test_a_job_without_a_folder_stays_news() -> None:
    """A job whose folder can't be made is told of once, and taken up as soon as it can."""
    daemon = Kept({1}, StoreError("the disk is full"))
    daemon.context.referee.news = [0, 1, 2]
    for _ in range(2):
        daemon.take_turn()
    assert (daemon.done, daemon.context.referee.news) == ([0, 2], [1])
    assert daemon.told == ["failed job 1 has to wait: the disk is full"]
    daemon.broken.clear()
    daemon.take_turn()
    assert (daemon.done, daemon.context.referee.news) == ([0, 2, 1], [])
