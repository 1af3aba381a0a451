"""`moot sweep`: the same bytes however it is played, interruptions, and what it refuses."""

import fcntl
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from moot.sim.economy.schema import RUNS, TABLES
from tests.end_to_end.command import MOOT, Done, complaint, moot, read_folder

PATIENCE_SECONDS = 300

MARKET = """
jobs = 150
moves_of_games = 2

[clients]
jobs_per_block = 1.0

[audit]
name = "constant"
rate = 0.5

[[providers]]
strategy = "honest"
count = 3

[[providers]]
strategy = "lazy"
count = 2
"""
GRID = ("--set", "bond.eth=0.5:1:0.5", "--set", "audit.rate=0,0.5", "--reps", "2")
SIZE = 8

FRAGILE = """
from dataclasses import dataclass


@dataclass(frozen=True)
class Fragile:
    share: int = 1

    def size(self, value_gwei, reputation):
        return value_gwei // self.share
"""


DEADLY = """
import os
import signal
from dataclasses import dataclass
from pathlib import Path

from moot.sim.economy.strategies.base import Strategy


@dataclass
class Deadly(Strategy):
    deaths: int = 2

    def decide(self, job, own, stream):
        for number in range(self.deaths if job.number >= 70 else 0):
            try:
                Path(__file__).with_name(f"death-{number}").touch(exist_ok=False)
            except FileExistsError:
                continue
            os.kill(os.getpid(), signal.SIGKILL)
        return "honest"
"""
"""A strategy that ends its process the first times that it comes to a job."""


@pytest.fixture(scope="module")
def market(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The configuration of a small market."""
    path = tmp_path_factory.mktemp("market") / "market.toml"
    path.write_text(MARKET)
    return str(path)


@pytest.fixture(scope="module")
def plain(market: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sweep that was played in one process."""
    folder = tmp_path_factory.mktemp("plain") / "new" / "folder"
    done = moot("sweep", market, *GRID, "-j", "1", "-o", str(folder), "--json")
    assert (done.status, done.stderr) == (0, "")
    told = json.loads(done.stdout)
    assert told["runs"] == SIZE
    assert told["jobs"] == 150 * SIZE
    assert told["providers"] == 5 * SIZE
    assert told["disputes"] > 0
    for name in ("failed", "played", "wrong_verdicts", "disagreements", "invariant_violations"):
        assert told[name] == 0
    assert min(told["seconds"], told["peak_mib"]) > 0
    return folder


def start(*words: str, **options: object) -> "subprocess.Popen[str]":
    """Start the command in a process of its own, which can be interrupted even if we can't."""
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    options["preexec_fn"] = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    return subprocess.Popen([MOOT, *words], **pipes, **options)  # type: ignore[call-overload,no-any-return] # noqa: S603 - our own command


def wait_for_parts(folder: Path, count: int, process: "subprocess.Popen[str]") -> None:
    """Wait until so many runs have left their parts."""
    for _ in range(PATIENCE_SECONDS * 20):
        parts = list((folder / "parts").glob("[0-9]*"))
        if len(parts) >= count:
            return
        assert process.poll() is None, process.stderr.read() if process.stderr else ""
        time.sleep(0.05)
    pytest.fail("no part has appeared")


def wait_for_end(group: int) -> None:
    """Wait until a group of processes is gone; Python's tracker of locks is its last."""
    for _ in range(PATIENCE_SECONDS * 20):
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return
        time.sleep(0.05)
    pytest.fail("a process is left")


def test_tables_are_complete(plain: Path) -> None:
    """Each table is there in both forms; `runs` has a row a run and a column a key."""
    files = {f"{name}{suffix}" for name in (*TABLES, "runs") for suffix in (".parquet", ".csv")}
    assert set(read_folder(plain)) == files | {"run.json", ".lock"}
    runs = pq.read_table(plain / "runs.parquet")
    place = RUNS.names.index("jobs")
    assert runs.column_names[place : place + 2] == ["bond.eth", "audit.rate"]
    assert runs["run"].to_pylist() == list(range(SIZE))
    assert runs["bond.eth"].to_pylist() == [0.5] * 4 + [1.0] * 4
    assert runs["audit.rate"].to_pylist() == [0.0, 0.0, 0.5, 0.5] * 2
    for name, schema in TABLES.items():
        table = pq.read_table(plain / f"{name}.parquet")
        assert table.schema.equals(schema)
        assert table["run"].to_pylist() == sorted(table["run"].to_pylist())
    jobs = pq.read_table(plain / "jobs.parquet")
    assert jobs["run"].to_pylist() == [run for run in range(SIZE) for _ in range(150)]


def test_repetitions_have_common_random_numbers(plain: Path) -> None:
    """Repetition r has one seed in all settings, and the same jobs arrive; others differ."""
    runs = pq.read_table(plain / "runs.parquet").to_pylist()
    seeds = {run["rep"]: run["seed"] for run in runs}
    assert seeds[0] == 0 != seeds[1]
    assert all(run["seed"] == seeds[run["rep"]] for run in runs)
    columns = ["run", "job", "arrived", "value_gwei", "client"]
    rows = pq.read_table(plain / "jobs.parquet", columns=columns).to_pylist()
    jobs = [[tuple(row.values())[1:] for row in rows if row["run"] == k] for k in range(SIZE)]
    arrived = [sorted(one) for one in jobs]  # the rows come in the order of settlement
    assert all(arrived[k] == arrived[k % 2] for k in range(SIZE))
    assert arrived[0] != arrived[1]


def test_provenance_says_what_was_run(plain: Path) -> None:
    """`run.json` has the whole configuration, keys, values and versions; no time and no host."""
    told = json.loads((plain / "run.json").read_text())
    assert told["config"]["chain"]["base_fee_gwei"] == 20.0
    assert told["keys"] == {"bond.eth": [0.5, 1.0], "audit.rate": [0.0, 0.5]}
    assert told["versions"]["fork"] == "prague"
    assert {"moot", "code", "python", "vyper", "py-evm"} <= set(told["versions"])
    assert set(told) == {"config", "keys", "reps", "versions", "files"}


def test_processes_change_nothing(market: str, plain: Path, tmp_path: Path) -> None:
    """Two processes leave the same bytes as one."""
    done = moot("sweep", market, *GRID, "-j", "2", "-o", str(tmp_path))
    assert (done.status, done.stderr) == (0, "")
    assert read_folder(tmp_path) == read_folder(plain)


@pytest.mark.slow
def test_ray_changes_nothing(market: str, plain: Path, tmp_path: Path) -> None:
    """Ray leaves the same bytes as one process, and says nothing."""
    process = start("sweep", market, *GRID, "-j", "2", "--engine", "ray", "-o", str(tmp_path))
    stdout, stderr = process.communicate(timeout=PATIENCE_SECONDS)
    assert (process.returncode, stderr) == (0, "")
    assert f"{SIZE} were played now" in stdout
    assert read_folder(tmp_path) == read_folder(plain)


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["processes", "ray"])
def test_a_lost_run_changes_nothing(engine: str, market: str, tmp_path: Path) -> None:
    """A process that dies twice while it plays leaves the bytes of one that lives."""
    (tmp_path / "deadly.py").write_text(DEADLY)
    key = f"providers.{tmp_path / 'deadly.py'}:Deadly"
    words = ("sweep", market, "--set", f"{key}.count=1", "--set", f"{key}.slots=100")
    process = start(*words, "-j", "2", "--engine", engine, "-o", str(tmp_path / "lossy"))
    _, stderr = process.communicate(timeout=PATIENCE_SECONDS)
    assert (process.returncode, stderr) == (0, "")
    assert len(list(tmp_path.glob("death-*"))) == 2
    done = moot(*words, "-j", "1", "-o", str(tmp_path / "plain"))
    assert (done.status, done.stderr) == (0, "")
    assert read_folder(tmp_path / "lossy") == read_folder(tmp_path / "plain")


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["processes", "ray"])
def test_a_run_that_is_always_lost(engine: str, market: str, tmp_path: Path) -> None:
    """A process that always dies is one line after the third time, with what to do."""
    (tmp_path / "deadly.py").write_text(DEADLY)
    key = f"providers.{tmp_path / 'deadly.py'}:Deadly"
    words = ("--set", f"{key}.deaths=99", "--set", f"{key}.slots=100", "-j", "2")
    process = start(*("sweep", market, "--engine", engine, *words, "-o", str(tmp_path / "lossy")))
    _, stderr = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 1
    assert re.fullmatch(r"moot: .*lost a run 3 times.*\n|moot: a run was lost 3 times.*\n", stderr)
    assert len(list(tmp_path.glob("death-*"))) == 3


def test_a_finished_sweep_is_not_played_again(market: str, plain: Path) -> None:
    """The same command on the same folder plays nothing, and changes nothing."""
    before = {path.name: path.stat().st_mtime_ns for path in plain.iterdir()}
    done = moot("sweep", market, *GRID, "-j", "1", "-o", str(plain))
    assert done.status == 0
    assert "; 0 were played now" in done.stdout
    after = {path.name: path.stat().st_mtime_ns for path in plain.iterdir()}
    assert after == before


def test_a_killed_sweep_goes_on(market: str, plain: Path, tmp_path: Path) -> None:
    """After SIGKILL the same command plays what is missing alone, to the same bytes."""
    words = ("sweep", market, *GRID, "-j", "1", "-o", str(tmp_path))
    process = start(*words)
    wait_for_parts(tmp_path, 2, process)
    process.kill()
    process.communicate()
    for leftover in (tmp_path / "parts" / ".half", tmp_path / ".jobs.parquet"):
        leftover.mkdir() if leftover.name == ".half" else leftover.write_bytes(b"half a table")
    kept = len(list((tmp_path / "parts").glob("[0-9]*")))
    done = moot(*words)
    assert (done.status, done.stderr) == (0, "")
    found = re.search(r"; (\d+) were played now", done.stdout)
    assert found is not None
    assert int(found[1]) == SIZE - kept
    assert read_folder(tmp_path) == read_folder(plain)


def test_a_sweep_that_is_killed_while_it_joins(market: str, plain: Path, tmp_path: Path) -> None:
    """Whatever tables are there already, the parts are joined again until `runs` is there."""
    words = ("sweep", market, *GRID, "-j", "1", "-o")
    process = start(*words, str(tmp_path))
    wait_for_parts(tmp_path, SIZE - 1, process)
    process.kill()
    process.communicate()
    for name in ("jobs.csv", "agents.parquet", "agents.csv"):
        (tmp_path / name).write_bytes(b"of another time")
    assert moot(*words, str(tmp_path)).status == 0
    assert read_folder(tmp_path) == read_folder(plain)


@pytest.mark.slow
def test_an_interrupted_sweep_goes_on(market: str, plain: Path, tmp_path: Path) -> None:
    """After Ctrl-C there is one line, no process is left, and the same command goes on."""
    words = ("sweep", market, *GRID, "-j", "2", "-o", str(tmp_path))
    process = start(*words, start_new_session=True)
    wait_for_parts(tmp_path, 1, process)
    process.send_signal(signal.SIGINT)
    stdout, stderr = process.communicate(timeout=PATIENCE_SECONDS)
    assert (process.returncode, stdout, stderr) == (130, "", "moot: interrupted\n")
    wait_for_end(process.pid)
    done = moot("sweep", market, *GRID, "-j", "1", "-o", str(tmp_path))
    assert (done.status, done.stderr) == (0, "")
    assert read_folder(tmp_path) == read_folder(plain)


def test_a_sweep_that_comes_to_nothing_leaves_nothing(market: str, tmp_path: Path) -> None:
    """What is interrupted before the first run has ended takes its folder away again."""
    folder = tmp_path / "new" / "folder"
    process = start("sweep", market, "--set", "jobs=1000000", "-j", "1", "-o", str(folder))
    for _ in range(PATIENCE_SECONDS * 20):
        if (folder / "parts").is_dir():
            break
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=PATIENCE_SECONDS) == ("", "moot: interrupted\n")
    assert not list(tmp_path.iterdir())


def test_a_folder_in_use(market: str, plain: Path) -> None:
    """A folder in which a process is at work is refused, and not touched."""
    before = read_folder(plain)
    with (plain / ".lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = moot("sweep", market, *GRID, "-j", "1", "-o", str(plain))
    assert "is in use by another process" in complaint(done, status=2)
    assert read_folder(plain) == before


def change_version(folder: Path) -> None:
    """Make a results folder that of other code."""
    told = json.loads((folder / "run.json").read_text())
    told["versions"]["code"] = "0" * 16
    (folder / "run.json").write_text(json.dumps(told))


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--set", "bond.eth=0.5,1", "--reps", "2"), "keys"),
        ((*GRID[:4], "--reps", "3"), "reps"),
    ],
)
def test_a_folder_of_another_sweep(
    words: Sequence[str], says: str, market: str, plain: Path
) -> None:
    """A folder that holds a sweep of other keys or repetitions is refused."""
    before = read_folder(plain)
    done = moot("sweep", market, *words, "-j", "1", "-o", str(plain))
    assert f"another sweep (not the same {says})" in complaint(done, status=2)
    assert read_folder(plain) == before


def test_a_folder_of_another_market_or_code(market: str, plain: Path, tmp_path: Path) -> None:
    """A folder of another configuration, or of other code, is refused."""
    other = tmp_path / "other.toml"
    other.write_text(MARKET.replace("jobs = 150", "jobs = 151"))
    done = moot("sweep", str(other), *GRID, "-j", "1", "-o", str(plain))
    assert "(not the same config)" in complaint(done, status=2)
    shutil.copytree(plain, tmp_path / "copy")
    change_version(tmp_path / "copy")
    done = moot("sweep", market, *GRID, "-j", "1", "-o", str(tmp_path / "copy"))
    assert "(not the same versions)" in complaint(done, status=2)
    (tmp_path / "copy" / "run.json").write_text("{")
    done = moot("sweep", market, *GRID, "-j", "1", "-o", str(tmp_path / "copy"))
    assert "can't be read" in complaint(done, status=2)


def test_a_folder_of_something_else(market: str, tmp_path: Path) -> None:
    """A folder with files of the user's is refused, and left as it is."""
    (tmp_path / "thesis.tex").write_text("")
    done = moot("sweep", market, "-j", "1", "-o", str(tmp_path))
    assert "holds thesis.tex and no run.json" in complaint(done, status=2)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]
    done = moot("sweep", market, "-j", "1", "-o", str(tmp_path / "thesis.tex"))
    assert "cannot write" in complaint(done, status=2)


def test_a_failed_run_is_a_row(market: str, tmp_path: Path) -> None:
    """A run that raises leaves its error and no rows; others are played, and the status is 1."""
    rule = tmp_path / "rule.py"
    rule.write_text(FRAGILE)
    words = ("--set", f"bond.name={rule}:Fragile", "--set", "bond.share=1,0,2")
    done = moot("sweep", market, *words, "-j", "1", "-o", str(tmp_path / "out"))
    assert done.status == 1
    (line,) = done.stderr.splitlines()
    assert line.startswith("moot: run 1 (")
    assert re.search(r"bond.share=0, repetition 0\) failed: .*size raises ZeroDivisionError", line)
    runs = pq.read_table(tmp_path / "out" / "runs.parquet")
    assert runs["status"].to_pylist() == ["done", "failed", "done"]
    assert runs["jobs"].to_pylist() == [150, None, 150]
    (error,) = (error for error in runs["error"].to_pylist() if error)
    assert "size raises ZeroDivisionError" in error
    for name in ("jobs", "agents", "ledger"):
        assert set(pq.read_table(tmp_path / "out" / f"{name}.parquet")["run"].to_pylist()) == {0, 2}
    told = json.loads((tmp_path / "out" / "run.json").read_text())
    assert list(told["files"]) == [str(rule)]
    again = moot("sweep", market, *words, "-j", "1", "-o", str(tmp_path / "out"), "--json")
    assert (again.status, json.loads(again.stdout)["failed"]) == (1, 1)
    rule.write_text(FRAGILE + "\n")
    done = moot("sweep", market, *words, "-j", "1", "-o", str(tmp_path / "out"))
    assert "(not the same files)" in complaint(done, status=2)


def run_limited(blocks: int, *words: str) -> Done:
    """Run the command where no file can be larger than so many KiB, as on a disk that is full."""
    done = subprocess.run(  # noqa: S603 - our own command
        ["/bin/bash", "-c", f'ulimit -f {blocks}; exec "$@"', "bash", str(MOOT), *words],
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_SECONDS,
    )
    return Done(done.returncode, done.stdout, done.stderr)


def test_a_disk_that_is_full(market: str, tmp_path: Path) -> None:
    """A disk that refuses to take a part ends the sweep with one line, and nothing is left."""
    words = ("sweep", market, *GRID, "-j", "2", "-o", str(tmp_path / "out"))
    assert "File too large" in complaint(run_limited(4, *words), status=2)
    assert not (tmp_path / "out").exists()


def test_a_disk_that_is_full_when_parts_are_joined(
    market: str, plain: Path, tmp_path: Path
) -> None:
    """A disk that refuses to take the tables ends the sweep with one line; the parts are kept."""
    words = ("sweep", market, *GRID, "-j", "1", "-o", str(tmp_path))
    assert "File too large" in complaint(run_limited(64, *words), status=2)
    done = moot(*words)
    assert done.status == 0
    assert "; 0 were played now" in done.stdout
    assert read_folder(tmp_path) == read_folder(plain)


def list_refusals() -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield options that are refused, and what is said."""
    yield ("--set", "bnod.eth=1"), "unknown table"
    yield ("--set", "bond.ethh=1"), "did you mean 'eth'"
    yield ("--set", "sede=1"), "did you mean 'seed'"
    yield ("--set", "providers.lzy.count=1"), "did you mean 'lazy'"
    yield ("--set", "audit.rate=0,2"), "choose 0 to 1"
    yield ("--set", "bond.eth=2:1:0.1"), "goes away from 1"
    yield ("--set", "bond.eth=0:1:0"), "step of 0"
    yield ("--set", "bond.eth=0:1000000:1"), "more than 10,000 values"
    yield ("--set", "bond.eth=0:999:1", "--set", "audit.rate=0:0.999:0.001"), "1,000,000 runs"
    yield ("--set", "bond.eth=1,1"), "twice"
    yield ("--set", "bond.eth"), "does not name a key and its values"
    yield ("--set", "jobs=1.5"), "jobs"
    yield ("--reps", "0"), "--reps 0"
    yield ("-j", "0"), "-j"
    yield ("--engine", "rya"), "'processes', 'ray'"
    yield ("--address", "auto"), "add --engine ray"
    yield ("--engine", "ray", "--address", "nowhere"), "write host:port"
    yield ("--engine", "ray", "--address", "127.0.0.1:1"), "no Ray cluster answers at 127.0.0.1:1"
    yield ("--engine", "ray", "--address", "127.0.0.1:99999"), "no Ray cluster answers"


@pytest.mark.parametrize(("words", "says"), list(list_refusals()))
def test_bad_input(words: tuple[str, ...], says: str, market: str, tmp_path: Path) -> None:
    """What can't be meant is refused in one line, before anything is written."""
    folder = tmp_path / "out"
    done = moot("sweep", market, *words, "-o", str(folder))
    assert says in complaint(done, status=2)
    assert not folder.exists()


def test_presets_are_found_by_name(tmp_path: Path) -> None:
    """A preset needs no file; what is neither is answered by a suggestion."""
    done = moot("sweep", "baseline", "--set", "jobs=50", "-j", "1", "-o", str(tmp_path / "out"))
    assert done.status == 0
    done = moot("sweep", "bselin", "-o", str(tmp_path / "none"))
    assert "did you mean 'baseline'?" in complaint(done, status=2)
    done = moot("sweep", "none.toml", "-o", str(tmp_path / "none"))
    assert "No such file" in complaint(done, status=2)


@pytest.mark.slow
def test_something_else_that_listens_is_no_cluster(market: str, tmp_path: Path) -> None:
    """An address where something answers that is no Ray cluster is refused, too."""
    server = subprocess.Popen(
        [sys.executable, "-u", "-m", "http.server", "0", "--bind", "127.0.0.1"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        cwd=tmp_path,
    )
    try:
        assert server.stdout is not None
        found = re.search(r"port (\d+)", server.stdout.readline())
        assert found is not None
        address = f"127.0.0.1:{found[1]}"
        words = ("--engine", "ray", "--address", address, "-o", str(tmp_path / "out"))
        assert "no Ray cluster answers" in complaint(moot("sweep", market, *words), status=2)
    finally:
        server.kill()
        server.communicate()
