"""What a client is shown before it relies on an answer and pays: four ways, and batches."""

from dataclasses import dataclass

from moot.sim.economy.service.affairs import CONFLICT, UNLISTED, Affair
from moot.sim.economy.service.challenges import Challenges, Later
from moot.sim.economy.service.endings import Endings
from moot.sim.economy.service.houses import House
from moot.sim.economy.service.lookout import Lookout
from moot.sim.economy.service.requests import Request
from moot.sim.economy.service.till import Till
from moot.sim.economy.strategies.base import WATCHER

RECEIPT_BYTES, NODE_BYTES, WORD_BYTES = 450, 32, 65
"""What a client is shown: a receipt, its own or one before it on the chain, whose signature only
the whole receipt lets it check; a step of a proof; a signature."""


@dataclass
class Showing:
    """The showing of receipts to clients.

    Attributes:
        till: moves the money.
        challenges: takes to the service what a client can prove.
        lookout: has the watchers.
        endings: ends affairs.
        later: does something in a later block.
    """

    till: Till
    challenges: Challenges
    lookout: Lookout
    endings: Endings
    later: Later

    def show(self, affair: Affair, request: Request) -> None:
        """Show a client what it is to be shown, and let it pay if it relies on that."""
        house, signed, service = affair.house, affair.signed, self.till.config.service
        shown, others = service.shown, signed.number - house.published
        affair.shown_bytes = RECEIPT_BYTES
        looks = request.checked < service.client_checks
        if looks and self.lookout.recompute(affair, affair.client) and affair.is_lie:
            self.challenges.challenge(affair, affair.client, WATCHER)
            return
        if shown == "chain":
            affair.shown_bytes += RECEIPT_BYTES * others
            if house.hides and affair.house.open_gwei > signed.stake:
                total = signed.total - signed.stake
                before = signed._replace(number=signed.number - 1, total=total)
                self.challenges.prove(affair, affair.client, CONFLICT, (before, signed))
                return
        if shown == "word":
            affair.shown_bytes += WORD_BYTES
            if not self.lookout.vouch(affair, request.word):
                return
        if shown == "batch":
            affair.pending += 1
            house.waiting.append(affair)
        else:
            self._accept(affair)
        if service.publish_every and not house.is_publishing:
            house.is_publishing = True
            block = signed.issued + service.publish_every
            self.later(block, lambda: self._publish(house, affair))

    def _accept(self, affair: Affair) -> None:
        """Let a client rely on an answer, and pay for it."""
        affair.is_relied = True
        self.till.owe(affair)
        if affair.is_lie and affair.job.gain_gwei:
            self.till.bring(affair.house.agent, affair.job.gain_gwei, affair.job.number)

    def _publish(self, house: House, first: Affair) -> None:
        """Let a provider publish its receipts; those of other chains are not among them."""
        waiting, house.waiting, house.is_publishing = house.waiting, [], False
        count = house.chains[0].number - house.published
        if count and not house.is_faulted:
            self.till.use("service.publish", house.agent, first.job.number, 0, count)
            self.till.moves.publish(house, count)
            house.join_chains()
            steps = max(1, (count - 1).bit_length())
            for affair in waiting:
                if not affair.signed.chain:
                    affair.shown_bytes += NODE_BYTES * steps
                    self._accept(affair)
            for affair in waiting:
                if affair.signed.chain and affair.signed.number < house.published:
                    pair = (affair.signed, affair.signed)
                    self.challenges.prove(affair, affair.client, UNLISTED, pair)
            self.lookout.compare(first)
        for affair in waiting:
            self.endings.done(affair)
