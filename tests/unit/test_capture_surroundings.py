"""Descriptions of processes: what changes them, and what processes have none."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from torch._C import _set_mkldnn_enabled
from torch.backends.mha import set_fastpath_enabled
from torch.nn.modules.module import register_module_forward_hook
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

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


def _hook(*_: object) -> None:
    """Do nothing, as a hook."""


@pytest.fixture
def process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take this process for one that has loaded installed packages and Moot only."""
    monkeypatch.setattr(surroundings, "find_stranger", lambda _: None)


@contextmanager
def _setting(function: Callable[[Any], object], value: object, before: object) -> Iterator[None]:
    function(value)
    try:
        yield
    finally:
        function(before)


SWITCHES: dict[str, Callable[[], AbstractContextManager[Any]]] = {
    "default type": lambda: _setting(torch.set_default_dtype, torch.float64, torch.float32),
    "default device": lambda: _setting(torch.set_default_device, "meta", None),
    "no gradients": torch.no_grad,
    "inference": torch.inference_mode,
    "autocast": lambda: torch.autocast("cpu", torch.bfloat16),
    "anomalies": torch.autograd.detect_anomaly,
    "deterministic": lambda: _setting(torch.use_deterministic_algorithms, value=True, before=False),
    "products": lambda: _setting(torch.set_float32_matmul_precision, "medium", "highest"),
    "attention": lambda: torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH),
    "onednn": lambda: _setting(_set_mkldnn_enabled, value=False, before=True),
    "fast path": lambda: _setting(set_fastpath_enabled, value=False, before=True),
}


@pytest.mark.parametrize("name", [name for name in SWITCHES if name != "default device"])
@pytest.mark.filterwarnings("ignore:Anomaly Detection")
def test_switches_tell_a_process_apart(name: str, process: None) -> None:
    """What torch was told for the whole process, or for the thread, is in its description."""
    del process
    with SWITCHES[name]():
        pass  # which may load modules
    before = describe_process()
    with SWITCHES[name]():
        assert describe_process() != before
    assert describe_process() == before


@pytest.mark.parametrize(
    "name", ["TORCH_LOGS", "PYTORCH_JIT", "ATEN_CPU_CAPABILITY", "HF_HOME", "PYTHONHASHSEED"]
)
def test_variables_tell_a_process_apart(
    name: str, process: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So are the environment variables that torch, Python and the libraries read."""
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


class _Mode(TorchDispatchMode):
    """A mode that does nothing."""


class _FunctionMode(TorchFunctionMode):
    """Likewise."""


@contextmanager
def _hooking() -> Iterator[None]:
    handle = register_module_forward_hook(_hook)
    try:
        yield
    finally:
        handle.remove()


@pytest.mark.parametrize("mode", [_Mode, _FunctionMode, _hooking, SWITCHES["default device"]])
def test_modes_are_no_process_of_ours(
    mode: Callable[[], AbstractContextManager[Any]], process: None
) -> None:
    """Nothing is known of a process in which something sees, and may change, all operators."""
    del process
    with mode(), pytest.raises(IndescribableError):
        describe_process()


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
