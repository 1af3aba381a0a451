"""The price of blobs on a chain of the first layer (EIP-4844, and EIP-7918's reserve)."""

LEAST_WEI = 1
RESERVE_DIVISOR = 16
"""With EIP-7918 a unit of blob gas costs no less than a sixteenth of the base fee: 2^13 of its gas
for the 2^17 units of a blob."""


def calculate_blob_fee_wei(excess_gas: int, update_fraction: int) -> int:
    """Return the base fee of a unit of blob gas, by EIP-4844: the exponential of the excess.

    Args:
        excess_gas: the blob gas that blocks have used beyond their target.
        update_fraction: of the fork: what the excess is divided by.
    """
    total, term, index = 0, LEAST_WEI * update_fraction, 1
    while term > 0:
        total += term
        term = term * excess_gas // (update_fraction * index)
        index += 1
    return total // update_fraction


def reserve_blob_fee_wei(fee_wei: int, base_fee_wei: int) -> int:
    """Return a blob's base fee with the reserve below which blocks do not let it fall for long."""
    return max(fee_wei, base_fee_wei // RESERVE_DIVISOR)
