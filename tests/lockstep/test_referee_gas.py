from contracts.reasons import Ending
from tests.lockstep.claims import cheating
from tests.lockstep.game import Game
from tests.lockstep.harness import Lockstep
from tests.lockstep.tasks import honest_kinds, kinds

CEILINGS = {
    "open_job": 260_000,
    "commit": 81_000,
    "reveal": 45_000,
    "start_match": 88_000,
    "open": 50_500,
    "pick": 71_500,
    "enter_interval": 92_000,
    "enter_trace": 108_000,
    "enter_operator": 123_000,
    "open_chunk": 39_000,
    "pick_element": 65_000,
    "open_fold": 53_500,
    "pick_segment": 53_500,
    "leaf": 182_000,
    "settle": 60_000,
    "withdraw": 31_000,
}
"""Gas of each call in a match over small trees; a pick at a leaf remembers where it has arrived."""


def test_no_call_costs_more_than_it_did(referee: Lockstep) -> None:
    """A match with every phase down to a scalar stays below its ceilings, call by call."""
    referee.gas = {}
    game = Game(referee, kinds(20, 7), [cheating(kinds(20, 7), 3, 6), honest_kinds(20, 7)])
    assert game.assemble().start().finish() == (1, Ending.SCALAR)
    referee.call("settle", game.client, game.job_id)
    referee.call("withdraw", game.members[1])
    assert referee.gas.keys() == CEILINGS.keys()
    above = {n: max(g) for n, g in referee.gas.items() if max(g) > CEILINGS[n]}
    assert not above
