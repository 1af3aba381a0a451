"""The bonds of Cartesi's permissionless refereed tournaments (`Tournament.bondValue`).

The constants are those of the commit 16471dd of cartesi/dave; an older version has bonds of 0.520,
0.323 and 0.387 ETH.

A bond is the gas of the longest match of a level, at 50 gwei: one call for each level of the
tree, and the dearer of two ends, which are to seal a leaf and prove a step, and to open a
tournament below and take over its winner.
"""

from moot.offchain.errors import UsageError

PRICE_WEI = 50 * 10**9
"""The highest price of gas that a bond pays back."""
HEIGHTS = (48, 17, 27)
"""The heights of the trees of the three levels of tournaments."""
TRANSACTION_GAS = 25_000
ADVANCE_GAS = 65_175 + TRANSACTION_GAS
SEAL_LEAF_GAS = 57_355 + TRANSACTION_GAS
WIN_LEAF_GAS = 102_728 + TRANSACTION_GAS
SEAL_INNER_GAS = 237_531 + TRANSACTION_GAS
WIN_INNER_GAS = 228_030 + TRANSACTION_GAS


def calculate_match_gas(height: int) -> int:
    """Return the gas of the longest match over a tree of a height, of both sides together.

    Raises:
        UsageError: the tree has no level.
    """
    if height < 1:
        raise UsageError(f"a tree of height {height} has no halves to choose from; take 1 or more")
    ends = max(SEAL_LEAF_GAS + WIN_LEAF_GAS, SEAL_INNER_GAS + WIN_INNER_GAS)
    return ADVANCE_GAS * height + ends


def calculate_bond_wei(level: int) -> int:
    """Return the bond of a tournament of a level, 0 to 2, in wei.

    Raises:
        UsageError: there is no such level.
    """
    if not 0 <= level < len(HEIGHTS):
        raise UsageError(f"there is no level {level}; take one from 0 to {len(HEIGHTS) - 1}")
    return PRICE_WEI * calculate_match_gas(HEIGHTS[level])
