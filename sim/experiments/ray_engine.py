"""The engine that plays runs on Ray: on this machine, or on a cluster that is already there.

Parts come back as bytes, so that machines need no folder in common.
"""

import logging
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import Any

from moot.offchain.errors import UsageError
from moot.sim.experiments.engines import AHEAD, TRIES, Player, SweepError
from moot.sim.experiments.parts import Ended, Play, Progress, play_part
from moot.sim.experiments.plan import Run
from moot.sim.experiments.provenance import describe_versions
from moot.sim.writing import reporting

PATIENCE_SECONDS = 10.0
"""How long an address may take to answer as a Ray cluster does."""

_ASKS_FOR_A_TOKEN = ("invalidauthtoken", "authentication token")
"""What Ray's check says, in small letters, where a cluster wants a token that is not there."""

_Files = dict[str, bytes]


@dataclass(frozen=True, slots=True)
class Ray:
    """The engine that plays runs on Ray.

    Attributes:
        count: how many runs are played at once on this machine; a cluster plays as many as it has
            processors.
        address: `host:port` of a cluster's head, this machine being part of the cluster; `auto`
            for the cluster of which this machine is part; None for one of its own.
    """

    count: int
    address: str | None = None

    @contextmanager
    def open(self) -> Iterator[Player]:
        """Make ready to play; see `Engine`.

        Raises:
            UsageError: Ray is not installed, or no cluster is at the address.
        """
        with _connect(self.address, self.count) as ray:
            count = int(ray.cluster_resources().get("CPU", self.count))
            yield partial(_play_on, ray, count * AHEAD)


def _play_on(
    ray: Any, ahead: int, play: Play, runs: Iterable[Run], parts: Path, progress: Progress
) -> Iterator[Ended]:
    """Play runs on a cluster that has been given so many at once; see `Player`."""
    del progress
    remote = ray.remote(max_retries=TRIES - 1)(play_elsewhere)
    versions = describe_versions()
    coming = iter(runs)
    waiting: list[Any] = []
    while True:
        some = islice(coming, ahead - len(waiting))
        waiting.extend(remote.remote(play, run, versions) for run in some)
        if not waiting:
            return
        done, waiting = ray.wait(waiting)
        try:
            ended, files = ray.get(done[0])
        except ray.exceptions.RayTaskError as error:
            raise error.cause from None
        except ray.exceptions.RayError as error:
            raise SweepError(
                f"Ray lost a run {TRIES} times ({type(error).__name__}); give the command again to "
                "go on"
            ) from None
        _unpack(files, parts, ended.number)
        yield ended


def play_elsewhere(play: Play, run: Run, versions: dict[str, str]) -> tuple[Ended, _Files]:
    """Play a run on a machine of the cluster; return its end and the files of its part.

    Raises:
        SweepError: this machine has other versions.
    """
    found = describe_versions()
    if different := [name for name in versions if found.get(name) != versions[name]]:
        raise SweepError(
            f"{socket.gethostname()} has another version of {different[0]}; "
            "install the same on all machines of the cluster"
        )
    with tempfile.TemporaryDirectory(prefix="moot-") as folder:
        ended = play_part(play, run, Path(folder))
        part = Path(folder) / str(run.number)
        return ended, {path.name: path.read_bytes() for path in sorted(part.iterdir())}


def _unpack(files: _Files, parts: Path, number: int) -> None:
    """Write a part's files aside, and give their folder its name."""
    with reporting(parts):
        aside = Path(tempfile.mkdtemp(prefix=".", dir=parts))
        try:
            for name, content in files.items():
                (aside / name).write_bytes(content)
            aside.rename(parts / str(number))
        finally:
            shutil.rmtree(aside, ignore_errors=True)


@contextmanager
def _connect(address: str | None, count: int) -> Iterator[Any]:
    """Connect with Ray, silently; leave it again at the end.

    A cluster of its own on this machine has a token of its own, which Ray makes.
    """
    if find_spec("ray") is None:
        raise UsageError("Ray is not installed; pip install 'moot[ray]', or --engine processes")
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # it would report to its makers
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # it would warn about this
    if address is not None:
        _check_address(address)
    import ray  # noqa: PLC0415 - an extra, and slow

    options: dict[str, Any] = {"address": address}
    if address is None:
        options = {"address": "local", "num_cpus": count, "include_dashboard": False}
    try:
        ray.init(**options, log_to_driver=False, logging_level=logging.CRITICAL)
    except Exception as error:  # noqa: BLE001 - Ray raises whatever it likes, plain ones among them
        says = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise UsageError(f"cannot use Ray at {address or 'this machine'}: {says}") from None
    try:
        yield ray
    finally:
        with suppress(Exception):  # it may be gone already
            ray.shutdown()


def _check_address(address: str) -> None:
    """Refuse an address where no cluster answers; Ray itself would try for minutes, and noisily.

    Ray's own check runs in a process of its own, because it can't be stopped otherwise.
    """
    command = [sys.executable, "-m", "ray.scripts.scripts", "health-check"]
    refusal = f"no Ray cluster answers at {address}; start one by `ray start --head`, or correct it"
    try:
        if address != "auto":
            _reach(address)
            command += ["--address", address]
        subprocess.run(  # noqa: S603 - Ray's own command
            command, timeout=PATIENCE_SECONDS, check=True, capture_output=True, text=True
        )
    except subprocess.CalledProcessError as error:
        says = f"{error.stdout}{error.stderr}".lower()
        if any(words in says for words in _ASKS_FOR_A_TOKEN):
            raise UsageError(
                f"the Ray cluster at {address} asks for its token; set RAY_AUTH_MODE=token, and "
                "put what `ray get-auth-token` prints on its head into ~/.ray/auth_token or "
                "RAY_AUTH_TOKEN, on all its machines"
            ) from None
        raise UsageError(refusal) from None
    except (OSError, OverflowError, subprocess.SubprocessError):
        raise UsageError(refusal) from None


def _reach(address: str) -> None:
    """Refuse an address that is none, or at which nothing listens."""
    host, colon, port = address.rpartition(":")
    if not colon or not host or not port.isdecimal():
        raise UsageError(f"--address {address} is none; write host:port of the cluster, or auto")
    socket.create_connection((host, int(port)), timeout=PATIENCE_SECONDS).close()
