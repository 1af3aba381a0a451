"""Signers: accounts that make raw transactions, with a key of ours or with one of a node."""

from dataclasses import dataclass
from typing import Any, Protocol

from moot.offchain.chain.accounts.fees import Fees
from moot.offchain.chain.receipts import Address, Transaction
from moot.offchain.chain.transports import Transport
from moot.offchain.commitments.keccak import keccak256
from moot.offchain.errors import NodeError


@dataclass(frozen=True, slots=True)
class Order:
    """A transaction with all that is signed: its nonce, its fees, its gas."""

    transaction: Transaction
    nonce: int
    fees: Fees

    def list_fields(self) -> dict[str, Any]:
        """Return the fields by their names in Ethereum, as numbers and bytes."""
        it = self.transaction
        fields: dict[str, Any] = {
            "type": 2,
            "chainId": it.chain_id,
            "nonce": self.nonce,
            "maxFeePerGas": self.fees.max_fee_wei,
            "maxPriorityFeePerGas": self.fees.tip_wei,
            "gas": it.gas_limit,
            "value": it.value_wei,
            "data": it.data,
        }
        return fields | ({"to": bytes.fromhex(it.to[2:])} if it.to else {})


class Signer(Protocol):
    """An account that signs; the same order always gives the same bytes."""

    address: Address

    def sign(self, order: Order) -> bytes:
        """Return the raw transaction."""


class NodeAccount:
    """An unlocked account of a node for development, which signs for it.

    Args:
        address: the account.
        transport: the way to the node.
    """

    def __init__(self, address: Address, transport: Transport) -> None:
        self.address = address
        self._transport = transport

    def sign(self, order: Order) -> bytes:
        """See Signer; raises NodeError if the node does not sign."""
        fields = {name: _show(value) for name, value in order.list_fields().items()}
        method = "eth_signTransaction"
        answer = self._transport.ask(method, [fields | {"from": self.address}])
        try:
            result = answer["result"]
            raw = result["raw"] if isinstance(result, dict) else result
            return bytes.fromhex(raw.removeprefix("0x"))
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            problem = answer.get("error") if isinstance(answer, dict) else None
            words = problem.get("message") if isinstance(problem, dict) else "it gives no bytes"
            raise NodeError(method, f"{words}; use a keystore") from error


def hash_raw(raw: bytes) -> str:
    """Return the hash under which the chain knows a raw transaction."""
    return "0x" + keccak256(raw).hex()


def _show(value: int | bytes) -> str:
    return hex(value) if isinstance(value, int) else "0x" + value.hex()
