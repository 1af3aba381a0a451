"""A market with a user's strategy: the same bytes on a busy machine, and on a cluster of two."""

import os
import secrets
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.end_to_end.command import MOOT, read_folder

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
STRATEGY = f"{ROOT / 'examples' / 'own_strategy.py'}:OnceBitten"
WORDS = (
    *("sweep", "weak-audit", "--set", "jobs=400", "--set", "audit.rate=0.05,0.5", "--reps", "2"),
    *("--set", f"providers.{STRATEGY}.count=3", "--set", "moves_of_games=2"),
)
PATIENCE_SECONDS = 600
BUSY = 8
"""How many processes a busy machine has that never rest."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """A cluster of Ray on this machine, whose daemons know each other by a token.

    Attributes:
        address: of its head.
        environment: of whoever knows the token.
    """

    address: str
    environment: Mapping[str, str]


def sweep(
    folder: Path, *words: str, environment: Mapping[str, str] = os.environ
) -> subprocess.CompletedProcess[str]:
    """Run the sweep in a process of its own, which leaves its results in a folder."""
    return subprocess.run(  # noqa: S603 - our own command
        [MOOT, *WORDS, *words, "-o", str(folder)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sweep, played in one process of a machine that does nothing else."""
    folder = tmp_path_factory.mktemp("cluster") / "plain"
    done = sweep(folder, "-j", "1")
    assert (done.returncode, done.stderr) == (0, "")
    return folder


@contextmanager
def start_node(words: list[str], environment: Mapping[str, str]) -> Iterator[None]:
    """Start a daemon of Ray, and wait until it is there."""
    command = [sys.executable, "-m", "ray.scripts.scripts", "start", *words, "--block"]
    process = subprocess.Popen(  # noqa: S603 - Ray's own command
        [*command, "--num-cpus", "1", "--disable-usage-stats"],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        assert process.stdout is not None
        said = []
        for line in process.stdout:
            said.append(line)
            if "Ray runtime started" in line:
                break
        else:
            pytest.fail("".join(said))
        yield
    finally:
        process.terminate()
        process.communicate(timeout=PATIENCE_SECONDS)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """A head and another daemon, with a processor each, that want a token."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    token = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
    environment = {**os.environ, **token}
    address = f"127.0.0.1:{port}"
    with ExitStack() as stack:
        head = ["--head", "--port", str(port), "--node-ip-address", "127.0.0.1"]
        stack.enter_context(start_node([*head, "--include-dashboard", "false"], environment))
        stack.enter_context(start_node(["--address", address], environment))
        yield Cluster(address, environment)


def test_a_busy_machine_changes_nothing(plain: Path, tmp_path: Path) -> None:
    """Beside processes that never rest, one process and two leave the same bytes."""
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(BUSY)]
    try:
        for count in ("1", "2"):
            done = sweep(tmp_path / count, "-j", count)
            assert (done.returncode, done.stderr) == (0, "")
            assert read_folder(tmp_path / count) == read_folder(plain)
    finally:
        for process in busy:
            process.kill()
            process.wait()


def test_two_daemons_with_a_token_change_nothing(
    plain: Path, cluster: Cluster, tmp_path: Path
) -> None:
    """Whoever has the token gets the same bytes, of runs that two daemons have played."""
    words = ("--engine", "ray", "--address", cluster.address)
    done = sweep(tmp_path / "out", *words, environment=cluster.environment)
    assert (done.returncode, done.stderr) == (0, "")
    assert read_folder(tmp_path / "out") == read_folder(plain)


def test_without_the_token_one_line_says_what_to_do(cluster: Cluster, tmp_path: Path) -> None:
    """Whoever does not have it is told where to put it."""
    words = ("--engine", "ray", "--address", cluster.address)
    stranger = {name: it for name, it in os.environ.items() if not name.startswith("RAY_AUTH")}
    stranger |= {"HOME": str(tmp_path), "RAY_AUTH_MODE": "disabled"}
    refused = sweep(tmp_path / "out", *words, environment=stranger)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "set RAY_AUTH_MODE=token" in refused.stderr
    assert refused.stderr.count("\n") == 1
    assert not (tmp_path / "out").exists()
