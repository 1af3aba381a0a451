"""What a provider would claim that computes a published job in a process of its own."""

from pathlib import Path

from moot.contracts.model.types import Terms
from moot.offchain.datastore.store import open_store
from moot.offchain.parties.computing import make_run
from moot.offchain.parties.settings import Settings
from moot.offchain.providers.publication import get_task
from moot.offchain.providers.store import Store


def compute_claim(folder: Path, terms: Terms, backend: str) -> list[bytes]:
    """Fetch a job, run it on a backend, and return the roots of its checkpoints."""
    own = folder / backend
    task = get_task(open_store(str(folder / "job"), own / "fetched"), terms)
    return [*make_run(task, Store(own), Settings(backend=backend)).roots]
