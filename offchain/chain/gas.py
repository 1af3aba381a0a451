"""The two parts of a receipt's gas: that of the calldata, and that of the execution.

Prague charges a transaction (EIP-2028, EIP-7623), with one token a zero byte and four a
non-zero byte,

    max(21,000 + 4 * tokens + execution - refunds, 21,000 + 10 * tokens)

where the execution of a deployment includes what EIP-3860 and contract creation add.
"""

from dataclasses import dataclass

TRANSACTION_GAS = 21_000
TOKENS_PER_NONZERO_BYTE = 4
STANDARD_GAS_PER_TOKEN = 4
FLOOR_GAS_PER_TOKEN = 10


@dataclass(frozen=True, slots=True)
class GasSplit:
    """The two parts of a transaction's gas beyond the 21,000 that every one pays.

    `calldata` is what the calldata cost in this transaction: the standard price, or, where
    the floor decided the bill, the whole floor. `execution` is the rest, net of refunds, so
    that 21,000 + calldata + execution is the gas used, exactly. Where the floor decided,
    execution is 0: a little more of it would have cost nothing, a byte more would have.
    """

    calldata: int
    execution: int


def count_calldata_tokens(calldata: bytes) -> int:
    """Return the number of tokens that EIP-7623 charges for calldata."""
    zeros = calldata.count(0)
    return zeros + TOKENS_PER_NONZERO_BYTE * (len(calldata) - zeros)


def calculate_floor_gas(calldata: bytes) -> int:
    """Return the least that a transaction with this calldata can cost, in gas."""
    return TRANSACTION_GAS + FLOOR_GAS_PER_TOKEN * count_calldata_tokens(calldata)


def split_gas(gas_used: int, calldata: bytes) -> GasSplit:
    """Split the gas of a receipt into its calldata and its execution.

    A chain without the floor (before Prague) shows standard prices only, and may show a bill
    below the floor; the execution is then whatever remains, even if refunds made it negative.
    """
    tokens = count_calldata_tokens(calldata)
    at_floor = tokens > 0 and gas_used == calculate_floor_gas(calldata)
    price = FLOOR_GAS_PER_TOKEN if at_floor else STANDARD_GAS_PER_TOKEN
    return GasSplit(price * tokens, gas_used - TRANSACTION_GAS - price * tokens)
