"""The fees that are offered: whatever base fee comes, a transaction pays it or can be replaced."""

from itertools import product

import pytest

from moot.offchain.chain.accounts.fees import (
    GWEI,
    FeePolicy,
    calculate_fees,
    is_below,
    raise_fees,
    raise_wei,
)


@pytest.mark.parametrize("ceiling_gwei", [7, 50, 200])
def test_no_fee_is_stuck_below_the_ceiling(ceiling_gwei: int) -> None:
    """What no longer pays a base fee below the ceiling is replaced by what does, twice over."""
    policy = FeePolicy(max_fee_wei=ceiling_gwei * GWEI)
    highest_wei = policy.max_fee_wei - policy.tip_wei
    base_fees_wei = [highest_wei * part // 40 for part in range(41)]
    for first, *later in product(base_fees_wei, repeat=3):
        fees = calculate_fees(first, policy)
        for base_fee_wei in later:
            if is_below(fees, base_fee_wei):
                raised = raise_fees(fees, base_fee_wei, policy)
                assert raised is not None
                assert not is_below(raised, base_fee_wei)
                assert raised.max_fee_wei >= raise_wei(fees.max_fee_wei)
                assert raised.tip_wei >= raise_wei(fees.tip_wei)
                fees = raised
            assert fees.tip_wei <= fees.max_fee_wei <= policy.max_fee_wei
