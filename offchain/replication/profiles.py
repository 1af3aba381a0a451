"""Profiles: settings under which stock torch computes other bits than usual, on one machine.

Each is a process of its own, with settings that torch and its BLAS read when they start, and with
products and sums of its own. What they change is what unlike hardware changes: the number of
threads among which sums are shared, the width of vectors and whether products are fused into sums,
the library that multiplies matrices, and in what order and how many parts terms are added up.
"""

import os
import platform
from collections.abc import Mapping
from dataclasses import dataclass, field

from moot.offchain.arithmetic.ordered import ORDERED
from moot.offchain.backends.table import DEFAULT, describe_backend
from moot.offchain.errors import DeviceError, UsageError


@dataclass(frozen=True, slots=True)
class Profile:
    """A profile.

    Attributes:
        name: what it is called.
        like: what it stands for, in a few words.
        threads: torch's threads.
        environment: variables of the process, which torch and its BLAS read.
        library: what multiplies matrices: `torch` (MKL), or `openblas` (numpy's).
        parts: into how many parts the terms of each product of matrices are split, whose sums are
            then added up; the last part comes first.
        is_permuted: whether the terms of products and of sums are added up in a drawn order.
        sums: what adds up in `logged`: `kernel` (ours), `numpy` or `torch`.
        functions: what evaluates functions in `logged`: `numpy` (and the C library) or `torch`.
        rounding: how all of stock torch's steps round, and products and sums in an arithmetic's:
            `nearest`, `up`, `down` or `zero`.
        backend: what computes the steps of an arithmetic; stock torch computes on the processor.
    """

    name: str
    like: str
    threads: int = 1
    environment: Mapping[str, str] = field(default_factory=dict)
    library: str = "torch"
    parts: int = 1
    is_permuted: bool = False
    sums: str = "kernel"
    functions: str = "numpy"
    rounding: str = "nearest"
    backend: str = DEFAULT


def _openblas(name: str, core: str, like: str) -> Profile:
    """Return a profile whose matrices are multiplied by OpenBLAS, with the kernels of a core."""
    environment = {"OPENBLAS_CORETYPE": core}
    return Profile(name, like, environment=environment, library="openblas", sums="numpy")


def _directed(name: str, rounding: str, like: str) -> Profile:
    """Return a profile whose products, and torch's sums, round in one direction."""
    return Profile(name, like, sums="torch", functions="torch", rounding=rounding)


_ROWS = (
    Profile("native", "this processor, one thread"),
    Profile(
        "threads",
        "this processor, two threads, and torch's sums and functions",
        threads=2,
        sums="torch",
        functions="torch",
    ),
    Profile(
        "baseline",
        "a processor without AVX2: narrow vectors, and no fused products in torch's own kernels",
        environment={"ATEN_CPU_CAPABILITY": "default"},
        sums="torch",
        functions="torch",
    ),
    Profile(
        "compatible",
        "any processor, by MKL's portable kernels",
        environment={"MKL_CBWR": "COMPATIBLE"},
        functions="torch",
    ),
    Profile(
        "old",
        "an old processor: narrow vectors in torch, MKL, oneDNN and numpy",
        environment={
            "ATEN_CPU_CAPABILITY": "default",
            "MKL_CBWR": "COMPATIBLE",
            "ONEDNN_MAX_CPU_ISA": "SSE41",
            "NPY_DISABLE_CPU_FEATURES": "X86_V3 X86_V4",
        },
        sums="numpy",
    ),
    _openblas("openblas", "Haswell", "another BLAS, with fused products"),
    _openblas("openblas-avx", "Sandybridge", "that BLAS with AVX, which has no fused products"),
    _openblas("openblas-sse3", "Prescott", "that BLAS with SSE 3"),
    Profile("split", "an accelerator that splits sums in two, and adds the last first", parts=2),
    Profile("split-four", "an accelerator that splits sums in four", parts=4),
    Profile("permuted", "an accelerator that sums in no order to speak of", is_permuted=True),
    _directed("upwards", "up", "products and sums that round upwards"),
    _directed("downwards", "down", "products and sums that round downwards"),
    _directed("towards-zero", "zero", "products and sums that are cut off"),
)

_DEVICES = (
    Profile("cuda", "an NVIDIA device, for the steps of an arithmetic", backend="cuda"),
    Profile("cuda-emulator", "its kernels on this processor", backend="cuda-emulator"),
)
"""Profiles that are chosen by name only: one needs a device, the other one takes its time."""

_X86 = ("x86_64", "AMD64")

PROFILES: Mapping[str, Profile] = {row.name: row for row in _ROWS}
"""The profiles of processors, by name, which stock torch computes under, too."""

ALL_PROFILES: Mapping[str, Profile] = {**PROFILES, **{row.name: row for row in _DEVICES}}
"""Every profile by its name."""

_OWN = (
    "ATEN_CPU_CAPABILITY",
    "MKL_CBWR",
    "MKL_NUM_THREADS",
    "NPY_DISABLE_CPU_FEATURES",
    "OMP_NUM_THREADS",
    "ONEDNN_MAX_CPU_ISA",
    "OPENBLAS_CORETYPE",
    "OPENBLAS_NUM_THREADS",
)


def find_profile(name: str) -> Profile:
    """Return the profile of this name.

    Raises:
        UsageError: there is none, or this machine cannot offer it.
    """
    if name not in ALL_PROFILES:
        raise UsageError.unknown("profile", name, ALL_PROFILES)
    if lack := find_lack(ALL_PROFILES[name]):
        offered = ", ".join(row.name for row in list_offered())
        raise UsageError(f"profile {name} needs {lack}; it can offer {offered}")
    return ALL_PROFILES[name]


def list_offered() -> list[Profile]:
    """Return the profiles that this machine can offer."""
    return [row for row in _ROWS if find_lack(row) is None]


def find_lack(profile: Profile) -> str | None:
    """Return what a profile needs that this machine has not, or None."""
    cores = os.cpu_count() or 1
    if profile.threads > cores:
        return f"{profile.threads} cores, and this machine has {cores}"
    if profile.environment and platform.machine() not in _X86:
        return f"an x86 processor, and this machine is {platform.machine()}"
    if profile.library == "openblas" and "openblas" not in _get_numpy_blas():
        return f"numpy with OpenBLAS, and this machine has it with {_get_numpy_blas()}"
    if profile.backend != DEFAULT:
        try:
            describe_backend(profile.backend, ORDERED)
        except DeviceError as error:
            return f"a device, and {error}"
    return None


def _get_numpy_blas() -> str:
    from numpy import show_config  # noqa: PLC0415 - lists of profiles do without

    return str(show_config(mode="dicts")["Build Dependencies"]["blas"]["name"])


def make_environment(profile: Profile) -> dict[str, str]:
    """Return the environment of a profile's process: this one's, but for what profiles set."""
    kept = {name: value for name, value in os.environ.items() if name not in _OWN}
    threads = {name: str(profile.threads) for name in _OWN if name.endswith("_NUM_THREADS")}
    return kept | threads | dict(profile.environment)
