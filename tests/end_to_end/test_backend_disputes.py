"""Disputes between providers on unlike backends: one root, and the same liar found everywhere."""

from dataclasses import replace
from pathlib import Path

import pytest

from moot.disputing import Dispute
from moot.offchain.backends.cuda import driver
from moot.offchain.backends.table import BACKENDS
from moot.offchain.errors import DeviceError, UsageError
from moot.offchain.providers.setting import Setting, check_setting, describe_backends
from moot.session import prepare
from tests.end_to_end.command import complaint, moot
from tests.quick import only

CPU, EMULATOR, CUDA = "cpu", "cuda-emulator", "cuda"
TINY = ("--program", "mlp", "--steps", "2", "--checkpoint-every", "2", "--trust-capture")
SETTING = Setting(program="mlp", steps=2, checkpoint_every=2, trust_capture=True, seed=3)
on_device = pytest.mark.skipif(not driver.is_here(), reason="there is no NVIDIA device")


def play(folder: Path, honest: str, liar: str, setting: Setting = SETTING) -> Dispute:
    """Play a dispute between an honest provider on a backend, and a liar on the same or another."""
    chosen = replace(setting, backend=honest, cheat_backend=liar)
    return prepare(chosen, folder / f"{honest} {liar}", lambda *_: None).finish()


def check_alike(one: Dispute, other: Dispute) -> None:
    """Check that two disputes are the same, whoever computed: claims, moves, gas and the find."""
    found, expected = other.to_dict(), one.to_dict()
    for key in ("verdict", "located", "transactions", "gas", "behaviours"):
        assert found[key] == expected[key], key
    claims, others = ({n: run.history_root for n, run in it.runs.items()} for it in (one, other))
    assert claims == others
    assert other.verdict.honest_won


@pytest.fixture(scope="module")
def usual(tmp_path_factory: pytest.TempPathFactory) -> Dispute:
    """Return the dispute in which the processor computes for both."""
    return play(tmp_path_factory.mktemp("usual"), CPU, CPU)


@pytest.mark.parametrize(
    ("honest", "liar"),
    only(
        {(CPU, EMULATOR), (EMULATOR, EMULATOR)},
        [(CPU, EMULATOR), (EMULATOR, CPU), (EMULATOR, EMULATOR)],
    ),
)
def test_a_dispute_is_the_same_whatever_computes(
    tmp_path: Path, usual: Dispute, honest: str, liar: str
) -> None:
    """A device that is emulated claims, defends and loses as the processor does, bit for bit."""
    check_alike(usual, play(tmp_path, honest, liar))


@pytest.mark.device
@on_device
@pytest.mark.parametrize(("honest", "liar"), [(CPU, CUDA), (CUDA, CPU), (CUDA, CUDA)])
@pytest.mark.parametrize("arithmetic", ["ordered", "exact"])
def test_a_device_disputes_as_the_processor_does(
    tmp_path: Path, arithmetic: str, honest: str, liar: str
) -> None:
    """The same between the processor and a device, and between two devices."""
    setting = replace(SETTING, program="gpt2", arithmetic=arithmetic)
    check_alike(play(tmp_path, CPU, CPU, setting), play(tmp_path, honest, liar, setting))


@pytest.mark.device
@pytest.mark.slow
@on_device
def test_a_device_disputes_about_a_whole_gpt2(tmp_path: Path) -> None:
    """GPT-2 124M: the processor's liar is found from the trees that a device has made."""
    setting = replace(SETTING, program="gpt2", size="full", steps=1, checkpoint_every=1)
    check_alike(play(tmp_path, CPU, CPU, setting), play(tmp_path, CUDA, CPU, setting))


def test_the_command_says_what_computes() -> None:
    """A line on stderr names what computes, and what the liar computes on where that differs."""
    done = moot("program", "show", "mlp", "--trust-capture", "--json")
    assert done.computing == "computing on cpu (this machine's processor)\n"
    assert describe_backends(replace(SETTING, cheat_backend=EMULATOR)) == (
        "cpu (this machine's processor); who cheats, on cuda-emulator (a device that this "
        "machine's processor emulates)"
    )


@pytest.mark.parametrize("verb", ["dispute", "market", "program show", "bench step"])
@pytest.mark.skipif(driver.is_here(), reason="there is an NVIDIA device")
def test_a_backend_that_is_not_here_is_refused(verb: str) -> None:
    """One line says that there is no driver, and what to choose; nothing falls back."""
    line = complaint(moot(*verb.split(), "--backend", CUDA), status=1)
    assert "no NVIDIA driver" in line
    assert line.endswith("or choose the backend cpu")


def test_a_backend_that_nobody_knows_is_refused() -> None:
    """One line names the backends that there are, for the honest and for who cheats."""
    for option in ("--backend", "--cheat-backend"):
        line = complaint(moot("dispute", *TINY, option, "opencl"), status=2)
        assert all(name in line for name in BACKENDS)


def test_a_backend_without_the_arithmetic_is_refused() -> None:
    """Logs of roundings are the processor's: a device says which arithmetics it computes."""
    with pytest.raises(
        UsageError, match="does not compute logged, but ampere, exact, hopper, ordered; choose"
    ):
        check_setting(replace(SETTING, arithmetic="logged", leaf="operator", backend=EMULATOR))


@pytest.mark.skipif(driver.is_here(), reason="there is an NVIDIA device")
def test_what_is_not_here_is_refused_before_anything_is_run(tmp_path: Path) -> None:
    """A liar's backend is looked for before the honest provider begins."""
    with pytest.raises(DeviceError, match="choose the backend cpu"):
        play(tmp_path, CPU, CUDA)
    assert not [*tmp_path.iterdir()]
