"""The blocks that an adversary may take of a time to act, and for how long a claim stays hidden."""

import pytest

from moot.offchain.disputes.referee.crowds import count_censored, count_hidden, count_lost
from moot.offchain.parties.policy import Policy, ask_policy

BLOCK_GAS = 30_000_000
CONFIRMATIONS = 8


@pytest.mark.parametrize("gain_wei", [0, 10**17, 10**18, 10**19])
def test_an_adversary_takes_what_it_can_pay_and_what_it_can_replace(gain_wei: int) -> None:
    """Both together, since it may do both."""
    lost = count_lost(gain_wei, block_gas=BLOCK_GAS, confirmations=CONFIRMATIONS)
    assert lost == count_censored(gain_wei, block_gas=BLOCK_GAS) + CONFIRMATIONS


@pytest.mark.parametrize(("reveal", "hidden"), [(9, 0), (10, 1), (16, 7), (100, 7)])
def test_a_claim_is_hidden_until_nothing_brings_back_the_time_to_commit(
    reveal: int, hidden: int
) -> None:
    """Fewer blocks are replaced than the confirmations are; but there is time to show it."""
    assert count_hidden(reveal, 9, CONFIRMATIONS) == hidden


def test_a_policy_that_fails_refuses_the_job() -> None:
    """Terms that a stranger has chosen end no party."""

    class Broken(Policy):
        def refuse_job(self, job: object) -> str | None:
            """Divide by what the stranger has chosen."""
            del job
            return str(1 // int("0"))

    found = ask_policy(Broken(), None)  # type: ignore[arg-type] # it looks at none
    assert found is not None
    assert "the policy has failed (ZeroDivisionError" in found
