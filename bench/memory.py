"""The memory that a few training steps need, each side in a process of its own.

The model is built (and captured) first; then the system's record of the peak is cleared, so that
the figure is that of the steps, with all that the process holds meanwhile.
"""

import argparse
import ctypes
import subprocess
import sys
from pathlib import Path

from moot.offchain.backends.table import DEFAULT
from moot.offchain.native.memory import get_peak_bytes

SIDES = OURS, STOCK = "ours", "stock"

_STEPS = 3
_TRIM_THRESHOLD, _TOP_PAD, _MMAP_MAX = -1, -2, -4
"""Options of `mallopt`."""

_PROCESS = Path("/proc/self")
_FORGET_PEAK = "5"


def keep_memory() -> None:
    """Let the C library keep all memory that it ever got: stock torch is faster so on any glibc."""
    settings = {_TOP_PAD: 1 << 28, _TRIM_THRESHOLD: (1 << 31) - 1, _MMAP_MAX: 0}
    library = ctypes.CDLL(None)
    if hasattr(library, "mallopt"):
        for option, value in settings.items():
            library.mallopt(option, value)


def measure_peak(
    model: str, side: str, threads: int, precision: str, backend: str = DEFAULT, *, is_tiny: bool
) -> int:
    """Return the peak of the memory that a process needs for three steps of a model, in bytes."""
    arguments = [model, side, str(threads), precision, backend, *(["--tiny"] if is_tiny else [])]
    done = subprocess.run(  # noqa: S603 - our own interpreter on our own module
        [sys.executable, "-m", __name__, *arguments], check=True, stdout=subprocess.PIPE, text=True
    )
    return int(done.stdout)


def _run(
    model: str, side: str, threads: int, precision: str, backend: str, *, is_tiny: bool
) -> int:
    from moot.bench.models import make_recipe, make_stock_step  # noqa: PLC0415 - not needed to ask
    from moot.bench.steps import OurTraining  # noqa: PLC0415 - it asks for the measurement
    from moot.bench.timing import using_threads  # noqa: PLC0415 - as above

    recipe = make_recipe(model, precision, is_tiny=is_tiny)
    with using_threads(threads):
        if side == OURS:
            ours = OurTraining(recipe, _STEPS, backend)
            del recipe
            (_PROCESS / "clear_refs").write_text(_FORGET_PEAK)
            for _ in range(_STEPS):
                ours.advance()
                ours.commit()
        else:
            stock = make_stock_step(recipe)
            (_PROCESS / "clear_refs").write_text(_FORGET_PEAK)
            for step in range(_STEPS):
                stock(step)
    return get_peak_bytes()


def _main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("side", choices=SIDES)
    parser.add_argument("threads", type=int)
    parser.add_argument("precision")
    parser.add_argument("backend")
    parser.add_argument("--tiny", action="store_true")
    asked = parser.parse_args()
    given = asked.model, asked.side, asked.threads, asked.precision, asked.backend
    print(_run(*given, is_tiny=asked.tiny))  # noqa: T201 - its answer


if __name__ == "__main__":
    _main()
