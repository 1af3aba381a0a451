"""The reason of a revert is found in every form in which nodes give it."""

import pytest
from eth_abi.abi import encode
from hypothesis import given
from hypothesis import strategies as st

from moot.offchain.chain.reverts import (
    INVALID_INSTRUCTION,
    NO_REASON,
    OUT_OF_GAS,
    decode_revert,
    is_failure_of_contract,
    parse_failure,
)

ERROR = bytes.fromhex("08c379a0")
PANIC = bytes.fromhex("4e487b71")


@given(st.text())
def test_text_of_error_comes_back(text: str) -> None:
    """The text of Error(string), as the ABI encodes it, is the reason."""
    assert decode_revert(ERROR + encode(["string"], [text])) == text


def test_other_data_is_named() -> None:
    """A panic shows its code, another error its data, and nothing at all says so."""
    assert decode_revert(PANIC + encode(["uint256"], [0x11])) == "panic 0x11"
    assert decode_revert(bytes.fromhex("deadbeef01")) == "custom error 0xdeadbeef01"
    assert decode_revert(b"") == NO_REASON


@given(st.sampled_from([ERROR, PANIC, b""]), st.binary(max_size=200))
def test_malformed_data_never_raises(selector: bytes, body: bytes) -> None:
    """Whatever a contract reverts with, there is a reason, of printable length."""
    assert 0 <= len(decode_revert(selector + body)) <= 2 * 204 + 20


@pytest.mark.parametrize("start", [0, 32, 64, 2**63, 2**256 - 1])
@pytest.mark.parametrize("length", [33, 2**63, 2**256 - 1])
def test_pointers_out_of_the_data(start: int, length: int) -> None:
    """An Error(string) whose offset or length leaves the data is shown as data."""
    words = (start, length, 0)
    data = ERROR + b"".join(word.to_bytes(32, "big") for word in words)
    assert decode_revert(data) == f"custom error 0x{data.hex()}"


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        ("execution reverted: referee: late", "referee: late"),
        ("execution reverted: revert: referee: late", "referee: late"),
        ("execution reverted", NO_REASON),
        (
            "VM Exception while processing: reverted with reason string 'referee: late'",
            "referee: late",
        ),
        ("out of gas", OUT_OF_GAS),
        ("EVM error OutOfGas: out of gas: 21000", OUT_OF_GAS),
        ("invalid opcode: INVALID", INVALID_INSTRUCTION),
        ("execution reverted: out of gas is what they say", "out of gas is what they say"),
        ("stack underflow", "stack underflow"),
    ],
)
def test_wordings_of_nodes(message: str, reason: str) -> None:
    """The reason is found in the error messages of geth, anvil and hardhat."""
    assert parse_failure(message) == reason


@pytest.mark.parametrize(
    ("message", "is_failure"),
    [
        ("execution reverted: x", True),
        ("VM Exception while processing transaction: revert", True),
        ("out of gas", True),
        ("invalid opcode: INVALID", True),
        ("insufficient funds for gas * price + value", False),
        ("nonce too low", False),
        ("unknown account", False),
        ("rate limit exceeded", False),
    ],
)
def test_contract_and_node_are_told_apart(*, message: str, is_failure: bool) -> None:
    """A failure of the contract is not taken for a refusal of the node, nor the reverse."""
    assert is_failure_of_contract(message) is is_failure
