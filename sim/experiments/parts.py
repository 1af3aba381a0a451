"""Parts of a results folder: what one run leaves, which appears as a whole or not at all."""

import json
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

from moot.offchain.errors import CannotWrite, MootError
from moot.offchain.native.memory import get_peak_bytes
from moot.sim.economy.config import Config
from moot.sim.economy.ledger import BrokenLedgerError
from moot.sim.economy.records import Tables
from moot.sim.economy.reporting import Counts, InvalidRunError, Sink
from moot.sim.experiments.plan import Run
from moot.sim.writing import reporting

RESULT = "run.json"
"""The file of a part that says how its run has ended."""

LONGEST_ERROR = 300
"""Characters of an error that are kept."""

DONE, FAILED = "done", "failed"

Progress = Callable[[str, int, int], None]
"""Whatever is told of long work: its name, how much is done, and how much there is."""


def ignore(what: str, done: int, total: int) -> None:
    """Show no progress."""
    del what, done, total


class Play(Protocol):
    """A function that plays one run; other processes import it by its name."""

    def __call__(self, config: Config, sink: Sink, run: int, progress: Progress) -> Counts:
        """Play a run and write the rows of its tables; the first value of a row is `run`."""


@dataclass(frozen=True, slots=True)
class Ended:
    """The end of a run: its error in one line, if it failed, and its process's largest size."""

    number: int
    error: str | None
    peak_mib: float


def play_part(play: Play, run: Run, parts: Path, progress: Progress = ignore) -> Ended:
    """Play a run, and leave its part in a folder of its number.

    A run that fails leaves no rows, and says why it failed.

    Args:
        play: plays it.
        run: the run.
        parts: the folder of parts.
        progress: is told how far the run is.

    Raises:
        CannotWrite: the operating system refuses; there is no part then.
    """
    with reporting(parts):
        aside = Path(tempfile.mkdtemp(prefix=".", dir=parts))
    try:
        ended = _fill(play, run, aside, progress)
        with reporting(parts):
            aside.rename(parts / str(run.number))
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    return ended


def _fill(play: Play, run: Run, aside: Path, progress: Progress) -> Ended:
    told: dict[str, Any] = {"status": DONE, "error": None}
    try:
        with Tables(aside) as tables:
            told |= asdict(play(run.config, tables, run.number, progress))
    except CannotWrite:
        raise
    except Exception as failure:  # noqa: BLE001 - whatever a run raises is its result
        told = {"status": FAILED, "error": say_failure(failure), **_count(failure)}
        for path in aside.iterdir():
            path.unlink()
    with reporting(aside / RESULT):
        (aside / RESULT).write_text(json.dumps(told) + "\n", encoding="utf-8")
    return Ended(run.number, told["error"], get_peak_bytes() / 2**20)


def read_result(part: Path) -> dict[str, Any]:
    """Return how a part's run has ended: the columns of `runs` that the run itself knows."""
    told: dict[str, Any] = json.loads((part / RESULT).read_text(encoding="utf-8"))
    return told


def _count(error: Exception) -> dict[str, int]:
    """Return the counts of a run that has failed, as far as they are known."""
    if isinstance(error, InvalidRunError):
        return asdict(error.counts)
    return {"violations": int(isinstance(error, BrokenLedgerError))}


def say_failure(error: Exception) -> str:
    """Return an error in one line; its type, too, if it is none that we raise on purpose."""
    text = " ".join(str(error).split())
    if not isinstance(error, MootError):
        text = f"{type(error).__name__}: {text}" if text else type(error).__name__
    return text[:LONGEST_ERROR].encode("utf-8", "backslashreplace").decode()
