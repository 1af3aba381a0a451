"""The scribe of jobs by receipt: rows of `jobs`, `receipts` and `service`, counts and spans."""

from dataclasses import dataclass, field

from moot.sim.economy.agents import Agent
from moot.sim.economy.reporting import Clerk, Sink
from moot.sim.economy.service.affairs import Affair, Tally


@dataclass(frozen=True)
class Scribe:
    """Whoever writes down what becomes of receipts.

    Attributes:
        run: the run's number.
        sink: takes the rows.
        clerk: has the counts of the run, and the spans.
    """

    run: int
    sink: Sink
    clerk: Clerk
    _tallies: dict[int, Tally] = field(default_factory=dict)

    def begin(self, job: int) -> Tally:
        """Begin to add up what comes of a request; return the sums, as they grow."""
        tally = self._tallies[job] = Tally()
        return tally

    def forget(self, job: int) -> None:
        """End that of a request."""
        del self._tallies[job]

    def note_call(
        self,
        name: str,
        agent: Agent,
        job: int,
        gas: int,
        fees_gwei: int,
        amount_gwei: int,
        receipts: int,
    ) -> None:
        """Write down a call of the service, and what its sender has paid for it."""
        block = self.clerk.prices.block
        counts = self.clerk.counts_of(job)
        counts.gas += gas
        counts.fees_gwei += fees_gwei
        tally = self._tallies.get(job)
        if tally is not None:
            tally.gas += gas
            tally.fees_gwei += fees_gwei
        self.book(job, agent, -fees_gwei, fees_gwei=fees_gwei)
        row = (self.run, block, name, agent.number, job, gas, fees_gwei, amount_gwei, receipts)
        self.sink.add("service", row)

    def book(
        self,
        job: int,
        agent: Agent,
        profit_gwei: int,
        *,
        jobs: int = 0,
        cheated: int = 0,
        slashed: int = 0,
        work_gwei: int = 0,
        fees_gwei: int = 0,
        locked_gwei_blocks: int = 0,
    ) -> None:
        """Book what an agent has of a job; fees of clients are in their profit alone."""
        sums, tally = self.clerk.spans.find(job, agent.number), self._tallies.get(job)
        sums.profit_gwei += profit_gwei
        if agent.role == "client":
            if tally is not None:
                tally.client_gwei += profit_gwei
            self.clerk.counts_of(job).client_gwei += profit_gwei
            return
        if tally is not None and agent.role == "provider":
            tally.provider_gwei += profit_gwei
        sums.jobs += jobs
        sums.cheated += cheated
        sums.slashed += slashed
        sums.work_gwei += work_gwei
        sums.fees_gwei += fees_gwei
        sums.locked_gwei_blocks += locked_gwei_blocks
        agent.jobs += jobs
        agent.slashed += slashed
        agent.earned_gwei += profit_gwei

    def burn(self, job: int, burned_gwei: int) -> None:
        """Count what is burned."""
        self.clerk.counts_of(job).burned_gwei += burned_gwei
        tally = self._tallies.get(job)
        if tally is not None:
            tally.burned_gwei += burned_gwei

    def close(self, affair: Affair) -> None:
        """Write down an affair of which nothing more will come."""
        job, counts = affair.job, self.clerk.counts_of(affair.job.number)
        worth_gwei = self.clerk.appraise(job.value_gwei, affair.outcome)
        counts.client_gwei += worth_gwei
        counts.jobs += 1
        counts.right += affair.outcome == "right"
        counts.wrong += affair.outcome == "wrong"
        counts.void += affair.outcome == "void"
        counts.cheated += affair.is_lie
        counts.caught += affair.is_lie and affair.lost_gwei > 0
        counts.audited += affair.checker is not None
        counts.checked += affair.checker is not None
        counts.disputed += affair.challenged is not None
        self._write_job(affair, worth_gwei)
        self._write_receipt(affair)
        self.forget(job.number)

    def _write_job(self, affair: Affair, worth_gwei: int) -> None:
        job, agent, block = affair.job, affair.house.agent, self.clerk.prices.block
        is_checked = affair.checker is not None
        checker = affair.checker if is_checked else None
        watcher = checker.number if checker and checker.role == "watcher" else None
        begin = (self.run, job.number, job.block, block, affair.client.number, agent.number)
        did = (agent.strategy_name, agent.reputation, affair.conduct, 1)
        offer = (job.value_gwei, job.price_gwei, job.bond_gwei, affair.is_lie)
        look = (is_checked, watcher, is_checked, affair.challenged is not None, affair.outcome)
        tally = affair.tally
        spent = (block - job.block, tally.gas, tally.fees_gwei, tally.burned_gwei)
        ends = (tally.client_gwei + worth_gwei, 0, 0, 0, affair.outcome, None)
        self.sink.add("jobs", (*begin, *did, *offer, *look, *spent, *ends))

    def _write_receipt(self, affair: Affair) -> None:
        signed, checker = affair.signed, affair.checker
        self.sink.add(
            "receipts",
            (
                self.run,
                affair.job.number,
                affair.client.number,
                affair.house.agent.number,
                affair.house.agent.strategy_name,
                signed.chain,
                signed.number,
                signed.issued,
                signed.last,
                affair.tokens,
                affair.job.price_gwei,
                signed.stake,
                signed.open,
                affair.is_covered,
                affair.shown_bytes,
                affair.is_lie,
                affair.is_relied,
                affair.is_paid,
                None if checker is None else checker.role,
                affair.finding,
                affair.challenged,
                affair.lost_gwei,
            ),
        )
