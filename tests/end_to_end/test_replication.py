"""Two processes on unlike hardware: stock torch parts them, and the arithmetics do not."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from moot.offchain.backends.cuda import driver
from moot.offchain.errors import ReplicationError, UsageError
from moot.offchain.replication import profiles, proven, records
from moot.offchain.replication.compare import Setting, Step, compare, compare_states, summarize
from moot.offchain.replication.profiles import PROFILES, find_profile, make_environment
from moot.offchain.replication.records import Record, compare_records, find_records, record
from moot.offchain.replication.replicate import METHODS, replicate
from tests.end_to_end.command import complaint, moot

STEPS = 3

each_other = pytest.mark.parametrize("other", [name for name in PROFILES if name != "native"])


@pytest.mark.slow
@pytest.mark.parametrize("arithmetic", ["exact", "ordered"])
@each_other
@pytest.mark.parametrize("program", ["mlp", "gpt2", "cnn"])
def test_no_bit_differs_in_an_arithmetic(program: str, other: str, arithmetic: str) -> None:
    """Under every profile every state has the same bits."""
    setting = Setting(program, steps=STEPS, arithmetic=arithmetic)
    steps = list(compare(setting, PROFILES["native"], find_profile(other)))
    assert [step.elements for step in steps] == [0] * STEPS
    assert steps[-1].all_tensors > 1


@pytest.mark.slow
@each_other
def test_stock_torch_differs(other: str) -> None:
    """The comparison is sharp: under every profile stock torch comes to other bits."""
    steps = list(compare(Setting("gpt2", steps=STEPS), PROFILES["native"], find_profile(other)))
    assert steps[-1].elements > 0
    assert steps[-1].distance > 0


@pytest.mark.slow
def test_the_command_says_what_differs() -> None:
    """Without an arithmetic the states of two profiles differ, and with one they do not."""
    arguments = ["replicate", "--program", "mlp", "--steps", "2", "--json", "--arithmetic", "exact"]
    code = "import sys; from moot.command import main; sys.exit(main())"
    done = subprocess.run(  # noqa: S603 - our own interpreter on our own code
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True
    )
    result = json.loads(done.stdout)
    assert result["steps"] == result["differing_steps_without"] == 2
    assert result["without"]["elements"] > result["without"]["differing_elements"] > 0
    nothing = ("differing_steps_with", "corrections", "log_bytes_per_step", "steerable_share")
    assert [result[name] for name in nothing] == [0] * 4
    ratios = ("trainer_over_binary64", "auditor_over_binary64", "over_binary32")
    assert all(result[name] > 0 for name in ratios)
    assert result["trainer"] != result["auditor"]


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_each_method_fills_in_the_same_counts(method: str) -> None:
    """Whichever way roundings are logged, the outcome counts steps, bytes and times."""
    setting, reports = Setting("mlp", steps=2, arithmetic="logged"), []
    found = replicate(setting, PROFILES["native"], PROFILES["split"], method, reports.append)
    assert (found.steps, reports) == (2, [1, 2])
    assert found.log_bytes_per_step >= 0
    assert 0 <= found.steerable_share <= 1
    assert found.trainer_over_binary64 is not None


def test_an_unknown_method_is_suggested() -> None:
    """A method that does not exist is refused before anything runs."""
    with pytest.raises(UsageError, match="did you mean 'proven'"):
        replicate(Setting(), PROFILES["native"], PROFILES["old"], "prove", print)


def test_states_that_are_no_numbers_are_compared() -> None:
    """A training that overflowed differs as far as can be, and numpy does not warn."""
    one = [np.array([np.inf, np.nan, 1], np.float32)]
    other = [np.array([np.inf, 2, np.inf], np.float32)]
    found = compare_states(0, one, other)
    assert (found.elements, found.distance) == (2, np.inf)
    assert compare_states(0, one, [array.copy() for array in one]).elements == 0


def test_a_step_that_rounds_nothing_has_no_share_to_steer() -> None:
    """A program of moves alone is counted like any other."""
    report = dict.fromkeys(("steerable", "rounded", "loggable", "entries", "settled"), 0)
    step = Step(0, 0, 0, 0.0, 3, 1, trainer=report, auditor={"corrections": 0})
    found = proven.summarize([step])
    assert (found.steerable_share, found.settled_share) == (0, 0)


def make_record(*digests: tuple[int, int]) -> Record:
    """Return a record with these digests of two tensors after each step."""
    last = [np.array(digests[-1], np.float32), np.zeros(1, np.float32)]
    losses, corrections = np.zeros(len(digests), np.float32), np.zeros(len(digests), np.int64)
    return Record(np.array(digests, np.uint64), losses, corrections, last)


def test_records_count_the_steps_that_differ() -> None:
    """A step differs if one of its tensors does; the first is named, and the last is measured."""
    one = make_record((1, 1), (2, 2), (3, 3))
    found = compare_records(one, make_record((1, 1), (2, 9), (4, 3)))
    assert (found.differing_steps, found.first_differing_step) == (2, 1)
    assert (found.last.step, found.last.elements, found.last.distance) == (2, 1, 1.0)
    same = compare_records(one, one)
    assert (same.differing_steps, same.first_differing_step, same.last.elements) == (0, None, 0)


@pytest.mark.slow
def test_what_is_recorded_is_not_trained_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Records compare as processes side by side do, and a second call only reads them."""
    pair, setting = (PROFILES["native"], PROFILES["split"]), Setting("mlp", steps=3)
    record(setting, pair, tmp_path, lambda *_: None)
    found = find_records(setting, PROFILES, tmp_path)
    assert compare_records(*found.values()) == summarize(
        [replace(step, trainer={}, auditor={}) for step in compare(setting, *pair)]
    )
    monkeypatch.setattr(records, "running", None)
    record(setting, pair, tmp_path, lambda *_: None)
    again = find_records(setting, PROFILES, tmp_path)
    assert [x.digests.tolist() for x in again.values()] == [
        x.digests.tolist() for x in found.values()
    ]


@pytest.mark.slow
def test_auditors_are_recorded_with_the_logs_of_one_trainer(tmp_path: Path) -> None:
    """In `logged` whoever is recorded later repeats the first one's steps, and from its logs.

    What an auditor corrects on the way is counted: one number in every eighth step or so.
    """
    setting = Setting("gpt2", "small", 60, arithmetic="logged")
    trainer, auditor = PROFILES["native"], PROFILES["upwards"]
    record(setting, [trainer], tmp_path, lambda *_: None)
    record(setting, [trainer, auditor], tmp_path, lambda *_: None)
    found = find_records(setting, PROFILES, tmp_path)
    assert compare_records(found["native"], found["upwards"]).differing_steps == 0
    assert not found["native"].corrections.any()
    assert found["upwards"].corrections.any()
    (logs,) = tmp_path.glob("*.logs")
    (logs / "step-1.log").unlink()
    with pytest.raises(ReplicationError, match=r"step-1\.log"):
        record(setting, [trainer, PROFILES["split"]], tmp_path, lambda *_: None)


def test_profiles_are_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """An unknown profile is suggested, and one that needs more cores says what there is."""
    with pytest.raises(UsageError, match="did you mean 'native'"):
        find_profile("nativ")
    monkeypatch.setattr(profiles.os, "cpu_count", lambda: 1)
    with pytest.raises(UsageError, match="needs 2 cores, and this machine has 1; it can offer"):
        find_profile("threads")
    monkeypatch.setattr(profiles.platform, "machine", lambda: "aarch64")
    with pytest.raises(UsageError, match=r"is aarch64; .* native, split, .*towards-zero$"):
        find_profile("openblas")


def test_profiles_change_what_they_say(monkeypatch: pytest.MonkeyPatch) -> None:
    """A profile's process has its settings, and none of those of the process that starts it."""
    monkeypatch.setenv("ATEN_CPU_CAPABILITY", "avx2")
    assert "ATEN_CPU_CAPABILITY" not in make_environment(PROFILES["native"])
    assert make_environment(PROFILES["baseline"])["ATEN_CPU_CAPABILITY"] == "default"
    assert make_environment(PROFILES["threads"])["OMP_NUM_THREADS"] == "2"


def test_a_program_that_is_unknown_is_misuse() -> None:
    """It is refused by the line that any other command refuses it by."""
    with pytest.raises(UsageError, match=r"^unknown example 'no-such-program'; choose one of"):
        list(compare(Setting("no-such-program", steps=1), PROFILES["native"], PROFILES["old"]))


def test_an_arithmetic_that_brings_nothing_is_misuse() -> None:
    """No count is told of products of bfloat16 where there are none."""
    words = ("--program", "mlp", "--steps", "1", "--arithmetic", "ampere")
    line = complaint(moot("replicate", *words), status=2)
    assert "ampere brings nothing; choose ordered, or bf16" in line


def test_a_process_that_fails_is_named(tmp_path: Path) -> None:
    """All that it said when it ended is in one line, and where that was."""
    path = tmp_path / "broken.py"
    path.write_text("def build(seed):\n    raise ValueError('no\\nluck')\n")
    problem = rf"^the process of profile native ended: ValueError: no luck \({path}:2\)$"
    with pytest.raises(ReplicationError, match=problem):
        list(compare(Setting(f"{path}:build", steps=1), PROFILES["native"], PROFILES["old"]))


@pytest.mark.slow
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_an_emulated_device_replicates_the_processor(precision: str) -> None:
    """Steps in `ordered` have the same bits on a device, in either precision."""
    words = ("--auditor", "cuda-emulator", "--steps", "2", "--precision", precision, "--json")
    done = moot("replicate", "--program", "mlp", *words)
    assert done.status == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["auditor"], found["precision"]) == ("cuda-emulator", precision)
    assert (found["steps"], found["differing_steps_with"]) == (2, 0)


@pytest.mark.device
@pytest.mark.slow
@pytest.mark.skipif(not driver.is_here(), reason="there is no NVIDIA driver")
@pytest.mark.parametrize("arithmetic", ["ordered", "exact"])
def test_a_device_replicates_the_processor(arithmetic: str) -> None:
    """The same on a device, with a GPT-2."""
    words = ("--auditor", "cuda", "--steps", "4", "--arithmetic", arithmetic, "--json")
    found = json.loads(moot("replicate", *words).stdout)
    assert (found["steps"], found["differing_steps_with"]) == (4, 0)


@pytest.mark.skipif(driver.is_here(), reason="there is an NVIDIA driver")
def test_a_device_that_is_not_here_is_no_profile() -> None:
    """One line says what is lacking, and which profiles there are."""
    line = complaint(moot("replicate", "--auditor", "cuda"), status=2)
    assert "profile cuda needs a device, and there is no NVIDIA driver" in line
    assert "it can offer native" in line


def test_a_device_without_the_arithmetic_is_refused() -> None:
    """Logs of roundings are written and read by processors."""
    words = ("--auditor", "cuda-emulator", "--arithmetic", "logged")
    line = complaint(moot("replicate", *words), status=2)
    assert "does not compute logged, but ampere, exact, hopper, ordered; choose" in line
