"""Truebit's dilemma of verifiers, with and without forced errors (arXiv 1908.04756).

Nobody checks where nobody cheats: a check costs C, and finds nothing. So now and then, at a rate r,
the solver has to give a wrong answer on purpose, and a jackpot J is paid to those who find it: to
each of k finders J / 2^(k - 1), so that a verifier under two names earns no more than under one.
If each of n others checks with probability x, the expected share of a checker is
J (1 - x / 2)^n, because each other halves it with probability x. So a check pays if

    r J (1 - x / 2)^n >= C

With r J <= C nobody checks, with r J >= 2^n C everybody does, and between them verifiers are
indifferent at x* = 2 (1 - (C / (r J))^(1 / n)).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from moot.offchain.errors import UsageError
from moot.sim.estimates import Estimate, estimate_mean

PERIODS = 2_000
RUNS = 64


@dataclass(frozen=True, slots=True)
class Dilemma:
    """The money of a dilemma of verifiers, all in one unit.

    Attributes:
        verifiers: how many there are, at least 1.
        check_cost: C, above 0.
        error_rate: r, of forced errors; 0 without them.
        jackpot: J, for finding one of them.
        prize: what finding a real error pays, shared out like the jackpot.

    Raises:
        UsageError: there is no verifier, a check is free, or the rate is none.
    """

    verifiers: int
    check_cost: float
    error_rate: float
    jackpot: float
    prize: float

    def __post_init__(self) -> None:
        if self.verifiers < 1 or self.check_cost <= 0 or not 0 <= self.error_rate <= 1:
            raise UsageError(
                "a dilemma needs a verifier, a check that costs something and a rate of forced "
                f"errors from 0 to 1, not {self.verifiers}, {self.check_cost}, {self.error_rate}"
            )

    @property
    def bait(self) -> float:
        """What a lone checker expects from forced errors: r J."""
        return self.error_rate * self.jackpot


def divide_jackpot(jackpot: float, finders: int) -> float:
    """Return what each of those who find a forced error is paid: J / 2^(k - 1).

    Raises:
        UsageError: nobody finds it.
    """
    if finders < 1:
        raise UsageError(f"{finders} finders share no jackpot; take 1 or more")
    return float(jackpot / 2 ** (finders - 1))


EXAMPLE = Dilemma(verifiers=10, check_cost=1, error_rate=0.001, jackpot=10_000, prize=100)


def calculate_gain(game: Dilemma, others: int, rate: float) -> float:
    """Return what a check gains if so many others check with a rate each and nobody cheats."""
    return float(game.bait * (1 - rate / 2) ** others - game.check_cost)


def calculate_least_jackpot(game: Dilemma) -> float:
    """Return the jackpot with which it pays to check even if all others do: C 2^n / r.

    Raises:
        UsageError: there are no forced errors to pay it for.
    """
    if not game.error_rate:
        raise UsageError("without forced errors no jackpot is ever paid; set their rate above 0")
    return float(game.check_cost * 2 ** (game.verifiers - 1) / game.error_rate)


def solve_rate(game: Dilemma) -> float:
    """Return the rate at which all verifiers check in the symmetric equilibrium."""
    others = game.verifiers - 1
    if calculate_gain(game, others, 0) <= 0:
        return 0
    if calculate_gain(game, others, 1) >= 0:
        return 1
    return float(2 * (1 - (game.check_cost / game.bait) ** (1 / others)))


def count_checkers(game: Dilemma) -> int:
    """Return how many verifiers check if each knows what the others do and nobody cheats.

    So many that the last one gains by it, and another one would not.
    """
    return sum(calculate_gain(game, others, 1) > 0 for others in range(game.verifiers))


@dataclass(frozen=True, slots=True)
class Outcome:
    """What best responses come to, as shares of all jobs or of all verifiers, with intervals.

    Attributes:
        checking: the share of the verifiers that check a job.
        unchecked: the share of jobs that nobody checks.
        cheated: the share of jobs whose answer is wrong, not on purpose, and accepted.
    """

    checking: Estimate
    unchecked: Estimate
    cheated: Estimate


def simulate(game: Dilemma, seed: int, periods: int = PERIODS, runs: int = RUNS) -> Outcome:
    """Return what comes of a solver and verifiers who respond best to one another.

    In each period there is one job, and then one of the players, drawn at random, thinks again: a
    verifier checks from then on if that pays, given who else does and whether the solver cheats;
    the solver cheats if nobody checks. Half of the periods pass before anything is counted.

    Args:
        game: the money.
        seed: source of the starts, and of who thinks again.
        periods: how many in a run.
        runs: how many independent ones.

    Raises:
        UsageError: there are too few runs, or periods.
    """
    if periods < 2:
        raise UsageError(f"{periods} periods leave none to count; take 2 or more")
    streams = np.random.default_rng(seed).spawn(runs)
    shares = [_play(game, stream, periods) for stream in streams]
    checking, unchecked, cheated = (estimate_mean(column) for column in zip(*shares, strict=True))
    return Outcome(checking, unchecked, cheated)


def _play(game: Dilemma, rng: np.random.Generator, periods: int) -> Sequence[float]:
    """Return the shares of one run."""
    checks = [bool(bit) for bit in rng.integers(2, size=game.verifiers)]
    is_cheating, counted = bool(rng.integers(2)), periods - periods // 2
    checked = unchecked = cheated = 0
    for period, who in enumerate(rng.integers(game.verifiers + 1, size=periods)):
        checkers = sum(checks)
        if period >= periods // 2:
            checked += checkers
            unchecked += not checkers
            cheated += is_cheating and not checkers
        if who == game.verifiers:
            is_cheating = not checkers
        else:
            others = checkers - checks[who]
            pot = game.prize if is_cheating else game.bait
            checks[who] = pot / 2**others > game.check_cost
    return checked / counted / game.verifiers, unchecked / counted, cheated / counted
