"""Traffic: the calls of deals on their way into blocks, and those that wait for a cheaper one.

A call is in the block in which its case has it, unless that block costs more than the call may
pay; then it is in the first one that does not, and its party's clock runs meanwhile. Whoever is too
late for that loses what the referee takes: the case is played anew with those blocks closed.

Simplified on purpose: all calls of a deal may pay the same, so that a block is closed to all of
them or to none. Who has no more than its reserve when a deal is paid could not have paid more then:
all calls of the deal are followed again, and wait for a price that the reserve covers. A wait is a
week at most; the market goes on then as if the price had come down to the cap.
"""

from collections.abc import Sequence
from heapq import heappop, heappush

from moot.sim.economy.deals import Deal
from moot.sim.economy.delays import delay
from moot.sim.economy.ledger import Ledger
from moot.sim.economy.outcomes import Outcomes
from moot.sim.economy.prices import Prices

LONGEST = 50_400
"""For how many blocks a call waits at most: a week."""


class Traffic:
    """The calls of all deals that are not settled.

    Args:
        prices: of gas, block by block.
        outcomes: say what cases come to in which calls have waited too long.
        ledger: says who can pay.

    Attributes:
        since: the block since which a deal has a call that waits, by the number of its job.
    """

    def __init__(self, prices: Prices, outcomes: Outcomes, ledger: Ledger) -> None:
        self._prices, self._outcomes, self._ledger = prices, outcomes, ledger
        self.since: dict[int, int] = {}
        self._caps: list[tuple[int, int, Deal]] = []

    @property
    def highest_cap_wei(self) -> int:
        """The highest price that a call would pay which waits; 0 if none does."""
        return -self._caps[0][0] if self._caps else 0

    @property
    def patience_ends(self) -> int:
        """The block in which some call will have waited for as long as there is patience."""
        return next(iter(self.since.values())) + LONGEST

    def release(self) -> list[Deal]:
        """Return the deals whose calls need wait no more."""
        prices, caps, since = self._prices, self._caps, self.since
        released = []
        while caps and (-caps[0][0] >= prices.price_wei or caps[0][1] not in since):
            _, number, deal = heappop(caps)
            if since.pop(number, None) is not None:
                released.append(deal)
        patient = [number for number, block in since.items() if block + LONGEST <= prices.block]
        released += [deal for _, number, deal in caps if number in patient]
        for number in patient:
            del since[number]
        for deal in released:
            if deal.cap_wei < prices.price_wei:
                deal.patient_until = prices.block
        while caps and caps[0][1] not in since:
            heappop(caps)
        return released

    def follow(self, deal: Deal) -> int | None:
        """Return the block that has the last call of a deal; None if one waits for its block.

        Only what has happened is known: if the block is still to come, ask again then.
        """
        while True:
            first = self._find_dear(deal)
            if first is None:
                if self._is_paid(deal):
                    return deal.ends
                deal.begin_again()
                continue
            end = self._find_cheap(deal, first)
            if end is None:
                self.since[deal.job.number] = self._prices.block
                heappush(self._caps, (-deal.cap_wei, deal.job.number, deal))
                return None
            self._postpone(deal, first, end)

    def _find_dear(self, deal: Deal) -> int | None:
        """Return the block of the next call that may pay less than that block costs."""
        opened = deal.begins + 1
        offsets = [move.block for move in deal.case.moves]
        for block in sorted({opened + offset for offset in (*offsets, deal.case.blocks - 1)}):
            is_known = deal.followed <= block <= self._prices.block
            if is_known and not self._is_open(deal, block):
                return block
        return None

    def _is_open(self, deal: Deal, block: int) -> bool:
        """Whether the calls of a deal pay what a block costs, or whatever it costs by then."""
        return self._prices.find_price(block) <= deal.cap_wei or block >= deal.patient_until

    def _find_cheap(self, deal: Deal, block: int) -> int | None:
        """Return the next block that is open to the calls of a deal, if there has been one."""
        following = range(block + 1, self._prices.block + 1)
        return next((block for block in following if self._is_open(deal, block)), None)

    def _postpone(self, deal: Deal, block: int, end: int) -> None:
        """Let the calls of a deal wait that would have been in blocks from one to another."""
        deal.waited += end - block
        deal.followed = end
        opened = deal.begins + 1
        if block == opened:
            deal.begins += end - block
            return
        first, end = block - opened, end - opened
        deal.closed += ((first, end),)
        case = delay(deal.case, deal.lineup, first, end)
        if case is None:
            job = deal.job
            money = (job.bond_gwei, job.price_gwei * len(deal.parts))
            case = self._outcomes.congest(deal.lineup, deal.number, deal.closed, money)
        deal.put(case)

    def _is_paid(self, deal: Deal) -> bool:
        """Whether all who take part in a deal can pay for their calls, as far as they have come."""
        if deal.cap_wei == deal.reserve_wei or deal.ends > self._prices.block:
            return True
        return deal.can_pay(self._ledger, self.price(deal))

    def price(self, deal: Deal) -> Sequence[int]:
        """Return what a unit of gas costs everybody who takes part in a deal, the client last.

        Where no call has waited that is the price of the block of settling. Else each call costs
        what the block costs that it is in, and everybody's gas the mean of its own calls.
        """
        seats, cap_wei = len(deal.everybody), deal.cap_wei
        price_wei = min(self._prices.price_wei, cap_wei)
        if not deal.waited:
            return (price_wei,) * (seats + 1)
        names = deal.name_players()
        costs, gases = [0] * (seats + 1), [0] * (seats + 1)
        for move in deal.case.moves:
            place = names.get(move.player.rpartition(".")[0], seats)
            block_wei = self._prices.find_price(deal.begins + 1 + move.block) or price_wei
            costs[place] += move.gas * min(block_wei, cap_wei)
            gases[place] += move.gas
        return [
            -(-cost // gas) if gas else price_wei for cost, gas in zip(costs, gases, strict=True)
        ]
