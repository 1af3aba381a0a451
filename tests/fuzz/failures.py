"""Failures of the fuzzer, in files with all that is needed to see one again."""

import json
from pathlib import Path
from typing import Any

import numpy as np

from moot.offchain.commitments.tensors import NUMPY_TYPES, Array
from moot.offchain.programs.decoding import decode_program
from moot.offchain.programs.encoding import encode_program
from moot.offchain.programs.graph import Slot
from tests.fuzz.compare import Mode
from tests.fuzz.draws import Case


def write(path: Path, case: Case, mode: Mode, about: dict[str, Any]) -> None:
    """Keep a case, how it was run, and what is known about it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    content = {
        **about,
        "mode": mode._asdict(),
        "step": case.step,
        "program": encode_program(case.program).hex(),
        "state": [array.tobytes().hex() for array in case.state],
        "batch": [array.tobytes().hex() for array in case.batch],
        "text": [repr(node) for node in case.program.nodes],
    }
    path.write_text(json.dumps(content, indent=1) + "\n")


def read(path: Path) -> tuple[Case, Mode]:
    """Return a case that was kept, and how it was run."""
    content = json.loads(path.read_text())
    program = decode_program(bytes.fromhex(content["program"]))
    state, batch = (
        [_read_tensor(slot, text) for slot, text in zip(slots, content[name], strict=True)]
        for name, slots in (("state", program.state), ("batch", program.batch))
    )
    return Case(program, state, batch, content["step"]), Mode(**content["mode"])


def _read_tensor(slot: Slot, text: str) -> Array:
    flat: Array = np.frombuffer(bytes.fromhex(text), NUMPY_TYPES[slot.dtype])
    return flat.reshape(slot.shape)
