"""Transports of JSON-RPC over HTTP or a WebSocket; every failure is ChainUnavailable.

An answer is bounded in time, bytes and depth, and bears the number of its question. What it says is
looked at behind this: `answers.py`.
"""

import email.utils
import json
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from http import HTTPStatus
from typing import Any, NoReturn, Protocol
from urllib.parse import urlsplit

import requests
import websockets
import websockets.sync.client

from moot.offchain.bounded_json import decode
from moot.offchain.errors import ChainUnavailable, UsageError

ANSWER_TIMEOUT_S = 30.0
MOST_ANSWER_BYTES = 64 * 2**20
"""More than any page of logs has."""
MOST_REFUSAL_BYTES = 2**16
MOST_UNASKED = 16
"""Messages that nobody has asked for, until one over a WebSocket is an answer."""
MOST_QUIET_S = 60.0
"""The longest time that a node may ask to be left alone."""
QUIET_S = 2.0
"""So long a node is left alone that has had too many questions and does not say for how long."""
BATCH_MEMORY_S = 600.0
"""For so long it is remembered how many questions a node takes together."""
REFUSED = -32005
"""The code of a question that a node refuses without JSON-RPC: it would have too long an answer."""
_CHUNK_BYTES = 2**16
_TOO_LARGE = frozenset({400, 413, 414, 422})
"""Statuses of HTTP that concern what was asked: less may be asked for."""
_BUSY = frozenset({429, 503})

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


class _Refused(Exception):  # noqa: N818 - it is named for what happened
    """A request was refused with a status of HTTP; `content` is the answer that came with it."""

    def __init__(self, status: int, content: Any) -> None:
        super().__init__(f"it answers with HTTP status {status}")
        self.status = status
        self.content = content


class HttpTransport:
    """JSON-RPC over HTTP.

    A node that does not take so many questions together is asked in halves, down to one by one. One
    that wants to be left alone for a while is not asked meanwhile.
    """

    def __init__(self, url: str, timeout_s: float = ANSWER_TIMEOUT_S) -> None:
        self._url = url
        self._timeout_s = timeout_s
        self._session = requests.Session()
        self._number = 0
        self._most_together = 0
        self._forget_at = 0.0
        self._quiet_until = 0.0

    def ask(self, method: str, params: Sequence[Any]) -> Any:
        """See Transport."""
        (question,) = self._number_questions([(method, params)])
        try:
            answer = self._exchange(question)
        except _Refused as refusal:
            answer = refusal.content
            if isinstance(answer, dict) and isinstance(answer.get("error"), dict):
                return answer
            if refusal.status in _TOO_LARGE and method == "eth_getLogs":
                return {"error": {"code": REFUSED, "message": str(refusal)}}
            raise ChainUnavailable(self._url, str(refusal)) from refusal
        if not isinstance(answer, dict) or not _is_answer(answer, question["id"]):
            raise _not_json_rpc(self._url)
        return answer

    def ask_many(self, questions: Sequence[Question]) -> list[Any]:
        """See Transport; a node that takes no batches is asked one by one."""
        answers: list[Any] = []
        while len(answers) < len(questions):
            left = questions[len(answers) :]
            if self._most_together and time.monotonic() < self._forget_at:
                left = left[: self._most_together]
            if len(left) == 1:
                answers.append(self.ask(*left[0]))
            elif (found := self._ask_together(left)) is not None:
                answers += found
            else:
                self._most_together = (len(left) + 1) // 2
                self._forget_at = time.monotonic() + BATCH_MEMORY_S
        return answers

    def close(self) -> None:
        """See Transport."""
        self._session.close()

    def _ask_together(self, questions: Sequence[Question]) -> list[Any] | None:
        """Return the answers to a batch; None if the node refuses it as one."""
        numbered = self._number_questions(questions)
        try:
            answers = self._exchange(numbered)
        except _Refused as refusal:
            answers = refusal.content
            if refusal.status in _TOO_LARGE or _is_refusal_of_batch(answers):
                return None
            raise ChainUnavailable(self._url, str(refusal)) from refusal
        if _is_refusal_of_batch(answers):
            return None
        if not isinstance(answers, list):
            raise _not_json_rpc(self._url)
        found = {
            it["id"]: it for it in answers if isinstance(it, dict) and _is_number(it.get("id"))
        }
        if len(found) != len(answers) or found.keys() != {it["id"] for it in numbered}:
            raise _not_json_rpc(self._url)
        return [found[it["id"]] for it in numbered]

    def _number_questions(self, questions: Sequence[Question]) -> list[dict[str, Any]]:
        first = self._number + 1
        self._number += len(questions)
        return [_make_request(first + place, it) for place, it in enumerate(questions)]

    def _exchange(self, question: Any) -> Any:
        """Return the decoded JSON that comes back, or raise _Refused."""
        quiet_s = self._quiet_until - time.monotonic()
        if quiet_s > 0:
            problem = f"it has had too many questions, and is asked again in {quiet_s:.0f} s"
            raise ChainUnavailable(self._url, problem)
        try:
            return decode(self._read(question))
        except requests.Timeout as error:
            raise _no_answer_in_time(self._url, self._timeout_s) from error
        except requests.ConnectionError as error:
            raise ChainUnavailable(self._url, "nothing answers there") from error
        except (requests.RequestException, ValueError) as error:
            raise _not_json_rpc(self._url) from error

    def _read(self, question: Any) -> bytes:
        deadline = time.monotonic() + self._timeout_s
        timeout = (self._timeout_s, self._timeout_s)
        with self._session.post(
            self._url, json=question, timeout=timeout, stream=True, allow_redirects=False
        ) as response:
            is_refused = response.status_code != HTTPStatus.OK
            most = MOST_REFUSAL_BYTES if is_refused else MOST_ANSWER_BYTES
            content = bytearray()
            for chunk in response.iter_content(_CHUNK_BYTES):
                content += chunk
                if len(content) > most:
                    raise ChainUnavailable(self._url, f"its answer has more than {most:,} bytes")
                if time.monotonic() > deadline:
                    raise _no_answer_in_time(self._url, self._timeout_s)
            if is_refused:
                self._refuse(response.status_code, response.headers, bytes(content))
            return bytes(content)

    def _refuse(self, status: int, headers: Mapping[str, str], content: bytes) -> NoReturn:
        """Raise what a status of HTTP means."""
        if status in _BUSY and (status == HTTPStatus.TOO_MANY_REQUESTS or "Retry-After" in headers):
            quiet_s = read_retry_after(headers.get("Retry-After", ""), time.time())
            self._quiet_until = time.monotonic() + quiet_s
            problem = f"it has had too many questions, and is asked again in {quiet_s:.0f} s"
            raise ChainUnavailable(self._url, problem)
        try:
            decoded = decode(content)
        except ValueError:
            decoded = None
        raise _Refused(status, decoded)


class WebSocketTransport:
    """JSON-RPC over a WebSocket, opened again with the next question if it broke."""

    def __init__(self, url: str, timeout_s: float = ANSWER_TIMEOUT_S) -> None:
        self._url = url
        self._timeout_s = timeout_s
        self._number = 0
        self._opened = ExitStack()
        self._socket: websockets.sync.client.ClientConnection | None = None

    def ask(self, method: str, params: Sequence[Any]) -> Any:
        """See Transport."""
        self._number += 1
        try:
            return self._exchange(_make_request(self._number, (method, params)))
        except TimeoutError as error:
            self.close()
            raise _no_answer_in_time(self._url, self._timeout_s) from error
        except (OSError, websockets.WebSocketException) as error:
            self.close()
            raise ChainUnavailable(self._url, "nothing answers there") from error
        except ValueError as error:
            self.close()  # what it says next may be of this question, too
            raise _not_json_rpc(self._url) from error

    def ask_many(self, questions: Sequence[Question]) -> list[Any]:
        """See Transport; one by one."""
        return [self.ask(*question) for question in questions]

    def close(self) -> None:
        """See Transport."""
        self._opened.close()
        self._socket = None

    def _exchange(self, question: dict[str, Any]) -> Any:
        """Return the answer; what the node tells of itself, a subscription say, is passed over."""
        deadline = time.monotonic() + self._timeout_s
        if self._socket is None:
            connection = websockets.sync.client.connect(
                self._url, open_timeout=self._timeout_s, max_size=MOST_ANSWER_BYTES
            )
            self._socket = self._opened.enter_context(connection)
        self._socket.send(json.dumps(question))
        for _ in range(MOST_UNASKED + 1):
            left_s = deadline - time.monotonic()
            if left_s <= 0:
                raise TimeoutError
            answer = decode(self._socket.recv(timeout=left_s, decode=False))
            if isinstance(answer, dict) and "id" not in answer and "method" in answer:
                continue
            if not isinstance(answer, dict) or not _is_answer(answer, question["id"]):
                raise ValueError("it is no answer to the question")
            return answer
        raise ValueError("messages that nobody has asked for")


def read_retry_after(value: str, now_s: float) -> float:
    """Return for how many seconds a node wants to be left alone: their number, or a date."""
    if value.isascii() and value.strip().isdigit():
        return min(float(value.strip()[:9]), MOST_QUIET_S)
    try:
        seconds = email.utils.parsedate_to_datetime(value).timestamp() - now_s
    except (ValueError, TypeError, OverflowError, IndexError):
        return QUIET_S
    return min(max(seconds, 0.0), MOST_QUIET_S)


def _make_request(number: int, question: Question) -> dict[str, Any]:
    method, params = question
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": params}


def _is_answer(answer: dict[str, Any], number: int) -> bool:
    """Whether an answer is that to a question; only a refusal may leave the number out."""
    found = answer.get("id")
    if found is None:
        return isinstance(answer.get("error"), dict)
    return _is_number(found) and found == number


def _is_refusal_of_batch(answers: Any) -> bool:
    """Whether a node takes no batch, or none of this size: it answers with errors only."""
    if isinstance(answers, dict):
        return isinstance(answers.get("error"), dict)
    return isinstance(answers, list) and all(
        isinstance(it, dict) and it.get("id") is None and isinstance(it.get("error"), dict)
        for it in answers or [None]
    )


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
