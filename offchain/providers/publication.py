"""The files that a client publishes about a job; anybody can compute its roots from them.

program              the program's file form
start.safetensors    tensor "i" is slot i of the start state
data.safetensors     tensor "step/i" is slot i of the batch of a step; absent without batches
logs/<step>          the rounding log of a step; absent unless the arithmetic has logs
"""

from dataclasses import dataclass
from pathlib import Path

from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from offchain.commitments.tensors import Array
from offchain.errors import UsageError
from offchain.programs.encoding import encode_program
from offchain.programs.rounding.entries import encode_log
from offchain.providers.task import Task

PROGRAM, START, DATA, LOGS = "program", "start.safetensors", "data.safetensors", "logs"
MAX_PROGRAM_BYTES = 1 << 31
"""More than a program of the most operators, each of the longest encoding, has."""

MAX_LOG_BYTES = 1 << 26
"""More than the log of any step has that trained in a day."""


@dataclass(frozen=True)
class Publication:
    """The unchecked content of the files, which another party may have made.

    Attributes:
        program: the program's file form.
        start: the start state's tensors.
        data: the batches' tensors, by "step/i".
        folder: where the logs lie.
    """

    program: bytes
    start: tuple[Array, ...]
    data: dict[str, Array]
    folder: Path

    def log(self, step: int) -> bytes | None:
        """Return the file of a step's rounding log, as far as it may be long; None without one."""
        try:
            with (self.folder / LOGS / str(step)).open("rb") as file:
                return file.read(MAX_LOG_BYTES)
        except OSError:
            return None

    def batch(self, step: int) -> list[Array]:
        """Return the batch of a step, as far as its slots are there in a row."""
        arrays: list[Array] = []
        while (array := self.data.get(f"{step}/{len(arrays)}")) is not None:
            arrays.append(array)
        return arrays


def publish(task: Task, folder: Path) -> None:
    """Write the files of a task into a folder, which is made if it is missing."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / PROGRAM).write_bytes(encode_program(task.program))
        save_file({str(i): array for i, array in enumerate(task.initial_state)}, folder / START)
        if task.program.batch:
            steps = range(task.steps)
            slots = ((step, i, a) for step in steps for i, a in enumerate(task.batch(step)))
            save_file({f"{step}/{i}": array for step, i, array in slots}, folder / DATA)
        for step, log in enumerate(task.logs or ()):
            (folder / LOGS).mkdir(exist_ok=True)
            encoded = encode_log(log, task.commitment.header.root, step)
            (folder / LOGS / str(step)).write_bytes(encoded)
    except OSError as error:
        raise UsageError(f"cannot write to {folder}: {error.strerror}") from error


def read_publication(folder: Path) -> Publication:
    """Return what a client has published in a folder.

    Raises:
        UsageError: a file is missing, or is no such file.
    """
    path = folder / PROGRAM
    try:
        with path.open("rb") as file:
            program = file.read(MAX_PROGRAM_BYTES)
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}; ask the client for it") from error
    start = _load(folder / START)
    data = _load(folder / DATA) if (folder / DATA).exists() else {}
    return Publication(
        program, tuple(start[key] for key in sorted(start, key=_as_number)), data, folder
    )


def _as_number(key: str) -> tuple[int, str]:
    return (len(key), key)


def _load(path: Path) -> dict[str, Array]:
    try:
        arrays: dict[str, Array] = load_file(path)
    except (OSError, SafetensorError, KeyError, ValueError) as error:
        problem = " ".join(str(error).split())
        raise UsageError(f"{path} is not a file of tensors: {problem}; ask for it again") from error
    return arrays
