"""The runner of a page's market: one process at a time, and what is known of its run."""

import json
import threading
from typing import Any, Self

from moot.offchain.children import end_by_input, start, tell
from moot.offchain.errors import UsageError
from moot.sim.economy.config import Config, show_config
from moot.sim.economy.spans import count_burn_in
from moot.sim.live.watch import POINTS, Point

END_S = 5.0
"""Seconds after which a process is killed that does not end with its input."""
CHILD = "moot.sim.live.child"
"""The program of the process that plays."""
BEGINS, RUNS, DONE, FAILED, STOPPED = "begins", "runs", "done", "failed", "stopped"


class _Played:
    """A run that is played in a process of its own, and what that has said so far.

    Args:
        number: of the run.
        config: what is played.
    """

    def __init__(self, number: int, config: Config) -> None:
        self._number, self._config = number, config
        self._burn_in = count_burn_in(config)
        self._lock = threading.Lock()
        self._status, self._problem = BEGINS, ""
        self._progress: dict[str, Any] | None = None
        self._points: dict[int, Point] = {}
        self._counts: dict[str, Any] | None = None
        self._process = start(CHILD)
        tell(self._process, show_config(config))
        self._thread = threading.Thread(target=self._listen, name="market", daemon=True)
        self._thread.start()

    def end(self) -> None:
        """End the process, whatever it is at."""
        with self._lock:
            if self._status in {BEGINS, RUNS}:
                self._status = STOPPED
        end_by_input(self._process, END_S)
        self._thread.join()
        assert self._process.stdout is not None
        self._process.stdout.close()

    def describe(self) -> dict[str, Any]:
        """Return what is known of the run, as plain values."""
        config = self._config
        with self._lock:
            return {
                "run": self._number,
                "status": self._status,
                "problem": self._problem or None,
                "seed": config.seed,
                "jobs": config.jobs,
                "burn_in": self._burn_in,
                "progress": self._progress,
                "most_points": min(config.jobs, POINTS),
                "points": [self._points[place] for place in sorted(self._points)],
                "counts": self._counts,
            }

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            with self._lock:
                self._take(json.loads(line))
        status = self._process.wait()
        with self._lock:
            if self._status in {BEGINS, RUNS}:
                self._status = FAILED
                self._problem = (
                    f"the process that plays the market has ended with status {status}; "
                    "move a slider to play it again"
                )

    def _take(self, said: dict[str, Any]) -> None:
        if self._status not in {BEGINS, RUNS}:
            return
        self._status = RUNS
        if "point" in said:
            self._points[said["place"]] = said["point"]
        elif "what" in said:
            self._progress = said
        elif "problem" in said:
            self._status, self._problem = FAILED, said["problem"]
        else:
            self._status, self._counts = DONE, said["counts"]


class Runner:
    """The runs of a page, one after the other; a context manager that ends the last of them.

    Args:
        config: what is played first.
    """

    def __init__(self, config: Config) -> None:
        self._first = config
        self._turn = threading.Lock()
        self._number = 0
        self._played: _Played | None = None

    def __enter__(self) -> Self:
        self.play(self._first)
        return self

    def __exit__(self, *_: object) -> None:
        with self._turn:
            if self._played is not None:
                self._played.end()

    def play(self, config: Config) -> None:
        """End what is played, and play another market."""
        with self._turn:
            if self._played is not None:
                self._played.end()
            self._number += 1
            try:
                self._played = _Played(self._number, config)
            except OSError as error:
                raise UsageError(f"no process can be begun: {error.strerror}; try again") from error

    def describe(self) -> dict[str, Any]:
        """Return what is known of the run that was begun last, as plain values."""
        played = self._played
        assert played is not None, "nothing was played yet"
        return played.describe()
