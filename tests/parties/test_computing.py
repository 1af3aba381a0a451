"""The computation of a job: whoever can commit to a claim has all that defends it."""

import shutil
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from moot.contracts.model.types import Address, Job
from moot.offchain.datastore.store import open_store
from moot.offchain.disputes.referee.terms import make_terms
from moot.offchain.parties.computing import CLAIM, UnwantedJob, compute, recall_run
from moot.offchain.parties.policy import Policy
from moot.offchain.parties.settings import Settings
from moot.offchain.parties.workshop import Checks
from moot.offchain.providers.publication import put_task
from moot.offchain.providers.store import Store
from moot.offchain.providers.task import Task
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
        context: Any = SimpleNamespace(
            settings=Settings(store=store), find_job=lambda _: job, tell=lambda *_, **__: None
        )
        compute(context, Policy(), 0, folder, Checks.NONE)
    shutil.rmtree(origin)
    run = recall_run(job, own, Settings(store=str(tmp_path / "nowhere")))
    assert [root.hex() for root in run.roots] == own.get_json(CLAIM)
    batches = [[it.tobytes() for it in run.task.batch(step)] for step in range(task.steps)]
    assert batches == [[it.tobytes() for it in task.batch(step)] for step in range(task.steps)]


def refuse_work(tmp_path: Path, task: Task, reward_wei: int, store: str, **changes: Any) -> str:
    """Return why a job is not computed of which so much is published as is in a store."""
    terms = replace(make_terms(task), **changes)
    job = Job(Address("0x" + "c1" * 20), terms, reward_wei, opened_block=0, window_end=0)
    folder: Any = SimpleNamespace(
        open_job=lambda *_: Store(tmp_path / "own"),
        open_results=lambda: Store(tmp_path / "results"),
    )
    context: Any = SimpleNamespace(
        settings=Settings(store=store),
        find_job=lambda _: job,
        tell=lambda *_, **__: None,
        chain=SimpleNamespace(block_number=lambda: 0),
    )
    with pytest.raises(UnwantedJob) as caught:
        compute(context, Policy(), 0, folder, Checks.ALL)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_dust_is_refused_before_anything_is_fetched(tmp_path: Path) -> None:
    """Terms alone decide: the store that has the job is not even asked."""
    nowhere = "http://127.0.0.1:1"
    long = {"steps": 1 << 32, "checkpoint_every": 1 << 32}
    assert "yield" in refuse_work(tmp_path, make_task(), 0, nowhere, **long)
    large = {"operators": 1 << 20, "state_slots": 1 << 16, "batch_slots": 1 << 16}
    assert "size" in refuse_work(tmp_path, make_task(), 10**18, nowhere, **large)


def test_a_run_of_years_is_refused_before_its_data_are_fetched(tmp_path: Path) -> None:
    """Its program says what it costs: nothing else of it is at the store, and nothing is run."""
    task, origin = make_task(), open_store(str(tmp_path / "origin"))
    origin.put_program(task.program)
    long = {"steps": 1 << 32, "checkpoint_every": 1 << 32}
    problem = refuse_work(tmp_path, task, 10**18, str(tmp_path / "origin"), **long)
    assert "run_seconds" in problem
