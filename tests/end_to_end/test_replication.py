"""Two processes on unlike hardware: stock torch parts them, and the arithmetics do not."""

import json
import subprocess
import sys

import pytest

from offchain.errors import ReplicationError, UsageError
from offchain.replication import profiles
from offchain.replication.compare import Setting, compare
from offchain.replication.profiles import PROFILES, find_profile, make_environment

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


def test_the_command_says_what_differs() -> None:
    """Without an arithmetic the states of two profiles differ, and with one they do not."""
    arguments = ["replicate", "--program", "mlp", "--steps", "2", "--json", "--arithmetic", "exact"]
    code = "import sys; from sim.command import main; sys.exit(main())"
    done = subprocess.run(  # noqa: S603 - our own interpreter on our own code
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True
    )
    result = json.loads(done.stdout)
    assert result["differing_steps_without"] == result["without"]["differing_steps"] > 0
    assert result["differing_steps_with"] == result["with"]["differing_elements"] == 0
    assert result["with"]["elements"] > 0


def test_profiles_are_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """An unknown profile is suggested, and one that needs more cores says what there is."""
    with pytest.raises(UsageError, match="did you mean 'native'"):
        find_profile("nativ")
    monkeypatch.setattr(profiles.os, "cpu_count", lambda: 1)
    with pytest.raises(UsageError, match="needs 2 cores, and this machine has 1; it can offer"):
        find_profile("threads")
    monkeypatch.setattr(profiles.platform, "machine", lambda: "aarch64")
    with pytest.raises(UsageError, match=r"this machine is aarch64; .* native, split, .*permuted$"):
        find_profile("openblas")


def test_profiles_change_what_they_say(monkeypatch: pytest.MonkeyPatch) -> None:
    """A profile's process has its settings, and none of those of the process that starts it."""
    monkeypatch.setenv("ATEN_CPU_CAPABILITY", "avx2")
    assert "ATEN_CPU_CAPABILITY" not in make_environment(PROFILES["native"])
    assert make_environment(PROFILES["baseline"])["ATEN_CPU_CAPABILITY"] == "default"
    assert make_environment(PROFILES["threads"])["OMP_NUM_THREADS"] == "2"


def test_a_process_that_fails_is_named() -> None:
    """What a process says when it ends is in the error."""
    setting = Setting("no-such-program", steps=1)
    with pytest.raises(ReplicationError, match=r"profile native ended: .*no-such-program"):
        list(compare(setting, PROFILES["native"], PROFILES["old"]))
