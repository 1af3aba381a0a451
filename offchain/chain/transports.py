"""Transports of JSON-RPC over HTTP or a WebSocket; every failure is ChainUnavailable."""

import json
import time
from collections.abc import Sequence
from contextlib import ExitStack
from http import HTTPStatus
from typing import Any, Protocol
from urllib.parse import urlsplit

import requests
import websockets
import websockets.sync.client
from web3.exceptions import Web3Exception
from web3.providers import JSONBaseProvider
from web3.types import RPCEndpoint

from offchain.errors import ChainUnavailable, UsageError

ANSWER_TIMEOUT_S = 30.0
MOST_ANSWER_BYTES = 128 * 2**20
"""More than any page of logs has."""
_CHUNK_BYTES = 2**16

Question = tuple[str, Sequence[Any]]
"""A method and its parameters."""


class Transport(Protocol):
    """A way to one node; it never sends a request twice."""

    def ask(self, method: str, params: Sequence[Any]) -> Any:
        """Return the decoded JSON of the answer, or raise ChainUnavailable."""

    def ask_many(self, questions: Sequence[Question]) -> list[Any]:
        """Return the answers to several questions, in their order, in one exchange if it can."""

    def close(self) -> None:
        """Give up the connection."""


class HttpTransport:
    """JSON-RPC over HTTP, whose answers are bounded in time and size, and bear our numbers."""

    def __init__(self, url: str, timeout_s: float = ANSWER_TIMEOUT_S) -> None:
        self._url = url
        self._timeout_s = timeout_s
        self._session = requests.Session()
        self._number = 0

    def ask(self, method: str, params: Sequence[Any]) -> Any:
        """See Transport."""
        (question,) = self._number_questions([(method, params)])
        answer = self._exchange(question)
        if not isinstance(answer, dict) or answer.get("id") not in {question["id"], None}:
            raise _not_json_rpc(self._url)
        return answer

    def ask_many(self, questions: Sequence[Question]) -> list[Any]:
        """See Transport; a node that takes no batches is asked one by one."""
        if len(questions) == 1:
            return [self.ask(*questions[0])]
        numbered = self._number_questions(questions)
        answers = self._exchange(numbered)
        if isinstance(answers, dict) and answers.get("error"):
            return [self.ask(*question) for question in questions]
        if not isinstance(answers, list):
            raise _not_json_rpc(self._url)
        found = {
            it["id"]: it for it in answers if isinstance(it, dict) and _is_number(it.get("id"))
        }
        if len(found) != len(answers) or any(it["id"] not in found for it in numbered):
            raise _not_json_rpc(self._url)
        return [found[it["id"]] for it in numbered]

    def close(self) -> None:
        """See Transport."""
        self._session.close()

    def _number_questions(self, questions: Sequence[Question]) -> list[dict[str, Any]]:
        first = self._number + 1
        self._number += len(questions)
        return [
            {"jsonrpc": "2.0", "id": first + place, "method": method, "params": params}
            for place, (method, params) in enumerate(questions)
        ]

    def _exchange(self, question: Any) -> Any:
        """Return the decoded JSON that comes back."""
        try:
            return json.loads(self._read(question))
        except requests.Timeout as error:
            raise _no_answer_in_time(self._url, self._timeout_s) from error
        except requests.HTTPError as error:
            status = "" if error.response is None else f" {error.response.status_code}"
            raise ChainUnavailable(self._url, f"it answers with HTTP status{status}") from error
        except requests.ConnectionError as error:
            raise ChainUnavailable(self._url, "nothing answers there") from error
        except (requests.RequestException, ValueError, RecursionError) as error:
            raise _not_json_rpc(self._url) from error

    def _read(self, question: Any) -> bytes:
        deadline = time.monotonic() + self._timeout_s
        timeout = (self._timeout_s, self._timeout_s)
        with self._session.post(
            self._url, json=question, timeout=timeout, stream=True, allow_redirects=False
        ) as response:
            if response.status_code != HTTPStatus.OK:
                raise requests.HTTPError(response=response)
            content = bytearray()
            for chunk in response.iter_content(_CHUNK_BYTES):
                content += chunk
                if len(content) > MOST_ANSWER_BYTES:
                    raise ChainUnavailable(
                        self._url, f"its answer has more than {MOST_ANSWER_BYTES:,} bytes"
                    )
                if time.monotonic() > deadline:
                    raise _no_answer_in_time(self._url, self._timeout_s)
            return bytes(content)


class WebSocketTransport:
    """JSON-RPC over a WebSocket, opened again with the next question if it broke.

    web3's own is asynchronous only, so this one uses its coder over the socket itself.
    """

    def __init__(self, url: str) -> None:
        self._url = url
        self._coder = JSONBaseProvider()
        self._opened = ExitStack()
        self._socket: websockets.sync.client.ClientConnection | None = None

    def ask(self, method: str, params: Sequence[Any]) -> Any:
        """See Transport."""
        try:
            answer = self._exchange(self._coder.encode_rpc_request(RPCEndpoint(method), params))
            return self._coder.decode_rpc_response(answer)
        except TimeoutError as error:
            self.close()
            raise _no_answer_in_time(self._url, ANSWER_TIMEOUT_S) from error
        except (OSError, websockets.WebSocketException) as error:
            self.close()
            raise ChainUnavailable(self._url, "nothing answers there") from error
        except (Web3Exception, ValueError) as error:
            raise _not_json_rpc(self._url) from error

    def ask_many(self, questions: Sequence[Question]) -> list[Any]:
        """See Transport; one by one."""
        return [self.ask(*question) for question in questions]

    def close(self) -> None:
        """See Transport."""
        self._opened.close()
        self._socket = None

    def _exchange(self, question: bytes) -> bytes:
        if self._socket is None:
            connection = websockets.sync.client.connect(
                self._url, open_timeout=ANSWER_TIMEOUT_S, max_size=None
            )
            self._socket = self._opened.enter_context(connection)
        self._socket.send(question.decode())
        return self._socket.recv(timeout=ANSWER_TIMEOUT_S, decode=False)


_TRANSPORTS: dict[str, type[HttpTransport] | type[WebSocketTransport]] = {
    "http": HttpTransport,
    "https": HttpTransport,
    "ws": WebSocketTransport,
    "wss": WebSocketTransport,
}


def open_transport(url: str) -> Transport:
    """Return the transport for a node's address, or raise UsageError if its kind is unknown."""
    transport = _TRANSPORTS.get(urlsplit(url).scheme)
    if transport is None:
        choices = ("tester", *(f"{scheme}://..." for scheme in _TRANSPORTS))
        raise UsageError.unknown("chain", url, choices)
    return transport(url)


def _is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _no_answer_in_time(url: str, seconds: float) -> ChainUnavailable:
    return ChainUnavailable(url, f"no answer in {seconds:g} s")


def _not_json_rpc(url: str) -> ChainUnavailable:
    return ChainUnavailable(url, "what answers there does not speak JSON-RPC")
