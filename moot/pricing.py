"""What a job should cost: its work, a dispute of it, and terms at which no known attack pays."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, cast

from moot.cheats import WrongOutput
from moot.display import Displayable
from moot.disputing import dispute
from moot.offchain.arithmetic.table import name_deciding
from moot.offchain.disputes.referee.stages import STAGE_ORDER
from moot.offchain.errors import UsageError
from moot.offchain.providers.rates import Timing, estimate_timing
from moot.running import run
from moot.sim.chains.chain import Chain
from moot.sim.chains.files import find_chain
from moot.sim.estimates import Estimate, estimate_mean
from moot.sim.gas.on_chains import charge, charge_stages, read_calls
from moot.sim.pricing.disputes import PLAYED, Disputes, compose
from moot.sim.pricing.sizes import Sizes, read_sizes
from moot.sim.pricing.terms import Terms, Wish, make_terms, scale
from moot.tasks import Task

if TYPE_CHECKING:
    from moot.offchain.frontend.capture import Captured

PATIENCE_S = 20.0
"""What runs and disputes may take, by their shapes, to be made for real."""
SHAPES_FACTOR = 2.0
"""How far a time may be from the one that shapes let expect, on a machine like those measured."""
MEASURED, ESTIMATED = "measured", "estimated"
HOUR_S = 3600.0


@dataclass(frozen=True, slots=True)
class Quote(Displayable):
    """The price of a job on a chain.

    Attributes:
        chain: its name.
        base_fee_gwei: of the first layer's gas.
        eth_price: of an ETH, in the currency.
        currency: of fiat amounts.
        gas: of a dispute by stage, by the chain's rule, without the job's opening.
        terms: bond, audits, reward and clocks, in ETH and in the contract's blocks.

    Example:
        >>> import moot
        >>> quote = moot.price(moot.Task("mlp", steps=2), lies=1).quotes[0]
        >>> quote.terms.bond >= 0.2, quote.terms.attacks["a griefer"] <= 0
        (True, True)
    """

    chain: str
    base_fee_gwei: float
    eth_price: float
    currency: str
    gas: dict[str, int]
    terms: Terms

    def to_market(self) -> dict[str, Any]:
        """Return keys of a simulated market with this bond, these audits and this reward.

        What the work costs is a key of the market's groups, such as `providers.honest.work_eth`,
        and the price of gas is `chain.base_fee_gwei`: both are the market's own.
        """
        terms = self.terms
        return {
            "bond.name": "constant",
            "bond.eth": terms.bond,
            "audit.name": "constant",
            "audit.rate": terms.audit_rate,
            "pricing.name": "posted",
            "pricing.eth": terms.reward,
        }

    def to_dict(self) -> dict[str, Any]:
        """Return what `moot price --json` prints of a chain; amounts are ETH unless named."""
        terms, stakes = self.terms, self.terms.schedule.stakes
        return {
            "chain": self.chain,
            "base_fee_gwei": self.base_fee_gwei,
            "eth_price": self.eth_price,
            "currency": self.currency,
            "cost": asdict(terms.cost),
            "cost_fiat": terms.cost.value * self.eth_price,
            "parts": dict(terms.parts),
            "dominated_by": terms.dominated_by,
            "reward": terms.reward,
            "bond": terms.bond,
            "bond_bound_by": terms.bound_by,
            "bounds": dict(terms.bounds),
            "audit_rate": terms.audit_rate,
            "audit_fee": terms.audit_fee,
            "dispute": asdict(terms.dispute),
            "gas_by_phase": self.gas,
            "purse": terms.purse,
            "crowd_capital": terms.crowd_capital,
            "attacks": dict(terms.attacks),
            "blocks": {
                name: getattr(stakes, f"{name}_blocks")
                for name in ("commit", "reveal", "window", "clock", "increment")
            },
            "clock_bound_by": terms.schedule.bound_by,
            "seconds": {"plain": terms.schedule.lasts_s, "longest": terms.schedule.longest_s},
        }


@dataclass(frozen=True, slots=True)
class Price(Displayable):
    """The price of a job on some chains.

    Attributes:
        sizes: of the job.
        how: whether its disputes were `played`, or `composed` of a synthetic job of its sizes.
        lies: how many were disputed.
        timed: whether its work was `measured` on this machine, or `estimated` from shapes.
        work_s: seconds of honest work, of one core if they are estimated.
        hour: what an hour of it costs, in the currency of the chains.
        quotes: one for each chain and base fee.

    Example:
        >>> import moot
        >>> price = moot.price(moot.Task("mlp", steps=2), lies=1)
        >>> price.how, price.timed, price.quotes[0].chain
        ('played', 'measured', 'l1-osaka')
    """

    sizes: Sizes
    how: str
    lies: int
    timed: str
    work_s: Estimate
    hour: float
    quotes: tuple[Quote, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return what `moot price --json` prints."""
        return {
            "sizes": asdict(self.sizes),
            "disputes": {"how": self.how, "lies": self.lies},
            "work": {"how": self.timed, "seconds": asdict(self.work_s), "hour": self.hour},
            "quotes": [quote.to_dict() for quote in self.quotes],
        }


def price(
    task: Task,
    *,
    chains: Sequence[str | Chain] = ("l1-osaka",),
    base_fees: Sequence[float] = (),
    l2_base_fee: float | None = None,
    eth_price: float | None = None,
    hour: float = 1.0,
    lies: int = 3,
    seed: int = 0,
    **wish: Any,
) -> Price:
    """Return what a job should cost on some chains, and the terms that it needs.

    Args:
        task: the job; it is captured already, and need not be run.
        chains: names that `moot gas chains` lists, or paths of TOML files.
        base_fees: gwei that a unit of gas costs on the first layer; every chain is quoted at each,
            and at its file's if there are none.
        l2_base_fee: gwei that a unit of a rollup's own gas costs, in place of the file's.
        eth_price: of an ETH, in place of the file's.
        hour: what an hour of the machine costs, in the currency of the chains' files.
        lies: how many lies are disputed, from whose gas there is an interval.
        seed: of the lies.
        **wish: `gain_eth` (0: what a wrong answer gives a liar), `audit_rate` or `bond_eth` (the
            other is found; without both, the cheapest together), `margin` (0.5, of the work),
            `capital_rate` (0.05 a year), `spike` (4: how many times its price gas may cost in a
            dispute), `crowd` (100 liars), `confirmations` (8 blocks).

    Raises:
        UsageError: a chain or a wish is impossible, or the contract computes no leaf of the task.

    Example:
        >>> import moot
        >>> task = moot.Task("mlp", steps=4, checkpoint_every=2)
        >>> quote = moot.price(task, lies=1, gain_eth=0.5, audit_rate=0.1).quotes[0]
        >>> quote.terms.bound_by, 4 < quote.terms.bond < 5
        ('lie', True)
    """
    captured = _get_captured(task)
    if not captured.program.arithmetic.ends_on_chain:
        raise UsageError(
            f"no contract computes a scalar operation of `{captured.program.arithmetic.name}`, "
            f"and only such disputes have a price; choose {name_deciding()}"
        )
    if not 0 <= hour <= 1e6 or not 1 <= lies <= 100:
        raise UsageError(f"an hour of {hour} or {lies} lies: take 0 or more, and 1 to 100 lies")
    asked = _make_wish(wish)
    places = list(_list_chains(chains, base_fees, l2_base_fee, eth_price))
    timing = estimate_timing(captured.program)
    sizes = read_sizes(captured.program, task.steps, task.checkpoint_every)
    disputes, timed, work_s = _measure(task, sizes, _expect(timing, sizes), lies, seed)
    spent = (
        work_s.high or SHAPES_FACTOR * work_s.value,
        timing.bound_answer(sizes.checkpoint_every),
    )
    quotes = []
    for chain in places:
        rate = hour / HOUR_S / chain.money.eth_price
        terms = make_terms(chain, disputes, scale(work_s, rate), (*spent, task.steps), asked)
        quotes.append(_quote(chain, disputes, terms))
    return Price(sizes, disputes.how, lies, timed, work_s, hour, tuple(quotes))


def _measure(
    task: Task, sizes: Sizes, whole_s: float, lies: int, seed: int
) -> tuple[Disputes, str, Estimate]:
    """Return disputes of a job, how its work was timed, and the seconds that it takes."""
    if whole_s * 2 * lies <= PATIENCE_S:
        disputes, seconds = _play(task, lies, seed)
        return disputes, MEASURED, _estimate_time(seconds)
    arithmetic = _get_captured(task).program.arithmetic
    return compose(sizes, arithmetic, lies), *_time(task, whole_s)


def _get_captured(task: Task) -> "Captured":
    return cast("Captured", task.captured)


def _make_wish(given: dict[str, Any]) -> Wish:
    names = Wish.__dataclass_fields__
    for name in given:
        if name not in names:
            raise UsageError.unknown("wish", name, names, "wishes")
    return Wish(**given)


def _list_chains(
    names: Sequence[str | Chain],
    base_fees: Sequence[float],
    l2_base_fee: float | None,
    eth_price: float | None,
) -> Iterator[Chain]:
    """Yield the chains at their prices."""
    if isinstance(names, str) or not names:
        raise UsageError("chains is a list of names, such as ['l1-osaka', 'op-mainnet']")
    for name in names:
        chain = find_chain(name) if isinstance(name, str) else name
        for fee in base_fees or (None,):
            yield chain.replace_prices(fee, l2_base_fee, eth_price)


def _expect(timing: Timing, sizes: Sizes) -> float:
    """Return the seconds of a run, by shapes."""
    return timing.prepared_s + sizes.steps * timing.step_s + sizes.checkpoints * timing.state_s


def _play(task: Task, lies: int, seed: int) -> tuple[Disputes, list[float]]:
    """Return disputes that are played between two runs, and the seconds of the honest runs."""
    calls, seconds = [], []
    run(task)  # so that what is done once is not timed
    for number in range(lies):
        started = time.perf_counter()
        honest = run(task)
        seconds.append(time.perf_counter() - started)
        liar = run(task, WrongOutput(), seed=seed + number)
        played = dispute(task, [honest, liar], seed=seed)
        calls.append(tuple(read_calls(played.play())))
        played.finish()
    return Disputes(PLAYED, tuple(calls), frozenset({f"{liar.behaviour.name}-1"})), seconds


def _time(task: Task, whole_s: float) -> tuple[str, Estimate]:
    """Return the seconds of a run: an interval of it measured, if it takes no longer than that."""
    part = task.checkpoint_every / task.steps
    if whole_s * part * 4 > PATIENCE_S:
        return ESTIMATED, Estimate(whole_s, whole_s / SHAPES_FACTOR, whole_s * SHAPES_FACTOR)
    short = Task(task.captured, task.checkpoint_every, task.checkpoint_every)
    run(short)  # so that what is done once is not timed
    seconds = []
    for _ in range(3):
        started = time.perf_counter()
        run(short)
        seconds.append((time.perf_counter() - started) / part)
    return MEASURED, _estimate_time(seconds)


def _estimate_time(seconds: Sequence[float]) -> Estimate:
    """Return the mean of some times, with an interval in which none is negative."""
    mean = estimate_mean(seconds)
    return mean if mean.low is None else replace(mean, low=max(0.0, mean.low))


def _quote(chain: Chain, disputes: Disputes, terms: Terms) -> Quote:
    calls = [it for it in disputes.calls[0] if it.call != "open_job"]
    stages = charge_stages(calls, chain)
    assert charge(calls, chain).gas == sum(stages[stage].gas for stage in STAGE_ORDER)
    fees: Any = chain.fees
    return Quote(
        chain=chain.name,
        base_fee_gwei=getattr(fees, "l1_base_fee_gwei", fees.base_fee_gwei),
        eth_price=chain.money.eth_price,
        currency=chain.money.currency,
        gas={stage: bill.gas for stage, bill in stages.items()},
        terms=terms,
    )
