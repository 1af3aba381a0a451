"""The folder of a job under damage: the salt is there, and the run is made again to the bit."""

import atexit
import shutil
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from random import Random
from tempfile import mkdtemp
from types import SimpleNamespace
from typing import Any

from moot.offchain.datastore.objects import HISTORIES, STATES
from moot.offchain.datastore.store import open_store
from moot.offchain.disputes.referee.terms import make_terms
from moot.offchain.errors import MootError, StoreError
from moot.offchain.parties.computing import compute, read_claim, recall_run
from moot.offchain.parties.policy import Policy
from moot.offchain.parties.recall import Recalled
from moot.offchain.parties.salts import COPIES, find_salt, get_salt
from moot.offchain.parties.serving import Stage, publish
from moot.offchain.parties.settings import Settings
from moot.offchain.parties.workshop import Checks
from moot.offchain.providers.publication import put_task
from moot.offchain.providers.store import Store
from tests.parties.damage import DAMAGES, RESUMED, full_disk, require_one_line
from tests.sim_helpers import make_task

SALT = b"\x5a" * 32
MOST_WRITES = 60
"""More than there are where a job is computed."""


@cache
def get_model() -> tuple[Path, Any, list[bytes]]:
    """Return a folder with a job that was computed, the job, and the roots of its claim.

    The folder is made once in a process: `store` has the task, `own` is the job's.
    """
    folder = Path(mkdtemp(prefix="moot-durability-model-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    task = make_task()
    put_task(open_store(str(folder / "store")), task)
    job = SimpleNamespace(terms=make_terms(task))
    own = Store(folder / "own")
    run_job(job, own, folder)
    for name in COPIES:
        own.put_json(name, {"salt": SALT.hex()})
    own.put_json("spent", 12_345)
    roots = read_claim(own)
    assert roots is not None
    return folder, job, roots


def run_job(job: Any, own: Store, folder: Path) -> None:
    """Compute a job into a folder, as a provider's workshop does."""
    settings = Settings(store=str(folder / "store"))
    tell = lambda *_, **__: None  # noqa: E731 - nobody listens
    context: Any = SimpleNamespace(settings=settings, find_job=lambda _: job, tell=tell)
    compute(context, Policy(), 0, SimpleNamespace(open_job=lambda *_: own), Checks.NONE)  # type: ignore[arg-type]


def reopen(job: Any, own: Store, folder: Path) -> list[bytes]:
    """Go on as a provider does after it was killed; return the roots that it claims."""
    assert find_salt(own) == SALT
    roots = read_claim(own)
    if roots is None:
        run_job(job, own, folder)
        roots = read_claim(own)
    assert roots is not None
    settings = Settings(store=str(folder / "store"))
    run = Recalled(roots, lambda: recall_run(job, own, settings))
    for step in range(run.task.steps):
        run.trace(step)
    return roots


def play_damage(folder: Path, random: Random, how: str, under: str) -> str:
    """One file of a job's folder is damaged: the salt and the claim are what they were."""
    model, job, roots = get_model()
    shutil.copytree(model / "own", folder / "own")
    shutil.copytree(model / "store", folder / "store")
    paths = sorted(it for it in (folder / "own" / under).rglob("*") if it.is_file())
    path = random.choice([it for it in paths if it.stat().st_size])
    path.write_bytes(DAMAGES[how](path.read_bytes(), random))
    try:
        assert reopen(job, Store(folder / "own"), folder) == roots
    except MootError as error:
        return require_one_line(error)
    return RESUMED


def play_full(folder: Path, random: Random) -> str:
    """The disk is full while a job is computed and its salt drawn: once it is not, all is made."""
    model, job, roots = get_model()
    shutil.copytree(model / "store", folder / "store")
    said, salts = RESUMED, set[bytes]()
    own = Store(folder / "own")
    with full_disk(random.randrange(MOST_WRITES)):
        try:
            run_job(job, own, folder)
            salts.add(get_salt(own))
        except MootError as error:
            said = require_one_line(error)
    own = Store(folder / "own")
    run_job(job, own, folder)
    salts.add(get_salt(own))
    assert (read_claim(own), len(salts)) == (roots, 1)
    return said


def play_publishing(folder: Path, random: Random) -> str:
    """The disk is full while results are published: a state that is there is there whole."""
    model, job, roots = get_model()
    shutil.copytree(model / "own", folder / "own")
    own, results, said = Store(folder / "own"), Store(folder / "results"), RESUMED
    history = Recalled(roots, lambda: recall_run(job, own, Settings())).history
    with full_disk(random.randrange(12)):
        try:
            publish(results, own, history, Stage.PAID)
        except StoreError as error:
            said = require_one_line(error)
    for name, _ in results.list():
        kind, _, root = name.partition("/")
        if kind == STATES:
            assert results.get_state(bytes.fromhex(root))
    publish(results, own, history, Stage.PAID)
    kinds = {name.partition("/")[0] for name, _ in results.list()}
    assert {HISTORIES, STATES} < kinds
    assert results.get_state(roots[-1])
    return said


def play_salt_full(folder: Path, random: Random) -> str:
    """The disk is full while a salt is drawn: what was given back is found again, ever after."""
    own, said, given = Store(folder / "own"), RESUMED, set[bytes]()
    for _ in range(4):
        with full_disk(random.randrange(9)):
            try:
                given.add(get_salt(own))
            except StoreError as error:
                said = require_one_line(error)
    with suppress(FileNotFoundError):
        (own.path / "notes" / f"{random.choice(COPIES)}.json").unlink()
    given.add(get_salt(Store(folder / "own")))
    assert len(given) == 1
    return said


def _damage(how: str, under: str) -> Callable[[Path, Random], str]:
    return lambda folder, random: play_damage(folder, random, how, under)


KINDS: dict[str, Callable[[Path, Random], str]] = {
    **{f"notes-{how}": _damage(how, "notes") for how in DAMAGES},
    **{f"folder-{how}": _damage(how, "") for how in DAMAGES},
    "job-full": play_full,
    "publishing-full": play_publishing,
    "salt-full": play_salt_full,
}
