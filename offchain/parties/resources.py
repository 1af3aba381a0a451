"""The resources of a party: its money for the gas of its jobs, and what is worth spending it on.

Joining, sending and going on ask the same sums: what calls are offered
(`offchain/disputes/referee/gas.py`), and what an account has to hold for that
(`offchain/chain/accounts/budget.py`). The rule, and why it is so, is in `docs/how-to/parties.md`.
"""

from collections.abc import Collection
from dataclasses import dataclass, field

from moot.contracts.model.types import Address, Job, Member, Pair, Terms
from moot.contracts.reasons import Standing
from moot.offchain.chain.accounts.budget import find_shortage
from moot.offchain.chain.accounts.fees import GWEI
from moot.offchain.disputes.play.tournament import Tournament
from moot.offchain.disputes.referee.gas import END_GAS, MATCH_GAS, MOST_GAS, calculate_crowd_gas
from moot.offchain.disputes.referee.port import Call
from moot.offchain.parties.settings import Settings, to_wei

_LAST_GAS = MOST_GAS["leaf"]
"""What a match may still take whose other moves were dearer than is known of any."""


@dataclass(frozen=True, slots=True)
class Stand:
    """How an account stands in a job that it has joined.

    Attributes:
        job_id: the job.
        bond_wei: the bond, which is lost with any of its matches.
        prize_wei: what each member brings that it defeats.
        share_wei: its part of the reward, if its claim wins.
        won: how many members it has defeated.
        met: how many it has a match with, or has had.
        live: the matches that it plays now.
    """

    job_id: int
    bond_wei: int
    prize_wei: int
    share_wei: int
    won: int
    met: int
    live: Collection[Pair]

    @property
    def stake_wei(self) -> int:
        """What all that the account has in the job comes to, if it wins what it plays."""
        prizes = self.won + len(self.live)
        return self.bond_wei + self.share_wei + prizes * self.prize_wei


def make_stand(address: Address, job: Job, member: Member, known: Tournament) -> Stand:
    """Return how an account stands in a job, from what the chain shows."""
    live = [pair for pair in known.boards if address in {pair.first, pair.second}]
    ended = [it.board.pair for it in known.ended]
    sharers = sum(top == known.contenders.get(address) for top in known.contenders.values())
    is_sharer = member.standing is not Standing.LATE
    return Stand(
        job_id=known.job_id,
        bond_wei=job.terms.bond_wei,
        prize_wei=job.terms.prize_wei,
        share_wei=job.reward_wei // max(1, sharers) if is_sharer else 0,
        won=member.prizes,
        met=len(live) + sum(address in {pair.first, pair.second} for pair in ended),
        live=live,
    )


@dataclass
class Resources:
    """The money of an account for gas, and what the jobs at hand may still take of it.

    Attributes:
        settings: the highest fee, the crowd, and the most that a job's gas may cost.
        spent_wei: by job what its gas has cost, and `bonds_wei` the bonds that are still to be
            paid; both of the jobs at hand.
        used_gas: what the calls of a match have taken, as far as this process has seen them.
    """

    settings: Settings
    spent_wei: dict[int, int] = field(default_factory=dict)
    bonds_wei: dict[int, int] = field(default_factory=dict)
    used_gas: dict[Pair, int] = field(default_factory=dict)

    @property
    def ceiling_wei(self) -> int:
        """The most that a unit of gas may cost."""
        return int(self.settings.max_fee_gwei * GWEI)

    @property
    def crowd_wei(self) -> int:
        """What a job's gas costs at most at the highest fee, against the crowd of the settings."""
        return calculate_crowd_gas(self.settings.crowd) * self.ceiling_wei

    @property
    def budget_wei(self) -> int:
        """What the gas of one job may cost."""
        return to_wei(self.settings.gas_budget) or self.crowd_wei

    def find_obstacle(self, balance_wei: int, terms: Terms) -> str | None:
        """Return why no further job may be begun beside those at hand; None if one may.

        Whoever may begin has enough to the end, against the crowd and at the highest fee.
        """
        crowd = f"{self.settings.crowd} liars at {self.settings.max_fee_gwei:g} gwei"
        if self.crowd_wei > self.budget_wei:
            return (
                f"against {crowd} its gas may cost {self.crowd_wei:,} wei, and the budget is "
                f"{self.budget_wei:,} wei; raise the budget of a job (gas_budget), or fear fewer "
                "(crowd) or lower fees (max_fee_gwei)"
            )
        later = [max(0, self.crowd_wei - spent) for spent in self.spent_wei.values()]
        needs = [*later, *self.bonds_wei.values(), terms.bond_wei, self.crowd_wei]
        shortage_wei = find_shortage(balance_wei, needs)
        if shortage_wei:
            return (
                f"against {crowd} its gas may cost {self.crowd_wei:,} wei; with its bond and what "
                f"the jobs at hand may need the account has to hold {sum(needs):,} wei, "
                f"{shortage_wei:,} more than it does; fund it, or fear fewer (crowd) or lower "
                "fees (max_fee_gwei)"
            )
        return None

    def take(self, job_id: int, spent_wei: int, bond_wei: int) -> None:
        """Set money aside for a job, whose bond is still to be paid if it is not 0."""
        self.spent_wei[job_id] = spent_wei
        self.bonds_wei[job_id] = bond_wei

    def note(self, job_id: int, call: Call, gas_used: int, price_wei: int) -> None:
        """Note what a call of a job has taken."""
        self.spent_wei[job_id] = self.spent_wei.get(job_id, 0) + gas_used * price_wei
        if call.value_wei:
            self.bonds_wei[job_id] = 0
        if call.args and isinstance(call.args[0], Pair):
            self.used_gas[call.args[0]] = self.used_gas.get(call.args[0], 0) + gas_used

    def release(self, job_id: int) -> None:
        """Need nothing more for a job."""
        self.spent_wei.pop(job_id, None)
        self.bonds_wei.pop(job_id, None)
        for pair in [pair for pair in self.used_gas if pair.job_id == job_id]:
            del self.used_gas[pair]

    def may_go_on(self, stand: Stand, price_wei: int) -> bool:
        """Whether to pay for what is still to do in a job, while a unit of gas costs so much.

        One lost match loses all that the account has in the job, so that it plays all or none.
        """
        if calculate_crowd_gas(stand.met) * self.ceiling_wei <= self.budget_wei:
            return True
        rest_wei = self.calculate_rest(stand) * price_wei
        spent_wei = self.spent_wei.get(stand.job_id, 0)
        return spent_wei + rest_wei <= self.budget_wei or rest_wei < stand.stake_wei

    def calculate_rest(self, stand: Stand) -> int:
        """Return the most gas that the live matches and the job's end may still take."""
        rests = (MATCH_GAS - self.used_gas.get(pair, 0) for pair in stand.live)
        return END_GAS + sum(max(rest, _LAST_GAS) for rest in rests)
