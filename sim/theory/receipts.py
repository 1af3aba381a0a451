"""Receipts: from which sampling rate, stake and window on a lie in an answer no longer pays.

A lie saves S of the work, and brings G where the client relies on it. Clients check a share c of
their answers before they pay P; who finds a lie so pays nothing. Honest watchers are handed a
receipt at the times of a Poisson process of rate r, as long as a check of b blocks and a block for
the announcement still end in its window of w. None comes with probability e^(-r (w - b - 1)), so
that a lie is found with

    p = 1 - (1 - c) e^(-r (w - b - 1))

Whoever finds it challenges it, and the liar loses the larger of the stake s and the least bond m,
and D for its calls in the match. So a lie brings, beyond honesty,

    S + (1 - c) G - c P - p (max(s, m) + D)

until the bond is used up. This is 0 at p* = (S + (1 - c) G - c P) / (max(s, m) + D), and so at

    r* = ln((1 - c) / (1 - p*)) / (w - b - 1)
    w* = b + 1 + ln((1 - c) / (1 - p*)) / r
    s* = (S + (1 - c) G - c P) / p - D

whichever is wanted; a stake below m counts as m.

**Over-commitment.** Somebody that leaves lies N times, n = N / k times on each of k chains, and all
lies are backed by one bond B. Of X ~ Bin(N, p) lies that are found, the matches take
min(X, floor(B / max(s, m))) bonds. A proof of fault takes all that is left of B; what finds it is
what clients are shown. Each of h watchers looks by itself; q = 1 - e^(-r (w - b - 1)) is the chance
that a receipt is handed to one of them, who is any of them alike.

- Its own receipt alone: two receipts of a number have to reach one watcher. Of the k with a number
  J ~ Bin(k, q) are seen, by watchers all different with probability h! / ((h - J)! h^J), so that a
  number stays unproven with a = sum of P(J) times that; all n do with a^n.
- The signed chain: any two receipts of two chains are enough. A watcher sees none of a chain's n
  with z = (1 - q / h)^n, and at most one chain with z^k + k (1 - z) z^(k - 1); all h do with the
  h-th power of that.
- A watcher's word: every receipt is shown to one of W watchers, of whom h tell the truth: as the
  first, with J ~ Bin(k, h / W).
- A published batch: other chains are in none, so that k = 1 or the fault is certain.
"""

import math
from dataclasses import dataclass

from moot.offchain.errors import UsageError

SHOWN = ("receipt", "chain", "batch", "word")
"""What a client may be shown."""

_NEGLIGIBLE = 1e-12


@dataclass(frozen=True, slots=True)
class Answer:
    """The money of an answer, all in one unit.

    Attributes:
        price: P, what the client pays.
        saving: S, what a lie saves.
        gain: G, what it brings where somebody relies on it.
        stake: s, what backs the receipt.
        least: m, the least bond of a match.
        defence: D, what its match costs a liar for calls.

    Raises:
        UsageError: something is below 0, or there is nothing to lose.
    """

    price: float
    saving: float
    gain: float
    stake: float
    least: float
    defence: float = 0.0

    def __post_init__(self) -> None:
        amounts = (self.price, self.saving, self.gain, self.stake, self.least, self.defence)
        if min(amounts) < 0 or not self.bond + self.defence:
            raise UsageError(
                "an answer has a price, a saving, a gain, a stake, a least bond and a defence of 0 "
                f"or more, and something to lose, not {', '.join(map(str, amounts))}"
            )

    @property
    def bond(self) -> float:
        """What a liar loses in a match."""
        return max(self.stake, self.least)


@dataclass(frozen=True, slots=True)
class Watch:
    """How often answers are checked.

    Attributes:
        rate: r, of honest watchers together, for each receipt and block.
        window: w, in blocks.
        check: b, how long a check takes.
        clients: c, which share of their answers clients check.

    Raises:
        UsageError: a rate, share or time is impossible.
    """

    rate: float
    window: float
    check: float = 0.0
    clients: float = 0.0

    def __post_init__(self) -> None:
        if self.rate < 0 or min(self.window, self.check) < 0 or not 0 <= self.clients < 1:
            raise UsageError(
                "a watch has a rate and times of 0 or more, and clients that check a share of "
                f"their answers from 0 to less than 1, not {self.rate}, {self.window}, "
                f"{self.check}, {self.clients}"
            )

    @property
    def blocks(self) -> float:
        """For how many blocks a sample is early enough."""
        return max(0.0, self.window - self.check - 1)

    @property
    def sampled(self) -> float:
        """q, the chance that an honest watcher is handed a receipt in time."""
        return -math.expm1(-self.rate * self.blocks)

    @property
    def detection(self) -> float:
        """p, the chance that a lie is found."""
        return 1 - (1 - self.clients) * (1 - self.sampled)


def calculate_gain(answer: Answer, watch: Watch) -> float:
    """Return what a lie brings beyond honesty, as long as the bond lasts."""
    return _brings(answer, watch) - watch.detection * (answer.bond + answer.defence)


def _brings(answer: Answer, watch: Watch) -> float:
    """Return what a lie brings if watchers do not find it."""
    share = watch.clients
    return answer.saving + (1 - share) * answer.gain - share * answer.price


def _solve_sampling(answer: Answer, watch: Watch) -> float:
    """Return r (w - b - 1) at which a lie brings nothing: 0 if it never does, else maybe inf."""
    wanted = _brings(answer, watch) / (answer.bond + answer.defence)
    if wanted >= 1:
        return math.inf
    return max(0.0, math.log((1 - watch.clients) / (1 - wanted)))


def solve_rate(answer: Answer, watch: Watch) -> float:
    """Return the least rate of samples at which lying does not pay; inf if none is enough."""
    wanted = _solve_sampling(answer, watch)
    return wanted / watch.blocks if watch.blocks else math.inf if wanted else 0.0


def solve_window(answer: Answer, watch: Watch) -> float:
    """Return the least window at which lying does not pay; inf if none is enough."""
    wanted = _solve_sampling(answer, watch)
    if not wanted:
        return 0.0
    return watch.check + 1 + wanted / watch.rate if watch.rate else math.inf


def solve_stake(answer: Answer, watch: Watch) -> float:
    """Return the least stake at which lying does not pay; 0 if the least bond of a match does."""
    if not watch.detection:
        return math.inf if _brings(answer, watch) > 0 else 0.0
    wanted = _brings(answer, watch) / watch.detection - answer.defence
    return wanted if wanted > answer.least else 0.0


@dataclass(frozen=True, slots=True)
class Scam:
    """An over-commitment: so many lies on so many chains, and one bond.

    Attributes:
        lies: N.
        chains: k.
        bond: B, which backs all of them.
        shown: what clients are shown.
        honest: h, the watchers that tell the truth.
        watchers: W, all of them.

    Raises:
        UsageError: a number is impossible.
    """

    lies: int
    chains: int
    bond: float
    shown: str = "receipt"
    honest: int = 1
    watchers: int = 1

    def __post_init__(self) -> None:
        if self.shown not in SHOWN:
            raise UsageError.unknown("showing", self.shown, SHOWN, "ways to show receipts")
        if min(self.lies, self.chains) < 1 or self.bond < 0:
            raise UsageError("a scam has lies and chains of 1 or more, and a bond of 0 or more")
        if not 0 <= self.honest <= self.watchers:
            raise UsageError(
                f"{self.honest} of {self.watchers} watchers tell the truth; choose from 0 to all"
            )

    @property
    def numbers(self) -> float:
        """n, how many numbers are used on every chain."""
        return self.lies / self.chains


def calculate_fault(scam: Scam, watch: Watch) -> float:
    """Return the chance that an over-commitment is proven as a fault."""
    seen = scam.honest / scam.watchers if scam.shown == "word" and scam.watchers else watch.sampled
    if scam.chains == 1 or (not scam.honest and scam.shown != "batch"):
        return 0.0
    if scam.shown == "batch":
        return 1.0
    if scam.shown == "chain":
        unseen = (1 - seen / scam.honest) ** scam.numbers
        one = scam.chains * (1 - unseen) * unseen ** (scam.chains - 1)
        apart, times = min(1.0, unseen**scam.chains + one), float(scam.honest)
    else:
        apart, times = _stay_apart(scam.chains, seen, scam.honest), scam.numbers
    return 1 - math.pow(apart, times)


def _stay_apart(chains: int, seen: float, watchers: int) -> float:
    """Return the chance that of the receipts with one number no watcher sees two."""
    total = 0.0
    for count in range(min(chains, watchers) + 1):
        chance = math.comb(chains, count) * seen**count * (1 - seen) ** (chains - count)
        total += chance * math.perm(watchers, count) / watchers**count
    return total


def calculate_matches(scam: Scam, answer: Answer, watch: Watch) -> float:
    """Return how many bonds the matches about a scam's lies take on average."""
    most = math.floor(scam.bond / answer.bond + _NEGLIGIBLE)
    return _cap_binomial(scam.lies, watch.detection, most)


def _cap_binomial(trials: int, chance: float, most: int) -> float:
    """Return the mean of min(X, most), X ~ Bin(trials, chance): the sum of P(X > j), j < most."""
    if chance <= 0 or chance >= 1:
        return float(min(trials, most)) if chance >= 1 else 0.0
    mean, below = 0.0, 0.0
    for count in range(min(most, trials)):
        ways = math.lgamma(trials + 1) - math.lgamma(count + 1) - math.lgamma(trials - count + 1)
        below += math.exp(ways + count * math.log(chance) + (trials - count) * math.log1p(-chance))
        mean += max(0.0, 1 - below)
    return mean


def calculate_scam(scam: Scam, answer: Answer, watch: Watch) -> float:
    """Return what all lies of a scam bring, less what it loses by matches and by a proof."""
    matches, fault = calculate_matches(scam, answer, watch), calculate_fault(scam, watch)
    lost = matches * answer.bond
    lost += fault * (scam.bond - lost) + matches * answer.defence
    return scam.lies * _brings(answer, watch) - lost


def solve_covered_stake(answer: Answer, watch: Watch, chains: int = 1) -> float:
    """Return the stake at which a scam whose whole bond is lost brings nothing.

    A bond B backs k B / s lies on k chains, which bring k B (S + (1 - c) G - c P) / s and cost B.
    """
    return chains * _brings(answer, watch)
