"""The folder of a party: who owns it, what is kept of each job, and the results that it serves.

    in-use                       locked by the one process that works in it
    owner.json                   the account that it belongs to
    results/                     what is served by now (`serving.py`), a store that anybody may read
    scratch/                     what is put aside while a job is tried
    <court>/job-<number>-<id>/   a job's program, data, checkpoints and notes

A court is a referee on a chain: a chain that began anew is another one. A job's id is made from its
terms, so that a job that takes another's number on a reorganised chain has a folder of its own.
"""

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any

from moot.contracts.model.types import NOBODY, Address, Job
from moot.offchain.chain import Chain
from moot.offchain.chain.connection import find_genesis
from moot.offchain.datastore.disk import reporting
from moot.offchain.errors import StoreError, UsageError
from moot.offchain.files import held_alone, make_folder, replacing
from moot.offchain.providers.store import Store

OWNER, IN_USE = "owner.json", "in-use"
ID_LETTERS = 8
_MOST_BYTES = 4096
_PRIVATE = 0o700
"""A new folder is its user's alone: who could read it could copy a claim before it is shown."""


class Folder:
    """The folder of a party at one court.

    Args:
        path: where it is.
        chain: the chain.
        referee: the referee.
    """

    def __init__(self, path: Path, chain: Chain, referee: Address) -> None:
        genesis = find_genesis(chain.node)
        self.path = path
        self.referee_id = f"{chain.chain_id}-{genesis.hex()[:ID_LETTERS]}-{referee[2:].lower()}"

    @contextmanager
    def held(self, owner: Address) -> Iterator[None]:
        """Keep the folder for one process of one account, or of nobody's.

        Raises:
            UsageError: another process works in it, or it is another account's.
            StoreError: it cannot be written.
        """
        with ExitStack() as stack:
            with reporting(self.path):
                make_folder(self.path, _PRIVATE)
                is_ours = stack.enter_context(held_alone(self.path / IN_USE))
            if not is_ours:
                raise UsageError(
                    f"another process works in {self.path}; give each party a --folder of its own"
                )
            if owner != NOBODY:
                self._require_owner(owner)
            yield

    def _require_owner(self, owner: Address) -> None:
        path = self.path / OWNER
        with reporting(path):
            if not path.exists():
                with replacing(path, is_durable=True) as draft:
                    draft.write_text(json.dumps({"account": owner}) + "\n")
                return
            with path.open("rb") as file:
                text = file.read(_MOST_BYTES)
        try:
            found = str(json.loads(text)["account"])
        except (ValueError, KeyError, TypeError) as error:
            raise StoreError(f"{path} is damaged; it holds the account of the folder") from error
        if found != owner:
            raise UsageError(
                f"{self.path} belongs to account {found}, not to {owner}; give its key, or another "
                "--folder"
            )

    def open_results(self) -> Store:
        """Return the store of what is served."""
        return Store(self.path / "results")

    def open_job(self, job_id: int, job: Job) -> Store:
        """Return the store of a job."""
        store = Store(self._name_job(job_id, job))
        store.disk.make_private()
        return store

    def find_job(self, job_id: int, job: Job) -> Store | None:
        """Return the store of a job if there is one."""
        path = self._name_job(job_id, job)
        return Store(path) if path.is_dir() else None

    def _name_job(self, job_id: int, job: Job) -> Path:
        return self.path / self.referee_id / f"job-{job_id}-{_identify(job)}"


def _identify(job: Job) -> str:
    """Return a few letters that tell a job from another of its number."""
    said: tuple[Any, ...] = (job.client, job.terms)
    return sha256(repr(said).encode()).hexdigest()[:ID_LETTERS]
