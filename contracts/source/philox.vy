# pragma version 0.4.3
"""
@title Philox4x32-10, a counter-based generator, and uniform numbers
@license Apache-2.0
@notice The generator of Salmon, Moraes, Dror and Shaw: Parallel random numbers (SC 2011).
"""

import float32

WORD: constant(uint256) = 4_294_967_295
ROUNDS: constant(uint256) = 10
MULTIPLIER_0: constant(uint256) = 3_528_531_795
MULTIPLIER_1: constant(uint256) = 3_449_720_151
KEY_STEP_0: constant(uint256) = 2_654_435_769
KEY_STEP_1: constant(uint256) = 3_144_134_277


@internal
@pure
def uniform(seed: uint256, step: uint256, stream: uint256, element: uint256) -> uint256:
    """
    @notice A number in [0, 1), a multiple of 2 ** -24, by its position alone.
    @dev Words have 32 bits, so that products have 64, and sums, which are cut to 32, have 33.
    @param seed Below 2 ** 64.
    @param step Below 2 ** 32.
    @param stream Below 2 ** 32.
    @param element Below 2 ** 64; a block of four words serves four elements.
    @return The number's binary32 pattern.
    """
    c0: uint256 = (element >> 2) & WORD
    c1: uint256 = element >> 34
    c2: uint256 = step
    c3: uint256 = stream
    k0: uint256 = seed & WORD
    k1: uint256 = seed >> 32
    for _: uint256 in range(ROUNDS):
        product_0: uint256 = unsafe_mul(MULTIPLIER_0, c0)
        product_1: uint256 = unsafe_mul(MULTIPLIER_1, c2)
        c0 = product_1 >> 32 ^ c1 ^ k0
        c1 = product_1 & WORD
        c2 = product_0 >> 32 ^ c3 ^ k1
        c3 = product_0 & WORD
        k0 = unsafe_add(k0, KEY_STEP_0) & WORD
        k1 = unsafe_add(k1, KEY_STEP_1) & WORD
    # The word of this element, moved down to the last 32 bits.
    words: uint256 = c0 | c1 << 32 | c2 << 64 | c3 << 96
    word: uint256 = (words >> ((element & 3) << 5)) & WORD
    if word < 256:
        return 0
    return float32.encode(0, word >> 8, float32.SCALE - 24)
