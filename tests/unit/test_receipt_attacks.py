"""Attacks on those who sign, check, challenge and defend receipts, off the chain."""

import os
import socket
import time
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from types import SimpleNamespace
from typing import Any, cast

import pytest
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Route

from moot.command import receipt as command
from moot.contracts.model.bonds import Balance
from moot.contracts.model.types import MIN_BOND_WEI
from moot.contracts.reasons import Standing
from moot.offchain.errors import (
    BondExhausted,
    ChainUnavailable,
    NotChallenged,
    ReceiptError,
    Reverted,
    StoreError,
    UsageError,
)
from moot.offchain.parties import accuser
from moot.offchain.parties.defender import Defender
from moot.offchain.parties.receipt_watcher import ReceiptWatcher
from moot.offchain.parties.settings import Settings
from moot.offchain.receipts.book import Book, BookReader
from moot.offchain.receipts.issuing import Conditions
from moot.offchain.receipts.weakness import list_weaknesses
from moot.offchain.serving import endpoint, server
from moot.offchain.serving.tasks import TaskFinder
from tests.receipt_helpers import DOMAIN, make_key, make_provider, make_receipt, sign

ALL_WEI = 10 * MIN_BOND_WEI


def ignore(*_: Any, **__: Any) -> None:
    """Take an event."""


class FakeService:
    """A service that says what a test wants, and counts what is sent."""

    def __init__(self, bond_wei: int = ALL_WEI, block: int = 110) -> None:
        self.domain, self.chain = DOMAIN, SimpleNamespace(block_number=lambda: block)
        self.challenges, self.bond_wei = make_provider(9), bond_wei
        self.job: int | None = None
        self.rival: int | None = None
        self.sent: list[str] = []

    def get_stake(self, _: str) -> Balance:
        """Return a bond."""
        return Balance(self.bond_wei)

    def find_job(self, _: bytes) -> int | None:
        """Return the job of the receipt."""
        return self.job

    def is_open(self, _: int) -> bool:
        """Whether it goes on."""
        return True

    def get_standing(self, *_: Any) -> Standing:
        """Return that of a stranger."""
        return Standing.NONE

    def get_announced(self, _: bytes) -> int:
        """Nothing was announced."""
        return 0

    def transact(self, name: str, *_: Any, **__: Any) -> None:
        """Send a call."""
        self.sent.append(name)

    def challenge(self, *_: Any) -> int:
        """Challenge, unless a rival is first."""
        self.sent.append("challenge")
        if self.rival is not None:
            self.job = self.rival
            raise Reverted("service: receipt is being challenged", "challenge")
        return 5


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> FakeService:
    """A service that accusers find wherever they look."""
    fake = FakeService()

    @contextmanager
    def opened(*_: Any, **__: Any) -> Any:
        yield SimpleNamespace(service=fake, address=make_provider(2))

    monkeypatch.setattr(accuser, "opened_service", opened)
    return fake


def find_job(fake: FakeService, folder: Path, **changes: Any) -> tuple[int, bool]:
    """Challenge a receipt with some fields changed, as an accuser does once it has run it."""
    case: Any = SimpleNamespace(
        signed=sign(make_receipt(**changes)),
        run=SimpleNamespace(history=SimpleNamespace(top=b"\1" * 32)),
        store=SimpleNamespace(get_json=lambda _: "00" * 32, put_json=ignore, path=folder),
    )
    context: Any = SimpleNamespace(service=fake, address=make_provider(2))
    return accuser._find_job(context, Settings(), case, ignore)


@pytest.mark.parametrize(
    "changes",
    [
        {"clock_blocks": 1, "increment_blocks": 1},
        {"clock_blocks": 16, "increment_blocks": 1},
        {"clock_blocks": 1 << 20},
        {"window_blocks": 1},
        {"window_blocks": 1 << 20},
        {"last_block": 101},
    ],
)
def test_receipt_that_nobody_can_challenge_is_weak(
    service: FakeService, tmp_path: Path, changes: dict[str, Any]
) -> None:
    """Sound terms with which no challenge can be played are told, and nothing is sent for them."""
    assert [*list_weaknesses(make_receipt())] == []
    assert [*list_weaknesses(make_receipt(**changes))]
    with pytest.raises(UsageError):
        find_job(service, tmp_path, **changes)
    assert service.sent == []


@pytest.mark.parametrize(
    ("changes", "bond_wei", "problem"),
    [
        ({"last_block": 111 + 1, "issued_block": 90}, ALL_WEI, "too late"),
        ({}, MIN_BOND_WEI - 1, "too little"),
        ({"stake_wei": 2 * 10**18, "total_wei": 2 * 10**18}, 10**19, "most_bond"),
    ],
)
def test_challenge_that_would_be_refused_is_not_announced(
    service: FakeService, tmp_path: Path, changes: dict[str, Any], bond_wei: int, problem: str
) -> None:
    """No gas is spent, and no bond above one's own limit, where the service would say no."""
    service.bond_wei = bond_wei
    with pytest.raises(UsageError, match=problem):
        find_job(service, tmp_path, **changes)
    assert service.sent == []


def test_receipts_of_a_provider_without_a_bond_cost_a_watcher_nothing(
    service: FakeService, tmp_path: Path
) -> None:
    """Anybody signs lies and conflicts with fresh keys: nothing is run or sent for them."""
    service.bond_wei = 0
    settings = Settings(folder=str(tmp_path), store=str(tmp_path))
    lie = sign(make_receipt())
    with pytest.raises(UsageError, match="nothing to win"):
        accuser.accuse(settings, ignore, lie, cast("Any", None))
    with pytest.raises(UsageError, match="nothing to win"):
        accuser.accuse_of_conflict(settings, ignore, (lie, sign(make_receipt(steps=13))))
    assert service.sent == []


def test_challenge_that_an_accomplice_overtakes_is_joined(
    service: FakeService, tmp_path: Path
) -> None:
    """Whoever sees the announcement and challenges first does not send the accuser away."""
    service.rival = 7
    assert find_job(service, tmp_path) == (7, False)
    service.job = service.rival = None
    assert find_job(service, tmp_path) == (5, True)


@pytest.mark.usefixtures("service")
def test_accuser_challenges_again_after_an_accomplice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A challenge that somebody else has lost by is followed by one's own."""
    found = iter([(7, False), (8, True)])
    run = SimpleNamespace(compute=ignore, history=SimpleNamespace(top=b"\1" * 32))
    monkeypatch.setattr(accuser, "Run", lambda *_: run)
    monkeypatch.setattr(accuser, "_find_job", lambda *_: next(found))
    monkeypatch.setattr(accuser, "play_challenge", lambda *it: it[3] == 8)
    settings = Settings(folder=str(tmp_path), store=str(tmp_path))
    task: Any = SimpleNamespace(steps=12)
    assert accuser.accuse(settings, ignore, sign(make_receipt()), task)


def test_job_that_no_service_names_is_not_played(tmp_path: Path) -> None:
    """Anybody may enter a job in a provider's name: nothing is computed for it, and it waits."""

    def find_models(_: Any) -> Any:
        raise AssertionError("a model was loaded")

    with Book(tmp_path, DOMAIN, make_provider()) as book:
        kept = book.issue(make_receipt(), 10**30, b"{}", make_key().sign_digest)
        terms = kept.receipt.make_terms(MIN_BOND_WEI)
        for named in (None, 4):
            finder = TaskFinder(BookReader(tmp_path), find_models, {kept.digest: named}.get)
            with pytest.raises(NotChallenged):
                finder(3, terms)
    waited: list[str] = []
    party: Any = SimpleNamespace(_find_task=finder, wait=lambda _, line: waited.append(line))
    work: Any = SimpleNamespace(job_id=3, job=SimpleNamespace(terms=terms))
    Defender._prepare(party, work)
    assert len(waited) == 1


def test_defender_of_another_model_does_not_begin(tmp_path: Path) -> None:
    """Whoever could defend none of its receipts is told so before one is challenged."""
    request = b'{"prompt":[1],"max_tokens":2,"temperature":0,"top_k":0,"top_p":1,"seed":0}'
    with Book(tmp_path, DOMAIN, make_provider()) as book:
        book.issue(make_receipt(), 10**30, request, make_key().sign_digest)
        finder = TaskFinder(BookReader(tmp_path), lambda _: [], lambda _: None)
        with pytest.raises(UsageError, match="could not be defended"):
            finder.require_models()


def test_old_copy_of_a_book_signs_nothing(tmp_path: Path) -> None:
    """A book that lacks receipts which are published would use their numbers again."""
    with Book(tmp_path, DOMAIN, make_provider()) as book:
        book.require_published(0)
        begun = [book.is_new]
        book.issue(make_receipt(), 10**30, b"{}", make_key().sign_digest)
        book.require_published(1)
        assert [*begun, book.is_new] == [True, False]
        with pytest.raises(UsageError, match="costs the whole bond"):
            book.require_published(2)


def test_clocks_are_time_and_not_blocks() -> None:
    """Where blocks are fast, a provider's receipts leave as many seconds to defend them."""
    usual, fast = Conditions.choose(12.0, 1), Conditions.choose(0.25, 1)
    assert usual == Conditions(1)
    assert fast.clock_blocks * 0.25 >= usual.clock_blocks * 12
    assert fast.window_blocks * 0.25 >= 60
    for seconds in (1e-9, 0.1, 1.0, 2.0, 12.0, 60.0):
        given = Conditions.choose(seconds, 1)
        names = ("last_blocks", "window_blocks", "clock_blocks", "increment_blocks")
        chosen = {name: getattr(given, name) for name in names}
        last_block = 100 + chosen.pop("last_blocks")
        assert [*list_weaknesses(make_receipt(last_block=last_block, **chosen))] == []


def test_watcher_looks_again_at_a_file_that_was_half_there(tmp_path: Path) -> None:
    """A file that is still being written is no reason to look away; a pipe stops nobody."""
    told: list[str] = []

    def find_models(_: Any) -> Any:
        raise ReceiptError("looked at")

    def tell(event: str, line: str, **about: object) -> None:
        del event, about
        told.append(line)

    watcher = ReceiptWatcher(Settings(), tell, tmp_path, find_models)
    os.mkfifo(tmp_path / "pipe.json")
    text = '{"receipt": "' + sign(make_receipt()).encode() + '"}'
    for part, line in ((text[:9], "no JSON"), (text, "looked at")):
        (tmp_path / "answer.json").write_text(part)
        watcher.look()
        watcher.look()
        assert line in told.pop()
        assert told == []


def test_watcher_whose_node_is_away_looks_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever keeps a watcher from its node for a while hides neither a lie nor a conflict."""
    asked: list[str] = []

    def find_models(_: Any) -> Any:
        asked.append("lie")
        raise ChainUnavailable("node", "it is away")

    def prove(*_: Any) -> None:
        asked.append("conflict")
        raise ChainUnavailable("node", "it is away")

    monkeypatch.setattr("moot.offchain.parties.receipt_watcher.require_worth", ignore)
    monkeypatch.setattr("moot.offchain.parties.receipt_watcher.accuse_of_conflict", prove)
    watcher = ReceiptWatcher(Settings(key="key"), ignore, tmp_path, find_models)
    for number, steps in enumerate((12, 13)):
        text = sign(make_receipt(steps=steps)).encode()
        (tmp_path / f"{number}.json").write_text('{"receipt": "' + text + '"}')
    watcher.look()
    watcher.look()
    assert asked.count("lie") == asked.count("conflict") == 2


def test_named_lengths_do_not_fill_the_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Documents that name any lengths have few models loaded at once."""
    loaded = []

    def load_all(*_: Any, context: int | None, **__: Any) -> list[Any]:
        loaded.append(context)
        programs = SimpleNamespace(context=context or 4096, list_lengths=lambda: [32, 64, 4096])
        return [SimpleNamespace(programs=programs)]

    monkeypatch.setattr("moot.offchain.serving.checkpoints.load_all", load_all)
    finder = command._Finder(tmp_path, "fp32")
    for length in (32, 64, 4096, 10**30, -1, "9"):
        assert finder({"length": length})[0].context == 4096
    for length in range(40, 60):
        assert finder({"length": length})[0].context == length
        assert len(finder._known) <= command.MOST_LENGTHS
    assert loaded == [None, *range(40, 60)]


def test_bond_without_room_is_told_as_such() -> None:
    """Where receipts take up the whole bond a client is asked to come again, and all else fails."""
    assert endpoint._as_refusal(BondExhausted("no room")).status == 503
    assert endpoint._as_refusal(StoreError("no disk")).status == 500


def test_client_that_reads_nothing_gives_its_place_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """A reply that nobody reads ends, and so does what waits to be sent."""
    monkeypatch.setattr(server.BoundedProtocol, "read_s", 0.2)

    async def answer(_: Any) -> Response:
        return Response(b"x" * (1 << 25))

    made = server.make_server(Starlette(routes=[Route("/", answer)]))
    listener = server.listen("127.0.0.1", 0)
    thread = Thread(target=lambda: made.run(sockets=[listener]), daemon=True)
    thread.start()
    try:
        with socket.create_connection(listener.getsockname()) as it:
            it.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            ends = time.monotonic() + 20
            while not made.server_state.connections:
                assert time.monotonic() < ends
                time.sleep(0.01)
            while made.server_state.connections:
                assert time.monotonic() < ends
                time.sleep(0.01)
    finally:
        made.should_exit = True
        thread.join(20)
        listener.close()
