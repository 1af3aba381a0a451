"""The audits of a run: how many were asked for, how many were made, and why not all of them."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

NOTABLE = 0.2
"""By which share of the rate that is asked for the rate achieved may be lower, unsaid."""

_SURE = 3.0
"""So many standard errors are not chance."""

Row = Mapping[str, Any]
"""A row of `runs`."""


@dataclass(slots=True)
class Audits:
    """The audits of a run.

    Attributes:
        jobs: how many were served.
        asked: the sum of the rates that the rule has asked for.
        made: of how many a watcher said in time that it had checked them.
        busy: for how many that were to be audited no watcher had a free slot.
        late: for how many of them the check came too late.
    """

    jobs: int = 0
    asked: float = 0.0
    made: int = 0
    busy: int = 0
    late: int = 0

    def tell(self) -> tuple[int, int, float, float]:
        """Return the four counts of a run: `late`, `busy`, and both rates."""
        return self.late, self.busy, self.rate_asked, self.rate_achieved

    @property
    def rate_asked(self) -> float:
        """The mean of the rates that the rule has asked for."""
        return self.asked / self.jobs if self.jobs else 0.0

    @property
    def rate_achieved(self) -> float:
        """The share of the jobs that were audited."""
        return self.made / self.jobs if self.jobs else 0.0


def is_short(row: Row) -> bool:
    """Return whether a run's rate of audits is a fifth below what was asked, and not by chance."""
    asked, achieved = row["audit_rate_asked"], row["audit_rate_achieved"]
    if not asked or asked - achieved < NOTABLE * asked:
        return False
    served = row["jobs"] - row["unserved"]
    return bool(asked - achieved > _SURE * math.sqrt(asked * (1 - asked) / served))


def list_shortfalls(rows: Sequence[Row]) -> list[str]:
    """Return a sentence about the run that misses its rate of audits by most; none if none does.

    Args:
        rows: of `runs`; those of runs that failed are left out.
    """
    done = [row for row in rows if row.get("audit_rate_asked") is not None]
    short = [row for row in done if is_short(row)]
    if not short:
        return []
    worst = min(short, key=lambda row: row["audit_rate_achieved"] / row["audit_rate_asked"])
    told = (
        f"the rule asks for audits of {worst['audit_rate_asked']:.1%} of the jobs, and "
        f"{worst['audit_rate_achieved']:.1%} were audited: {_explain(worst)}"
    )
    if len(done) > 1:
        told += f"; {len(short)} of {len(done)} runs miss their rate by a fifth or more"
    return [told]


def _explain(row: Row) -> str:
    """Return why most audits that were asked for did not happen."""
    served = row["jobs"] - row["unserved"]
    busy, late = row["busy"], row["late"]
    missed = (row["audit_rate_asked"] - row["audit_rate_achieved"]) * served
    if busy >= max(late, missed - busy - late):
        return (
            f"in {busy:,} jobs no watcher that was asked had a free slot; add watchers or `slots`, "
            "or lower their `blocks`"
        )
    if late >= missed - busy - late:
        return (
            f"{late:,} checks took longer than a claim can be challenged; lower `blocks` of the "
            "watchers"
        )
    return "there are no watchers, or those that were asked did not look or could not pay"
