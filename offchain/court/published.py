"""The names of operators from what clients have published."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from offchain.court.names import Names, list_names
from offchain.errors import ProgramError, UsageError
from offchain.programs.decoding import decode_program
from offchain.programs.roots import ProgramTree
from offchain.providers.publication import MAX_PROGRAM_BYTES, PROGRAM


def read_names(folders: Iterable[Path]) -> Names:
    """Return the names of the programs in folders, as `moot program publish` writes them.

    Raises:
        UsageError: a folder has no program that can be read.
    """
    names: dict[bytes, Sequence[str]] = {}
    for folder in folders:
        path = folder / PROGRAM
        try:
            with path.open("rb") as file:
                program = decode_program(file.read(MAX_PROGRAM_BYTES))
        except OSError as error:
            raise UsageError(f"cannot read {path}: {error.strerror}") from error
        except ProgramError as error:
            raise UsageError(f"{path} is no program: {error}") from error
        names[ProgramTree(program).header.top] = list_names(program)
    return names
