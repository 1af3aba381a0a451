"""Demands: a client whose store lacks parts that it is paid for, and askers who ask for nothing."""

from random import Random

from moot.contracts.model.answers import MIN_DEPOSIT_WEI, Subject, make_subject
from moot.contracts.reasons import DemandStatus, Part, PromiseStatus, Status
from moot.offchain.commitments.tags import Tag
from moot.offchain.commitments.tree import Tree
from moot.offchain.disputes.availability.demands import list_demand, show_tensor
from moot.offchain.disputes.referee.port import Call
from tests.arena.adversary import Adversary
from tests.arena.jobs import get_task
from tests.arena.ledger import REFEREE
from tests.arena.names import CLIENT, HONEST
from tests.arena.records import name_account
from tests.arena.story import Params, Terms

ASKER = name_account("asker")
PROMISE_WEI = 10**18
AT_ONCE = 16


class Demands(Adversary):
    """The main job's client withholds chunks; somebody else demands all that there is."""

    @classmethod
    def draw(cls, random: Random, terms: Terms) -> Params:
        """See Adversary."""
        del terms
        return {"wrong": random.choice((1, 4, 20)), "asked": random.choice((0, 0, 0, 20))}

    def prepare(self) -> None:
        """Have asked nothing yet."""
        self._has_asked = False
        self.world.fund(ASKER)
        self._places = [(int(Part.START), 0, chunk) for chunk in range(self.params["wrong"])]
        self.world.shop.missing[0] = self._places[:AT_ONCE]

    def act(self) -> None:
        """Promise, answer what the provider demands, and demand all else."""
        world = self.world
        jobs = dict(world.list_jobs())
        if 0 not in jobs or jobs[0].terms != world.main:
            return
        subject, vault = make_subject(world.main, REFEREE, 0), world.chain.ledger.vault
        promise = vault.promises.get(subject)
        if promise is None:
            if jobs[0].status is Status.OPEN:
                last = jobs[0].reveal_deadline + world.main.window_blocks
                args = (subject, MIN_DEPOSIT_WEI, world.main.commit_blocks // 2, last)
                world.submit_once(Call("promise", CLIENT, args, PROMISE_WEI))
            return
        if not self._has_asked and promise.status is PromiseStatus.KEPT:
            self._has_asked = True
            there = [(int(part), at, 0) for part in Part for at in range(subject.count(part))]
            for place in there[: self.params["asked"]]:
                args = (subject, *list_demand(place, None))
                world.chain.submit(Call("demand", ASKER, args, promise.deposit_wei))
        self._answer(subject)

    def _answer(self, subject: Subject) -> None:
        """Show what the provider has demanded; the next parts are wrong, too."""
        world = self.world
        task = get_task(world.size)
        state = Tree(Tag.STATE_NODE, task.start_roots)
        for place, demand in world.chain.ledger.vault.demands.items():
            if place[0] != subject or demand.asker != HONEST:
                continue
            part = place[1:]
            if demand.status is DemandStatus.OPEN:
                move = show_tensor(task.start[0].array, state, part)
                world.submit_once(Call(move.call, CLIENT, (subject, *move.args)))
            elif part in self._places:
                self._places.remove(part)
        world.shop.missing[0] = self._places[:AT_ONCE]
