"""The server of a court's page: it follows a chain whatever becomes of that, and only reads."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from moot.offchain.chain import Chain, connect
from moot.offchain.chain.connection import TESTER
from moot.offchain.disputes.play.game import Game
from moot.offchain.errors import BadCall, UsageError
from moot.offchain.record.referee_log import RefereeLog
from moot.offchain.record.schema import Frame
from moot.sim.viewer.follower import MOST_FRAMES, Film, Follower
from moot.sim.viewer.server import serve
from tests.chain_helpers import LoopbackNode, compile_ledger, deploy_ledger, open_node
from tests.page_helpers import ask, wait_for
from tests.record_helpers import SCALAR, SINK, make_small_record, open_chain


def follow(chain: Chain, game: Game) -> Follower:
    """Return a follower of a game's court that is read by hand."""
    address: Any = game.referee.address
    return Follower(RefereeLog.find(chain, address), 3600)


def test_new_blocks_become_new_frames() -> None:
    """Each reading adds what is new, and leaves what was there as it is."""
    with connect(TESTER) as chain:
        game = open_chain(chain, (SCALAR,))
        follower = follow(chain, game)
        known: tuple[Frame, ...] = ()
        for number, _ in enumerate(game.play(), 1):
            follower._read()
            film = follower.film
            assert film.frames[: len(known)] == known
            assert len(film.frames) >= number
            assert (film.epoch, film.problem) == (1, None)
            known = film.frames
        chain.mine(5)
        follower._read()
        assert follower.film.head == chain.block_number() > known[-1].block
        assert follower.film.frames == known


def test_replaced_blocks_begin_a_new_epoch() -> None:
    """After a fork the frames are those of somebody who has read nothing before."""
    with connect(TESTER) as chain:
        game = open_chain(chain, (SCALAR,))
        game.take_turn()
        mark = chain.snapshot()
        follower = follow(chain, game)
        assert list(game.play())
        follower._read()
        first = follower.film
        chain.revert(mark)
        other = open_chain_again(game)
        assert list(other.play())
        follower._read()
        anew = follow(chain, game)
        anew._read()
        assert follower.film.frames == anew.film.frames != first.frames
        assert (first.epoch, follower.film.epoch) == (1, 2)
        assert anew.film.epoch == 1


def open_chain_again(game: Game) -> Game:
    """Return the same job with another liar at its table."""
    from tests.record_helpers import seat_game  # noqa: PLC0415 - of this function only

    accounts = [game.client, *(player.address for player in game.players)]
    other = seat_game(game.referee, accounts, (SINK,))  # type: ignore[arg-type]
    other.job_id = game.job_id
    return other


@pytest.fixture
def node() -> Iterator[LoopbackNode]:
    """A node behind JSON-RPC."""
    with open_node("http") as node:
        yield node


def test_a_chain_that_stops_is_told_and_goes_on(node: LoopbackNode) -> None:
    """While the node answers nothing the film says why and stays; then it goes on."""
    with connect(node.url) as chain, connect(node.url) as own:
        game = open_chain(chain, (SCALAR,))
        address: Any = game.referee.address
        follower = Follower(RefereeLog.find(own, address), 0.02)
        game.take_turn()
        follower.start()
        try:
            kept = follower.film.frames
            assert kept

            def break_off(_: Any) -> Any:
                raise ConnectionError

            node.replies["eth_blockNumber"] = break_off
            wait_for(lambda: follower.film.problem is not None)
            assert str(follower.film.problem).startswith(f"no chain at {node.url}")
            assert follower.film.frames == kept
            del node.replies["eth_blockNumber"]
            wait_for(lambda: follower.film.problem is None)
            game.take_turn()
            wait_for(lambda: len(follower.film.frames) > len(kept))
        finally:
            follower.stop()


def test_a_chain_that_began_anew_is_told() -> None:
    """A referee that the chain has no more is missed; where it is there again, the film goes on."""
    with connect(TESTER) as chain:
        mark = chain.snapshot()
        game = open_chain(chain, (SCALAR,))
        game.take_turn()
        follower = follow(chain, game)
        follower._read()
        chain.revert(mark)
        with pytest.raises(UsageError, match="the chain began anew"):
            follower._read()
        again = open_chain(chain, (SCALAR,))
        assert again.referee.address == game.referee.address
        follower._read()
        assert (follower.film.epoch, follower.film.frames) == (2, ())


def test_transactions_of_a_node_are_read(node: LoopbackNode) -> None:
    """Behind JSON-RPC frames have the same costs as the receipts of who has sent the calls."""
    with connect(node.url) as chain:
        game = open_chain(chain, (SCALAR,))
        receipts = [played.receipt for played in game.play()]
        follower = follow(chain, game)
        follower._read()
        found = [(it.call.name, it.call.gas, it.call.transaction) for it in follower.film.frames]
        assert found == [
            (it.call, it.gas_used, it.transaction_hash) for it in receipts if it is not None
        ]


def test_a_log_that_begins_in_the_middle_is_refused() -> None:
    """Who reads from too late a block is told so, and shown nothing wrong."""
    with connect(TESTER) as chain:
        game = open_chain(chain, (SCALAR,))
        for played in game.play():
            if played.call == "enter_tensor":
                break
        address: Any = game.referee.address
        court = RefereeLog.find(chain, address, chain.block_number())
        with pytest.raises(BadCall, match="read it from an earlier block"):
            Follower(court, 3600)._read()


def test_no_other_contract_is_taken_for_a_referee(tmp_path: Any) -> None:
    """An address without code, and one of another contract, are refused; a referee is not."""
    with connect(TESTER) as chain:
        game = open_chain(chain, (SCALAR,))
        address: Any = game.referee.address
        assert RefereeLog.find(chain, address).address == address
        with pytest.raises(UsageError, match="no contract at"):
            RefereeLog.find(chain, chain.accounts[1])
        ledger = deploy_ledger(chain, compile_ledger(tmp_path))
        with pytest.raises(UsageError, match="is no referee of this version"):
            RefereeLog.find(chain, ledger.address)


def test_answers_have_what_a_page_lacks() -> None:
    """A page gets the frames after its own, or all where its own are of another epoch."""
    frame = make_small_record().frames[0]
    film = Film(epoch=3, head=9, frames=(frame,) * (MOST_FRAMES + 5))
    assert len(film.answer(3, MOST_FRAMES + 2)["frames"]) == 3
    assert film.answer(3, MOST_FRAMES + 5)["frames"] == ()
    for epoch, first in ((0, 0), (2, 5), (3, 10**9), (3, 0)):
        answer = film.answer(epoch, first)
        assert (len(answer["frames"]), answer["more"], answer["epoch"]) == (MOST_FRAMES, True, 3)


def test_a_record_is_served_and_nothing_else() -> None:
    """There is one page; other paths, other methods and other names of this machine are refused."""
    with serve(make_small_record()) as url, ask(url) as get:
        assert url.startswith("http://127.0.0.1:")
        page = get("/")
        assert page.status == 200
        assert b"Moot court" in page.content
        assert page.headers["X-Content-Type-Options"] == "nosniff"
        for path in ("/frames", "/../etc/passwd", "/page.js", "/%2e%2e/"):
            assert get(path).status == 404
        head = get("/", "HEAD")
        assert (head.status, head.content) == (200, b"")
        assert int(head.headers["Content-Length"]) == len(page.content)
        assert get("/", Host="evil.example").status == 403
        assert get("/", Host=url.removeprefix("http://").rstrip("/")).status == 200
        assert get("/", "POST").status == 501


def test_a_court_is_served_as_json() -> None:
    """The frames' address answers with JSON, whatever numbers it is asked for."""
    with connect(TESTER) as chain:
        game = open_chain(chain, (SCALAR,))
        assert list(game.play())
        with serve(follow(chain, game)) as url, ask(url) as get:
            for query in ("", "?epoch=1&from=x", "?from=-1", "?epoch=1&from=99999999999999999999"):
                answer = json.loads(get(f"/frames{query}").content)
                assert len(answer["frames"]) > 10
            answer = json.loads(get("/frames?epoch=1&from=10").content)
            assert answer["frames"][0]["block"] >= 10
            assert (answer["epoch"], answer["problem"], answer["more"]) == (1, None, False)


def test_a_port_that_is_taken_is_refused() -> None:
    """Who asks for a port that somebody has is told to choose another."""
    with serve(make_small_record()) as url:
        port = int(url.rstrip("/").rpartition(":")[2])
        with (
            pytest.raises(UsageError, match="choose another --port"),
            serve(make_small_record(), port=port),
        ):
            pass
