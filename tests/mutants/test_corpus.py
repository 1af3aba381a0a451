"""The corpus of the mutants, told to the model and to the contract: every answer is the same.

What kills a mutant of either is a call to which it says something else. So the figures of
`tests/mutants/run.py` are those of this test, as far as it tells the whole corpus.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import pytest

from moot.contracts.model.leaf import read_node
from moot.contracts.model.ledger import calculate_debt
from moot.contracts.model.types import Message, Store
from moot.contracts.reasons import Reason, Revert, Status
from moot.offchain.arithmetic.base import Arithmetic
from moot.offchain.arithmetic.exact import EXACT
from moot.offchain.arithmetic.ordered import ORDERED
from moot.offchain.arithmetic.tensor import HOPPER
from tests.lockstep.contracts import RefereeContract
from tests.lockstep.twin import RefereeTwin
from tests.machines.base import CHAIN_ID
from tests.mutants.corpus import list_groups
from tests.mutants.replay import Call, locate_referee
from tests.mutants.run import list_mutants, read_reasons
from tests.mutants.semantic import make_semantic
from tests.mutants.tape import ACCOUNTS
from tests.projection import call_model
from tests.quick import only, share
from tests.referee import stage
from tests.referee.leaf_contract import get_leaf
from tests.referee.nodes import Leaf
from tests.referee.test_leaf import compute, inspect

ANYBODY = (*ACCOUNTS, *stage.ACCOUNTS)
OF_TRUSTED = frozenset({"annul", "decide_leaf"})
"""Calls that only the contracts make which the referee trusts."""
CASES = [
    (arithmetic, name)
    for arithmetic in (ORDERED, EXACT, HOPPER)
    for name in list_groups(arithmetic)
]
QUICK = [(ORDERED, name) for name in ("plans", "illegal", "verdicts", "strange", "operators")]
QUICK += [(EXACT, "folds"), (HOPPER, "folds")]
STEP = 96
"""Of so many stories of these groups the short suite tells one."""


@cache
def get_contract(arithmetic: Arithmetic) -> RefereeContract:
    """Return the contract, deployed where the stories have it."""
    contract = RefereeContract(ANYBODY, arithmetic)
    assert contract.address == locate_referee(arithmetic)
    assert contract.machine.chain_id == CHAIN_ID
    return contract


@contextmanager
def at_the_beginning(arithmetic: Arithmetic) -> Iterator[RefereeTwin]:
    """Give model and contract as they were deployed."""
    contract = get_contract(arithmetic)
    mark = contract.machine.snapshot()
    try:
        yield RefereeTwin(ANYBODY, contract)
    finally:
        contract.machine.revert(mark)


def tell(twins: RefereeTwin, made: Call) -> None:
    """Make a call on both, which have to say the same."""
    contract = twins.contract
    assert contract is not None
    message = Message(made.sender, made.value_wei, made.block)
    if made.name in OF_TRUSTED:
        reason = Reason.NO_REASON if made.value_wei else Reason.NOT_YOURS
        assert contract.call(made.name, message, made.args).reason == reason
    elif made.name == "get_debt":
        assert contract.view("get_debt", *made.args) == find_debt(twins.store, *made.args)
    elif made.name in {"inspect", "compute"}:
        assert ask(contract.arithmetic, made) == answer(contract.arithmetic, made)
    elif made.name == "leaf" and isinstance(inspect(contract.arithmetic, made.args[4]), str):
        # The contract reads the operator before it compares it: neither has to say why it fails.
        assert contract.call(made.name, message, made.args).reason is not None
        with pytest.raises(Revert):
            call_model(twins.store, made.name, message, *made.args)
    else:
        twins.block = made.block
        twins.call(made.name, made.sender, *made.args, value_wei=made.value_wei)


def find_debt(store: Store, job_id: int, account: str) -> int:
    """Return what the model says that a job owes an account."""
    job = store.jobs.get(job_id)
    if job is None or job.status is Status.OPEN:
        return 0
    return calculate_debt(store, job_id, job, account)


def ask(arithmetic: Arithmetic, made: Call) -> Any:
    """Return what the leaf contract says to a question."""
    leaf = get_leaf(arithmetic)
    if made.name == "inspect":
        return leaf.ask("inspect", *made.args)
    return leaf.compute(*made.args)


def answer(arithmetic: Arithmetic, made: Call) -> Any:
    """Return what the model says to a question."""
    if made.name == "inspect":
        return inspect(arithmetic, *made.args)
    context, encoding, evidence = made.args
    known = inspect(arithmetic, encoding)
    if isinstance(known, str):
        return known
    return compute(Leaf(context, read_node(encoding, arithmetic), (), arithmetic), evidence)


@pytest.mark.parametrize(
    ("arithmetic", "name"), only(QUICK, CASES), ids=[f"{each.name} {name}" for each, name in CASES]
)
def test_model_and_contract_answer_the_corpus_alike(arithmetic: Arithmetic, name: str) -> None:
    """Refusals, events, words and money are the same in every call of every story.

    The long suite tells all stories, the short one those of some groups, and of these a part.
    """
    step = 1 if share(STEP) == STEP else STEP
    for story in list_groups(arithmetic)[name](step):
        with at_the_beginning(arithmetic) as twins:
            for made in story.calls:
                tell(twins, made)


@pytest.mark.parametrize("subject", ["contract", "model", "python"])
def test_semantic_mutants_fit_the_sources(subject: str) -> None:
    """Each change that is written down has one place in its source, and known survivors exist."""
    found = [mutant.name for mutant in list_mutants(subject, None, make_semantic)]
    known = {name for name in read_reasons() if name.endswith(".")}
    assert subject != "contract" or known <= set(found)
    assert len(set(found)) == len(found)
