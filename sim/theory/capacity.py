"""Capacity: how many jobs find a free slot, and what a lie gains that leaves one free.

Jobs that come at random, a of them during the time that one takes, find all of c slots busy in a
share of cases that Erlang's formula gives, however long each takes:

    B(0) = 1,   B(c) = a B(c - 1) / (c + a B(c - 1))

A watcher with c slots that is to check a share r of n jobs a block, b blocks each, checks
r (1 - B(c)) of them, with a = r n b.

A provider that lies computes a share of the job, and its slot is free for the rest. If jobs wait
for it, that is worth what another job brings. With the shares served of the jobs that come to an
honest provider and to a cheat, q_H and q_F, and the calls' cost g of a job that nobody disputes,
both earn the same at an audit rate of

    v* = (c_H - c_F + (1 - q_H / q_F) (P - c_H - g)) / (P + S)

which is the fraud game's (c_H - c_F) / (P + S) where all jobs find a slot, and above it elsewhere.
"""

from moot.offchain.errors import UsageError
from moot.sim.theory.fraud import FraudGame


def calculate_loss(slots: int, load: float) -> float:
    """Return the share of jobs that find all slots busy.

    Args:
        slots: how many there are.
        load: how many jobs come in the time for which one holds its slot.

    Raises:
        UsageError: the numbers make no sense.
    """
    if slots < 0 or not load >= 0:
        raise UsageError(f"{slots} slots with a load of {load} are impossible; take 0 or more")
    loss = 1.0
    for count in range(1, slots + 1):
        loss = load * loss / (count + load * loss)
    return loss


def calculate_audit_rate(
    asked: float, jobs_per_block: float, watchers: int, slots: int, blocks: float
) -> float:
    """Return the rate of audits that watchers achieve of the one that is asked for.

    Args:
        asked: the share of jobs that are to be audited, each by one watcher that is drawn.
        jobs_per_block: of all of them.
        watchers: how many there are.
        slots: of each.
        blocks: how long a check takes.
    """
    if not watchers:
        return 0.0
    return asked * (1 - calculate_loss(slots, asked * jobs_per_block * blocks / watchers))


def calculate_threshold(
    game: FraudGame, fee: float, honest_share: float = 1.0, cheat_share: float = 1.0
) -> float:
    """Return the audit rate at which a cheat earns what an honest provider does.

    Args:
        game: the money; `faked_cost` is what the lie still computes.
        fee: what the calls cost of a job that nobody disputes.
        honest_share: of the jobs that come to an honest provider, those that find a free slot.
        cheat_share: the same of a cheat.

    Raises:
        UsageError: a cheat serves no job, or the shares are none.
    """
    if not (0 <= honest_share <= 1 and 0 < cheat_share <= 1):
        raise UsageError(
            f"shares of jobs that find a slot are from 0 to 1, and a cheat's is above 0, not "
            f"{honest_share} and {cheat_share}"
        )
    freed = 1 - honest_share / cheat_share
    margin = game.payment - game.honest_cost - fee
    return (game.saving + freed * margin) / (game.payment + game.stake)
