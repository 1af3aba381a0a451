import pytest

from tests.referee.games import LIES, play_evm, play_model


def test_the_truth_wins_many_games() -> None:
    """Honest members are left and paid, liars are not, and no wei stays; four endings occur."""
    calls, endings = play_model(range(400))
    assert calls > 400 * 12
    assert set(endings) == {"1", "2", "3", "4"}
    assert len(LIES) >= 12


def test_the_bytecode_plays_the_same_games() -> None:
    """In some of them the contract announces what the model does, call by call."""
    play_evm(range(12))


@pytest.mark.slow
def test_the_bytecode_plays_many_of_them() -> None:
    """As above, in a thousand games."""
    play_evm(range(1_000))
