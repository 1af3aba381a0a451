"""The chain in memory and a real node play the same games, to the last unit of gas."""

from collections.abc import Callable
from itertools import product
from typing import Any

import pytest

from moot.contracts.compiler import Artifact
from moot.contracts.deployment import deploy_referee
from moot.contracts.reasons import LeafMode, Reason
from moot.offchain.chain import Address, Chain, Contract, connect
from moot.offchain.disputes.play.game import Game
from moot.offchain.disputes.referee.on_chain import ChainReferee
from moot.offchain.disputes.referee.terms import Stakes
from moot.offchain.errors import Reverted
from moot.sim.synthetic.products import Lie
from tests.end_to_end import fixtures
from tests.end_to_end.fixtures import LIARS, Court, draw_cheat, get_case
from tests.node.anvil import Anvil, GatheringNode
from tests.node.table import (
    FIRST,
    SCALAR,
    SILENT,
    SINK,
    describe,
    make_game,
    open_tester,
    play,
    set_up,
)
from tests.quick import only


def compare(node: Anvil, seat: Callable[[ChainReferee], Game]) -> None:
    """Play a game on both chains, and compare the calls, their gas and events, and the end."""
    with open_tester() as memory, Chain(GatheringNode(node.url), None) as real:
        expected, found = (play(seat(set_up(chain))) for chain in (memory, real))
    assert describe(found[1]) == describe(expected[1])
    assert found[0] == expected[0]


class Recorder:
    """Deploys on a chain, and notes what that has cost."""

    def __init__(self, chain: Chain) -> None:
        self._chain = chain
        self.made: list[tuple[str, int, int]] = []

    def deploy(self, artifact: Artifact, *args: Any, sender: Address) -> Contract:
        """Deploy a contract."""
        contract = self._chain.deploy(artifact, *args, sender=sender)
        assert contract.deployment is not None
        receipt = contract.deployment
        self.made.append((contract.address, receipt.block, receipt.gas_used))
        return contract

    def at(self, artifact: Artifact, address: Address) -> Contract:
        """Return a contract that stands there already."""
        return self._chain.at(artifact, address)


def test_deployments_cost_the_same(node: Anvil) -> None:
    """All contracts are deployed at the same addresses for the same gas."""
    with open_tester() as memory, connect(node.url) as real:
        expected, found = Recorder(memory), Recorder(real)
        for recorder in (expected, found):
            deploy_referee(recorder, memory.accounts[0])
    assert found.made == expected.made


@pytest.mark.parametrize(
    "lies",
    [
        *(pytest.param((lie,), marks=pytest.mark.slow) for lie in (SCALAR, FIRST, SINK, SILENT)),
        (SCALAR, FIRST, SILENT, SINK),
    ],
    ids=["scalar", "first", "sink", "silent", "all"],
)
def test_games_in_paper_are_the_same(node: Anvil, lies: tuple[Lie, ...]) -> None:
    """Every ending, and a tournament of five claims: same verdicts, events and gas."""
    compare(node, lambda referee: make_game(referee, *lies))


MODELS = only({("wrong-output", LeafMode.SCALAR)}, product(LIARS, LeafMode))


@pytest.mark.parametrize(("cheat", "leaf"), MODELS)
def test_games_about_a_model_are_the_same(node: Anvil, cheat: str, leaf: LeafMode) -> None:
    """A real program and every cheat, in both leaf modes: same verdicts, events and gas."""
    case = get_case("mlp")
    players = {"honest-1": case.honest, f"{cheat}-1": draw_cheat(case, cheat, 12)}

    def seat(referee: ChainReferee) -> Game:
        court = Court(referee, referee.accounts)
        return fixtures.make_game(court, case, players, leaf, stakes=Stakes())

    compare(node, seat)


def test_refusals_are_the_same(node: Anvil) -> None:
    """A call that is refused is so for the same reason and the same gas, and changes nothing."""

    def refuse(chain: Chain) -> Reverted:
        game = make_game(set_up(chain), SCALAR)
        next(game.play())
        before = game.referee.job(game.job_id)
        with pytest.raises(Reverted) as caught:
            game.referee.transact("settle", game.job_id, bytes(32), sender=game.client)
        assert game.referee.job(game.job_id) == before
        return caught.value

    with open_tester() as memory, connect(node.url) as real:
        expected, found = refuse(memory), refuse(real)
    assert found.reason == expected.reason == Reason.TOO_EARLY
    assert found.gas_used == expected.gas_used is not None
