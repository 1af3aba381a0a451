"""The published method between two processes on unlike hardware, counted step by step."""

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from moot.offchain.replication.compare import Setting, Step
from moot.offchain.replication.logs import compare_by_log
from moot.offchain.replication.orders import Method
from moot.offchain.replication.outcome import Outcome, count, get_share
from moot.offchain.replication.profiles import Profile
from moot.offchain.replication.published.logs import STREAMS
from moot.offchain.replication.published.thresholds import PIVOT, Thresholds
from moot.offchain.replication.published.training import METHOD, Part


@dataclass(frozen=True, slots=True)
class Options:
    """The settings of the method.

    Attributes:
        bits: those that a rounding keeps, 23 to 32.
        pivot: of the thresholds, 0 to 0.5.
        chosen: thresholds of layers by kind and size, as `thresholds.select` finds them.
        checkpoint_every: after how many steps the parties commit to their weights.
    """

    bits: int = 32
    pivot: float = PIVOT
    chosen: Mapping[str, float] = field(default_factory=dict)
    checkpoint_every: int = 1

    def __post_init__(self) -> None:
        Thresholds(self.bits, self.pivot, self.chosen)


DEFAULT = Options()
"""The paper's settings."""


def make_method(part: Part) -> Method:
    """Return the method by which a worker does a party's part."""
    return Method(METHOD, asdict(part))


@dataclass(frozen=True, slots=True)
class Counts(Outcome):
    """What a trainer's and an auditor's steps come to; the weights are compared as binary32.

    The auditor follows whatever direction the trainer logs in its logging region, which is the
    steerable share.

    Attributes:
        corrections_forward: roundings of outputs that the auditor turned, in all steps.
        corrections_backward: likewise of gradients.
        entries_per_step: codes in a step's log.
        compressed_bytes_per_step: bytes of a step's log by zlib.
    """

    corrections_forward: int
    corrections_backward: int
    entries_per_step: float
    compressed_bytes_per_step: float


def replicate(
    setting: Setting, trainer: Profile, auditor: Profile, options: Options = DEFAULT
) -> Iterator[Step]:
    """Let a trainer log its steps under one profile and an auditor repeat them under another.

    `summarize` makes the counts of what this yields after every step. The arithmetic of the setting
    plays no part: stock torch computes, in binary64.

    Raises:
        UsageError: the model is unknown, or computes in another type than binary64.
        ReplicationError: a process fails.
    """
    with tempfile.TemporaryDirectory(prefix="moot-") as directory:
        rule = Part(directory, True, options.bits, options.pivot, options.chosen)
        methods = [make_method(part) for part in (rule, replace(rule, writes=False))]
        yield from compare_by_log(setting, (trainer, auditor), methods, Path(directory))


def summarize(steps: Sequence[Step]) -> Counts:
    """Return the counts of one step or more."""
    forward, backward = (sum(s.auditor[f"corrected_{name}"] for s in steps) for name in STREAMS)
    rounded = sum(_sum_streams(step.auditor, "elements") for step in steps)
    logged = sum(_sum_streams(step.auditor, "logged") for step in steps)
    return Counts(
        **asdict(count(steps, forward + backward, get_share(logged, rounded))),
        corrections_forward=forward,
        corrections_backward=backward,
        entries_per_step=rounded / len(steps),
        compressed_bytes_per_step=sum(step.compressed_bytes for step in steps) / len(steps),
    )


def _sum_streams(report: Mapping[str, Any], name: str) -> int:
    return sum(int(report[f"{name}_{stream}"]) for stream in STREAMS)
