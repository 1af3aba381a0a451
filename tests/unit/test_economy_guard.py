"""A user's strategy may do what it likes: it forfeits, and the market goes on."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import pytest

from moot.offchain.errors import UsageError
from moot.offchain.plugins import forget_files
from moot.sim.economy import limit
from moot.sim.economy.facts import Job, News, Own
from moot.sim.economy.guard import DECLINES, Guard
from moot.sim.economy.limit import Faulted, ask
from moot.sim.economy.population import MOST_SILENCES
from moot.sim.economy.strategies.base import Strategy
from moot.sim.economy.streams import Stream
from tests.economy_helpers import make_config, make_group, play

JOB = Job(0, 5, 10**9, 10**8, 10**9, 10**6, 0.1, 10**7, 0, 0)
OWN = Own("me-1", 10**10, 0, 10**7, 0.5, 0, 0)
NEWS = News(0, 9, "honest", False, False, False, "right", 5, False, 0)

HEAD = """
from dataclasses import dataclass, field
from moot.sim.economy.strategies.base import Strategy

@dataclass
class Mine(Strategy):
"""


def raise_(error: BaseException) -> NoReturn:
    """Raise."""
    raise error


def loop() -> NoReturn:
    """Never answer."""
    while True:
        pass


def loop_and_catch() -> NoReturn:
    """Never answer, and catch whatever is raised."""
    while True:
        with contextlib.suppress(BaseException):
            sum(range(100))


def sleep_and_catch() -> NoReturn:
    """Sleep, and catch whatever wakes us."""
    while True:
        with contextlib.suppress(BaseException):
            time.sleep(0.05)


def answer_late() -> int:
    """Catch what stops us, and answer."""
    try:
        loop()
    except BaseException:  # noqa: BLE001 - that is the point
        return 3


class Unspeakable(Exception):  # noqa: N818 - a test's own
    """An error that has no text."""

    def __str__(self) -> str:
        raise ValueError


@pytest.mark.parametrize(
    "error",
    [
        ValueError("a\nb"),
        SystemExit(3),
        KeyboardInterrupt(),
        GeneratorExit(),
        MemoryError(),
        TimeoutError("slow"),
        StopIteration(),
        Unspeakable(),
        ValueError("\ud800" * 10_000),
    ],
    ids=lambda error: type(error).__name__,
)
def test_whatever_is_raised_is_one_line(error: BaseException) -> None:
    """Whatever code raises, exits and interrupts included, is a fault, said in one line."""
    with pytest.raises(Faulted) as found:
        ask(lambda: raise_(error))
    assert str(found.value).startswith(f"raises {type(error).__name__}")
    assert "\n" not in str(found.value)
    assert len(str(found.value).encode()) < 2000
    assert not found.value.is_silence


def test_endless_recursion_is_a_fault() -> None:
    """Code that calls itself for ever is stopped by Python, if others have not told it to wait."""

    def recurse() -> int:
        return recurse() + 1

    before = sys.getrecursionlimit()
    sys.setrecursionlimit(1000)  # Python's own; libraries of other tests may have raised it
    try:
        with pytest.raises(Faulted, match="raises RecursionError"):
            ask(recurse)
    finally:
        sys.setrecursionlimit(before)


@pytest.mark.parametrize("code", [loop, loop_and_catch, sleep_and_catch, answer_late])
def test_whoever_never_answers_is_stopped(
    code: Callable[[], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Code that loops or sleeps is stopped, even if it catches everything; so is its answer."""
    monkeypatch.setattr(limit, "BUSY_SECONDS", 0.02)
    monkeypatch.setattr(limit, "IDLE_SECONDS", 0.1)
    handlers = [signal.getsignal(it) for it in (signal.SIGALRM, signal.SIGPROF, signal.SIGINT)]
    with pytest.raises(Faulted, match="takes longer than") as found:
        ask(code)
    assert found.value.is_silence
    assert handlers == [
        signal.getsignal(it) for it in (signal.SIGALRM, signal.SIGPROF, signal.SIGINT)
    ]
    assert signal.getitimer(signal.ITIMER_PROF) == signal.getitimer(signal.ITIMER_REAL) == (0, 0)


def test_a_busy_machine_does_not_count_against_an_answer() -> None:
    """What computes for a fifth of a second is heard, though it takes two beside eight others."""
    processors = os.sched_getaffinity(0)
    hogs: list[subprocess.Popen[bytes]] = []
    try:
        os.sched_setaffinity(0, {min(processors)})
        hogs += [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(8)]
        time.sleep(0.5)
        began = time.monotonic()
        assert ask(compute_for_a_while) > 0
        assert time.monotonic() - began > limit.IDLE_SECONDS
    finally:
        os.sched_setaffinity(0, processors)
        for hog in hogs:
            hog.kill()
            hog.wait()


def compute_for_a_while() -> int:
    """Return a number after a fifth of a second of the processor's time."""
    until, count = time.process_time() + 0.2, 0
    while time.process_time() < until:
        count += 1
    return count


def test_a_users_interrupt_is_obeyed() -> None:
    """An interrupt of the process is no forfeit of the strategy that is being asked."""
    with pytest.raises(KeyboardInterrupt):
        ask(lambda: os.kill(os.getpid(), signal.SIGINT))


class Text(str):
    """A text that is equal to every other."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = str.__hash__


class Odd:
    """An object that does not show itself."""

    def __repr__(self) -> str:
        raise ValueError


ANSWERS = [True, 1.0, float("nan"), -1, "7", b"honest", [], Odd(), Text("honest"), 10**5000 * -1]


@pytest.mark.parametrize("answer", ANSWERS, ids=lambda it: type(it).__name__)
def test_what_is_no_answer_is_forfeited(answer: Any) -> None:
    """A bid is a whole number, a conduct a name that there is, and anything else a forfeit."""

    class Answering(Strategy):
        def bid(self, job: Job, own: Own) -> int:
            del job, own
            return answer  # type: ignore[no-any-return]

        decide = look = hear = lambda *_: answer  # type: ignore[assignment]

    said: list[str] = []
    guard = Guard(Answering(), said.append)
    stream = Stream(0, "test")
    assert guard.bid(JOB, OWN) == DECLINES
    assert guard.decide(JOB, OWN, stream) is None
    assert guard.look(JOB, OWN, stream) is None
    assert guard.hear(NEWS) is (answer is True)
    assert len(said) == 4 - (answer is True)
    assert all(len(line) < 300 for line in said)


@pytest.mark.parametrize(
    ("role", "conduct"), [("decide", "free-ride"), ("look", "shill"), ("look", "nonsense")]
)
def test_a_conduct_is_one_of_the_role(role: str, conduct: str) -> None:
    """A provider can't ride free, and a watcher can't open a job that is already there."""

    class Answering(Strategy):
        decide = look = lambda *_: conduct  # type: ignore[assignment]

    said: list[str] = []
    assert getattr(Guard(Answering(), said.append), role)(JOB, OWN, Stream(0, "test")) is None
    assert said == [f"answers '{conduct}', which is no conduct of its role"]


def write(folder: Path, body: str) -> str:
    """Write a strategy; return its name."""
    (folder / "mine.py").write_text(HEAD + body)
    return f"{folder / 'mine.py'}:Mine"


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("    def decide(self, job, own, stream): job.price_gwei = 1", "raises AttributeError"),
        ("    def decide(self, job, own, stream): raise SystemExit", "raises SystemExit"),
        ("    def bid(self, job, own): return True", "bids True"),
        ("    def decide(self, job, own, stream): stream.draw = 1", "raises AttributeError"),
        ("    def hear(self, news): news.clear()", "raises AttributeError"),
        ("    def decide(self, job): return 'honest'", "raises TypeError"),
        ("    def decide(self, job, own, stream): return 'sybil'", "can't pay for what it"),
    ],
)
def test_a_market_goes_on_without_a_bad_strategy(tmp_path: Path, body: str, why: str) -> None:
    """What a strategy forfeits stands in the events, and all jobs come to an end."""
    name = write(tmp_path, body)
    groups = [make_group("honest", count=4), {"strategy": name, "capital_eth": 2.5}]
    kept, counts = play(make_config(providers=groups))
    events = [row for row in kept.read("events") if row["kind"] == "forfeit"]
    assert events
    assert all(row["detail"].startswith(why) for row in events)
    assert counts.jobs == 200
    assert counts.right > 100


def test_whoever_is_always_silent_has_to_leave(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A strategy that loops costs a market a few times its patience, and not one for each job."""
    monkeypatch.setattr(limit, "BUSY_SECONDS", 0.01)
    name = write(tmp_path, "    def bid(self, job, own):\n        while True: pass")
    groups = [make_group("honest", count=4), make_group(name)]
    kept, counts = play(make_config(providers=groups, jobs=400))
    mine = next(row for row in kept.read("agents") if row["strategy"] == name)
    assert mine["forfeits"] == MOST_SILENCES
    assert mine["left"] is not None
    assert counts.jobs == 400


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("def (", "can't be run: SyntaxError"),
        ("from . import helper", "can't be run: ImportError"),
        ("import sys; sys.exit(2)", "can't be run: SystemExit: 2"),
        (HEAD + "    def __post_init__(self): 1 / 0", "can't be made: it raises ZeroDivisionError"),
        (HEAD + "    def __init__(self): raise SystemExit", "can't be made: it raises SystemExit"),
        (HEAD + "    rate: int", "can't be made: it raises TypeError"),
        (HEAD + "    def __post_init__(self):\n        while True: pass", "made: it takes longer"),
        (HEAD + "    rate: 'Missing' = 1", "can't be made: it raises NameError"),
        (HEAD + "    def __post_init__(self): self.censor_share = -5.0", "censor_share is -5.0"),
        (HEAD + "    def __post_init__(self): self.censor_share = True", "censor_share is True"),
        ("class Mine: pass", "has no dataclass Mine"),
        ("Mine = 3", "has no dataclass Mine"),
        ("from dataclasses import *\n@dataclass\nclass Mine: pass", "is no strategy"),
    ],
)
def test_a_file_that_holds_no_strategy_is_refused(tmp_path: Path, text: str, why: str) -> None:
    """A file that can't be used is one clear line that names it."""
    (tmp_path / "mine.py").write_text(text)
    with pytest.raises(UsageError) as found:
        play(make_config(providers=[{"strategy": f"{tmp_path / 'mine.py'}:Mine"}]))
    assert why in found.value.message
    assert "mine.py" in found.value.message
    assert "\n" not in found.value.message


def test_two_classes_in_a_file_are_two_strategies(tmp_path: Path) -> None:
    """A file may hold several strategies."""
    other = "@dataclass\nclass Other(Strategy):\n    def decide(self, *_): return 'lazy'\n"
    name = write(tmp_path, f"    pass\n{other}")
    groups = [make_group(name), make_group(name.replace(":Mine", ":Other"))]
    kept, _ = play(make_config(providers=groups))
    assert {row["conduct"] for row in kept.read("jobs")} >= {"honest", "lazy"}


def test_a_file_remembers_nothing_from_run_to_run(tmp_path: Path) -> None:
    """What a file keeps outside its objects is gone in the next run of the same process."""
    body = """    def decide(self, job, own, stream):
        SEEN.append(job.number)
        return "lazy" if len(SEEN) % 3 else "honest"
SEEN = [0]
"""
    config = make_config(providers=[{"strategy": write(tmp_path, body), "count": 4}])
    forget_files()
    one, _ = play(config)
    forget_files()
    other, _ = play(config)
    assert one.rows == other.rows
