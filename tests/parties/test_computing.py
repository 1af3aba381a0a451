"""The computation of a job: whoever can commit to a claim has all that defends it."""

import shutil
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from offchain.datastore.store import open_store
from offchain.disputes.terms import make_terms
from offchain.parties.computing import CLAIM, compute, recall_run
from offchain.parties.policy import Policy
from offchain.parties.settings import Settings
from offchain.parties.workshop import Checks
from offchain.providers.publication import put_task
from offchain.providers.store import Store
from tests.sim_helpers import make_task
from tests.store_helpers import serving


@pytest.mark.parametrize("is_served", [False, True])
def test_a_job_is_defended_without_the_store_that_it_came_from(
    tmp_path: Path, *, is_served: bool
) -> None:
    """Once a claim is noted, the job's folder alone makes the run again, wherever the job lay."""
    task, origin, own = make_task(), tmp_path / "origin", Store(tmp_path / "own")
    job: Any = SimpleNamespace(terms=make_terms(task))
    put_task(open_store(str(origin)), task)
    folder: Any = SimpleNamespace(open_job=lambda *_: own)
    with ExitStack() as stack:
        store = stack.enter_context(serving(origin)).url if is_served else str(origin)
        desk: Any = SimpleNamespace(
            settings=Settings(store=store), find_job=lambda _: job, tell=lambda *_, **__: None
        )
        compute(desk, Policy(), 0, folder, Checks.NONE)
    shutil.rmtree(origin)
    run = recall_run(job, own, Settings(store=str(tmp_path / "nowhere")))
    assert [root.hex() for root in run.roots] == own.get_json(CLAIM)
    batches = [[it.tobytes() for it in run.task.batch(step)] for step in range(task.steps)]
    assert batches == [[it.tobytes() for it in task.batch(step)] for step in range(task.steps)]
