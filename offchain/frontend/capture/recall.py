"""Cache of captures: an example of ours that was captured before is not traced again.

An entry is kept by the example's name with all that it was asked for with, by its arithmetic and
the slots of its batches, by our sources and by the environment (`surroundings`): versions and
variables. It has the name of the program that was lowered from the trace (`known`), and its
root. Nothing is recalled or kept in a process that has loaded code of a user's, or whose own
sources have changed since it began.
"""

import hashlib
from collections.abc import Sequence

from moot.offchain.arithmetic.base import Arithmetic
from moot.offchain.cache import Cache
from moot.offchain.errors import CaptureError
from moot.offchain.frontend.capture.draft import make_slots
from moot.offchain.frontend.capture.known import (
    Known,
    are_sources_older,
    hash_sources,
    read_program,
)
from moot.offchain.frontend.capture.surroundings import IndescribableError, describe_process
from moot.offchain.frontend.subject import Subject
from moot.offchain.frontend.tracing import get_initial_state
from moot.offchain.programs.graph import Program, Slot
from moot.offchain.programs.roots import ProgramTree

_captures = Cache("captures", b"moot kept capture 2\n", most=256)


def find_origin(inputs: Sequence[Slot], arithmetic: Arithmetic, example: str) -> str | None:
    """Return the name under which a capture is kept, None if it may not be.

    Args:
        inputs: the slots of an example's batches.
        arithmetic: the program's.
        example: the example's name and all that it was asked for with.
    """
    if not are_sources_older():
        return None
    try:
        parts = (describe_process(), hash_sources(), tuple(inputs), str(arithmetic), example)
    except IndescribableError:
        return None
    return hashlib.sha256(repr(parts).encode()).hexdigest()


def recall(origin: str, subject: Subject, inputs: Sequence[Slot]) -> Known | None:
    """Return the program that is kept under a name, None if there is none.

    Args:
        origin: the name.
        subject: the subject, which has the start.
        inputs: the slots of its batches.
    """
    kept = _read(origin)
    if kept is None:
        return None
    name, root = kept
    state = get_initial_state(subject)
    found, slots = read_program(name, state), make_slots(state)
    if found is None or _hash_program(found.program) != root:
        return None
    is_of_recipe = found.program.state[: len(slots)] == slots and found.program.batch == inputs
    return found if is_of_recipe else None


def keep(origin: str, known: Known) -> None:
    """Keep a capture whose program was lowered and is kept."""
    _captures.write(origin, f"{known.name} {_hash_program(known.program)}".encode())


def check_kept(origin: str, program: Program) -> None:
    """Refuse a program that was just traced where another one is kept under its origin.

    Raises:
        CaptureError: another one is; what entries are kept by does not tell the two apart.
    """
    kept = _read(origin)
    if kept is not None and _hash_program(program) != kept[1]:
        raise CaptureError(
            f"another program is kept of this example, with the root {kept[1]}; "
            f"remove {_captures.folder}, and tell us"
        )


def _read(origin: str) -> tuple[str, str] | None:
    """Return the name and the root of the program that is kept under a name."""
    name, blank, root = (_captures.read(origin) or b"").decode("ascii", "replace").partition(" ")
    return (name, root) if blank else None


def _hash_program(program: Program) -> str:
    return ProgramTree(program).header.root.hex()
