"""Programs that were lowered before, kept by the content of what torch traced.

A recipe's code is run and traced at every capture. What follows from the trace alone, its
decomposition and its lowering, is looked up by the hash of the trace: of all operators with their
arguments and lines, of constants, slots and batches, and of the sources and versions that make a
program of them. Captures that are compared with torch do without, since they need the draft.
"""

import hashlib
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.numpy import load, save

import moot.offchain
from moot.offchain.arithmetic.base import Arithmetic
from moot.offchain.cache import Cache
from moot.offchain.commitments.tensors import Array
from moot.offchain.errors import ProgramError
from moot.offchain.frontend.capture.draft import Start, make_draft, make_initial_state
from moot.offchain.programs.decoding import decode_program
from moot.offchain.programs.encoding import encode_name, encode_program
from moot.offchain.programs.graph import Program

_programs = Cache("programs", b"moot lowered program 1\n", most=256)

_SOURCES = ("arithmetic", "commitments", "frontend", "programs", "providers")
"""The packages that a program follows from, beside the trace, and an example of ours."""

_MARGIN_NS = 2 * 10**9
"""How much older than the process a file has to be: clocks of files may be that coarse."""

_PROGRAM, _CONSTANT = "program", "constant.{}"


class Known(NamedTuple):
    """A program that is kept.

    Attributes:
        name: the name under which it is.
        program: the whole step.
        initial_state: the state before step 0, in the order of the program's slots.
    """

    name: str
    program: Program
    initial_state: list[Array]


def make_program(start: Start, arithmetic: Arithmetic) -> Known:
    """Return the program of one step of a recipe, which is kept from now on.

    Raises:
        CaptureError: the model does something that a program cannot express.
    """
    name = _hash_origin(start, arithmetic)
    known = read_program(name, start.state)
    if known is not None:
        return known
    draft = make_draft(start, arithmetic)
    content = {_PROGRAM: np.frombuffer(encode_program(draft.program), np.uint8)}
    content |= {_CONSTANT.format(k): np.ascontiguousarray(c) for k, c in enumerate(draft.constants)}
    _programs.write(name, save(content))
    return Known(name, draft.program, draft.initial_state)


def read_program(name: str, state: Mapping[str, torch.Tensor]) -> Known | None:
    """Return what is kept under a name, None if it is not there or not whole.

    Args:
        name: the name.
        state: the tensors of the recipe's state before step 0, by name.
    """
    content = _programs.read(name)
    if content is None:
        return None
    try:
        tensors = load(content)
        program = decode_program(tensors.pop(_PROGRAM).tobytes())
        # Copies, as those that are read may not be written to, which some kernels do not take.
        constants = [tensors[_CONSTANT.format(k)].copy() for k in range(len(tensors))]
    except (SafetensorError, ProgramError, KeyError):
        return None
    return Known(name, program, make_initial_state(program, state, constants))


def _hash_origin(start: Start, arithmetic: Arithmetic) -> str:
    """Return the hash of all that a program follows from."""
    digest = hashlib.sha256()
    for part in _list_origin(start, arithmetic):
        digest.update(len(part).to_bytes(8, "big"))
        digest.update(part)
    return digest.hexdigest()


def _list_origin(start: Start, arithmetic: Arithmetic) -> Iterator[bytes]:
    recipe = start.subject.recipe
    yield hash_sources()
    settings = (sys.version, torch.__version__, torch.get_default_dtype(), type(recipe).__name__)
    yield repr((*settings, recipe.seed)).encode()
    yield encode_name(arithmetic)
    for name, tensor in start.state.items():
        yield repr((name, tensor.dtype, tensor.shape, tensor.stride())).encode()
    for tensor in start.batch:
        yield repr((tensor.dtype, tensor.shape, tensor.stride())).encode()
    yield from start.record.list_content()


@cache
def hash_sources() -> bytes:
    """Return the hash of our sources that a program follows from."""
    digest, root = hashlib.sha256(), _find_root()
    for source in _list_sources():
        digest.update(str(source.relative_to(root)).encode() + b"\0" + source.read_bytes())
    return digest.digest()


def are_sources_older() -> bool:
    """Return whether this process runs our sources as they are: none has changed since it began."""
    newest = max(source.stat().st_mtime_ns for source in _list_sources())
    return newest < moot.offchain.BEGAN_NS - _MARGIN_NS


def _list_sources() -> list[Path]:
    root = _find_root()
    return [path for folder in _SOURCES for path in sorted((root / folder).rglob("*.py"))]


def _find_root() -> Path:
    return Path(moot.offchain.__path__[0])
