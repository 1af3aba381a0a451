"""The names of operators, from the store to which clients have published their programs."""

from collections.abc import Sequence
from dataclasses import dataclass

from moot.contracts.model.types import Terms
from moot.offchain.datastore.store import DataStore
from moot.offchain.errors import CommitmentError, ProgramError, StoreError
from moot.offchain.providers.publication import get_program
from moot.offchain.record.names import list_names


@dataclass(frozen=True, slots=True)
class PublishedNames:
    """The names in the programs of a store; a program that cannot be had has none."""

    store: DataStore

    def __call__(self, terms: Terms) -> Sequence[str]:
        """Return the names of the operators of a job's program."""
        try:
            return list_names(get_program(self.store, terms))
        except (CommitmentError, ProgramError, StoreError):
            return ()
