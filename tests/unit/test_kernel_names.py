"""Machine code is found by names: no two kernels have one."""

import subprocess
import sys
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from numba.core import types
from numba.core.bytecode import FunctionIdentity

from moot.offchain.native.compiled import Kernel, kernel, subroutine


@subroutine
def _find_one(_: int) -> int:
    return 1


@subroutine
def _find_two(_: int) -> int:
    return 2


def _make(find: Callable[[int], int]) -> Kernel:
    @kernel(types.int64)
    def compute(number: int) -> None:
        find(number)

    return compute


def test_siblings_are_found_by_their_own_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """So they are where numba has numbered them alike, as in two processes that keep code."""
    both = []
    for find in (_find_one, _find_two):
        monkeypatch.setattr(FunctionIdentity, "_unique_ids", count(10**6))
        made = _make(find)
        monkeypatch.setattr(made, "_machine_code", _compile_anew(made))
        both.append(made)
    assert both[0].address != both[1].address


def _compile_anew(made: Kernel) -> Any:
    """Return a kernel's machine code as numba makes it where nothing is kept."""
    import numba  # noqa: PLC0415 - slow to import

    dispatcher: Any = numba.njit(nogil=True)(made._function)
    dispatcher.compile(made._signature)
    return dispatcher


_COUNT = """
import gc, importlib, pkgutil
import moot.offchain
from moot.offchain.native.compiled import Kernel
for module in pkgutil.walk_packages(moot.offchain.__path__, "moot.offchain."):
    if ".kernels." in module.name or ".commitments." in module.name:
        importlib.import_module(module.name)
from moot.offchain.arithmetic.functions import Function
from moot.offchain.backends.cpu.kernels.elementary import _unary
made = [_unary(it) for it in Function if it.is_transcendental]  # when they are called first
found = [it for it in gc.get_objects() if type(it) is Kernel]
names = {(it._function.__module__, it._function.__qualname__, it._signature) for it in found}
print(len(found), len(names))
"""


def test_kernels_have_names_of_their_own() -> None:
    """Those of one name differ in the types that they take, which are a part of it."""
    done = subprocess.run(  # noqa: S603 - our own, without the kernels that other tests make
        [sys.executable, "-c", _COUNT],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=True,
    )
    found, names = map(int, done.stdout.split())
    assert found == names > 60
