"""Cache of captures: a recipe whose content is known is not traced again.

An entry is kept by the description of a recipe (`description`) and of the process (`surroundings`),
the arithmetic and what its maker says of the recipe. It has the name of the program that was
lowered from the trace (`known`), its root, and the files that all code of the process was from
when the tracing was over; where one of them has changed, there is no entry. What has no description
is never recalled, and never kept.
"""

import hashlib
import json
from collections.abc import Sequence
from typing import NamedTuple

import torch

from moot.offchain.arithmetic.base import Arithmetic
from moot.offchain.cache import Cache
from moot.offchain.errors import CaptureError
from moot.offchain.frontend.capture.description import IndescribableError, describe_recipe
from moot.offchain.frontend.capture.draft import make_slots
from moot.offchain.frontend.capture.known import Known, read_program
from moot.offchain.frontend.capture.surroundings import (
    OWN,
    describe_process,
    list_code,
    list_files,
    sign_files,
)
from moot.offchain.frontend.subject import Subject
from moot.offchain.frontend.tracing import get_initial_state
from moot.offchain.programs.graph import Program, Slot
from moot.offchain.programs.roots import ProgramTree

_captures = Cache("captures", b"moot kept capture 1\n", most=256)


class _Entry(NamedTuple):
    """A capture that is kept.

    Attributes:
        program: the name of the lowered program.
        root: its program root.
        signature: that of the files.
        files: what all code of the process was from that has traced it.
    """

    program: str
    root: str
    signature: str
    files: list[str]


def find_origin(
    subject: Subject, batch: Sequence[torch.Tensor], arithmetic: Arithmetic, example: str
) -> str | None:
    """Return the name under which a capture is kept, None if it may not be.

    Args:
        subject: an example's.
        batch: its first batch.
        arithmetic: the program's.
        example: the example's name and all that it was asked for with.
    """
    try:
        parts = (describe_process(), describe_recipe(subject, batch), str(arithmetic), example)
    except (IndescribableError, RecursionError):
        return None
    return hashlib.sha256(repr(parts).encode()).hexdigest()


def recall(origin: str, subject: Subject, inputs: Sequence[Slot]) -> Known | None:
    """Return the program that is kept under a name, None if there is none.

    Args:
        origin: the name.
        subject: the subject, which has the start.
        inputs: the slots of its batches.
    """
    entry = _read(origin)
    if entry is None:
        return None
    state = get_initial_state(subject)
    found, slots = read_program(entry.program, state), make_slots(state)
    if found is None or _hash_program(found.program) != entry.root:
        return None
    is_of_recipe = found.program.state[: len(slots)] == slots and found.program.batch == inputs
    return found if is_of_recipe else None


def keep(origin: str, known: Known) -> None:
    """Keep a capture whose program was lowered and is kept."""
    files = list_files()
    signature = sign_files(files)
    if signature is not None:
        entry = _Entry(known.name, _hash_program(known.program), signature, files)
        _captures.write(origin, json.dumps(entry._asdict()).encode())


def check_kept(origin: str, program: Program) -> None:
    """Refuse a program that was just traced where another one is kept under its origin.

    Raises:
        CaptureError: another one is; what entries are kept by does not tell the two apart.
    """
    entry = _read(origin)
    if entry is not None and _hash_program(program) != entry.root:
        raise CaptureError(
            f"another program is kept of this example, with the root {entry.root}; "
            f"remove {_captures.folder}, and tell us"
        )


def _read(origin: str) -> _Entry | None:
    """Return what is kept under a name.

    Nothing where a file that it follows from has changed, or where this process has loaded a module
    that the other one had not when it was done, which may have changed another one.
    """
    content = _captures.read(origin)
    if content is None:
        return None
    try:
        entry = _Entry(**json.loads(content))
    except (ValueError, TypeError):
        return None
    known = {*entry.files}
    is_known = all(place in known or place.startswith(OWN) for place in list_code())
    return entry if is_known and sign_files(entry.files) == entry.signature else None


def _hash_program(program: Program) -> str:
    return ProgramTree(program).header.root.hex()
