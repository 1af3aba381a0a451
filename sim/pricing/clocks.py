"""The clocks of a job: the shortest that outlast a censor, a sequencer, a reorganisation, a crowd.

These are the sums by which a provider decides whether it joins (`offchain/disputes/joining`): what
there is to gain pays for keeping calls out of so many blocks, and on a rollup a sequencer does so
for nothing until the chain below forces the calls in.
"""

from dataclasses import dataclass
from math import ceil, floor

from moot.contracts.model.types import MAX_BLOCKS
from moot.offchain.disputes.joining.job_check import LOOK_BLOCKS
from moot.offchain.disputes.referee.crowds import (
    SIDE_MOVES,
    Pace,
    calculate_least_clock,
    count_calls,
    count_censored,
)
from moot.offchain.disputes.referee.gas import REVEAL_GAS
from moot.offchain.disputes.referee.terms import USUAL, Stakes
from moot.offchain.errors import UsageError
from moot.sim.chains.chain import Chain

CENSOR, SEQUENCER, CROWD, WORK = "censorship", "the sequencer", "the crowd", "the work"


@dataclass(frozen=True, slots=True)
class Threat:
    """What the clocks have to outlast.

    Attributes:
        gain_wei: what there is to gain by keeping calls out.
        crowd: how many liars there are behind one claim.
        answer_s: how long an answer in a match takes to make, at most.
        work_s: how long the job takes, at most.
        confirmations: blocks that a reorganisation may take.
    """

    gain_wei: int
    crowd: int
    answer_s: float
    work_s: float
    confirmations: int


@dataclass(frozen=True, slots=True)
class Schedule:
    """The clocks of a job, in numbers of blocks as the contract reads them.

    Attributes:
        stakes: the clocks; of the money it has nothing.
        bound_by: what most of the clock of a match is for.
        lasts_s: seconds from the opening of a job that nobody disputes to its payout.
        longest_s: seconds to the end of the longest match, if both sides take all their time.
    """

    stakes: Stakes
    bound_by: str
    lasts_s: float
    longest_s: float


def make_schedule(chain: Chain, threat: Threat, steps: int) -> Schedule:
    """Return the shortest clocks that outlast a threat on a chain.

    Args:
        chain: where the job is.
        threat: what they have to outlast.
        steps: of the job: so many answers at most are different.

    Raises:
        UsageError: no clock that a job may have is long enough.
    """
    second, gas = chain.block.number_seconds, chain.block.gas_limit
    a_number = max(1, round(second / chain.block.seconds))
    shortest = ceil(chain.delay.force_inclusion_s / second)

    def count_out(offered: int | None = None) -> int:
        given = {} if offered is None else {"offered_gas": offered}
        blocks = count_censored(threat.gain_wei, block_gas=gas, **given)
        return max(shortest, ceil(blocks / a_number)) + threat.confirmations

    reveal = LOOK_BLOCKS + count_out(REVEAL_GAS)
    commit = reveal + ceil(threat.work_s / second)
    answers = min(threat.crowd, steps)
    delay = LOOK_BLOCKS + floor(answers * threat.answer_s / second)
    increment = max(USUAL.increment_blocks, delay)
    against_crowd = calculate_least_clock(
        threat.crowd, increment, Pace(count_calls(gas * a_number), delay)
    )
    out = count_out()
    clock = out + against_crowd
    stakes = Stakes(0, 0, commit, reveal, reveal, clock, increment)
    if max(commit, clock) > MAX_BLOCKS:
        raise UsageError(
            f"{chain.name}: a job needs times to act of {max(commit, clock):,} blocks, and has "
            f"{MAX_BLOCKS:,} at most; fear fewer liars (crowd) or make intervals shorter"
        )
    reason = CROWD if against_crowd > out else (SEQUENCER if shortest * 2 > out else CENSOR)
    joining = commit + reveal
    longest = joining + reveal + 2 * (clock + (SIDE_MOVES - 1) * increment)
    return Schedule(stakes, reason, joining * second, longest * second)
