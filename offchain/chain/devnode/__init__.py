"""A node for development: py-evm and a pool of transactions, over HTTP on loopback.

    python -m moot.offchain.chain.devnode --accounts 8 --block-seconds 1

It has funded accounts whose keys it holds, makes a block at an interval or for every transaction,
and answers what clients of ours ask, many of them at once. It keeps everything in memory.
"""
