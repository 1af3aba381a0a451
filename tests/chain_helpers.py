"""A small contract for tests, and a JSON-RPC node on loopback: eth-tester behind web3."""

import json
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import websockets.sync.server
from eth_tester import PyEVMBackend
from eth_tester.exceptions import TransactionFailed
from eth_tester.exceptions import ValidationError as RefusedByTester
from eth_utils.exceptions import ValidationError
from web3 import EthereumTesterProvider, Web3

from moot.contracts.compiler import Artifact, compile_contract
from moot.offchain.bounded_http import LOOPBACK
from moot.offchain.chain import Address, Chain, Contract
from tests.http_helpers import Reply, serving_http

LEDGER = """
# pragma version 0.4.3

interface Ledger:
    def note(number: uint256, root: bytes32): payable

struct Note:
    number: uint256
    root: bytes32

event Noted:
    who: indexed(address)
    tag: indexed(Bytes[32])
    note: Note
    data: Bytes[256]

BORN: immutable(uint256)
notes: public(HashMap[address, Note])
count: public(uint256)
slots: HashMap[uint256, uint256]

@deploy
def __init__(first: uint256):
    BORN = block.number
    self.count = first

@external
@payable
def note(number: uint256, root: bytes32, data: Bytes[256] = b""):
    assert number != 13, "ledger: thirteen"
    assert number != 14
    if number == 15:
        raise UNREACHABLE
    self.count += 1
    self.notes[msg.sender] = Note(number=number, root=root)
    log Noted(who=msg.sender, tag=b"tag", note=self.notes[msg.sender], data=data)

@external
def fill(slots: uint256):
    for i: uint256 in range(slots, bound=2000):
        self.slots[i] = 1

@external
def ignore(data: Bytes[8192]):
    pass

@external
def forward(other: address):
    extcall Ledger(other).note(1, empty(bytes32))

@external
def never(first_block: uint256):
    assert block.number >= first_block, "ledger: early"
    raise "ledger: never"

@external
@view
def at_least(limit: uint256) -> uint256:
    assert self.count >= limit, "ledger: too few"
    return block.number

@external
@view
def born() -> uint256:
    return BORN

@external
@view
def time() -> uint256:
    return block.timestamp
"""
ROOT = b"\x11" * 32
NOBODY = Address("0x" + "12" * 20)


class LoopbackNode:
    """JSON-RPC over web3's EthereumTesterProvider; `replies` replaces the answers of methods."""

    def __init__(self) -> None:
        # With a backend of its own choice eth-tester would silence the process's warnings.
        provider = EthereumTesterProvider(PyEVMBackend())
        web3 = Web3(provider, middleware=[])
        self._request = provider.request_func(web3, web3.middleware_onion)
        self._lock = threading.Lock()
        self.replies: dict[str, Callable[[list[Any]], Any]] = {}
        self.asked: list[str] = []
        self.url = ""

    def answer(self, body: bytes | str) -> bytes:
        """Answer one request; raise ConnectionError where a reply breaks the connection."""
        request = json.loads(body)
        method, params = request["method"], request["params"]
        answer = {"jsonrpc": "2.0", "id": request["id"]}
        with self._lock:
            self.asked.append(method)
            try:
                if method in self.replies:
                    answer["result"] = self.replies[method](params)
                else:
                    response = self._request(method, params)
                    answer |= {k: response[k] for k in ("result", "error") if k in response}
            except TransactionFailed as error:
                message = str(error).removesuffix(": b''")  # as geth says it without a reason
                answer["error"] = {"code": 3, "message": message}
            except (ValidationError, RefusedByTester) as error:
                answer["error"] = {"code": -32000, "message": str(error)}
        kept = {name: answer[name] for name in ("id", "error") if name in answer}
        return json.dumps(_as_json(answer) | kept).encode()


def _as_json(value: Any) -> Any:
    if isinstance(value, bool | str) or value is None:
        return value
    if isinstance(value, int):
        return hex(value)
    if isinstance(value, bytes):
        return "0x" + value.hex()
    if isinstance(value, list | tuple):
        return [_as_json(item) for item in value]
    return {key: _as_json(item) for key, item in value.items()}


@contextmanager
def serve_socket(reply: Callable[[str | bytes], Iterable[str]]) -> Iterator[str]:
    """Serve a WebSocket on a free port of loopback that sends messages for each; give its address.

    A reply that raises ConnectionError breaks the connection.
    """

    def handle(connection: websockets.sync.server.ServerConnection) -> None:
        with suppress(ConnectionError):
            for question in connection:
                for message in reply(question):
                    connection.send(message)

    server = websockets.sync.server.serve(handle, LOOPBACK, 0)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"ws://{LOOPBACK}:{server.socket.getsockname()[1]}"
    finally:
        server.shutdown()
        thread.join()


@contextmanager
def open_node(scheme: str) -> Iterator[LoopbackNode]:
    """Serve a new node over `http` or `ws`."""
    node = LoopbackNode()
    serving = (
        serving_http(lambda _, body: Reply(200, content=node.answer(body)))
        if scheme == "http"
        else serve_socket(lambda question: [node.answer(question).decode()])
    )
    with serving as node.url:
        yield node


def compile_ledger(folder: Path) -> Artifact:
    """Compile the ledger, with its cache in the same folder."""
    (folder / "ledger.vy").write_text(LEDGER)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MOOT_CACHE", str(folder / "cache"))
        return compile_contract("ledger", folder)


def deploy_ledger(chain: Chain, artifact: Artifact) -> Contract:
    """Deploy the ledger with 5 notes to begin with."""
    return chain.deploy(artifact, 5, sender=chain.accounts[0])
