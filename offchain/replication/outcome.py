"""The outcome of a training that is replicated, in whichever way: in an arithmetic, or by a log."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from moot.offchain.replication.compare import Step, summarize


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a trainer's and an auditor's steps come to.

    Attributes:
        steps: how many there are.
        differing_steps: after how many the states differed.
        first_differing_step: the first of them, if any.
        corrections: roundings that the auditor has turned, in all steps.
        log_bytes_per_step: bytes of a step's log.
        steerable_share: the share of all roundings that the trainer could turn.
        seconds: mean seconds of "trainer" and "auditor", and of the same steps by stock torch,
            "trainer_binary64" and so on, if they were timed, in alternation. The first of several
            steps is left out.
    """

    steps: int
    differing_steps: int
    first_differing_step: int | None
    corrections: int
    log_bytes_per_step: float
    steerable_share: float
    seconds: Mapping[str, float]

    @property
    def trainer_over_binary64(self) -> float | None:
        """The trainer's time over that of stock torch's steps in binary64, if they were timed."""
        return self._divide("trainer", "trainer_binary64")

    @property
    def auditor_over_binary64(self) -> float | None:
        """Likewise of the auditor."""
        return self._divide("auditor", "auditor_binary64")

    @property
    def over_binary32(self) -> float | None:
        """The trainer's time over that of stock torch's steps in binary32, if they were timed."""
        return self._divide("trainer", "trainer_binary32")

    def _divide(self, one: str, other: str) -> float | None:
        return self.seconds[one] / self.seconds[other] if other in self.seconds else None


def count(steps: Sequence[Step], corrections: int = 0, steerable_share: float = 0) -> Outcome:
    """Return the outcome of one step or more."""
    summary = summarize(steps)
    return Outcome(
        len(steps),
        summary.differing_steps,
        summary.first_differing_step,
        corrections,
        sum(step.log_bytes for step in steps) / len(steps),
        steerable_share,
        average_seconds(steps),
    )


def average_seconds(steps: Sequence[Step]) -> dict[str, float]:
    """Return the mean seconds of everything that was timed; of several steps without the first."""
    later = steps[1:] or steps
    reports = {"trainer": [s.trainer for s in later], "auditor": [s.auditor for s in later]}
    return {
        name.replace("seconds", party, 1): sum(row[name] for row in rows) / len(rows)
        for party, rows in reports.items()
        for name in rows[0]
        if name.startswith("seconds")
    }


def get_share(part: float, whole: float) -> float:
    """Return a part over its whole; 0 of a training that has nothing of it."""
    return part / whole if whole else 0.0
