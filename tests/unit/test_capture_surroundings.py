"""Descriptions of processes: what changes them, and what processes have none."""

import sys
import time
from pathlib import Path
from types import ModuleType

import pytest
import torch

import moot.offchain
from moot.offchain.arithmetic.exact import EXACT
from moot.offchain.arithmetic.functions import DType
from moot.offchain.arithmetic.ordered import ORDERED
from moot.offchain.frontend.capture import surroundings
from moot.offchain.frontend.capture.recall import find_origin
from moot.offchain.frontend.capture.surroundings import (
    IndescribableError,
    describe_process,
    find_stranger,
)
from moot.offchain.frontend.neighbours import OURS, is_of_user
from moot.offchain.programs.graph import Slot


@pytest.fixture
def process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take this process for one that has loaded installed packages and Moot only."""
    monkeypatch.setattr(surroundings, "find_stranger", lambda _: None)


@pytest.mark.parametrize(
    "name", ["TORCH_LOGS", "PYTORCH_JIT", "ATEN_CPU_CAPABILITY", "HF_HOME", "PYTHONHASHSEED"]
)
def test_variables_tell_a_process_apart(
    name: str, process: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The environment variables that torch, Python and the libraries read are in a description."""
    del process
    before = describe_process()
    monkeypatch.setenv("MOOT_SOMETHING", "1")
    assert describe_process() == before
    monkeypatch.setenv(name, "strange")
    assert describe_process() != before


def test_modules_tell_a_process_apart(process: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Packages that are loaded may change others; where Python looks for them counts, too."""
    del process
    before = describe_process()
    with monkeypatch.context() as patched:
        patched.setattr(sys, "path", [*sys.path, "/nowhere"])
        assert describe_process() != before
    other = ModuleType("other")
    other.__file__ = f"{Path(torch.__file__).parent}/other.py"
    monkeypatch.setitem(sys.modules, "other", other)
    assert describe_process() != before


def _make_module(name: str, **attributes: object) -> ModuleType:
    module = ModuleType(name)
    vars(module).update(attributes)
    return module


def test_strangers(tmp_path: Path) -> None:
    """Code of a user's is found by its place, and by that of the program that was started."""
    command = _make_module("__main__", __file__=str(surroundings._COMMAND))
    ours = {"__main__": command, "torch": torch, "moot": sys.modules["moot"], "sys": sys}
    assert find_stranger(ours) is None
    assert find_stranger({**ours, "torch._C._nn": _make_module("torch._C._nn")}) is None
    here = str(tmp_path / "mine.py")
    for name, module in {
        "mine": _make_module("mine", __file__=here),
        "random": _make_module("random", __file__=here),
        "torch.mine": _make_module("torch.mine", __file__=here),
        "made": _make_module("made"),
        "made.part": _make_module("made.part"),
        "space": _make_module("space", __path__=[str(tmp_path)]),
        "tests": sys.modules["tests"],
        "__main__": _make_module("__main__"),
        "__mp_main__": _make_module("__mp_main__", __file__=here),
        "mooter": _make_module("mooter", __file__=f"{OURS[:-1]}er/a.py"),
    }.items():
        assert find_stranger({**ours, name: module}) == name
    assert find_stranger({**ours, "__main__": pytest}) == "__main__"
    assert find_stranger(sys.modules) is not None  # these tests
    with pytest.raises(IndescribableError):
        describe_process()


def test_origins(process: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """A capture is kept by the form of its batches, its arithmetic and what it was asked for with.

    It is not kept by a process that began before a source of ours was last written.
    """
    del process
    monkeypatch.setattr(moot.offchain, "BEGAN_NS", time.time_ns() + 10**15)
    inputs = [Slot("batch.0", DType.FLOAT32, (2, 3))]
    found = {
        find_origin(slots, arithmetic, example)
        for slots in (inputs, [])
        for arithmetic in (ORDERED, EXACT)
        for example in ("a", "b")
    }
    assert len(found) == 8
    assert None not in found
    monkeypatch.setattr(moot.offchain, "BEGAN_NS", 0)
    assert find_origin(inputs, ORDERED, "a") is None


def test_packages_of_another_environment_are_no_code_of_the_users(tmp_path: Path) -> None:
    """A package is one wherever it lies, as below this environment; a user's file is not."""
    for folder in ("lib/python3.12/site-packages", "lib/python3/dist-packages"):
        assert not is_of_user(str(tmp_path / folder / "torch" / "nn.py"))
    assert is_of_user(str(tmp_path / "model.py"))
    assert is_of_user(str(tmp_path / "site-packages.py"))
