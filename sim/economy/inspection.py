"""The inspection of jobs: which watchers are asked, who goes before the referee, who is paid."""

from dataclasses import dataclass, field

from moot.sim.economy.audits import Audits
from moot.sim.economy.checks import SHOWN_BLOCKS, is_late
from moot.sim.economy.deals import Deal, Part
from moot.sim.economy.facts import Job
from moot.sim.economy.ledger import Ledger
from moot.sim.economy.mechanisms.base import Audit
from moot.sim.economy.population import Population
from moot.sim.economy.strategies.base import FREE_RIDE, WATCHER

_SAYERS = (FREE_RIDE, WATCHER)


@dataclass
class Inspection:
    """The inspection of the jobs of a run.

    Attributes:
        rule: the rule of audits.
        people: of whom the watchers are asked.
        ledger: where the fund is.
        count: how many watchers are asked about a job.
        audits: what came of it.
    """

    rule: Audit
    people: Population
    ledger: Ledger
    count: int
    audits: Audits = field(default_factory=Audits)

    def ask(self, job: Job, place: float, ready: int) -> tuple[list[Part], bool]:
        """Ask watchers about a job.

        Args:
            job: the job.
            place: where among all watchers the first that is asked is, from 0 to 1.
            ready: the block in which the slowest provider has its claim.

        Returns:
            The parts of those that do something, whoever is ready first at the head; and whether
            nobody who was asked had a free slot.
        """
        there, parts, is_busy = self.people.watchers, [], True
        first, shown = int(place * len(there)), ready + SHOWN_BLOCKS
        for index in range(min(self.count, len(there))):
            agent = there[(first + index) % len(there)]
            if not agent.has_slot(shown):
                continue
            is_busy = False
            conduct = agent.strategy.look(job, self.people.show(agent), agent.stream)
            if conduct is not None:
                is_slow = conduct != FREE_RIDE and is_late(agent.blocks)
                parts.append(Part(agent, conduct, is_late=is_slow))
        if len(parts) > 1:
            parts.sort(key=lambda part: part.agent.blocks)
        return parts, is_busy and bool(there)

    def choose_joiners(self, watchers: list[Part], *, is_right: bool) -> list[Part]:
        """Return who of the watchers goes before the referee, in the order of a lineup.

        Of those that have checked a wrong answer the first does: the others see that the right
        claim is there. Who comes too late does not.

        Args:
            watchers: all that do something, in the order in which they are ready.
            is_right: whether all providers do what is agreed.
        """
        checkers = [it for it in watchers if it.conduct == WATCHER and not it.is_late]
        others = [it for it in watchers if it.conduct not in _SAYERS and not it.is_late]
        others.sort(key=lambda part: part.conduct)
        return others if is_right else [*checkers[:1], *others]

    def set_fees(self, watchers: list[Part], job: Job, *, is_forced: bool) -> tuple[int, int]:
        """Say what watchers are paid for their checks; return what the client and the fund pay.

        The fee of a job is divided among those who say in time that they have checked it, and of
        a forced error each of k who find it gets the jackpot over 2^(k - 1), as in Truebit.
        """
        sayers = [part for part in watchers if part.conduct in _SAYERS and not part.is_late]
        finders = [part for part in sayers if is_forced and part.conduct == WATCHER]
        fees_gwei = jackpots_gwei = 0
        for part in sayers:
            part.fee_gwei = job.audit_gwei // len(sayers)
            fees_gwei += part.fee_gwei
        for part in finders:
            fees_gwei -= part.fee_gwei
            part.fee_gwei = self.rule.choose_jackpot() >> len(finders) - 1
            jackpots_gwei += part.fee_gwei
        if self.rule.is_paid_from_bonds and self.ledger.fund >= fees_gwei:
            return jackpots_gwei, fees_gwei
        return jackpots_gwei + fees_gwei, 0

    def begin(self, deal: Deal, ready: int) -> None:
        """Let checks begin that a deal has: each holds a slot for as long as it takes."""
        shown = ready + SHOWN_BLOCKS
        for part in deal.watchers:
            if part.conduct != FREE_RIDE:
                part.agent.hold(shown, shown + part.agent.blocks)

    def count_audit(self, deal: Deal, rate: float, *, is_busy: bool) -> None:
        """Count what came of the audit of a job, which was to be audited at a rate."""
        audits = self.audits
        audits.jobs += 1
        audits.asked += rate
        if not deal.watchers:
            audits.busy += is_busy
        elif deal.is_audited:
            audits.made += 1
        elif any(part.is_late for part in deal.watchers):
            audits.late += 1
