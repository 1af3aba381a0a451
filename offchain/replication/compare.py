"""The comparison of two processes that train the same recipe under two profiles."""

import json
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from pathlib import Path
from typing import IO, Any

import numpy as np

from moot.offchain.children import get_last_words
from moot.offchain.children import start as start_process
from moot.offchain.commitments.tensors import Array
from moot.offchain.errors import ReplicationError, UsageError
from moot.offchain.replication.orders import MISUSED, Method, Order, encode
from moot.offchain.replication.profiles import Profile, make_environment


@dataclass(frozen=True, slots=True)
class Setting:
    """What is trained, for how many steps, in which precision and arithmetic: None is stock torch.

    With `timed`, the steps of an arithmetic are timed beside stock torch's.
    """

    program: str = "gpt2"
    size: str = "tiny"
    steps: int = 20
    seed: int = 0
    arithmetic: str | None = None
    timed: bool = False
    precision: str = "fp32"


@dataclass(frozen=True, slots=True)
class Step:
    """The states of two processes after one step, compared bit for bit.

    Attributes:
        step: its number.
        elements: how many elements of the state differ.
        tensors: how many tensors have such an element.
        distance: the largest difference of two elements; infinite where one of them is no number.
        all_elements: how many elements the state has.
        all_tensors: how many tensors.
        trainer: the first process's report of the step.
        auditor: the second one's.
        log_bytes: the size of the trainer's log, without its head; 0 if there is none.
        compressed_bytes: the log's size by zlib.
    """

    step: int
    elements: int
    tensors: int
    distance: float
    all_elements: int
    all_tensors: int
    trainer: Mapping[str, Any] = field(default_factory=dict)
    auditor: Mapping[str, Any] = field(default_factory=dict)
    log_bytes: int = 0
    compressed_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Summary:
    """The comparison of two whole trainings.

    Attributes:
        differing_steps: after how many steps the states differed.
        first_differing_step: the number of the first of them, if any.
        last: the comparison after the last step.
    """

    differing_steps: int
    first_differing_step: int | None
    last: Step


def summarize(steps: Sequence[Step]) -> Summary:
    """Return the summary of one step or more."""
    differing = [step.step for step in steps if step.elements]
    return Summary(len(differing), min(differing, default=None), steps[-1])


class Process:
    """A worker under one profile; it ends when it is closed.

    Args:
        setting: what it trains.
        profile: the profile.
        folder: where it may write.
        start: the file of the state that it starts from; None for its recipe's own.
        method: how torch trains; None for its own way.

    Attributes:
        names: those of the tensors that it has come to.
        report: what it has said of its last step.
    """

    def __init__(
        self,
        setting: Setting,
        profile: Profile,
        folder: Path,
        start: Path | None,
        method: Method | None = None,
    ) -> None:
        self.names: list[str] = []
        self.report: Mapping[str, Any] = {}
        self._profile = profile
        self._state = folder / "state"
        self._errors = (folder / "errors").open("w+", encoding="utf-8")
        self._process = start_process(
            "moot.offchain.replication.worker", env=make_environment(profile), stderr=self._errors
        )
        self._say(
            encode(
                Order(
                    setting.program,
                    setting.size,
                    setting.seed,
                    profile.name,
                    setting.arithmetic,
                    str(self._state),
                    str(start) if start else None,
                    method,
                    setting.precision,
                    setting.timed,
                )
            )
        )

    def begin(self) -> None:
        """Let it make a step."""
        self._say("\n")

    def finish(self) -> list[Array]:
        """Return the state that it has come to: the start at first, or that after the step.

        Raises:
            UsageError: what it is to train does not exist.
            ReplicationError: the process has failed.
        """
        line = self._get(self._process.stdout).readline()
        if not line:
            self._fail()
        answer = json.loads(line)
        self.report = answer["report"]
        data, tensors, at = self._state.read_bytes(), [], 0
        self.names = [name for name, *_ in answer["tensors"]]
        for _, dtype, count in answer["tensors"]:
            array = np.frombuffer(data, dtype, count, at)
            tensors.append(array)
            at += array.nbytes
        return tensors

    def keep_start(self) -> Path:
        """Return a file with a copy of the state that it has come to, which is its start."""
        return Path(shutil.copy(self._state, self.start))

    @property
    def start(self) -> Path:
        """The file with the copy that `keep_start` has made."""
        return self._state.with_name("start")

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.communicate()
        self._errors.close()

    def _say(self, line: str) -> None:
        stream = self._get(self._process.stdin)
        try:
            stream.write(line)
            stream.flush()
        except BrokenPipeError:
            self._fail()

    def _fail(self) -> None:
        self._process.wait()
        self._errors.seek(0)
        last = get_last_words(self._errors.read(), "it has said nothing")
        if self._process.returncode == MISUSED:
            raise UsageError(last)
        raise ReplicationError(self._profile.name, last)

    @staticmethod
    def _get(stream: IO[str] | None) -> IO[str]:
        assert stream is not None
        return stream


@contextmanager
def running(
    setting: Setting,
    profiles: Sequence[Profile],
    methods: Sequence[Method | None] = (),
    start: Path | None = None,
) -> Iterator[list[Process]]:
    """Run a process under each profile, by its method if any.

    All start from the state of a file, or else from the first one's.
    """
    with tempfile.TemporaryDirectory(prefix="moot-") as directory, ExitStack() as stack:
        processes: list[Process] = []
        for place, (profile, method) in enumerate(zip_longest(profiles, methods)):
            folder = Path(directory) / str(place)
            folder.mkdir()
            process = Process(setting, profile, folder, start, method)
            stack.callback(process.close)
            process.finish()
            kept = process.keep_start()
            start = start or kept
            processes.append(process)
        yield processes


def compare(setting: Setting, first: Profile, second: Profile) -> Iterator[Step]:
    """Train under two profiles and yield how far the states differ after every step.

    Raises:
        ReplicationError: a process fails.
    """
    with running(setting, (first, second)) as processes:
        for step in range(setting.steps):
            for process in processes:
                process.begin()
            states = [process.finish() for process in processes]
            yield compare_processes(step, processes, states)


def compare_processes(
    step: int, processes: Sequence[Process], states: Sequence[Sequence[Array]]
) -> Step:
    """Return how far the states of a trainer and of an auditor differ, with both reports."""
    reports = [process.report for process in processes]
    return replace(compare_states(step, *states), trainer=reports[0], auditor=reports[1])


def compare_states(step: int, one: Sequence[Array], other: Sequence[Array]) -> Step:
    """Return how far two states after a step differ."""
    elements = tensors = 0
    distance = 0.0
    for a, b in zip(one, other, strict=True):
        word = np.dtype(f"u{a.itemsize}")
        differing = a.view(word) != b.view(word)
        count = int(np.count_nonzero(differing))
        if count:
            elements, tensors = elements + count, tensors + 1
            with np.errstate(invalid="ignore"):
                gap = np.abs(a[differing].astype(np.float64) - b[differing].astype(np.float64))
            distance = max(distance, float(np.max(np.nan_to_num(gap, nan=np.inf, posinf=np.inf))))
    everything = sum(array.size for array in one)
    return Step(step, elements, tensors, distance, everything, len(one))
