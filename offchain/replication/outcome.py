"""The outcome of a training that is replicated, in whichever way: in an arithmetic, or by a log."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from offchain.arithmetic.logged import LOGGED
from offchain.errors import UsageError
from offchain.replication import proven
from offchain.replication.compare import Setting, compare, summarize
from offchain.replication.profiles import Profile
from offchain.replication.published import replicate as published
from offchain.replication.timing import Ratios, average_seconds


@dataclass(frozen=True, slots=True)
class Outcome(Ratios):
    """What a trainer's and an auditor's steps come to.

    Attributes:
        steps: how many there are.
        differing_steps: after how many the states differed.
        first_differing_step: the first of them, if any.
        corrections: roundings that the auditor has turned, in all steps.
        log_bytes_per_step: bytes of a step's log.
        steerable_share: the share of all roundings that the trainer could turn.
        seconds: as in `Ratios`.
    """

    steps: int
    differing_steps: int
    first_differing_step: int | None
    corrections: int
    log_bytes_per_step: float
    steerable_share: float
    seconds: Mapping[str, float]


Report = Callable[[int], None]
"""Is told how many steps are done."""


def replicate(
    setting: Setting, trainer: Profile, auditor: Profile, method: str, report: Report
) -> Outcome:
    """Train under two profiles in the setting's arithmetic, and count.

    Args:
        setting: what is trained; it has an arithmetic.
        trainer: the trainer's profile.
        auditor: the auditor's.
        method: how the roundings of `logged` are logged: one of `METHODS`.
        report: is told how many steps are done.

    Raises:
        UsageError: there is no such method.
        ReplicationError: a process fails.
    """
    if method not in METHODS:
        raise UsageError.unknown("method", method, METHODS)
    way = METHODS[method] if setting.arithmetic == LOGGED.name else _compute
    return way(replace(setting, timed=True), trainer, auditor, report)


def _compute(setting: Setting, trainer: Profile, auditor: Profile, report: Report) -> Outcome:
    """Compute in an arithmetic that needs no log."""
    steps = _collect(compare(setting, trainer, auditor), report)
    summary = summarize(steps)
    first = summary.first_differing_step
    return Outcome(len(steps), summary.differing_steps, first, 0, 0, 0, average_seconds(steps))


def _prove(setting: Setting, trainer: Profile, auditor: Profile, report: Report) -> Outcome:
    """Log what proven bounds leave in doubt."""
    counts = proven.summarize(
        _collect(proven.replicate(setting, trainer, auditor, timed=True), report)
    )
    return Outcome(
        counts.steps,
        counts.differing_steps,
        counts.first_differing_step,
        counts.corrections,
        counts.log_bytes_per_step,
        counts.steerable_share,
        counts.seconds,
    )


def _publish(setting: Setting, trainer: Profile, auditor: Profile, report: Report) -> Outcome:
    """Log as published."""
    options = published.Options(timed=True)
    counts = published.summarize(
        _collect(published.replicate(setting, trainer, auditor, options), report)
    )
    return Outcome(
        counts.steps,
        counts.differing_steps,
        counts.first_differing_step,
        counts.corrections_forward + counts.corrections_backward,
        counts.log_bytes_per_step,
        counts.steerable_share,
        counts.seconds,
    )


def _collect(steps: Iterator[Any], report: Report) -> Sequence[Any]:
    done = []
    for step in steps:
        done.append(step)
        report(len(done))
    return done


METHODS: Mapping[str, Callable[[Setting, Profile, Profile, Report], Outcome]] = {
    "proven": _prove,
    "published": _publish,
}
"""The ways to log roundings, by name; the first is the default."""
