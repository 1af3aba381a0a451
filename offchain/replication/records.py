"""Records of trainings: digests of every step, by which many profiles are compared at once.

So N profiles train N times, not once for every pair, each alone and whenever it suits; what is
recorded already is not trained again.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from urllib.parse import quote

import numpy as np
import numpy.typing as npt
from safetensors.numpy import load_file, save_file

from moot.offchain.arithmetic.logged import LOGGED
from moot.offchain.commitments.tensors import Array
from moot.offchain.files import replacing
from moot.offchain.replication.compare import (
    Process,
    Setting,
    Step,
    Summary,
    compare_states,
    running,
)
from moot.offchain.replication.orders import Method
from moot.offchain.replication.profiles import PROFILES, Profile
from moot.offchain.replication.proven import make_method

LOSS = "output.loss"
"""The name of a training's loss among the tensors of its state."""

_DIGEST_BYTES = 8


@dataclass(frozen=True, slots=True)
class Record:
    """A training under one profile.

    Attributes:
        digests: (steps, tensors) uint64: those of the tensors after every step.
        losses: (steps,) float32; NaN where the training has none.
        corrections: (steps,) int64: how many roundings an auditor turned; 0 of all others.
        last: the tensors after the last step.
    """

    digests: npt.NDArray[np.uint64]
    losses: npt.NDArray[np.float32]
    corrections: npt.NDArray[np.int64]
    last: list[Array]


def record(
    setting: Setting,
    profiles: Sequence[Profile],
    folder: Path,
    report: Callable[[str, int, int], None],
) -> None:
    """Train under each profile that has no record yet, and keep it for `find_records`.

    Args:
        setting: what is trained.
        profiles: the profiles; all start from the weights of the first. In `logged` the first one
            that is recorded is the trainer, and the others repeat its steps with its logs.
        folder: where the records are.
        report: is told a profile's name, the steps that it has made, and all steps.

    Raises:
        ReplicationError: a process fails; what has been recorded before stays.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for profile in profiles:
        path = _find_path(setting, profile.name, folder)
        if not path.exists():
            start = _keep_start(setting, profiles[0], folder)
            method = _find_method(setting, folder)
            _write(path, _train(setting, profile, start, method, report))


def find_records(setting: Setting, names: Iterable[str], folder: Path) -> dict[str, Record]:
    """Return the records that there are of profiles of these names."""
    paths = {name: _find_path(setting, name, folder) for name in names}
    return {name: _read(path) for name, path in paths.items() if path.exists()}


def compare_records(one: Record, other: Record) -> Summary:
    """Return how far two trainings of one setting part."""
    steps = len(one.digests)
    differing = np.flatnonzero((one.digests != other.digests).any(axis=1))
    last: Step = compare_states(steps - 1, one.last, other.last)
    first = int(differing[0]) if len(differing) else None
    return Summary(len(differing), first, last)


def _find_path(setting: Setting, profile: str, folder: Path) -> Path:
    return folder / f"{_name(setting)}-{profile}.safetensors"


def _name(setting: Setting) -> str:
    arithmetic = setting.arithmetic or "stock"
    program = quote(setting.program, safe="")
    return f"{program}-{setting.size}-{setting.steps}-{setting.seed}-{arithmetic}"


def _keep_start(setting: Setting, profile: Profile, folder: Path) -> Path:
    """Return the file of the state from which all profiles start."""
    path = folder / f"{_name(setting)}.start"
    if not path.exists():
        with running(setting, (profile,)) as (process,):
            data = process.start.read_bytes()
        with replacing(path) as draft:
            draft.write_bytes(data)
    return path


def _find_method(setting: Setting, folder: Path) -> Method | None:
    """Return the method of a training with logs, which stay in the folder for all auditors."""
    if setting.arithmetic != LOGGED.name:
        return None
    logs = folder / f"{_name(setting)}.logs"
    logs.mkdir(exist_ok=True)
    is_first = not any(_find_path(setting, name, folder).exists() for name in PROFILES)
    return make_method(logs, writes=is_first)


def _train(
    setting: Setting,
    profile: Profile,
    start: Path,
    method: Method | None,
    report: Callable[[str, int, int], None],
) -> Record:
    digests, losses, corrections, tensors = [], [], [], []
    with running(setting, (profile,), (method,), start) as (process,):
        for step in range(setting.steps):
            process.begin()
            tensors = process.finish()
            digests.append([_digest(tensor) for tensor in tensors])
            losses.append(_find_loss(process, tensors))
            corrections.append(process.report.get("corrections", 0))
            report(profile.name, step + 1, setting.steps)
    counts = np.array(corrections, np.int64)
    return Record(np.array(digests, np.uint64), np.array(losses, np.float32), counts, tensors)


def _digest(tensor: Array) -> int:
    return int.from_bytes(blake2b(tensor.tobytes(), digest_size=_DIGEST_BYTES).digest(), "little")


def _find_loss(process: Process, tensors: Sequence[Array]) -> float:
    return float(tensors[process.names.index(LOSS)][0]) if LOSS in process.names else float("nan")


def _write(path: Path, found: Record) -> None:
    names = ("digests", "losses", "corrections")
    tensors: dict[str, Array] = {name: getattr(found, name) for name in names}
    tensors |= {f"last.{place}": tensor for place, tensor in enumerate(found.last)}
    with replacing(path) as draft:
        save_file(tensors, draft)


def _read(path: Path) -> Record:
    data = load_file(path)
    count = sum(name.startswith("last.") for name in data)
    last = [data[f"last.{place}"] for place in range(count)]
    return Record(data["digests"], data["losses"], data["corrections"], last)
