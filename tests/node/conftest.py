"""The fixture that starts a real node for a test."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.node.anvil import Anvil, run_anvil
from tests.node.fetch import NodeMissing, get_anvil


@pytest.fixture(scope="session")
def program() -> Path:
    """Anvil; without it the test is skipped."""
    try:
        return get_anvil()
    except NodeMissing as missing:
        pytest.skip(str(missing))


@pytest.fixture
def node(program: Path, tmp_path: Path) -> Iterator[Anvil]:
    """A new chain on anvil."""
    with run_anvil(program, tmp_path) as anvil:
        yield anvil
