"""The settings of a party."""

from pathlib import Path

import pytest

from moot.offchain.errors import UsageError
from moot.offchain.parties.settings import describe_keys, list_keys, read_settings


def test_an_option_goes_before_a_variable_and_that_before_the_file(tmp_path: Path) -> None:
    """Each of the three places gives a setting."""
    path = tmp_path / "party.toml"
    path.write_text('chain = "file"\nreferee = "file"\nkey = "file"\nport = 7\n')
    variables = {"MOOT_REFEREE": "variable", "MOOT_KEY": "variable", "MOOT_CROWD": "9"}
    found = read_settings(path, {"key": "option"}, variables)
    assert (found.chain, found.referee, found.key) == ("file", "variable", "option")
    assert (found.port, found.crowd) == (7, 9)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('refree = "0x"', "did you mean"),
        ("chain = 1", "`chain` is text"),
        ("port = true", "`port` is a whole number"),
        ("bad", "is no TOML file"),
    ],
)
def test_a_bad_file_is_refused(tmp_path: Path, text: str, problem: str) -> None:
    """An unknown key has a suggestion; a value of another kind names its key."""
    path = tmp_path / "party.toml"
    path.write_text(text)
    with pytest.raises(UsageError, match=problem):
        read_settings(path, {}, {})


def test_every_key_is_described() -> None:
    """The help of an option says what the setting is for."""
    about = describe_keys()
    assert list(about) == [field.name for field in list_keys()]
    assert all(text.endswith(".") for text in about.values())
