"""The collector of cycles, put off and on again."""

import gc
from collections.abc import Iterator

import pytest

from moot.offchain.collection import without_collection


@pytest.fixture(autouse=True)
def _put_back() -> Iterator[None]:
    """Leave the collector as it was, whatever happens."""
    was_on = gc.isenabled()
    gc.enable()
    yield
    (gc.enable if was_on else gc.disable)()


def test_the_collector_is_off_inside_and_on_again_after_an_error() -> None:
    """Whatever ends the block, the collector is what it was before."""

    @without_collection()
    def fail() -> None:
        with without_collection():
            pass
        assert not gc.isenabled()
        raise ValueError("over")

    with pytest.raises(ValueError, match="over"):
        fail()
    assert gc.isenabled()


def test_what_is_not_wanted_or_already_off_changes_nothing() -> None:
    """A block that does not want it has the collector on; one that finds it off leaves it off."""
    with without_collection(is_wanted=False):
        assert gc.isenabled()
    gc.disable()
    with without_collection():
        pass
    assert not gc.isenabled()
