"""The published method between two processes on unlike hardware, counted step by step."""

import tempfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from offchain.replication.compare import Process, Setting, running
from offchain.replication.orders import Method
from offchain.replication.profiles import Profile
from offchain.replication.published.store import name_log
from offchain.replication.published.thresholds import PIVOT, Thresholds
from offchain.replication.published.training import METHOD, Part
from offchain.replication.timing import Ratios, average_seconds


@dataclass(frozen=True, slots=True)
class Options:
    """The settings of the method.

    Attributes:
        bits: those that a rounding keeps, 23 to 32.
        pivot: of the thresholds, 0 to 0.5.
        chosen: thresholds of layers by kind and size, as `thresholds.select` finds them.
        checkpoint_every: after how many steps the parties commit to their weights.
        timed: whether each step is also computed without rounding, in binary64 and binary32.
    """

    bits: int = 32
    pivot: float = PIVOT
    chosen: Mapping[str, float] = field(default_factory=dict)
    checkpoint_every: int = 1
    timed: bool = False

    def __post_init__(self) -> None:
        Thresholds(self.bits, self.pivot, self.chosen)


def make_method(part: Part) -> Method:
    """Return the method by which a worker does a party's part."""
    return Method(METHOD, asdict(part))


@dataclass(frozen=True, slots=True)
class LoggedStep:
    """A step of a trainer and of an auditor.

    Attributes:
        step: its number.
        differing: how many weights differ after it, as binary32.
        weights: how many there are.
        trainer: the trainer's report: for each stream what it rounded and logged; its seconds.
        auditor: the auditor's, and what it corrected.
        log_bytes: the log's.
        compressed_bytes: the same by zlib.
    """

    step: int
    differing: int
    weights: int
    trainer: Mapping[str, Any]
    auditor: Mapping[str, Any]
    log_bytes: int
    compressed_bytes: int


@dataclass(frozen=True, slots=True)
class Counts(Ratios):
    """What a trainer's and an auditor's steps come to.

    Attributes:
        steps: how many there are.
        differing_steps: after how many the weights differed, as binary32.
        first_differing_step: the first of them, if any.
        corrections_forward: roundings of outputs that the auditor turned, in all steps.
        corrections_backward: likewise of gradients.
        entries_per_step: codes in a step's log.
        log_bytes_per_step: bytes of a step's log.
        compressed_bytes_per_step: the same by zlib.
        steerable_share: the share of the roundings that lie in the auditor's logging region, where
            it follows whatever direction the trainer logs.
        seconds: seconds a step of "trainer" and "auditor"; with a step that is timed, also of
            "trainer_binary64" and so on: the same steps without rounding, taken in alternation.
            The first of several steps is left out.
    """

    steps: int
    differing_steps: int
    first_differing_step: int | None
    corrections_forward: int
    corrections_backward: int
    entries_per_step: float
    log_bytes_per_step: float
    compressed_bytes_per_step: float
    steerable_share: float
    seconds: Mapping[str, float]


def replicate(
    setting: Setting, trainer: Profile, auditor: Profile, options: Options
) -> Iterator[LoggedStep]:
    """Let a trainer log its steps under one profile and an auditor repeat them under another.

    `summarize` makes the counts of what this yields after every step. The arithmetic of the setting
    plays no part: stock torch computes, in binary64.

    Raises:
        ReplicationError: a process fails; its message says why, for example that a model computes
            in another type than binary64.
    """
    with tempfile.TemporaryDirectory(prefix="moot-") as directory:
        parts = [
            Part(
                directory,
                writes,
                options.bits,
                options.pivot,
                options.chosen,
                timed=options.timed,
            )
            for writes in (True, False)
        ]
        with running(setting, (trainer, auditor), [make_method(part) for part in parts]) as pair:
            for step in range(setting.steps):
                yield _replicate_step(step, pair, name_log(Path(directory), step))


def _replicate_step(step: int, pair: Sequence[Process], log: Path) -> LoggedStep:
    """Make one step of both, the trainer's first, and remove its log."""
    results = []
    for process in pair:
        process.begin()
        results.append(process.finish())
    words = [[array.view(np.uint32) for array in result] for result in results]
    data = log.read_bytes()
    log.unlink()
    trainer, auditor = (process.report for process in pair)
    return LoggedStep(
        step,
        sum(int(np.count_nonzero(a != b)) for a, b in zip(*words, strict=True)),
        sum(array.size for array in words[0]),
        trainer,
        auditor,
        len(data),
        len(zlib.compress(data)),
    )


def summarize(steps: Sequence[LoggedStep]) -> Counts:
    """Return the counts of one step or more."""
    differing = [step.step for step in steps if step.differing]
    rounded = sum(_sum_streams(step.auditor, "elements") for step in steps)
    logged = sum(_sum_streams(step.auditor, "logged") for step in steps)
    return Counts(
        len(steps),
        len(differing),
        min(differing, default=None),
        sum(step.auditor["corrected_forward"] for step in steps),
        sum(step.auditor["corrected_backward"] for step in steps),
        rounded / len(steps),
        sum(step.log_bytes for step in steps) / len(steps),
        sum(step.compressed_bytes for step in steps) / len(steps),
        logged / rounded,
        average_seconds(steps),
    )


def _sum_streams(report: Mapping[str, Any], name: str) -> int:
    return int(report[f"{name}_forward"] + report[f"{name}_backward"])
