"""The replication of a training, in an arithmetic that needs no log, or by a log."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from moot.offchain.arithmetic.logged import LOGGED
from moot.offchain.errors import UsageError
from moot.offchain.replication import proven
from moot.offchain.replication.compare import Setting, Step, compare
from moot.offchain.replication.outcome import Outcome, count
from moot.offchain.replication.profiles import Profile
from moot.offchain.replication.published import replicate as published
from moot.offchain.replication.published import training

Way = Callable[[Setting, Profile, Profile], Iterator[Step]]

METHODS: Mapping[str, tuple[Way, Callable[[Sequence[Step]], Outcome]]] = {
    proven.METHOD: (proven.replicate, proven.summarize),
    training.METHOD: (published.replicate, published.summarize),
}
"""How to log roundings, and to count what comes of it, by name; the first is the default."""


def replicate(
    setting: Setting,
    trainer: Profile,
    auditor: Profile,
    method: str,
    report: Callable[[int], None],
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
    is_logged = setting.arithmetic == LOGGED.name
    train, summarize = METHODS[method] if is_logged else (compare, count)
    done = []
    for step in train(replace(setting, timed=True), trainer, auditor):
        done.append(step)
        report(len(done))
    return summarize(done)
