"""A reorganiser: it replaces the latest blocks, and may give a job's number to another job."""

from dataclasses import replace
from random import Random

from moot.contracts.model.types import Terms as JobTerms
from moot.offchain.disputes.referee.port import Call
from moot.offchain.disputes.referee.terms import make_terms
from moot.sim.synthetic.products import Size
from tests.arena.adversary import Adversary
from tests.arena.jobs import Work, get_task
from tests.arena.names import CLIENT, HONEST
from tests.arena.records import Sent
from tests.arena.story import Params, Terms

KINDS = ("number", "number", "drop", "again")


class Reorganiser(Adversary):
    """Replaces blocks once something is in them, fewer than the provider's confirmations."""

    @classmethod
    def draw(cls, random: Random, terms: Terms) -> Params:
        """See Adversary."""
        del terms
        return {
            "kind": random.choice(KINDS),
            "depth": random.randrange(1, 8),
            "after": random.choice(("commit", "reveal", "descend", "leaf", "open_job")),
            "wait": random.randrange(3),
        }

    def prepare(self) -> None:
        """Have done nothing yet."""
        self._found: int | None = None
        self._is_done = False
        size = replace(self.world.size, checkpoints=self.world.size.checkpoints + 1)
        self._other = make_other_terms(self.world.main, size)
        self.world.note_work(self._other, Work(size, self.world.story.terms.step_s))

    def watch(self) -> None:
        """Replace blocks if it is time."""
        chain = self.world.chain
        if self._is_done:
            return
        if self._found is None:
            calls = (it.sent.call for it in chain.head.receipts if not it.reason)
            names = {it.name for it in calls if it.sender in {HONEST, CLIENT}}
            self._found = chain.head.number if self.params["after"] in names else None
        if self._found is None or chain.head.number < self._found + self.params["wait"]:
            return
        self._is_done = True
        depth = min(self.params["depth"], self.world.settings.confirmations - 1)
        kind = self.params["kind"]
        opened = self._find_opening()
        is_open = kind == "number" and opened is not None and chain.head.number - opened < depth
        first = [Call("open_job", CLIENT, (self._other,), 10**17)] if is_open else []

        def drop(sent: Sent) -> bool:
            if is_open:
                return sent.call.name == "open_job" or sent.sender == CLIENT
            return kind == "drop" and sent.sender == HONEST

        chain.reorganise(depth, drop, first)

    def _find_opening(self) -> int | None:
        jobs = dict(self.world.list_jobs())
        return jobs[0].opened_block if 0 in jobs else None


def make_other_terms(terms: JobTerms, size: Size) -> JobTerms:
    """Return the same terms about a job of another size."""
    other = make_terms(get_task(size))
    names = ("bond_wei", "commit_blocks", "reveal_blocks", "window_blocks", "clock_blocks")
    kept = {name: getattr(terms, name) for name in names}
    return replace(other, **kept)
