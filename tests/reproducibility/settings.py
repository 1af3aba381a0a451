"""Floating-point settings of a thread, changed through the C library as foreign code does.

`python -m tests.reproducibility.settings 0 1 2` imports torch, then forks a process for each of
these settings, makes it, imports Moot, and prints what a small training run comes to.
"""

import ctypes
import json
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import product
from pathlib import Path
from typing import NamedTuple

IS_X86 = platform.machine() in {"x86_64", "AMD64"}
_C = ctypes.PyDLL(None)
_ROUNDING_SHIFT = 13 if IS_X86 else 22
_MXCSR_WORD = 7
"""Where a `fenv_t` of x86-64 has MXCSR, in words of 4 bytes; that of aarch64 begins with FPCR."""

_FLUSHED_RESULTS = 1 << 15 if IS_X86 else 1 << 24
_FLUSHED_OPERANDS = 1 << 6 if IS_X86 else 1 << 24

_FAST_MATH = """
#include <xmmintrin.h>
__attribute__((constructor)) static void flush(void) { _mm_setcsr(_mm_getcsr() | 0x8040); }
"""
"""What linking with -ffast-math puts into a shared library of x86."""


class Setting(NamedTuple):
    """The floating-point setting of a thread.

    Attributes:
        rounding: two bits, 0 to nearest; how the processor writes it.
        flushes_results: whether subnormal results become zero (FTZ).
        flushes_operands: whether subnormal operands are read as zero (DAZ); aarch64 has one bit
            for both.
    """

    rounding: int = 0
    flushes_results: bool = False
    flushes_operands: bool = False


STANDARD = Setting()
_FLUSHING = product((False, True), repeat=2) if IS_X86 else ((False, False), (True, True))
SETTINGS = [Setting(rounding, *flushes) for rounding, flushes in product(range(4), _FLUSHING)]
STRANGE = [setting for setting in SETTINGS if setting != STANDARD]


def change(setting: Setting) -> None:
    """Give the calling thread a setting."""
    words = (ctypes.c_uint32 * 128)()
    place = _MXCSR_WORD if IS_X86 else 0
    _C.fegetenv(words)
    kept = words[place] & ~(3 << _ROUNDING_SHIFT | _FLUSHED_RESULTS | _FLUSHED_OPERANDS)
    words[place] = (
        kept
        | setting.rounding << _ROUNDING_SHIFT
        | setting.flushes_results * _FLUSHED_RESULTS
        | setting.flushes_operands * _FLUSHED_OPERANDS
    )
    _C.fesetenv(words)


def read() -> Setting:
    """Return the setting of the calling thread."""
    words = (ctypes.c_uint32 * 128)()
    _C.fegetenv(words)
    bits = words[_MXCSR_WORD if IS_X86 else 0]
    flushes = bool(bits & _FLUSHED_RESULTS), bool(bits & _FLUSHED_OPERANDS)
    return Setting(bits >> _ROUNDING_SHIFT & 3, *flushes)


@contextmanager
def changed(setting: Setting) -> Iterator[None]:
    """Compute in a setting, which has to be there at the end as well; then in that of before."""
    before = read()
    change(setting)
    try:
        yield
        assert read() == setting
    finally:
        change(before)


def build_fast_math(folder: Path) -> Path | None:
    """Return a library that flushes subnormal numbers where it is loaded, None without compiler."""
    compiler = shutil.which("gcc")
    if not IS_X86 or compiler is None:
        return None
    source, library = folder / "fast.c", folder / "libfast.so"
    source.write_text(_FAST_MATH)
    command = [compiler, "-shared", "-fPIC", "-o", str(library), str(source)]
    subprocess.run(command, check=True)  # noqa: S603 - the compiler, on our own file
    return library


def in_child(work: Callable[[], str]) -> str:
    """Return what a forked process says."""
    readable, writable = os.pipe()
    child = os.fork()
    if not child:
        status = 1
        try:
            os.write(writable, work().encode())
            status = 0
        finally:
            os._exit(status)
    os.close(writable)
    with os.fdopen(readable) as file:
        said = file.read()
    _, status = os.waitpid(child, 0)
    assert status == 0, said
    return said


def train() -> str:
    """Import Moot, and return the roots of two steps, or the one line that refuses them."""
    try:
        from moot.offchain.frontend.capture import capture  # noqa: PLC0415 - likewise
        from moot.offchain.frontend.examples import build  # noqa: PLC0415 - likewise
        from tests.reproducibility.history import compute_history  # noqa: PLC0415 - that is it
    except ImportError as error:
        return f"refused: {error}"
    return " ".join(compute_history(capture(build("mlp")), 2, 2))


def main() -> None:
    """Print what the run comes to in the settings of these numbers, as JSON."""
    import numba  # noqa: F401, PLC0415 - only this process has to have it before
    import torch  # noqa: F401, PLC0415 - likewise

    def run(setting: Setting) -> str:
        change(setting)
        return train()

    chosen = [SETTINGS[int(number)] for number in sys.argv[1:]]
    json.dump([in_child(partial(run, setting)) for setting in chosen], sys.stdout)


if __name__ == "__main__":
    main()
