"""The terms of a job on a chain: reward, bond, audits and clocks at which no known attack pays."""

from collections.abc import Mapping
from dataclasses import dataclass

from moot.contracts.model.types import MAX_BOND_WEI, MIN_BOND_WEI, PRIZE_DIVISOR
from moot.offchain.disputes.referee.gas import END_GAS, MATCH_GAS, calculate_crowd_gas
from moot.offchain.errors import UsageError
from moot.sim.chains.chain import Chain
from moot.sim.estimates import Estimate
from moot.sim.pricing.attacks import GIVEN, Stake, Upkeep, choose_audits
from moot.sim.pricing.clocks import Schedule, Threat, make_schedule
from moot.sim.pricing.disputes import Disputes

ETHER = 10**18
YEAR_S = 365 * 86_400.0


@dataclass(frozen=True, slots=True)
class Wish:
    """What a client wants, and what it takes for granted.

    Attributes:
        gain_eth: what a wrong answer gives the provider that has placed it, if it is accepted.
        audit_rate: the share of jobs that are audited; None for the cheapest.
        bond_eth: a provider's; None for the least.
        margin: of the provider and of whoever audits, as a share of the work.
        capital_rate: what an ETH that is locked for a year costs, as a share of it.
        spike: how many times its price gas may cost in a dispute.
        crowd: liars behind one claim that the clocks suffice for.
        confirmations: blocks that a reorganisation may take.
    """

    gain_eth: float = 0.0
    audit_rate: float | None = None
    bond_eth: float | None = None
    margin: float = 0.5
    capital_rate: float = 0.05
    spike: float = 4.0
    crowd: int = 100
    confirmations: int = 8

    def __post_init__(self) -> None:
        """Refuse what nobody can want.

        Raises:
            UsageError: a value is impossible.
        """
        limits = {
            "gain": (self.gain_eth, 0, 1e6),
            "margin": (self.margin, 0, 1e6),
            "capital rate": (self.capital_rate, 0, 100),
            "spike": (self.spike, 1, 1000),
            "crowd": (self.crowd, 1, 10**5),
            "confirmations": (self.confirmations, 0, 10**4),
        }
        for name, (value, low, high) in limits.items():
            if not low <= value <= high:
                raise UsageError(f"a {name} of {value} is none; choose from {low:g} to {high:g}")
        if self.audit_rate is not None and not 0 < self.audit_rate <= 1:
            raise UsageError(f"an audit rate of {self.audit_rate} is none; choose above 0, up to 1")
        if self.bond_eth is not None and not 0 < self.bond_eth < MAX_BOND_WEI / ETHER:
            raise UsageError(f"a bond of {self.bond_eth} ETH is none; choose an amount above 0")
        if self.bond_eth is not None and self.audit_rate is not None:
            raise UsageError("a bond and an audit rate are both given; leave one out to be found")


@dataclass(frozen=True, slots=True)
class Terms:
    """The terms of a job on a chain, in ETH, and what they come to.

    Attributes:
        bond: of a provider.
        bounds: the least bond that each reason asks for.
        bound_by: the reason for the bond.
        audit_rate: the share of jobs that are audited.
        audit_fee: for an audit, which costs no gas unless it finds a lie; then the prize pays it.
        reward: for a right answer, at the upper end of the work's interval.
        cost: what the client pays for a job, on average, with the interval of the work's.
        parts: the parts of that.
        dispute: what a dispute costs both sides, over several lies.
        purse: what a provider holds to play out a dispute with the crowd.
        crowd_capital: what a crowd locks that is one too many for the clocks.
        attacks: what each attack gains who makes it; none is above 0.
        schedule: the clocks.
    """

    bond: float
    bounds: Mapping[str, float]
    bound_by: str
    audit_rate: float
    audit_fee: float
    reward: float
    cost: Estimate
    parts: Mapping[str, float]
    dispute: Estimate
    purse: float
    crowd_capital: float
    attacks: Mapping[str, float]
    schedule: Schedule

    @property
    def dominated_by(self) -> str:
        """The largest part of what a job costs."""
        return max(self.parts, key=lambda name: self.parts[name])


@dataclass(frozen=True, slots=True)
class Costs:
    """What a job and a dispute of it cost whom, in ETH.

    Attributes:
        work: of a provider.
        dearest: the upper end of that.
        opening: the client's, for gas.
        routine: a provider's gas, if nobody disagrees.
        liar_fees: what a liar pays above that for a dispute.
        unit: a unit of gas in a dispute, with its data, at the highest price that it may have.
    """

    work: Estimate
    dearest: float
    opening: float
    routine: float
    liar_fees: float
    unit: float

    def make_stake(self, wish: Wish) -> Stake:
        """Return what an attacker looks at."""
        return Stake(
            work=self.dearest,
            gain=wish.gain_eth,
            reward=self.dearest * (1 + wish.margin) + self.routine,
            liar_fees=self.liar_fees,
            match_cost=self.unit * (MATCH_GAS + END_GAS),
            least_bond=MIN_BOND_WEI / ETHER,
        )

    def share_out(self, rate: float, locked: float, margin: float) -> dict[str, float]:
        """Return the parts of what a client pays, with so much for the capital that is locked."""
        work = self.work.value * (1 + margin)
        gas = self.opening + self.routine
        return {"work": work, "gas": gas, "audits": rate * work, "capital": locked}

    def estimate_whole(self, parts: Mapping[str, float], rate: float, margin: float) -> Estimate:
        """Return the sum of these parts, with the interval of the work's."""
        fixed, factor = parts["gas"] + parts["capital"], (1 + margin) * (1 + rate)
        low = self.work.value if self.work.low is None else self.work.low
        ends = (fixed + end * factor for end in (low, self.dearest))
        return Estimate(sum(parts.values()), *ends)


def read_costs(chain: Chain, disputes: Disputes, work: Estimate, wish: Wish) -> Costs:
    """Return what a job costs on a chain, given what it costs to run it, in ETH."""
    routine = disputes.charge_routine(chain).total_wei / ETHER
    return Costs(
        work=work,
        dearest=work.value if work.high is None else work.high,
        opening=disputes.charge_opening(chain).total_wei / ETHER,
        routine=routine,
        liar_fees=max(0.0, disputes.charge_liar(chain).total_wei / ETHER - routine),
        unit=disputes.estimate_price_wei(chain) * wish.spike / ETHER,
    )


def make_terms(
    chain: Chain, disputes: Disputes, work: Estimate, timing: tuple[float, float, int], wish: Wish
) -> Terms:
    """Return the terms of a job.

    Args:
        chain: where it is.
        disputes: of the job.
        work: what it costs to run it, in ETH.
        timing: seconds that the job takes at most, those of an answer at most, and its steps.
        wish: what is wanted.

    Raises:
        UsageError: no terms are enough.
    """
    costs = read_costs(chain, disputes, work, wish)
    stake = costs.make_stake(wish)
    schedule = _schedule(chain, stake, timing, wish)
    share = wish.capital_rate * schedule.lasts_s / YEAR_S
    audit_fee = costs.dearest * (1 + wish.margin)
    rate, bond, reason = _choose(stake, Upkeep(audit_fee, share), wish)
    parts = costs.share_out(rate, share * bond, wish.margin)
    return Terms(
        bond=bond,
        bounds=stake.list_bounds(rate) if rate else {},
        bound_by=reason,
        audit_rate=rate,
        audit_fee=audit_fee,
        reward=stake.reward + share * bond,
        cost=costs.estimate_whole(parts, rate, wish.margin),
        parts=parts,
        dispute=scale(disputes.estimate_wei(chain), 1 / ETHER),
        purse=bond + costs.unit * calculate_crowd_gas(wish.crowd),
        crowd_capital=(wish.crowd + 1) * bond,
        attacks={
            "a lie": stake.calculate_lies_gain(bond, rate),
            "a griefer": min(0.0, stake.match_cost - bond / PRIZE_DIVISOR) - costs.liar_fees,
            "a crowd that the clocks withstand": -wish.crowd * bond,
        },
        schedule=schedule,
    )


def _schedule(chain: Chain, stake: Stake, timing: tuple[float, float, int], wish: Wish) -> Schedule:
    """Return the clocks that outlast who would have reward, gain and prize."""
    work_s, answer_s, steps = timing
    gain = stake.reward + wish.gain_eth + stake.bound_griefing() / PRIZE_DIVISOR
    threat = Threat(
        gain_wei=round(gain * ETHER),
        crowd=wish.crowd,
        answer_s=answer_s,
        work_s=work_s,
        confirmations=wish.confirmations,
    )
    return make_schedule(chain, threat, steps)


def scale(estimate: Estimate, factor: float) -> Estimate:
    """Return an estimate in another unit, so many of which are one of its own."""
    low, high = (None if it is None else it * factor for it in (estimate.low, estimate.high))
    return Estimate(estimate.value * factor, low, high)


def _choose(stake: Stake, upkeep: Upkeep, wish: Wish) -> tuple[float, float, str]:
    """Return the audit rate, the bond, and the reason for it."""
    others = max(stake.bound_griefing(), stake.least_bond)
    if wish.bond_eth is not None:
        if wish.bond_eth < others:
            raise UsageError(
                f"a bond of {wish.bond_eth:g} ETH is too low whatever is audited: it has to be "
                f"{others:.6g} ETH, for the contract and so that its prize pays for a match"
            )
        rate = stake.bound_audits(wish.bond_eth)
        if stake.calculate_lies_gain(wish.bond_eth, rate) > 1e-9 * (1 + wish.bond_eth):
            raise UsageError(
                f"a bond of {wish.bond_eth:g} ETH is too low even if every job is audited; it has "
                f"to be {stake.bound_lies(1.0):.6g} ETH"
            )
        return rate, wish.bond_eth, GIVEN
    rate = choose_audits(stake, upkeep) if wish.audit_rate is None else wish.audit_rate
    bounds = stake.list_bounds(rate)
    reason = max(bounds, key=lambda name: round(bounds[name], 12))  # of equal ones the first
    if bounds[reason] * ETHER > MAX_BOND_WEI:
        raise UsageError(
            f"a bond of {bounds[reason]:.3g} ETH is more than the contract takes; audit more"
        )
    return rate, bounds[reason], reason
