"""The codec agrees with web3's own contract object, both ways."""

from typing import Any

import pytest
from eth_abi.abi import encode
from hypothesis import given
from hypothesis import strategies as st
from web3 import Web3

from moot.offchain.chain.codec import Codec
from moot.offchain.chain.receipts import Address, Event, Log
from moot.offchain.errors import BadCall, UsageError

POINT = {
    "type": "tuple",
    "components": [{"name": "x", "type": "int128"}, {"name": "tail", "type": "bytes"}],
}
ABI: list[dict[str, Any]] = [
    {
        "type": "function",
        "name": "move",
        "stateMutability": "nonpayable",
        "inputs": [
            {"name": "points", **POINT, "type": "tuple[]"},
            {"name": "root", "type": "bytes32"},
            {"name": "word", "type": "uint64"},
        ],
        "outputs": [{"name": "", **POINT}],
    },
    {
        "type": "function",
        "name": "move",
        "stateMutability": "nonpayable",
        "inputs": [],
        "outputs": [{"name": "", "type": "uint256"}, {"name": "", "type": "bool"}],
    },
    {
        "type": "event",
        "name": "Moved",
        "anonymous": False,
        "inputs": [
            {"name": "word", "type": "uint64", "indexed": False},
            {"name": "who", "type": "address", "indexed": True},
            {"name": "point", **POINT, "indexed": False},
            {"name": "kept", "type": "string", "indexed": True},
        ],
    },
]
CODEC = Codec(ABI)
WHO = Address("0x" + "ab" * 20)
HERE = Address("0x" + "cd" * 20)

points = st.tuples(st.integers(-(2**127), 2**127 - 1), st.binary(max_size=70))


@given(st.lists(points, max_size=4), st.binary(min_size=32, max_size=32), st.integers(0, 2**64 - 1))
def test_calls_are_encoded_as_web3_does(
    moves: list[tuple[int, bytes]], root: bytes, word: int
) -> None:
    """Calldata, structs and arrays included, is byte for byte that of web3."""
    contract = Web3().eth.contract(abi=ABI)
    expected = contract.encode_abi(
        "move((int128,bytes)[],bytes32,uint64)", args=[moves, root, word]
    )
    assert "0x" + CODEC.encode_call("move", (moves, root, word)).hex() == expected


@given(points)
def test_results_are_decoded(point: tuple[int, bytes]) -> None:
    """One result comes bare, several in a tuple, by the overload that was called."""
    data = encode(["(int128,bytes)"], [point])
    assert CODEC.decode_result("move", ([], b"", 0), data) == point
    assert CODEC.decode_result("move", (), encode(["uint256", "bool"], [7, True])) == (7, True)


def make_log(**changes: Any) -> Log:
    """A log of Moved, with some of it changed."""
    topic = Web3.keccak(text="Moved(uint64,address,(int128,bytes),string)")
    fields: dict[str, Any] = {
        "address": HERE,
        "place": (1, 0),
        "topics": (bytes(topic), bytes(12) + bytes.fromhex(WHO[2:]), b"k" * 32),
        "data": encode(["uint64", "(int128,bytes)"], [5, (-1, b"tail")]),
    }
    return Log(**(fields | changes))


def test_events_are_decoded() -> None:
    """Arguments come in the order of the ABI; an indexed string is its hash."""
    event = CODEC.decode_log(make_log())
    args = {"word": 5, "who": WHO, "point": (-1, b"tail"), "kept": b"k" * 32}
    assert event == Event("Moved", args)
    assert list(event.args) == list(args)


@pytest.mark.parametrize(
    "changes",
    [
        {"topics": ()},
        {"topics": (b"?" * 32,)},
        {"topics": make_log().topics[:1]},
        {"topics": (make_log().topics[0], b"\xff" * 32, b"k" * 32)},
        {"data": b""},
        {"data": b"\xff" * 96},
    ],
)
def test_foreign_events_are_refused(changes: dict[str, Any]) -> None:
    """A log that the ABI does not describe is an error of ours, whatever is wrong with it."""
    with pytest.raises(BadCall):
        CODEC.decode_log(make_log(**changes))


@pytest.mark.parametrize("data", [b"", b"\x00" * 31, b"\xff" * 64])
def test_foreign_results_are_refused(data: bytes) -> None:
    """A result that the ABI does not describe, as of another contract, is an error of ours."""
    with pytest.raises(BadCall, match="right contract"):
        CODEC.decode_result("move", (), data)


def test_wrong_calls_are_explained() -> None:
    """A wrong name is met with a suggestion, a wrong number of arguments with the right ones."""
    with pytest.raises(UsageError, match="did you mean 'move'"):
        CODEC.encode_call("mov", ())
    with pytest.raises(BadCall, match="it takes 0 or 3 arguments, not 1"):
        CODEC.encode_call("move", (1,))
    with pytest.raises(BadCall, match="constructor"):
        CODEC.encode_constructor((1,))
    assert CODEC.encode_constructor(()) == b""
