"""Accounts of our own: keys that sign here, fees, nonces that outlive the process.

    signer = KeyAccount.open(Path("alice.json"), read_password("file:alice.txt"))
    with open_chain(["http://127.0.0.1:8545"], [signer], FeePolicy(max_fee_wei=10**11)) as chain:
        referee.transact("join", root, sender=signer.address, value=bond_wei)

The chain is one as `moot.offchain.chain.connect` gives; all that plays on such a one plays on this.
"""

from moot.offchain.chain.accounts.fees import FeePolicy, Fees
from moot.offchain.chain.accounts.keystore import KeyAccount, create_keystore, read_password
from moot.offchain.chain.accounts.opening import open_chain
from moot.offchain.chain.accounts.signers import NodeAccount, Signer

__all__ = [
    "FeePolicy",
    "Fees",
    "KeyAccount",
    "NodeAccount",
    "Signer",
    "create_keystore",
    "open_chain",
    "read_password",
]
