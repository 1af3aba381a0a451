"""A story of the referee is written once, and told on the model alone and beside the contract."""

import pytest

from moot.contracts.model.types import Message, Pair
from moot.contracts.reasons import Reason, Status
from moot.offchain.arithmetic.base import Arithmetic
from moot.offchain.arithmetic.exact import EXACT
from moot.offchain.arithmetic.ordered import ORDERED
from moot.offchain.disputes.referee.board import Board, follow
from moot.offchain.disputes.referee.terms import make_terms
from moot.sim.synthetic.calls import find_call
from tests.lockstep.contracts import RefereeContract
from tests.lockstep.story import assemble, meet
from tests.lockstep.twin import RefereeTwin
from tests.referee.stage import ACCOUNTS, CLIENT, LIES, PROVIDERS, SINGLE, get_run, get_task

HONEST, LIAR = PROVIDERS[:2]


def tell(twin: RefereeTwin) -> None:
    """A member that has computed a job wins against one that lies about its first step."""
    arithmetic, boards = twin.store.arithmetic, dict[Pair, Board]()
    terms = make_terms(get_task(SINGLE, arithmetic))
    runs = {it: get_run(SINGLE, lie, arithmetic) for it, lie in ((HONEST, None), (LIAR, LIES[0]))}
    assert twin.call("open_job", CLIENT, terms, value_wei=7) is None
    assemble(twin, {member: run.history.top for member, run in runs.items()})
    assert meet(twin, CLIENT, HONEST, LIAR) is None
    while True:
        for event in twin.events:
            follow(boards, event, arithmetic)
        if not boards:
            break
        made = find_call(runs, terms, next(iter(boards.values())))
        assert twin.call(made.name, made.sender, *made.args) is None
    twin.block = twin.store.jobs[0].window_end + 1
    assert twin.call("settle", CLIENT, 0, runs[HONEST].history.top) is None
    assert twin.store.jobs[0].status is Status.WON
    assert [twin.call("collect", it, 0) for it in runs] == [None, Reason.NOTHING_OWED]


@pytest.mark.parametrize("arithmetic", [ORDERED, EXACT], ids=str)
def test_a_story_is_the_same_on_both(arithmetic: Arithmetic) -> None:
    """The model alone and the model beside the contract answer every call alike."""
    alone = RefereeTwin(ACCOUNTS, None, arithmetic)
    beside = RefereeTwin(ACCOUNTS, RefereeContract(ACCOUNTS, arithmetic))
    for twin in (alone, beside):
        tell(twin)
    assert beside.seen == alone.seen
    assert beside.balances == alone.balances


def test_a_contract_that_does_something_else_is_noticed() -> None:
    """A job that only the contract knows has the next one's number."""
    contract = RefereeContract(ACCOUNTS)
    terms = make_terms(get_task(SINGLE))
    assert contract.call("open_job", Message(CLIENT, 0, 1), (terms,)).reason is None
    with pytest.raises(AssertionError):
        tell(RefereeTwin(ACCOUNTS, contract))
