"""The server of the node for development: JSON-RPC over HTTP, on loopback only."""

import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http import HTTPStatus
from typing import Any

from moot.offchain.bounded_http import LOOPBACK, BoundedHandler, BoundedServer, Bounds
from moot.offchain.bounded_json import decode
from moot.offchain.chain.devnode.blocks import Blocks
from moot.offchain.chain.devnode.methods import INVALID_REQUEST, PARSE_ERROR, Methods
from moot.offchain.chain.transports import Question

MOST_BYTES = 4 * 2**20
MOST_TOGETHER = 1_000
"""Requests in one batch."""
BOUNDS = Bounds(connections=512, of_one_address=512, rest_s=60.0)
"""All that play on a machine come from one address."""


class DevNode:
    """A chain that answers many clients, one request at a time.

    Args:
        accounts: how many funded accounts it has.
        block_seconds: time from one block to the next; None where each transaction gets one.
    """

    def __init__(self, accounts: int = 8, block_seconds: float | None = None) -> None:
        self.methods = Methods(Blocks(accounts), is_automatic=block_seconds is None)
        self.block_seconds = block_seconds
        self.lock = threading.Lock()
        self.stopping = threading.Event()

    def answer(self, body: bytes, path: str = "/") -> bytes:
        """Answer a request, or a batch of them, as it came over the wire under a path of the URL.

        All paths mean the same; what came and went is counted for each of them.
        """
        try:
            request = decode(body)
        except ValueError:
            return _refuse(PARSE_ERROR, "what came is not JSON")
        answer = self._answer_all(request)
        with self.lock:
            questions = len(request) if isinstance(request, list) else 1
            self.methods.note_traffic(path, questions, len(body), len(answer))
        return answer

    def _answer_all(self, request: Any) -> bytes:
        if isinstance(request, list):
            if not 0 < len(request) <= MOST_TOGETHER:
                return _refuse(INVALID_REQUEST, f"a batch has 1 to {MOST_TOGETHER} requests")
            return json.dumps([self._answer(it) for it in request]).encode()
        return json.dumps(self._answer(request)).encode()

    def make_blocks(self) -> None:
        """Make a block after each interval, until the node stops."""
        while not self.stopping.wait(self.block_seconds):
            with self.lock:
                self.methods.blocks.make_block()

    def _answer(self, request: Any) -> dict[str, Any]:
        with self.lock:
            return self.methods.answer(request)


class Local:
    """A transport to a node in this process; see Transport."""

    def __init__(self, node: DevNode) -> None:
        self._node = node

    def ask(self, method: str, params: Sequence[Any]) -> Any:
        """See Transport."""
        return self.ask_many([(method, params)])[0]

    def ask_many(self, questions: Sequence[Question]) -> list[Any]:
        """See Transport."""
        batch = [
            {"id": n, "method": it, "params": list(of)} for n, (it, of) in enumerate(questions)
        ]
        answers: list[Any] = json.loads(self._node.answer(json.dumps(batch).encode()))
        return answers

    def close(self) -> None:
        """See Transport."""


@contextmanager
def serve(node: DevNode, port: int = 0, bounds: Bounds = BOUNDS) -> Iterator[str]:
    """Serve a node on a port of loopback, a free one for 0, and give its URL."""
    server = BoundedServer((LOOPBACK, port), _make_handler(node), bounds)
    maker = threading.Thread(target=node.make_blocks)
    with server, server.serving():
        if node.block_seconds is not None:
            maker.start()
        try:
            yield server.url
        finally:
            node.stopping.set()
            if node.block_seconds is not None:
                maker.join()


def _make_handler(node: DevNode) -> type[BoundedHandler]:
    class Handler(BoundedHandler):
        def take(self) -> None:
            """Answer a question, or a batch of them."""
            body = self.read_body(MOST_BYTES)
            if body is None:
                self.close_connection = True
                self.answer(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, b"")
                return
            content = node.answer(body, self.path)
            self.answer(HTTPStatus.OK, content, {"Content-Type": "application/json"})

    return Handler


def _refuse(code: int, message: str) -> bytes:
    error = {"code": code, "message": message}
    return json.dumps({"jsonrpc": "2.0", "id": None, "error": error}).encode()
