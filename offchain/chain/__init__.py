"""Access to the chain: one small port, with the whole EVM in this process or a node behind it.

    chain = connect()                       # eth-tester and py-evm, funded accounts
    chain = connect("http://127.0.0.1:8545")  # any JSON-RPC node with unlocked accounts
    referee = chain.deploy(compile_contract("referee"), sender=chain.accounts[0])
    receipt = referee.transact("join", root, sender=chain.accounts[1], value=bond_wei)

Every failure is one of the errors of `moot.offchain.errors`. Addresses and hashes are lower-case
hexadecimal with 0x, so that equal ones are equal strings. Nothing here is safe to share
between threads.
"""

from moot.offchain.chain.connection import Chain, Contract, connect
from moot.offchain.chain.receipts import Address, Event, Receipt

__all__ = ["Address", "Chain", "Contract", "Event", "Receipt", "connect"]
