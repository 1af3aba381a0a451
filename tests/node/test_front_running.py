"""Front running: somebody copies every pending call, and the copy comes first in the block."""

from collections.abc import Iterator
from typing import Any

import pytest

from moot.offchain.chain import Chain
from moot.offchain.chain.node import Node
from moot.sim.synthetic.products import Lie
from tests.node.anvil import Anvil
from tests.node.copier import Copier, WatchedNode, WatchedTester
from tests.node.table import HONEST, SCALAR, SILENT, SINK, make_game, play, set_up
from tests.quick import only


@pytest.fixture(params=only({"anvil"}, ["memory", "anvil"]))
def watched(request: pytest.FixtureRequest) -> Iterator[tuple[Chain, Copier]]:
    """A new chain of each kind, and who copies what is sent to it."""
    copier = Copier()
    if request.param == "memory":
        node: Node = WatchedTester(copier)
    else:
        anvil: Anvil = request.getfixturevalue("node")
        node = WatchedNode(anvil.url, copier)
    with Chain(node, None) as chain:
        yield chain, copier


def play_copied(chain: Chain, copier: Copier, lie: Lie, seat: int | None) -> tuple[Any, ...]:
    """Play a game of which the account of a seat, if any, copies what the others do.

    Returns who won, how the matches ended, and what the honest member was paid.
    """
    mark = chain.snapshot()
    game = make_game(set_up(chain), lie)
    liar = game.players[1].address
    copier.account = None if seat is None else chain.accounts[seat]
    # A liar that took another's commitment for its own could not show a claim.
    copier.spared = frozenset({liar, "commit"} if copier.account == liar else {liar})
    course, _ = play(game)
    copier.account = None
    chain.revert(mark)
    return course.winners, course.endings, course.payouts[game.address_of(HONEST)]


@pytest.mark.parametrize(
    "lie",
    [
        pytest.param(SCALAR, id="scalar"),
        pytest.param(SINK, id="sink", marks=pytest.mark.slow),
        pytest.param(SILENT, id="silent", marks=pytest.mark.slow),
    ],
)
def test_copies_in_the_same_block_change_nothing(watched: tuple[Chain, Copier], lie: Lie) -> None:
    """An outsider, the client or the rival gains nothing by copying every honest call."""
    expected = play_copied(*watched, lie, None)
    assert expected[0] == [HONEST]
    client, _, rival, outsider = range(1, 5)
    for seat in (outsider, client, rival):
        watched[1].accepted.clear()
        assert play_copied(*watched, lie, seat) == expected
        if lie is not SILENT:
            assert "descend" in watched[1].accepted
