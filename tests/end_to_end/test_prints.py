"""Profiles that vary what their names say, and no two of which compute alike."""

from itertools import combinations

import pytest

from moot.offchain.native.binary64.trial import try_engine
from moot.offchain.replication.prints import find_print, list_differing, make_print
from moot.offchain.replication.profiles import PROFILES, find_lack, list_offered
from moot.offchain.replication.sums import ProfileEngine, rounding

VARIED = ("split", "permuted", "upwards", "downwards", "towards-zero")
"""Profiles that need no environment of their own."""


@pytest.mark.parametrize("name", VARIED)
def test_a_profile_keeps_the_bounds(name: str) -> None:
    """However a profile adds up and rounds, it is an engine that a trial accepts."""
    profile = PROFILES[name]
    if lack := find_lack(profile):
        pytest.skip(lack)
    try_engine(name, ProfileEngine(profile))


def test_prints_tell_profiles_apart() -> None:
    """What an engine makes of the same operands is what tells it from others."""
    offered = [PROFILES[name] for name in VARIED if find_lack(PROFILES[name]) is None]
    prints = {row.name: make_print(ProfileEngine(row)) for row in offered}
    for one, other in combinations(prints, 2):
        assert prints[one] != prints[other], (one, other)
    for name in ("upwards", "downwards"):
        assert prints[name]["sums"] != prints["towards-zero"]["sums"]


def test_rounding_ends() -> None:
    """A direction holds for a block, also one that fails, and no longer."""
    third = 1.0
    with pytest.raises(KeyError), rounding("up"):
        raise KeyError
    assert third / 3 + third / 3 + third / 3 == 1.0


@pytest.mark.slow
def test_no_pair_is_a_pair_of_equals() -> None:
    """No two of the profiles that this machine offers are alike in all that they compute."""
    prints = {row.name: find_print(row) for row in list_offered()}
    for one, other in combinations(prints, 2):
        assert prints[one] != prints[other], (one, other)
    assert list_differing(PROFILES["native"], PROFILES["native"]) == []
