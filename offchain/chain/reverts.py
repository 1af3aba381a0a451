"""The reason of a failed call, in the contract's own words, from any node's form of it."""

import re

NO_REASON = "no reason given"
OUT_OF_GAS = "out of gas"
INVALID_INSTRUCTION = "invalid instruction"

_ERROR_SELECTOR = bytes.fromhex("08c379a0")  # Error(string)
_PANIC_SELECTOR = bytes.fromhex("4e487b71")  # Panic(uint256)
_WORD = 32

_INVALID_INSTRUCTION_SIGNS = ("invalid opcode", INVALID_INSTRUCTION)

# The wordings of hardhat, anvil and geth, the more specific first.
_WORDINGS = (
    re.compile(r"reverted with reason string '(.*)'", re.DOTALL),
    re.compile(r"execution reverted: revert: (.+)", re.DOTALL),
    re.compile(r"execution reverted: (.+)", re.DOTALL),
)


def decode_revert(data: bytes) -> str:
    """Return the reason in the data of a REVERT: the text of `Error(string)` as it stands.

    Other data is named by its selector; malformed data never raises.
    """
    if not data:
        return NO_REASON
    selector, body = data[:4], data[4:]
    if selector == _ERROR_SELECTOR and len(body) >= 2 * _WORD:
        start = int.from_bytes(body[:_WORD], "big")
        length = int.from_bytes(body[_WORD : 2 * _WORD], "big")
        text = body[2 * _WORD :]
        if start == _WORD and length <= len(text):
            return text[:length].decode("utf-8", "replace")
    if selector == _PANIC_SELECTOR and len(body) == _WORD:
        return f"panic 0x{int.from_bytes(body, 'big'):02x}"
    return f"custom error 0x{data.hex()}"


def parse_failure(message: str) -> str:
    """Return the reason in a node's error message, which is all that some nodes give."""
    for wording in _WORDINGS:
        if found := wording.search(message):
            return found[1]
    lowered = message.lower()
    if OUT_OF_GAS in lowered:
        return OUT_OF_GAS
    if any(sign in lowered for sign in _INVALID_INSTRUCTION_SIGNS):
        return INVALID_INSTRUCTION
    return NO_REASON if lowered == "execution reverted" else message


def is_failure_of_contract(message: str) -> bool:
    """Tell a contract's failure from the node's own, by the node's error message."""
    lowered = message.lower()
    signs = ("revert", OUT_OF_GAS, *_INVALID_INSTRUCTION_SIGNS)
    return any(sign in lowered for sign in signs)
