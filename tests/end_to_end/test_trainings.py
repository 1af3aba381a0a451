"""Trainings and their audits: what is claimed on one machine is run again on another."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from random import Random
from shutil import copytree

import numpy as np
import pytest
import torch
from safetensors.numpy import save_file

import moot
from moot.offchain.datastore.columns import open_safetensors
from moot.offchain.datastore.objects import HISTORIES, STATES, name_object
from moot.offchain.datastore.store import open_store
from moot.offchain.errors import (
    CommitmentError,
    LogError,
    MootError,
    NotInStore,
    StoreError,
    UsageError,
)
from moot.offchain.files import held_alone
from moot.offchain.native.binary64.current import computing_by, get_engine
from moot.offchain.parties.client import read_task
from moot.offchain.programs.rounding.entries import StepLog, decode_log
from moot.offchain.providers.agreement import make_plain_task
from moot.offchain.providers.batches import Choice
from moot.offchain.providers.logs import agree_on_logs
from moot.offchain.providers.publication import get_log, put_task
from moot.offchain.providers.setting import Setting
from moot.offchain.providers.store import Store
from moot.offchain.providers.task import Task
from moot.offchain.training import published
from moot.offchain.training.claim import (
    MAX_STEPS,
    Claim,
    adopt_logs,
    get_checkpoints,
    get_claim,
    get_claimed_task,
    put_claim,
)
from moot.offchain.training.trainer import IN_USE
from moot.offchain.training.trainer import PLAN as NOTE
from tests.end_to_end.command import complaint
from tests.end_to_end.command import moot as run_moot
from tests.quick import every, share
from tests.store_helpers import serving

STEPS, EVERY = 7, 3
ARITHMETICS = ("ordered", "exact", "logged")
TURNED = "turned"
WORST = """
import ctypes, platform
from dataclasses import dataclass
import numpy as np
from moot.offchain.native.binary64.base import Engine

LIBRARY = ctypes.CDLL(None)
UP = {"x86_64": 0x800, "aarch64": 0x400000}[platform.machine()]

@dataclass
class Worst(Engine):
    \"\"\"Adds up all that is positive before the rest, and rounds each sum upwards.\"\"\"

    def add_up(self, terms):
        ordered = -np.sort(-terms, axis=1)
        LIBRARY.fesetround(UP)
        try:
            return np.cumsum(ordered, axis=1)[:, -1]
        finally:
            LIBRARY.fesetround(0)
"""
CHEATS = ("skipped-step", "wrong-output", "wrong-learning-rate", "poisoned-batch", "wrong-start")


def _make_task(arithmetic: str = "ordered") -> moot.Task:
    captured = moot.capture("mlp", arithmetic=arithmetic, trust=True)
    return moot.Task(captured, STEPS, EVERY)


class _Seen(torch.nn.Module):
    """A layer with long sums, a few of which are near a boundary, and whose results are state."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(2_048, 128)
        self.register_buffer("seen", torch.zeros(512, 128))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the layer's results, and keep them."""
        found: torch.Tensor = self.linear(x)
        self.get_buffer("seen").copy_(found.detach())
        return found


def _make_wide(every: int = EVERY) -> moot.Task:
    torch.manual_seed(3)
    model = _Seen()
    recipe = moot.TrainingRecipe(
        model=model,
        loss=lambda it, x: it(x).square().mean(),
        optimizer=torch.optim.SGD(model.parameters(), 0.1),
        batch=lambda step: (torch.randn(512, 2_048, generator=_seed(step)),),
    )
    captured = moot.capture(recipe, arithmetic="logged", trust=True)
    return moot.Task(captured, STEPS, every)


def _seed(step: int) -> torch.Generator:
    return torch.Generator().manual_seed(step)


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The folder of a training in each arithmetic, and of one whose logs have entries."""
    made = {}
    for name in (*ARITHMETICS, TURNED):
        made[name] = tmp_path_factory.mktemp(name)
        moot.train(made[name], _make_wide() if name == TURNED else _make_task(name))
    return made


@pytest.mark.parametrize("arithmetic", [*ARITHMETICS, TURNED])
def test_an_honest_training_is_right(
    folders: dict[str, Path], arithmetic: str, tmp_path: Path
) -> None:
    """Whoever audits all of it, a share, or an interval, here or from a server, finds the same."""
    folder = folders[arithmetic]
    whole = moot.audit(folder)
    assert whole.is_right
    assert (whole.intervals, whole.of, whole.steps, whole.void) == ((0, 1, 2), 3, STEPS, 0)
    with serving(folder) as server:
        served = moot.audit(server.url, claim=whole.claim, intervals=[2], folder=tmp_path)
        drawn = moot.audit(server.url, share=0.5, seed=1, folder=tmp_path)
    assert (served.intervals, served.steps, served.is_right) == ((2,), 1, True)
    assert drawn.is_right
    assert len(drawn.intervals) == 2


def test_logs_have_entries_that_are_read_one_by_one(folders: dict[str, Path]) -> None:
    """The logs of a training are bound by its data; a surplus entry makes it another training."""
    store = open_store(str(folders[TURNED]))
    task = get_claimed_task(store, get_claim(store))
    assert task.logs is not None
    assert sum(log.count for log in task.logs) > 0
    assert read_task(folders[TURNED], None).logs == tuple(task.logs)


def test_another_engine_is_corrected_by_the_logs(folders: dict[str, Path], tmp_path: Path) -> None:
    """Who errs as far as an engine may needs the entries; without them there are other bits."""
    (tmp_path / "mine.py").write_text(WORST)
    engine, folder = f"{tmp_path}/mine.py:Worst", folders[TURNED]
    with computing_by(get_engine()):
        assert moot.audit(folder).corrections == 0
        found = moot.audit(folder, engine=engine)
        assert found.is_right
        assert found.corrections > 0
        moot.train(tmp_path / "other", _make_wide(every=1), engine=engine)
        assert moot.audit(tmp_path / "other").corrections > 0
        strip_logs(tmp_path / "other", tmp_path / "bare")
        assert not moot.audit(tmp_path / "bare").is_right


def strip_logs(folder: Path, bare: Path) -> None:
    """Publish a training once more, with logs that are empty."""
    store, other = open_store(str(folder)), open_store(str(bare))
    claim = get_claim(store)
    task = get_claimed_task(store, claim)
    stripped = agree_on_logs(task, [StepLog() for _ in range(task.steps)])
    put_task(other, stripped)
    for root in get_checkpoints(store, claim):
        other.put_state(store.get_state(root, task.program.state))
    other.put_roots(HISTORIES, get_checkpoints(store, claim))
    put_claim(other, stripped, claim.history)


def test_what_the_client_posts_is_what_was_trained(folders: dict[str, Path]) -> None:
    """A folder of a training is a task that `moot client post` takes, with its own checkpoints."""
    for folder in folders.values():
        claim = get_claim(open_store(str(folder)))
        task = read_task(folder, None)
        roots = task.commitment.header.root, task.start_root, task.data_root
        assert (*roots, task.checkpoint_every) == (claim.program, claim.start, claim.data, EVERY)
        assert read_task(folder, 2).checkpoint_every == 2


def test_a_client_takes_the_logs_of_a_provider(folders: dict[str, Path], tmp_path: Path) -> None:
    """Who wants a training runs nothing of it: the logs are a provider's, of this very training."""
    wanted = _make_wide().plain
    with serving(folders[TURNED]) as server:
        store = open_store(server.url, tmp_path)
        claim = get_claim(store)
        task = adopt_logs(wanted, store, claim)
        roots = task.commitment.header.root, task.start_root, task.data_root
        assert roots == (claim.program, claim.start, claim.data)
        assert task.logs == read_task(folders[TURNED], None).logs
        start = wanted.initial_state
        others = {
            "has 7 steps, and 6 are wanted": replace(wanted, steps=6),
            "its program is another": replace(_make_task("logged").plain, steps=STEPS),
            "its start is another": replace(wanted, initial_state=[*map(np.negative, start)]),
            "its data are others": replace(wanted, batch=lambda step: wanted.batch(step + 1)),
        }
        for problem, other in others.items():
            with pytest.raises(UsageError, match=problem):
                adopt_logs(other, store, claim)
    copytree(folders[TURNED], tmp_path / "copy")
    next((tmp_path / "copy" / "logs").iterdir()).unlink()
    with pytest.raises(NotInStore):
        adopt_logs(wanted, open_store(str(tmp_path / "copy")), claim)


def test_a_client_takes_the_logs_of_a_training_on_a_dataset(tmp_path: Path) -> None:
    """Batches are made by the same rule; those of another shuffle are other data."""
    draws = np.random.default_rng(0)
    images = draws.random((10, 1, 8, 8), dtype=np.float32)
    save_file({"images": images, "labels": draws.integers(0, 10, 10)}, tmp_path / "digits")
    setting = Setting(program="mlp", steps=STEPS, checkpoint_every=EVERY, arithmetic="logged")

    def choose(shuffle: int) -> Task:
        dataset = open_safetensors(tmp_path / "digits")
        return make_plain_task(setting, Choice(dataset, seed=shuffle, drop_last=True))

    trained = run_moot(
        *("train", str(tmp_path / "run"), "--program", "mlp", "--arithmetic", "logged"),
        *("--dataset", str(tmp_path / "digits"), "--shuffle", "7", "--drop-last"),
        *("--steps", str(STEPS), "--checkpoint-every", str(EVERY)),
    )
    assert trained.status == 0, trained.stderr
    store = open_store(str(tmp_path / "run"))
    claim = get_claim(store)
    task = adopt_logs(choose(7), store, claim)
    assert task.data_root == claim.data
    assert task.logs == read_task(tmp_path / "run", None).logs
    with pytest.raises(UsageError, match="its data are others"):
        adopt_logs(choose(8), store, claim)


@pytest.mark.parametrize("name", every(4, CHEATS))
def test_a_cheat_is_found_where_it_is(name: str, tmp_path: Path) -> None:
    """The first interval that differs is that of the cheat, and its difference is shown."""
    task = _make_task()
    training = moot.train(tmp_path / "run", task, name, seed=4)
    told = json.loads((tmp_path / "run/notes/training.json").read_text())["note"]["behaviour"]
    settings = dict(re.findall(r"(\w+)=(\w+)", told))
    step = int(settings.get("step", 0))
    found = moot.audit(tmp_path / "run", claim=training.claim)
    assert not found.is_right
    place = found.difference
    assert place is not None
    assert place.first_step <= step <= place.last_step
    assert place.claimed != place.found
    assert found.intervals == tuple(range(step // EVERY + 1))
    assert place.tensor in {slot.name for slot in task.plain.program.state}
    assert place.elements >= place.tensors > 0


def test_a_stopped_training_goes_on(tmp_path: Path) -> None:
    """After whichever step a trainer stops, it goes on to the same claim and the same logs."""
    task = _make_task("logged")
    whole = moot.train(tmp_path / "whole", task)

    def stop(after: int, done: int) -> None:
        if done == after:
            raise KeyboardInterrupt

    for after in range(1, STEPS + 1):
        folder = tmp_path / str(after)
        with pytest.raises(KeyboardInterrupt):
            moot.train(folder, task, progress=lambda done, _, after=after: stop(after, done))
        assert moot.train(folder).claim == whole.claim
        assert moot.audit(folder).is_right


@pytest.mark.slow
def test_a_killed_training_goes_on(tmp_path: Path) -> None:
    """Wherever a trainer is killed, whoever goes on comes to the same claim and the same logs."""
    whole = moot.train(tmp_path / "whole", _make_task("logged"))
    code = (
        "import moot; captured = moot.capture('mlp', arithmetic='logged', trust=True); "
        f"moot.train('cut', moot.Task(captured, {STEPS}, {EVERY}))"
    )
    random, cut = Random(5), tmp_path / "cut"
    environment = os.environ | {"PYTHONPATH": str(Path.cwd())}
    for _ in range(24):
        command = [sys.executable, "-c", code]
        process = subprocess.Popen(command, cwd=tmp_path, env=environment)  # noqa: S603 - our own code
        wanted = cut / "notes" / random.choice(["training.json", "logs-3.json", "run.json"])
        while not wanted.exists() and process.poll() is None:
            time.sleep(0.002)
        time.sleep(random.random() * 0.05)
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert moot.train(cut).claim == whole.claim
        assert moot.audit(cut).is_right
        subprocess.run(["rm", "-r", str(cut)], check=True)  # noqa: S603, S607 - our own folder


def test_an_audit_goes_on(folders: dict[str, Path], tmp_path: Path) -> None:
    """An audit that was stopped runs none of its intervals again, and draws none anew."""
    seen: list[int] = []

    def stop(done: int, _whole: int) -> None:
        seen.append(done)
        if done == EVERY + 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        moot.audit(folders["ordered"], folder=tmp_path, progress=stop)
    again: list[int] = []
    found = moot.audit(
        folders["ordered"], folder=tmp_path, progress=lambda done, _: again.append(done)
    )
    assert found.is_right
    assert again[0] == EVERY  # at once
    assert len(again) == 1 + (STEPS - EVERY) + 2
    drawn = {moot.audit(folders["ordered"], share=0.4, folder=tmp_path).intervals for _ in "abc"}
    assert len(drawn) == 1


def _list_objects(folder: Path) -> Iterator[Path]:
    return (it for it in sorted(folder.rglob("*")) if len(it.name) == 64 and it.is_file())


def test_nothing_that_is_damaged_or_missing_passes(
    folders: dict[str, Path], tmp_path: Path
) -> None:
    """Each object, cut, changed or gone, is named in one line, or nobody needs it."""
    random, needed = Random(6), 0
    objects = [*_list_objects(folders["logged"])]
    for place in random.sample(objects, share(len(objects), 4)):
        folder = tmp_path / place.name[:8]
        copytree(folders["logged"], folder)
        path = folder / place.relative_to(folders["logged"])
        data = path.read_bytes()
        path.unlink()
        match random.randrange(3):
            case 1:
                path.write_bytes(data[: random.randrange(len(data))])
            case 2:
                at = random.randrange(len(data))
                path.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
        done = run_moot("audit", str(folder))
        if done.status:
            needed += 1
            assert done.status in {1, 2}
            assert complaint(done, status=done.status)
    assert needed


def test_a_claim_has_one_form() -> None:
    """Whatever is no claim is refused, cut at each byte, or with other numbers and keys."""
    claim = Claim(bytes(32), b"s" * 32, b"d" * 32, 9, 4, b"h" * 32)
    data = claim.encode()
    assert Claim.decode(data) == claim
    assert claim.intervals == 3
    fields = json.loads(data)
    others = [
        fields | {"steps": MAX_STEPS + 1},
        fields | {"steps": 9.0},
        fields | {"steps": True},
        fields | {"steps": 3},
        fields | {"checkpoint_every": 0},
        fields | {"start": "00"},
        fields | {"start": None},
        fields | {"more": 1},
        [fields],
    ]
    wrong = [json.dumps(it).encode() + b"\n" for it in others]
    for line in [
        *wrong,
        *(data[:length] for length in range(len(data))),
        data + b" ",
        b"[" * 3_000,
    ]:
        with pytest.raises(CommitmentError, match="no claim about a training"):
            Claim.decode(line)


def test_an_interval_that_was_not_kept(folders: dict[str, Path], tmp_path: Path) -> None:
    """It is refused in one line, and all from the start on are right all the same."""
    folder = tmp_path / "run"
    copytree(folders["ordered"], folder)
    store = open_store(str(folder))
    first = get_checkpoints(store, get_claim(store))[0]
    (folder / name_object(STATES, first)).unlink()
    with pytest.raises(UsageError, match="the state after 3 steps was not kept"):
        moot.audit(folder, intervals=[1])
    assert moot.audit(folder).is_right
    done = run_moot("audit", str(folder), "--interval", "1")
    assert "was not kept" in complaint(done, status=2)


def test_a_log_of_another_program(folders: dict[str, Path]) -> None:
    """A log that is somebody else's is not read, whatever names it."""
    store = open_store(str(folders["logged"]))
    task = get_claimed_task(store, get_claim(store))
    data = get_log(store, task, 1)
    with pytest.raises(MootError, match="step"):
        decode_log(data, task.program, task.commitment.header.root, 2)
    assert isinstance(decode_log(data, task.program, task.commitment.header.root, 1), StepLog)


def test_one_trainer_a_folder(tmp_path: Path) -> None:
    """Two trainers in one folder, none where nothing was begun, another task: each has its line."""
    with pytest.raises(UsageError, match="no training is begun"):
        moot.train(tmp_path / "none")
    moot.train(tmp_path / "run", _make_task())
    with held_alone(tmp_path / "run" / IN_USE) as is_ours:
        assert is_ours
        with pytest.raises(UsageError, match="another process trains"):
            moot.train(tmp_path / "run")
    with pytest.raises(StoreError, match="holds another run"):
        moot.train(tmp_path / "run", _make_task("exact"))
    with pytest.raises(UsageError, match="auditor has a folder of its own"):
        moot.audit(tmp_path / "run", folder=tmp_path / "run")


def test_the_commands(tmp_path: Path) -> None:
    """`moot train` and `moot audit` say what they did, and refuse what makes no sense."""
    run = str(tmp_path / "run")
    words = ("--steps", "3", "--checkpoint-every", "2", "--trust-capture")
    done = run_moot("train", run, *words, "--cheat", "skipped-step:step=2", "--json")
    assert done.status == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["steps"] == 3
    found = run_moot("audit", run, "--json")
    assert (found.status, json.loads(found.stdout)["difference"]["first_step"]) == (3, 2)
    assert "The first difference" in run_moot("audit", run).stdout
    assert run_moot("audit", run, "--interval", "0").status == 0
    again = run_moot("train", run)
    assert told["claim"] in again.stdout
    for command, line in {
        ("train", run, "--steps", "4"): "holds a training already; leave --steps out",
        ("train", run, "--cheat", "lazy"): "leave --cheat out",
        ("audit", run, "--interval", "7"): "there is no interval 7; choose from 0 to 1",
        ("audit", run, "--claim", "12"): "names no claim",
        ("audit", run, "--interval", "0", "--share", "0.5"): "goes without chosen intervals",
        ("audit", str(tmp_path / "nowhere")): "is no folder",
        ("audit", run, "--challenge", "0"): "`chain` is not set",
        ("train", str(tmp_path / "other"), "--cheat", "steered-log"): "lies by the logs",
        ("train", str(tmp_path / "other"), "--program", "mpl"): "mlp",
    }.items():
        assert line in complaint(run_moot(*command), status=2)
    assert not (tmp_path / "nowhere").exists()


def test_a_folder_has_what_was_claimed(folders: dict[str, Path]) -> None:
    """The history of a claim is an object of its folder, with a root for each checkpoint."""
    store = open_store(str(folders["exact"]))
    claim = get_claim(store)
    assert len(store.get_roots(HISTORIES, claim.history)) == claim.intervals


PLAN = published.Plan("mlp", "tiny", "fp32", 0, 6, 2)


@pytest.fixture(scope="module")
def published_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a training by the published method."""
    folder = tmp_path_factory.mktemp("published")
    published.train(folder, PLAN, None, lambda _done, _whole: None)
    return folder


def test_the_published_method_is_audited(published_folder: Path) -> None:
    """All intervals, a drawn share, and one by itself are as claimed; others are refused."""
    found = moot.audit(published_folder)
    assert (found.is_right, found.of, found.steps) == (True, 3, 6)
    assert moot.audit(published_folder, intervals=[2], claim=found.claim).steps == 2
    assert len(moot.audit(published_folder, share=0.4, seed=1).intervals) == 1
    with pytest.raises(UsageError, match="no interval 3"):
        moot.audit(published_folder, intervals=[3])
    with pytest.raises(CommitmentError, match="not that one"):
        moot.audit(published_folder, claim=bytes(32))


def test_a_published_training_goes_on(published_folder: Path, tmp_path: Path) -> None:
    """A trainer that is stopped goes on from its last checkpoint, to the same claim and logs."""

    def stop(done: int, _whole: int) -> None:
        if done == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        published.train(tmp_path, PLAN, None, stop)
    with pytest.raises(UsageError, match="no finished training"):
        moot.audit(tmp_path)
    done = run_moot("train", str(tmp_path), "--method", "published", "--json")
    assert json.loads(done.stdout)["claim"] == moot.audit(published_folder).claim.hex()
    for path in published_folder.glob("*.log"):
        assert (tmp_path / path.name).read_bytes() == path.read_bytes()
    other = run_moot("train", str(tmp_path), "--method", "published", "--steps", "8")
    assert "holds another training" in complaint(other, status=2)


def test_a_published_cheat_is_found(tmp_path: Path) -> None:
    """A weight that was changed is named: its interval, its tensor, its element, both values."""
    words = ("--steps", "6", "--checkpoint-every", "2", "--cheat", "tamper:step=3")
    assert run_moot("train", str(tmp_path), "--method", "published", *words).status == 0
    found = run_moot("audit", str(tmp_path), "--json")
    assert found.status == 3
    place = json.loads(found.stdout)["difference"]
    assert (place["first_step"], place["last_step"], place["element"]) == (2, 3, 0)
    assert (place["tensor"], place["elements"]) == ("parameter.1.weight", 1)


def test_published_files_that_are_wrong(published_folder: Path, tmp_path: Path) -> None:
    """A log or a checkpoint that is cut, too long, another step's or gone has one line."""
    random = Random(8)
    copytree(published_folder, tmp_path / "run")
    log, state = tmp_path / "run/step-2.log", tmp_path / "run/checkpoint-2.safetensors"
    data, weights = log.read_bytes(), state.read_bytes()
    wrong: list[tuple[Path, bytes | None]] = [(log, None), (state, None)]
    wrong += [(log, data + b"\0"), (log, (tmp_path / "run/step-1.log").read_bytes())]
    wrong += [(log, data[: random.randrange(len(data))]) for _ in range(8)]
    wrong += [(state, weights[: random.randrange(len(weights))]) for _ in range(4)]
    wrong += [(state, weights[:-1] + bytes([weights[-1] ^ 1]))]
    for path, content in wrong:
        kept = path.read_bytes()
        path.unlink() if content is None else path.write_bytes(content)
        with pytest.raises(LogError) as refusal:
            moot.audit(tmp_path / "run", intervals=[1])
        assert len(str(refusal.value).splitlines()) == 1
        path.write_bytes(kept)
    about = tmp_path / "run/published.json"
    fields = json.loads(about.read_text())
    for other in ({"steps": 0}, {"steps": True}, {"digests": ["00"]}, {"size": 3}, {"more": 1}):
        about.write_text(json.dumps(fields | other))
        with pytest.raises(LogError, match=r"published\.json"):
            moot.audit(tmp_path / "run")
    about.write_text("[" * 5_000)
    assert "published.json can't be read" in complaint(
        run_moot("audit", str(tmp_path / "run")), status=1
    )


def test_no_code_runs_that_only_a_folder_names(published_folder: Path, tmp_path: Path) -> None:
    """A trainer's folder names a file to an auditor, who has to name it, too, before it is run."""
    copytree(published_folder, tmp_path / "run")
    about, ran = tmp_path / "run/published.json", tmp_path / "ran"
    trap = tmp_path / "run/trap.py"
    trap.write_text(f"open({str(ran)!r}, 'w').close()\ndef build(seed): ...\n")
    fields = json.loads(about.read_text())
    about.write_text(json.dumps(fields | {"program": f"{trap}:build"}))
    for more in ((), ("--program", "mlp")):
        done = run_moot("audit", str(tmp_path / "run"), *more)
        assert "whose code would run here" in complaint(done, status=2)
    assert not ran.exists()
    agreed = run_moot("audit", str(tmp_path / "run"), "--program", f"{trap}:build")
    assert agreed.status in {1, 2}
    assert ran.exists()  # it was agreed on


def test_no_cheat_runs_that_only_a_folder_names(tmp_path: Path) -> None:
    """A training by a file's cheat does not go on; the file is not run."""
    ran = tmp_path / "ran"
    (tmp_path / "trap.py").write_text(f"open({str(ran)!r}, 'w').close()\n")
    moot.train(tmp_path / "run", _make_task())
    store = Store(tmp_path / "run")
    plan = store.get_json(NOTE)
    store.put_json(NOTE, plan | {"behaviour": f"{tmp_path}/trap.py:Cheat"})
    with pytest.raises(UsageError, match="cheat of your own does not go on"):
        moot.train(tmp_path / "run")
    assert not ran.exists()
    store.put_json(NOTE, {"steps": 3})
    with pytest.raises(StoreError, match="describes no training"):
        moot.train(tmp_path / "run")


def test_a_folder_with_its_program_takes_no_other(folders: dict[str, Path]) -> None:
    """Where a folder has the program itself, none is named."""
    done = run_moot("audit", str(folders["exact"]), "--program", "mlp")
    assert "leave --program out" in complaint(done, status=2)


def test_a_log_that_is_longer_than_it_says_is_not_read(
    published_folder: Path, tmp_path: Path
) -> None:
    """A file of a terabyte, which takes no room on the disk, is refused by its size alone."""
    copytree(published_folder, tmp_path / "run")
    os.truncate(tmp_path / "run/step-0.log", 1 << 40)
    with pytest.raises(LogError, match="has a surplus"):
        moot.audit(tmp_path / "run", intervals=[0])


def test_one_published_trainer_a_folder(published_folder: Path) -> None:
    """A second one is refused, and so are other checkpoints than the folder has."""
    with held_alone(published_folder / IN_USE) as is_ours:
        assert is_ours
        done = run_moot("train", str(published_folder), "--method", "published")
        assert "another process trains" in complaint(done, status=2)
    words = ("--method", "published", "--checkpoint-every", "3", "--steps", "6")
    done = run_moot("train", str(published_folder), *words)
    assert "holds another training" in complaint(done, status=2)
    done = run_moot("train", str(published_folder), "--method", "published", *words[2:4])
    assert done.status == 2  # it is not passed over


def test_what_the_published_method_has_not() -> None:
    """Options that mean nothing to it are refused, each in one line that names it."""
    for more in (("--arithmetic", "exact"), ("--engine", "numpy"), ("--cheat", "lazy")):
        done = run_moot("train", "nowhere", "--method", "published", *more)
        assert "method published" in complaint(done, status=2)
    assert "unknown method" in complaint(run_moot("train", "nowhere", "--method", "x"), status=2)
    assert not Path("nowhere").exists()
