"""Reorganisations: the chain replaces its latest blocks at any moment, and the honest side wins.

What may be lost that way is bounded. Who is honest is paid the same to the wei, pays for the same
number of calls, and makes no more calls again than blocks were replaced. For that windows and
clocks have to be longer than the deepest replacement, by as many blocks as there are calls to
make in them: `tests.node.table.STAKES` are.
"""

from collections.abc import Callable
from itertools import islice

import pytest

from moot.contracts.deployment import bind_referee
from moot.contracts.model.types import NOBODY
from moot.offchain.chain import Chain, connect
from moot.offchain.disputes.referee.on_chain import ChainReferee
from moot.sim.synthetic.products import Lie
from tests.node.anvil import Anvil
from tests.node.table import (
    FIRST,
    HONEST,
    SCALAR,
    SILENT,
    SINK,
    Course,
    get_course,
    make_game,
    set_up,
)
from tests.quick import only

DEEPEST = 8
"""So many blocks are replaced at most, for which the stakes have room."""

Replace = Callable[[Anvil, int, str], None]


def empty(node: Anvil, depth: int, _: str) -> None:
    """Replace blocks by empty ones: all calls in them are lost, and so is the time."""
    node.replace_blocks(depth, ())


def shorten(node: Anvil, depth: int, _: str) -> None:
    """Take blocks back: the calls in them have not been made yet."""
    node.drop_blocks(depth)


def favour(node: Anvil, depth: int, honest: str) -> None:
    """Replace blocks by ones from which only the calls of the honest member are missing."""
    first = node.get_height() - depth + 1
    sent = [it for it in node.list_transactions(first) if it.sender != honest]
    node.replace_blocks(
        depth, [(node.get_raw(it.transaction_hash), it.block - first) for it in sent]
    )


WAYS: dict[str, Replace] = {"emptied": empty, "shortened": shorten, "favoured": favour}


class Table:
    """A referee on a node, where one game after the other is played from the same block."""

    def __init__(self, node: Anvil, chain: Chain) -> None:
        self._node = node
        self._chain = chain
        self._address = set_up(chain).address
        self._first_block = chain.block_number() + 1

    def play(
        self, lie: Lie, call: int = 0, replace: Replace = empty, depth: int = 0
    ) -> tuple[Course, int, list[str]]:
        """Play a game, of which blocks are replaced once so many calls have been made.

        The players keep all that they have read before. Returns the course, how many calls of the
        honest member the chain holds in the end, and whose calls have been made, in order.
        """
        mark = self._chain.snapshot()
        contract = bind_referee(self._chain, self._address)
        game = make_game(ChainReferee(self._chain, contract, self._first_block), lie)
        honest = game.address_of(HONEST)
        made = [played.player for played in islice(game.play(), call)]
        blocks = self._node.get_height() + 1 - self._first_block
        if depth:
            replace(self._node, min(depth, blocks), honest)
        if game.job_id >= 0 and game.referee.job(game.job_id).client == NOBODY:
            game.job_id = -1
        made += [played.player for played in game.play()]
        held = sum(it.sender == honest for it in self._node.list_transactions(self._first_block))
        course = get_course(game)
        self._chain.revert(mark)
        return course, held, made


def check(node: Anvil, lie: Lie, replace: Replace, depth: int) -> None:
    """Replace blocks after every call of a game, and compare with a game that is left alone."""
    with connect(node.url) as chain:
        table = Table(node, chain)
        expected, calls, undisturbed = table.play(lie)
        assert expected.winners == [HONEST]
        for call in range(1, len(undisturbed) + 1):
            course, held, made = table.play(lie, call, replace, depth)
            assert (course, held) == (expected, calls), f"blocks were replaced after call {call}"
            assert made.count(HONEST) <= calls + depth


@pytest.mark.parametrize("way", only({"favoured"}, WAYS))
def test_the_deepest_replacement_at_any_call(node: Anvil, way: str) -> None:
    """Replacing the latest 8 blocks after any call changes neither verdict nor payout."""
    check(node, SILENT, WAYS[way], DEEPEST)


@pytest.mark.slow
@pytest.mark.parametrize("depth", range(1, DEEPEST + 1))
@pytest.mark.parametrize("way", WAYS)
def test_replacements_of_any_depth(node: Anvil, way: str, depth: int) -> None:
    """The same with every depth up to that, for a game that goes down to a scalar."""
    check(node, SCALAR, WAYS[way], depth)


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("lie", [FIRST, SINK], ids=["first", "sink"])
def test_the_deepest_replacement_with_other_endings(node: Anvil, lie: Lie, way: str) -> None:
    """The same for a lie in the first step, and for a game that ends by the state."""
    check(node, lie, WAYS[way], DEEPEST)
