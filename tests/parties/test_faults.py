"""Whatever breaks around it, the honest provider wins, pays each move once, and loses nothing."""

from collections.abc import Iterator

import pytest

from tests.parties.faults import play
from tests.parties.faults_kinds import KINDS
from tests.parties.faults_stage import Stage, opened_stage

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """Yield a node, a store and a referee for all cases."""
    with opened_stage(tmp_path_factory.mktemp("faults")) as stage:
        yield stage


@pytest.mark.parametrize("kind", KINDS)
def test_a_job_under_faults(stage: Stage, kind: str) -> None:
    """One case of each kind; `python -m tests.parties.faults` plays as many as are wanted."""
    play(stage, kind, seed=1_000)
