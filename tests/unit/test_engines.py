"""Engines: a run whose process dies is tried again, a few times, and leaves what it always does."""

import os
import signal
import subprocess
from functools import partial
from pathlib import Path

import pytest

from moot.offchain.errors import UsageError
from moot.sim.economy.config import Config
from moot.sim.economy.reporting import Counts, Sink
from moot.sim.experiments.engines import TRIES, Engine, Here, Processes, SweepError
from moot.sim.experiments.parts import Progress, ignore
from moot.sim.experiments.plan import Run, make_plan
from moot.sim.experiments.ray_engine import Ray
from moot.sim.experiments.values import parse_varied

RUNS = 5


def play_until(
    folder: Path, deaths: int, config: Config, sink: Sink, run: int, progress: Progress
) -> Counts:
    """Play a run that needs no market; the third kills its process, as often as is said."""
    del progress
    if run == 2:
        for death in range(deaths):
            try:
                (folder / f"death-{death}").touch(exist_ok=False)
            except FileExistsError:
                continue
            os.kill(os.getpid(), signal.SIGKILL)
    sink.add("events", (run, 0, "entry", 0, None, str(config.seed)))
    return Counts(jobs=run)


def list_runs() -> list[Run]:
    """Return some runs."""
    plan = make_plan(Config(), parse_varied(["bond.eth=1:5:1"]))
    return list(plan.list_runs())


def play(engine: Engine, folder: Path, deaths: int) -> dict[str, bytes]:
    """Play the runs, and return the files that they leave."""
    parts = folder / "parts"
    parts.mkdir(parents=True)
    with engine.open() as player:
        ended = list(player(partial(play_until, folder, deaths), list_runs(), parts, ignore))
    assert sorted(it.number for it in ended) == list(range(RUNS))
    assert all(it.error is None for it in ended)
    whole = [part for part in parts.iterdir() if part.name.isdecimal()]
    return {f"{it.parent.name}/{it.name}": it.read_bytes() for p in whole for it in p.iterdir()}


@pytest.mark.slow
def test_a_lost_run_is_tried_again(tmp_path: Path) -> None:
    """A process that dies twice in a run changes no byte of what all runs leave."""
    plain = play(Here(), tmp_path / "plain", 0)
    lossy = play(Processes(2), tmp_path / "lossy", TRIES - 1)
    assert len(list((tmp_path / "lossy").glob("death-*"))) == TRIES - 1
    assert lossy == plain


def test_a_run_that_is_always_lost_is_given_up(tmp_path: Path) -> None:
    """A run that kills its process each time ends the sweep, with what to do, after a few tries."""
    with pytest.raises(SweepError, match=f"lost {TRIES} times.*with fewer processes"):
        play(Processes(1), tmp_path / "lossy", 100)
    assert len(list((tmp_path / "lossy").glob("death-*"))) == TRIES


SAID = {
    "RPC error: InvalidAuthToken: Authentication token is missing or incorrect.": "asks for its",
    "Ray couldn't find an authentication token.": "asks for its",
    "Failed to get cluster ID from GCS server: TimedOut": "no Ray cluster answers",
}
"""What the check of Ray 2.60 has said on stderr: with a wrong token, without one, without Ray."""


@pytest.mark.parametrize("said", SAID)
def test_a_cluster_that_asks_for_a_token(said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the cluster wants is said in one line with what to set; another failure is another."""

    def fail(command: list[str], **_: object) -> None:
        raise subprocess.CalledProcessError(1, command, "", f"a trace\n{said} And so on.\n")

    monkeypatch.setattr(subprocess, "run", fail)
    with (
        pytest.raises(UsageError, match=SAID[said]) as refused,
        Ray(1, "auto").open(),
    ):
        pass
    assert "\n" not in refused.value.message
    assert ("RAY_AUTH_MODE=token" in refused.value.message) == (SAID[said] == "asks for its")
