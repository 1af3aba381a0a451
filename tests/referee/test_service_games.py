"""Drawn games of a service: some of those that `service_games.py` plays by the hundred thousand."""

from collections import Counter

import pytest

from moot.contracts.reasons import Reason
from tests.quick import every, share
from tests.referee.service_games import play_evm, play_model

OF_MATCHES = {Reason.ALREADY_JOINED, Reason.NO_DISPUTE}
RARE = {Reason.NO_SUCH_BATCH}
"""What is refused in fewer than one of a hundred games."""


def list_reasons(seen: Counter[str]) -> set[str]:
    """Return why calls were refused."""
    return {it.split(": ", 1)[1] for it in seen if ": " in it} - {"ok"}


def test_many_games_end_as_they_should() -> None:
    """No answer, winner or wallet is another than the truth says, and every refusal is met."""
    seen = play_model(range(share(6_000, 12)))
    reasons = {str(it) for it in Reason if it.startswith("service: ")} - {*map(str, RARE)}
    assert list_reasons(seen) >= reasons | {*map(str, OF_MATCHES)}
    assert {f"match won by {it}" for it in (0, 1, None)} <= set(seen)
    accepted = {it.split(": ")[0] for it in seen if it.endswith(": ok")}
    assert accepted >= {"challenge", "refute_answer", "prove_conflict", "prove_unlisted", "redeem"}


@pytest.mark.parametrize("first", every(20, range(0, 1_000, 100)))
def test_the_bytecode_plays_the_same_games(first: int) -> None:
    """The contracts answer every call of some of them as the models do, to the wei."""
    assert play_evm(range(first, first + 40)) == play_model(range(first, first + 40))
