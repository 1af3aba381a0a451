"""Conflicts among receipts of one provider: two that do not go together prove a fault."""

from bisect import bisect_right
from collections.abc import Iterable
from itertools import accumulate, pairwise

from moot.contracts.model.receipts import find_conflict
from moot.offchain.errors import UsageError
from moot.offchain.receipts.packed import SignedReceipt

Pair = tuple[SignedReceipt, SignedReceipt]


def find_fault(receipts: Iterable[SignedReceipt]) -> Pair | None:
    """Return two receipts that conflict, the lower number first, or None where no two do.

    It takes n log n steps for n receipts, and finds a conflict if there is any pair that
    `find_conflict` would name.

    Raises:
        UsageError: the receipts are of several providers or services.
    """
    distinct = {it.digest: it for it in receipts}
    ordered = sorted(distinct.values(), key=lambda it: it.receipt.number)
    if len({(it.domain, it.receipt.provider) for it in ordered}) > 1:
        raise UsageError("the receipts are of several providers or services; give one's own")
    for pair in pairwise(ordered):
        if find_conflict(*(it.receipt for it in pair)):
            return pair
    # Numbers ascend by now, and totals with them.
    totals = [it.receipt.total_wei for it in ordered]
    latest = list(accumulate(range(len(ordered)), lambda a, b: _end_later(ordered, a, b)))
    for place, second in enumerate(ordered):
        released = min(bisect_right(totals, second.receipt.released_wei), place)
        if released:
            first = ordered[latest[released - 1]]
            if find_conflict(first.receipt, second.receipt):
                return first, second
    return None


def _end_later(receipts: list[SignedReceipt], first: int, second: int) -> int:
    """Return which of two receipts ends later."""
    lasts = (receipts[first].receipt.last_block, receipts[second].receipt.last_block)
    return second if lasts[1] > lasts[0] else first
