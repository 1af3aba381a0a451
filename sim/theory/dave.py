"""Rounds of Dave's refereed tournaments with groups (arXiv 2411.05463).

In each round the claims, sorted by their demotions, meet in groups. One claim of each group stays
as it is, the others are demoted, and so many demotions eliminate. Nothing depends on which of the
equally demoted claims stays; so a tournament is kept as the number of claims at each level of
demotions, and 2^32 claims cost no more than 16.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product
from math import log, sqrt
from types import MappingProxyType

from moot.offchain.errors import UsageError

Counts = tuple[int, ...]
"""The number of claims at each level: entry k has those that were demoted k times."""


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules of a tournament with groups.

    Attributes:
        group: how many claims meet in a group, at least 2.
        demotions: how many demotions eliminate a claim, at least 1.

    Raises:
        UsageError: one of them is too small.
    """

    group: int = 4
    demotions: int = 21

    def __post_init__(self) -> None:
        if self.group < 2 or self.demotions < 1:
            raise UsageError(
                f"groups of {self.group} claims and {self.demotions} demotions make no tournament; "
                "take at least 2 claims a group and 1 demotion"
            )


PUBLISHED: Mapping[int, int] = MappingProxyType(
    {4: 29, 8: 36, 12: 40, 16: 44, 20: 47, 24: 51, 28: 54, 32: 57}
)
"""Rounds by log2 of the number of claims, without censorship (table 4: groups of 4, K = 21)."""
PUBLISHED_PAIRS: Mapping[int, int] = MappingProxyType(
    {4: 45, 8: 59, 12: 68, 16: 75, 20: 82, 24: 89, 28: 95, 32: 101}
)
"""The same for groups of 2 claims."""
PUBLISHED_CENSORED: Mapping[int, int] = MappingProxyType(
    {4: 49, 8: 56, 12: 60, 16: 64, 20: 67, 24: 71, 28: 74, 32: 77}
)
"""Rounds where the adversary censors the honest claim for as long as it can (table 2)."""
ROUND_HOURS = 10
"""The duration of a round in table 4: 8 hours of grace, and 2 for the moves of a match."""


def count_rounds(claims: int, rules: Rules, *, is_censored: bool = False) -> int:
    """Return the rounds until one claim is left, if the adversary delays as the paper's does.

    In every group the claim with the fewest demotions stays, because it is the one that lasts
    longest. Without censorship that is all: the honest claim wins each of its groups. With it, the
    adversary has one more move at the end: where the last group would leave one claim, it lets the
    most demoted claim stay, so that the other is demoted, and the two go on.

    Args:
        claims: how many there are, the honest one among them, at least 1.
        rules: the groups and the demotions.
        is_censored: whether the adversary can make the honest claim lose.

    Raises:
        UsageError: there is no claim.
    """
    counts, rounds = _begin(claims, rules), 0
    while sum(counts) > 1:
        after = _demote(counts, _keep_least(counts, rules.group))
        if is_censored and sum(after) == 1:
            most = max(level for level, count in enumerate(counts) if count)
            after = max(after, _demote(counts, _take(most, rules.demotions)), key=sum)
        counts, rounds = after, rounds + 1
    return rounds


def search_rounds(claims: int, rules: Rules, *, is_censored: bool = False) -> int:
    """Return the most rounds that any adversary can reach, by trying all that it can do.

    The time is exponential in claims and demotions; `count_rounds` is the strategy that this
    search confirms for small tournaments.

    Args:
        claims: how many there are, the honest one among them, at least 1.
        rules: the groups and the demotions.
        is_censored: whether the honest claim may be demoted, too; else one claim never is.

    Raises:
        UsageError: there is no claim.
    """

    @cache
    def search(counts: Counts) -> int:
        if sum(counts) == 1:
            return 0
        choices = _list_choices(counts, rules.group)
        results = {_demote(counts, stay) for stay in choices if is_censored or stay[0]}
        return 1 + max(search(after) for after in results)

    return search(_begin(claims, rules))


def bound_rounds(claims: int, rules: Rules) -> float:
    """Return the paper's fit, 2.66 K + log_G N + 2 sqrt(K log_G N), below which rounds stay."""
    levels = log(claims, rules.group)
    return 2.66 * rules.demotions + levels + 2 * sqrt(rules.demotions * levels)


def _begin(claims: int, rules: Rules) -> Counts:
    if claims < 1:
        raise UsageError(f"a tournament of {claims} claims has no winner; take at least 1")
    return (claims, *[0] * (rules.demotions - 1))


def _take(level: int, levels: int) -> Counts:
    """Return one claim at a level."""
    return tuple(int(place == level) for place in range(levels))


def _demote(counts: Counts, stay: Counts) -> Counts:
    """Return the claims after a round, given how many of each level stay there."""
    demoted = [0, *(count - kept for count, kept in zip(counts, stay, strict=True))]
    return tuple(kept + fallen for kept, fallen in zip(stay, demoted, strict=False))


def _keep_least(counts: Counts, group: int) -> Counts:
    """Return how many claims of each level are the first of their group, the least demoted."""
    first, stay = 0, []
    for count in counts:
        last = first + count
        stay.append(-(-last // group) + -first // group)
        first = last
    return tuple(stay)


def _list_choices(counts: Counts, group: int) -> Iterator[Counts]:
    """Yield, for each way in which all groups can end, how many claims of each level stay."""
    claims = [level for level, count in enumerate(counts) for _ in range(count)]
    groups = [claims[start : start + group] for start in range(0, len(claims), group)]
    yield from {_sum_up(ends, len(counts)) for ends in product(*(sorted(set(g)) for g in groups))}


def _sum_up(ends: Sequence[int], levels: int) -> Counts:
    return tuple(ends.count(level) for level in range(levels))
