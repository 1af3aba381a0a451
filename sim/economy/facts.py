"""Facts about a job and an agent: what mechanisms and strategies are shown, and can't change."""

from typing import NamedTuple


class Job(NamedTuple):
    """A job, as everybody sees it.

    Attributes:
        number: in the order of arrival.
        block: the block in which it is looked at.
        value_gwei: what a right answer is worth to the client; mechanisms may ask, and strategies
            see it, too.
        price_gwei: what each provider that runs it is paid; 0 before there is a price.
        bond_gwei: what each has to lock for each of its accounts.
        fee_gwei: what the calls of a provider cost that nobody disputes, at today's price of gas.
        audit_rate: how often such a job is audited; NaN where the mechanism keeps that to itself.
        audit_gwei: what a watcher is paid that is asked to check.
        bait_gwei: what a check brings on average by errors that are forced, as the rule says, if
            all who are asked check: their rate times their share of the jackpot.
        gain_gwei: what a wrong answer that is accepted is worth to whoever has placed it.
        rivals: the names of the others that run it, too; empty before they are chosen.
    """

    number: int
    block: int
    value_gwei: int
    price_gwei: int
    bond_gwei: int
    fee_gwei: int
    audit_rate: float
    audit_gwei: int
    bait_gwei: int
    gain_gwei: int
    rivals: tuple[str, ...] = ()


class Own(NamedTuple):
    """What an agent sees of itself.

    Attributes:
        name: its name.
        free_gwei: its money that is not locked.
        locked_gwei: its money that is locked in open jobs.
        work_gwei: what it costs to run a job as agreed, or to check one.
        reputation: between 0 and 1.
        jobs: how many it has taken, or checked.
        slashed: in how many it has lost a bond.
    """

    name: str
    free_gwei: int
    locked_gwei: int
    work_gwei: int
    reputation: float
    jobs: int
    slashed: int


class Pledge(NamedTuple):
    """How a provider signs the receipt of an answer, and those after it.

    Attributes:
        chains: on how many chains it gives receipts, each to clients of its own; an honest one on
            one, since a number is used once.
        hides: whether its receipts say that all before them had ended.
        leaves: whether this is its last.
    """

    chains: int = 1
    hides: bool = False
    leaves: bool = False


class News(NamedTuple):
    """What became of a job in which an agent took part.

    Attributes:
        job: the job's number.
        block: the block in which it was settled.
        conduct: what the agent did.
        is_cheating: whether that was something else than what is agreed.
        was_checked: whether a watcher says that it has recomputed the job; a free rider that is
            paid for that says so, too.
        was_slashed: whether the agent has lost a bond.
        outcome: what the client got: `right`, `wrong` or `void`.
        profit_gwei: the change of the agent's wealth by this job.
        was_wrong: whether the agent knows that a provider has claimed what is wrong, by its own
            check or by a dispute; a forced error is one, too.
        found_gwei: the part of the profit that prizes and jackpots are, less gas.
    """

    job: int
    block: int
    conduct: str
    is_cheating: bool
    was_checked: bool
    was_slashed: bool
    outcome: str
    profit_gwei: int
    was_wrong: bool
    found_gwei: int
