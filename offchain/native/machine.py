"""The processor's features and cache, and the width of the vectors that all kernels use.

The width changes speed only, never a bit of a result. It is the widest that the processor has,
unless the environment variable MOOT_VECTOR_BITS, which is read once, says 512, 256 or 128.
Narrower code then also does without what came with wider vectors: 256 on a processor with AVX-512
is code for a processor with AVX2.
"""
# mypy: disallow-untyped-calls=False
# (numba annotates only a part of what it exports)

import os
import platform
from pathlib import Path

from numba.core import config
from numba.core.codegen import get_host_cpu_features

from moot.offchain.errors import UnsupportedMachine, UsageError

WIDTH_VARIABLE = "MOOT_VECTOR_BITS"
WIDTHS_BITS = (512, 256, 128)

_SECOND_CACHE = Path("/sys/devices/system/cpu/cpu0/cache/index2/size")
"""Where Linux says it, as in 2048K."""

_USUAL_SECOND_CACHE_BYTES = 1 << 20

_FMA_IS_ALWAYS_THERE = ("aarch64", "arm64")


def get_second_cache_bytes() -> int:
    """The bytes of a core's second-level cache; a usual size where the system does not say."""
    try:
        kilobytes = _SECOND_CACHE.read_text().strip().removesuffix("K")
    except OSError:
        return _USUAL_SECOND_CACHE_BYTES
    return int(kilobytes) << 10 if kilobytes.isdecimal() else _USUAL_SECOND_CACHE_BYTES


def require_fma(features: str, architecture: str) -> None:
    """Refuse a processor on which a fused multiply-add would have to be emulated.

    Args:
        features: as LLVM writes them, such as "+avx2,+fma,-avx512f".
        architecture: as Python's `platform.machine()` has it.

    Raises:
        UnsupportedMachine: if it has none, or we do not know of any.
    """
    if "+fma" not in features.split(",") and architecture.lower() not in _FMA_IS_ALWAYS_THERE:
        raise UnsupportedMachine(architecture, "fused multiply-add (fma)")


def get_features() -> str:
    """The features that numba compiles for, as LLVM writes them."""
    chosen: str | None = vars(config)["CPU_FEATURES"]
    return str(get_host_cpu_features()) if chosen is None else chosen


def compute_width_bits(setting: str | None, features: str) -> int:
    """The bits of a vector for a value of MOOT_VECTOR_BITS, None if it is not set.

    Raises:
        UsageError: if the value is not a width.
    """
    if setting is None:
        names = features.split(",")
        return 512 if "+avx512f" in names else 256 if "+avx2" in names else 128
    if setting not in map(str, WIDTHS_BITS):
        choices = ", ".join(map(str, WIDTHS_BITS))
        raise UsageError(f"{WIDTH_VARIABLE} is {setting!r}; set it to one of {choices} or unset it")
    return int(setting)


def narrow_features(features: str, width_bits: int) -> str:
    """A processor's features without those of vectors wider than `width_bits`."""
    return features if width_bits == 512 else features.replace("+avx512", "-avx512")


VECTOR_BITS = compute_width_bits(os.environ.get(WIDTH_VARIABLE), get_features())
if narrow_features(get_features(), VECTOR_BITS) != get_features():
    vars(config)["CPU_FEATURES"] = narrow_features(get_features(), VECTOR_BITS)

REGISTER_BITS = compute_width_bits(None, get_features())
"""What a register holds; a wider vector is spread over several."""

VECTOR_REGISTERS = (
    32 if "+avx512f" in get_features() or platform.machine().lower() in _FMA_IS_ALWAYS_THERE else 16
)
