"""A job's log has the events that the chain holds now, after any fork and from any node."""

from collections.abc import Iterator
from itertools import islice
from typing import Any

import pytest
from eth_tester.exceptions import TransactionFailed

from moot.contracts.deployment import bind_referee, deploy_referee
from moot.contracts.model.types import Event
from moot.offchain.chain import Chain, connect
from moot.offchain.chain.connection import TESTER
from moot.offchain.disputes.play.game import Game
from moot.offchain.disputes.referee.on_chain import ChainReferee
from moot.sim.synthetic.products import Lie, Size, seat
from tests.chain_helpers import LoopbackNode, open_node

SIZE = Size(checkpoints=4, operators=8, rows=8, columns=16, terms=16)
LIES = (Lie(step=1, operator=4, element=77, term=5), Lie(step=2, is_silent=True))
DEEP = 70
"""More blocks than any chain takes to be final."""


def open_table(chain: Chain, lie: Lie) -> Game:
    """Seat an honest provider and a liar on a chain that has no referee yet."""
    contract = deploy_referee(chain, chain.accounts[0])
    return seat(ChainReferee(chain, contract, 0), SIZE, chain.accounts[:3], [lie])


def read_anew(chain: Chain, game: Game) -> list[Event]:
    """Return the events of a game's job as somebody reads them who has read nothing before."""
    address: Any = game.referee.address
    return list(ChainReferee(chain, bind_referee(chain, address), 0).events(game.job_id))


def test_replaced_blocks_are_forgotten_however_deep_they_lie() -> None:
    """Whoever has read the job's first life reads its second: nothing of the first is left."""
    with connect(TESTER) as chain:
        game = open_table(chain, LIES[0])
        game.take_turn()
        mark = chain.snapshot()
        for lie in LIES:
            game.players = open_seats(game, lie)
            assert list(game.play())
            assert list(game.referee.events(0)) == read_anew(chain, game)
            chain.mine(DEEP)
            assert list(game.referee.events(0)) == read_anew(chain, game)
            chain.revert(mark)
            mark = chain.snapshot()
        assert [event.name for event in game.referee.events(0)] == ["JobOpened"]


def open_seats(game: Game, lie: Lie) -> Any:
    """Return the players of a table at which another lie is told, or the same."""
    accounts = [game.client, *(player.address for player in game.players)]
    return seat(game.referee, SIZE, accounts, [lie]).players


@pytest.fixture
def node() -> Iterator[LoopbackNode]:
    """A node behind JSON-RPC."""
    with open_node("http") as node:
        yield node


@pytest.mark.parametrize("limit", ["blocks", "logs"])
def test_a_node_that_limits_its_answers_is_asked_for_less(node: LoopbackNode, limit: str) -> None:
    """A job is read whole where ranges of more than 7 blocks, or more than 3 logs, are refused."""
    with connect(node.url) as chain:
        game = open_table(chain, LIES[0])
        for _ in islice(game.play(), 12):
            pass
        expected = read_anew(chain, game)
        assert len(expected) > 12
        ranges: list[int] = []

        def refuse(params: list[Any]) -> Any:
            blocks = int(params[0]["toBlock"], 16) - int(params[0]["fromBlock"], 16) + 1
            ranges.append(blocks)
            logs = node._request("eth_getLogs", params)["result"]
            if (blocks if limit == "blocks" else len(logs) * 7 // 3) > 7:
                raise TransactionFailed("query exceeds limit")
            return logs

        node.replies["eth_getLogs"] = refuse
        assert read_anew(chain, game) == expected
        assert max(ranges) > 7 > min(ranges)


def test_other_jobs_are_not_read(node: LoopbackNode) -> None:
    """The node is asked for the events of one job and of its matches, and for no others."""
    with connect(node.url) as chain:
        game = open_table(chain, LIES[0])
        other = seat(game.referee, SIZE, chain.accounts[3:6], [LIES[1]])
        for table in (other, game):
            for _ in islice(table.play(), 12):
                pass
        found: list[Any] = []

        def count(params: list[Any]) -> Any:
            found.extend(node._request("eth_getLogs", params)["result"])
            return node._request("eth_getLogs", params)["result"]

        node.replies["eth_getLogs"] = count
        events = read_anew(chain, game)
        assert len(found) == len(events) > 12
        assert {event.args[0] for event in events} == {game.job_id} != {other.job_id}
