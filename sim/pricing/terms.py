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
    dearest = work.value if work.high is None else work.high
    price = disputes.estimate_price_wei(chain) * wish.spike / ETHER
    routine = disputes.charge_routine(chain).total_wei / ETHER
    opening = disputes.charge_opening(chain).total_wei / ETHER
    liar_fees = max(0.0, disputes.charge_liar(chain).total_wei / ETHER - routine)
    base = dearest * (1 + wish.margin) + routine
    stake = Stake(
        work=dearest,
        gain=wish.gain_eth,
        reward=base,
        liar_fees=liar_fees,
        match_cost=price * (MATCH_GAS + END_GAS),
        least_bond=MIN_BOND_WEI / ETHER,
    )
    work_s, answer_s, steps = timing
    threat = Threat(
        gain_wei=round((base + wish.gain_eth + stake.bound_griefing() / PRIZE_DIVISOR) * ETHER),
        crowd=wish.crowd,
        answer_s=answer_s,
        work_s=work_s,
        confirmations=wish.confirmations,
    )
    schedule = make_schedule(chain, threat, steps)
    share = wish.capital_rate * schedule.lasts_s / YEAR_S
    audit_fee = dearest * (1 + wish.margin)
    rate, bond, reason = _choose(stake, Upkeep(audit_fee, share), wish)
    reward = base + share * bond
    parts = {
        "work": work.value * (1 + wish.margin),
        "gas": opening + routine,
        "audits": rate * work.value * (1 + wish.margin),
        "capital": share * bond,
    }
    spread = (work.value if work.low is None else work.low, dearest)
    fixed = parts["gas"] + parts["capital"]
    low, high = (fixed + it * (1 + wish.margin) * (1 + rate) for it in spread)
    dispute = disputes.estimate_wei(chain)
    return Terms(
        bond=bond,
        bounds=stake.list_bounds(rate) if rate else {},
        bound_by=reason,
        audit_rate=rate,
        audit_fee=audit_fee,
        reward=reward,
        cost=Estimate(sum(parts.values()), low, high),
        parts=parts,
        dispute=Estimate(*(None if it is None else it / ETHER for it in _list(dispute))),
        purse=bond + price * calculate_crowd_gas(wish.crowd),
        crowd_capital=(wish.crowd + 1) * bond,
        attacks={
            "a lie": stake.calculate_lies_gain(bond, rate),
            "a griefer": min(0.0, stake.match_cost - bond / PRIZE_DIVISOR) - liar_fees,
            "a crowd that the clocks withstand": -wish.crowd * bond,
        },
        schedule=schedule,
    )


def _list(estimate: Estimate) -> tuple[float, float | None, float | None]:
    return estimate.value, estimate.low, estimate.high


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
