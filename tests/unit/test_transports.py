"""Ways to public nodes: what they refuse is asked in smaller pieces, and nothing has no bound."""

import email.utils
import json
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import Any

import pytest

from moot.offchain import bounded_json
from moot.offchain.chain import transports
from moot.offchain.chain.devnode.server import DevNode
from moot.offchain.chain.endpoints import FIRST_REST_S, LONGEST_REST_S, Endpoints
from moot.offchain.chain.jsonrpc import JsonRpc
from moot.offchain.chain.transports import (
    MOST_QUIET_S,
    MOST_UNASKED,
    QUIET_S,
    HttpTransport,
    Question,
    WebSocketTransport,
    open_transport,
    read_retry_after,
)
from moot.offchain.errors import ChainUnavailable
from tests.chain_helpers import serve_socket
from tests.http_helpers import Reply as HttpReply
from tests.http_helpers import serving_http

CONTRACT = "0x" + "ab" * 20
QUESTIONS: list[Question] = [("eth_getBalance", [CONTRACT, "latest"])] * 5

Reply = Callable[[Any], tuple[int, dict[str, str], bytes] | None]
"""Returns the status, the headers and the answer to a decoded request; None for the node's own."""


class Public:
    """A public node: one for development behind a provider with rules of its own."""

    def __init__(self) -> None:
        self.node = DevNode(1)
        self.asked: list[Any] = []
        self.reply: Reply = lambda _: None
        self.url = ""

    def answer(self, body: bytes) -> tuple[int, dict[str, str], bytes]:
        """Answer a request."""
        request = json.loads(body)
        self.asked.append(request)
        return self.reply(request) or (200, {}, self.node.answer(body))


@contextmanager
def serving_public() -> Iterator[Public]:
    """Serve a public node on loopback."""
    public = Public()

    with serving_http(lambda _, body: HttpReply(*public.answer(body))) as public.url:
        yield public


@pytest.fixture
def public() -> Iterator[Public]:
    """A public node."""
    with serving_public() as public:
        yield public


def make_refusal(number: object, code: int, message: str) -> bytes:
    """Return an error of JSON-RPC."""
    error = {"code": code, "message": message}
    return json.dumps({"jsonrpc": "2.0", "id": number, "error": error}).encode()


NO_BATCH = make_refusal(None, -32600, "no batches here")
BATCHES = {
    "an error": (200, NO_BATCH),
    "a list of an error without a number": (200, b"[" + NO_BATCH + b"]"),
    "HTTP status 400": (400, b"<html>"),
    "HTTP status 413": (413, b""),
    "HTTP status 403 with an error": (403, NO_BATCH),
}


@pytest.mark.parametrize("most", [1, 2])
@pytest.mark.parametrize("case", BATCHES)
def test_a_batch_that_is_refused_is_asked_in_halves(public: Public, case: str, most: int) -> None:
    """Down to single questions, however the refusal is worded; the size is remembered."""
    status, content = BATCHES[case]

    def refuse(request: Any) -> tuple[int, dict[str, str], bytes] | None:
        is_large = isinstance(request, list) and len(request) > most
        return (status, {}, content) if is_large else None

    public.reply = refuse
    transport = HttpTransport(public.url)
    for _ in range(2):
        answers = transport.ask_many(QUESTIONS)
        assert [answer["result"] for answer in answers] == ["0x0"] * 5
    refused = [it for it in public.asked if isinstance(it, list) and len(it) > most]
    assert len(refused) == {1: 3, 2: 2}[most]
    transport.close()


LIMITS = {
    "HTTP status 400": (400, lambda _: b"<html>"),
    "HTTP status 413": (413, lambda _: b""),
    "an error with HTTP status 400": (
        400,
        lambda it: make_refusal(it["id"], -32602, "block range is too large"),
    ),
    "more than": (
        200,
        lambda it: make_refusal(it["id"], -32005, "query returned more than 10000 results"),
    ),
    "range": (200, lambda it: make_refusal(it["id"], -32600, "eth_getLogs block range: 10")),
}


@pytest.mark.parametrize("several", [False, True])
@pytest.mark.parametrize("case", LIMITS)
def test_a_range_that_is_refused_is_paged(public: Public, case: str, *, several: bool) -> None:
    """Logs are asked for in halves of the blocks, of the same node also where there are others."""
    status, make = LIMITS[case]
    public.node.methods.blocks.mine(40)

    def refuse(it: Any) -> tuple[int, dict[str, str], bytes] | None:
        if it["method"] != "eth_getLogs":
            return None
        first, last = (int(it["params"][0][name], 16) for name in ("fromBlock", "toBlock"))
        return (status, {}, make(it)) if last - first >= 6 else None

    lines: list[str] = []
    with serving_public() as other:
        public.reply = lambda it: None if isinstance(it, list) else refuse(it)
        way = Endpoints([public.url, other.url], say=lines.append) if several else None
        node = JsonRpc(public.url, 1.0, way)
        assert node.get_logs(CONTRACT, 0, 40) == ()  # type: ignore[arg-type] # an address
        node.close()
        assert not [it for it in other.asked if "eth_getLogs" in str(it)]
    asked = [
        it["params"][0] for it in public.asked if isinstance(it, dict) and "fromBlock" in str(it)
    ]
    ends = [(int(it["fromBlock"], 16), int(it["toBlock"], 16)) for it in asked]
    pages = [page for page in ends if page[1] - page[0] < 6]
    assert [number for first, last in pages for number in range(first, last + 1)] == [*range(41)]
    assert len(lines) == several


def test_logs_that_no_page_gets_are_the_nodes_failure(public: Public) -> None:
    """Where even one block is refused, the node is unavailable, and no error of another kind."""
    public.reply = lambda it: (
        (400, {}, b"") if not isinstance(it, list) and it["method"] == "eth_getLogs" else None
    )
    node = JsonRpc(public.url, 1.0)
    with pytest.raises(ChainUnavailable, match="HTTP status 400"):
        node.get_logs(CONTRACT, 0, 0)  # type: ignore[arg-type] # an address
    node.close()


@pytest.mark.parametrize("status", [429, 503])
def test_a_busy_node_is_left_alone_and_another_is_asked(public: Public, status: int) -> None:
    """Retry-After is kept: nothing more goes to that node meanwhile, and nothing waits for it."""
    with serving_public() as other:
        transport = Endpoints([public.url, other.url])
        public.reply = lambda _: (status, {"Retry-After": "50"}, b"")
        asked = len(public.asked)
        for _ in range(3):
            assert transport.ask("eth_getBalance", [CONTRACT, "latest"])["result"] == "0x0"
        assert len(public.asked) == asked + 1
        with pytest.raises(ChainUnavailable, match="asked again in 50 s"):
            transport._check(public.url)
        assert len(public.asked) == asked + 1
        transport.close()


def test_retry_after_is_a_number_or_a_date() -> None:
    """It is bounded, and where it is neither it is a little."""
    now = 1_700_000_000.0
    date = email.utils.formatdate(now + 20, usegmt=True)
    read = partial(read_retry_after, now_s=now)
    assert [read(it) for it in ("7", "0", date)] == [7.0, 0.0, 20.0]
    assert read(email.utils.formatdate(now - 20, usegmt=True)) == 0.0
    assert {read(it) for it in ("9" * 400, email.utils.formatdate(now + 1e6))} == {MOST_QUIET_S}
    wrong = ("", "-5", "soon", "1e3", "\u0661", "Fri, 99 Nov 99999 00:00:00 GMT", "1 2 3 4 5 6")
    assert {read(it) for it in wrong} == {QUIET_S}


def test_a_node_that_fails_rests_for_longer_each_time(public: Public) -> None:
    """What a node has said of its height is forgotten with it, so that a lie captures nobody."""
    with serving_public() as other:
        transport = Endpoints([public.url, other.url])
        public.reply = lambda it: (
            None
            if isinstance(it, list)
            else (200, {}, json.dumps({"id": it["id"], "result": hex(10**6)}).encode())
        )
        assert transport.ask("eth_blockNumber", [])["result"] == hex(10**6)
        public.reply = lambda _: (502, {}, b"")
        assert transport.ask("eth_blockNumber", [])["result"] == "0x0"
        assert transport.url == other.url
        rests = []
        for _ in range(9):
            transport._let_rest(public.url)
            rests.append(transport._rests[public.url][1])
        assert rests == [min(FIRST_REST_S * 2 ** (n + 2), LONGEST_REST_S) for n in range(9)]
        assert transport._order([public.url, other.url]) == [other.url, public.url]
        transport.close()


DEEP = b"[" * 100_000


@pytest.mark.parametrize(
    "content",
    [
        *(DEEP, b'{"id": 1, "result": ' + DEEP, b'{"a":' * 100_000, b"[" + b"[],[" * 10**6),
        *(b'{"id": 1, "result": NaN}', b'{"id": 1, "result": -Infinity}', b"\xff\xfe[\x00]\x00"),
        *(b'{"id": 1, "result": ' + b"9" * 5_000 + b"}", b'{"id": true, "result": 1}'),
        *(b'{"id": "1", "result": 1}', b'{"id": 2, "result": 1}', b'{"result": 1}', b"7", b""),
        b'"' + b"[" * 10**5,
    ],
)
def test_json_is_bounded_before_it_is_read(content: bytes, public: Public) -> None:
    """Text that is deep, large, no JSON, or has another number ends in one line, on either way."""
    public.reply = lambda _: (200, {}, content)
    with serving_socket(lambda _: [content.decode(errors="replace")]) as url:
        for transport in (HttpTransport(public.url), WebSocketTransport(url)):
            with pytest.raises(ChainUnavailable, match="does not speak JSON-RPC"):
                transport.ask("eth_chainId", [])
            transport.close()


def test_brackets_in_texts_are_no_depth() -> None:
    """Depth is that of the values: what stands in quotes is text, quotes in it or not."""
    text = '["' + "[{" * 10_000 + '\\"[[[", {"a\\\\": [1]}]'
    assert bounded_json.decode(text.encode()) == json.loads(text)


def serving_socket(reply: Callable[[Any], list[str]]) -> AbstractContextManager[str]:
    """Serve a WebSocket that answers a request with some messages."""
    return serve_socket(lambda question: reply(json.loads(question)))


def make_answer(number: object) -> str:
    """Return an answer."""
    return json.dumps({"jsonrpc": "2.0", "id": number, "result": "0x1"})


TELLING = json.dumps({"jsonrpc": "2.0", "method": "eth_subscription", "params": {"result": "0x2"}})


def test_what_a_socket_tells_unasked_is_passed_over() -> None:
    """Some messages of subscriptions before an answer are no answer, and do no harm."""
    with serving_socket(lambda it: [TELLING] * MOST_UNASKED + [make_answer(it["id"])]) as url:
        transport = open_transport(url)
        assert transport.ask("eth_chainId", [])["result"] == "0x1"
        transport.close()


@pytest.mark.parametrize(
    "reply",
    [
        lambda it: [TELLING] * (MOST_UNASKED + 1) + [make_answer(it["id"])],
        lambda it: [make_answer(it["id"] + 1)],
        lambda it: [make_answer(str(it["id"]))],
        lambda it: [make_answer(it["id"] - 1), make_answer(it["id"])],
        lambda it: [json.dumps([json.loads(make_answer(it["id"]))])],
    ],
)
def test_a_socket_that_answers_something_else_is_closed(reply: Callable[[Any], list[str]]) -> None:
    """Endless messages, and answers to other questions, end the connection; the next is new."""
    replies = iter([reply, lambda it: [make_answer(it["id"])]])
    with serving_socket(lambda it: next(replies)(it)) as url:  # noqa: PLW0108 - one each time
        transport = open_transport(url)
        with pytest.raises(ChainUnavailable, match="does not speak JSON-RPC"):
            transport.ask("eth_chainId", [])
        assert transport.ask("eth_chainId", [])["result"] == "0x1"
        transport.close()


def test_a_socket_is_bounded_in_bytes_and_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A message that is too large, and messages that never end, are a failure in time."""
    monkeypatch.setattr(transports, "MOST_ANSWER_BYTES", 1_000)
    with serving_socket(lambda it: [make_answer(it["id"]) + " " * 2_000]) as url:
        transport = open_transport(url)
        with pytest.raises(ChainUnavailable):
            transport.ask("eth_chainId", [])
        transport.close()

    def dawdle(_: Any) -> list[str]:
        time.sleep(0.3)
        return [TELLING]

    with serving_socket(dawdle) as url:
        slow = WebSocketTransport(url, timeout_s=0.1)
        with pytest.raises(ChainUnavailable, match=r"no answer in 0\.1 s"):
            slow.ask("eth_chainId", [])
        slow.close()
