"""Receipts for tests: one of every field, and a key that signs them."""

from functools import cache
from typing import Any

from eth_utils.address import to_checksum_address

from moot.contracts.model.receipts import Domain, Receipt
from moot.offchain.chain.accounts.keystore import KeyAccount
from moot.offchain.receipts.packed import SignedReceipt

DOMAIN = Domain(31337, "0x5FbDB2315678afecb367f032d93F642f64180aa3")
CLIENT = "0x70997970C51812dc3A010C7d01b50e0d17dc79C8"


@cache
def make_key(number: int = 1) -> KeyAccount:
    """Return a key by its number."""
    return KeyAccount(number.to_bytes(32, "big"))


def make_provider(number: int = 1) -> str:
    """Return the checksummed address of a key."""
    return str(to_checksum_address(make_key(number).address))


def make_receipt(**changes: Any) -> Receipt:
    """Return a sound receipt, with some fields changed."""
    roots = {
        name: bytes([place]) * 32
        for place, name in enumerate(
            ("layout", "program_top", "start_root", "data_top", "history", "answer"), 1
        )
    }
    numbers = {
        "operators": 40,
        "state_slots": 9,
        "batch_slots": 0,
        "answer_slot": 3,
        "steps": 12,
        "checkpoint_every": 12,
        "window_blocks": 16,
        "clock_blocks": 64,
        "increment_blocks": 4,
        "number": 0,
        "issued_block": 100,
        "last_block": 200,
        "stake_wei": 10**17,
        "total_wei": 10**17,
        "released_wei": 0,
        "price_wei": 10**12,
    }
    parties = {"client": CLIENT, "provider": make_provider()}
    fields: dict[str, Any] = {**roots, **numbers, **parties, **changes}
    return Receipt(**fields)


def sign(receipt: Receipt, key: int = 1, domain: Domain = DOMAIN) -> SignedReceipt:
    """Return a receipt with the signature of a key."""
    return SignedReceipt(domain, receipt, make_key(key).sign_digest(receipt.hash(domain)))
