"""Accounts that sign in no time: a raw transaction is its fields, and the sender's name."""

import json
from dataclasses import dataclass

from moot.contracts.model.types import Address
from moot.offchain.chain.accounts.signers import Order
from moot.offchain.chain.receipts import Address as ChainAddress


@dataclass(frozen=True, slots=True)
class Raw:
    """The fields of a raw transaction."""

    sender: Address
    nonce: int
    max_fee_wei: int
    tip_wei: int
    gas_limit: int
    value_wei: int
    to: Address
    data: bytes


class Signer:
    """A signer for tests; see Signer of the accounts."""

    def __init__(self, address: Address) -> None:
        self.address = ChainAddress(address)

    def sign(self, order: Order) -> bytes:
        """See Signer."""
        it = order.transaction
        fees = order.fees.max_fee_wei, order.fees.tip_wei
        fields = (self.address, order.nonce, *fees, it.gas_limit, it.value_wei, it.to or "")
        return json.dumps([*fields, it.data.hex()]).encode()


def read_order(raw: bytes) -> Raw:
    """Return the fields of what was signed."""
    fields = json.loads(raw)
    return Raw(*fields[:-1], bytes.fromhex(fields[-1]))
