"""Judgement on the contract: the disputes of a market with a policy are played on a chain, too."""

from dataclasses import dataclass

import msgspec

from moot.offchain.errors import UsageError
from moot.sim.economy.config import Config
from moot.sim.economy.reporting import NoRows
from moot.sim.economy.simulate import Progress, simulate


@dataclass(frozen=True, slots=True)
class Judgement:
    """What a market's disputes have come to on the contract; all ended as the table has them.

    Attributes:
        jobs: of the market.
        cheated: in how many a provider cheated.
        disputes: how many disputes there were.
        played: how many of them were played on the contract.
        wrong: how many jobs ended with a wrong answer, which nobody has disputed.
    """

    jobs: int
    cheated: int
    disputes: int
    played: int
    wrong: int


def judge(config: Config, progress: Progress, jobs: int, sample: float = 1.0) -> Judgement:
    """Play a market anew, and so many of its disputes on the contract.

    Args:
        config: the market, with those who cheat in it.
        progress: is told how far the work is.
        jobs: how many arrive.
        sample: the share of the disputes that is played.

    Raises:
        DisagreementError: a dispute ended otherwise on the contract.
        UsageError: no dispute can be played by the rules of the market's chain.
    """
    if jobs < 1:
        raise UsageError(f"a market of {jobs} jobs has nothing to judge; give it some")
    mixed = msgspec.structs.replace(config, jobs=jobs, fidelity="mixed", sample=sample, burn_in=0.0)
    counts = simulate(mixed, NoRows(), progress=progress)
    return Judgement(counts.jobs, counts.cheated, counts.disputed, counts.played, counts.wrong)
