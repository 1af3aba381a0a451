"""The choice of the matches that a side begins: just enough to defeat every rival member."""

from collections import Counter
from collections.abc import Iterator, Sequence

from moot.contracts.model.types import Address, Pair
from moot.offchain.commitments.tree import Digest
from moot.offchain.disputes.play.tournament import Tournament, order_pair


def choose_pairs(tournament: Tournament, block: int, own: Digest | None = None) -> Iterator[Pair]:
    """Yield the matches to begin in a block.

    Two claims that are free meet. Of two that meet, the members of one, the larger, are dealt out
    to those of the other: everybody there gets an opponent who has none. A match takes out one of
    the two at least, so that so many matches as there are members, and not as many as there are
    pairs of them, leave one claim of two without anybody; how many more come of those who win is
    in `docs/measurements/gas.md`.

    Args:
        tournament: what is known of the job.
        block: the first in which a match can begin.
        own: the claim that is defended, if it is one's own; then it is the other's members that
            need opponents, whichever is larger.
    """
    claims = tournament.get_claims()
    free, done = [], set()
    for top, members in claims.items():
        meeting = tournament.meetings.get(top)
        if tournament.is_free(top, block):
            free.append(members[0])
        elif meeting is not None and meeting.rival in claims and top not in done:
            done |= {top, meeting.rival}
            sides = sorted((top, meeting.rival), key=lambda t: (t != own, len(claims[t])))
            yield from _deal_out(tournament, claims[sides[1]], claims[sides[0]])
    for one, other in zip(free[::2], free[1::2], strict=False):
        yield order_pair(tournament.job_id, one, other)


def _deal_out(
    tournament: Tournament, challenged: Sequence[Address], opponents: Sequence[Address]
) -> Iterator[Pair]:
    """Yield a match for each of the challenged that plays none, against who plays the fewest."""
    load = Counter(member for pair in tournament.boards for member in (pair.first, pair.second))
    for member in challenged:
        if not load[member]:
            opponent = min(opponents, key=lambda address: load[address])
            load[opponent] += 1
            yield order_pair(tournament.job_id, member, opponent)
