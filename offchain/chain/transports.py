"""Transports of JSON-RPC over HTTP or a WebSocket; every failure is ChainUnavailable."""

from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any, Protocol
from urllib.parse import urlsplit

import requests
import websockets
import websockets.sync.client
from web3 import HTTPProvider
from web3.exceptions import Web3Exception
from web3.providers import JSONBaseProvider
from web3.types import RPCEndpoint

from offchain.errors import ChainUnavailable, UsageError

ANSWER_TIMEOUT_S = 30.0


class Transport(Protocol):
    """A way to one node; it never sends a request twice."""

    def ask(self, method: str, params: Sequence[Any]) -> Any:
        """Return the decoded JSON of the answer, or raise ChainUnavailable."""

    def close(self) -> None:
        """Give up the connection."""


class HttpTransport:
    """JSON-RPC over HTTP, through web3's provider."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._session = requests.Session()
        self._provider = HTTPProvider(
            url,
            session=self._session,
            request_kwargs={"timeout": ANSWER_TIMEOUT_S},
            exception_retry_configuration=None,
        )

    def ask(self, method: str, params: Sequence[Any]) -> Any:
        """See Transport."""
        try:
            return self._provider.make_request(RPCEndpoint(method), params)
        except requests.Timeout as error:
            raise _no_answer_in_time(self._url) from error
        except requests.HTTPError as error:
            status = "" if error.response is None else f" {error.response.status_code}"
            raise ChainUnavailable(self._url, f"it answers with HTTP status{status}") from error
        except requests.ConnectionError as error:
            raise ChainUnavailable(self._url, "nothing answers there") from error
        except (requests.RequestException, Web3Exception, ValueError) as error:
            raise _not_json_rpc(self._url) from error

    def close(self) -> None:
        """See Transport."""
        self._session.close()


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
            raise _no_answer_in_time(self._url) from error
        except (OSError, websockets.WebSocketException) as error:
            self.close()
            raise ChainUnavailable(self._url, "nothing answers there") from error
        except (Web3Exception, ValueError) as error:
            raise _not_json_rpc(self._url) from error

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


def _no_answer_in_time(url: str) -> ChainUnavailable:
    return ChainUnavailable(url, f"no answer in {ANSWER_TIMEOUT_S:g} s")


def _not_json_rpc(url: str) -> ChainUnavailable:
    return ChainUnavailable(url, "what answers there does not speak JSON-RPC")
