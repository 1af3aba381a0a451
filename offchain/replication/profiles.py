"""Profiles: settings under which stock torch computes other bits than usual, on one machine.

Each is a process of its own with settings that torch and its BLAS read when they start. What they
change is what unlike hardware changes: the number of threads among which sums are shared, the width
of vectors and whether products are fused into sums, the library that multiplies matrices, and into
how many parts the terms of a product are split.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field

from offchain.errors import UsageError


@dataclass(frozen=True, slots=True)
class Profile:
    """A profile.

    Attributes:
        name: what it is called.
        like: what it stands for, in a few words.
        threads: torch's threads.
        environment: variables of the process, which torch and its BLAS read.
        parts: into how many parts the terms of each product of matrices are split, whose sums are
            then added up; the last part comes first.
    """

    name: str
    like: str
    threads: int = 1
    environment: Mapping[str, str] = field(default_factory=dict)
    parts: int = 1


_ROWS = (
    Profile("native", "this processor, one thread"),
    Profile("threads", "this processor, two threads", threads=2),
    Profile(
        "baseline",
        "a processor without AVX2: narrow vectors, and no fused products in torch's own kernels",
        environment={"ATEN_CPU_CAPABILITY": "default"},
    ),
    Profile(
        "compatible",
        "any processor, by MKL's portable kernels",
        environment={"MKL_CBWR": "COMPATIBLE"},
    ),
    Profile(
        "old",
        "an old processor: narrow vectors in torch and in MKL",
        environment={"ATEN_CPU_CAPABILITY": "default", "MKL_CBWR": "COMPATIBLE"},
    ),
    Profile("split", "an accelerator that splits sums in two, and adds the last first", parts=2),
    Profile("split-four", "an accelerator that splits sums in four", parts=4),
)

PROFILES: Mapping[str, Profile] = {row.name: row for row in _ROWS}
"""Every profile by its name."""

_OWN = ("ATEN_CPU_CAPABILITY", "MKL_CBWR", "MKL_NUM_THREADS", "OMP_NUM_THREADS")


def find_profile(name: str) -> Profile:
    """Return the profile of this name.

    Raises:
        UsageError: there is none, or this machine has not enough cores for it.
    """
    if name not in PROFILES:
        raise UsageError.unknown("profile", name, PROFILES)
    profile, cores = PROFILES[name], os.cpu_count() or 1
    if profile.threads > cores:
        offered = ", ".join(row.name for row in _ROWS if row.threads <= cores)
        raise UsageError(
            f"profile {name} needs {profile.threads} cores, and this machine has {cores}; "
            f"it can offer {offered}"
        )
    return profile


def make_environment(profile: Profile) -> dict[str, str]:
    """Return the environment of a profile's process: this one's, but for what profiles set."""
    kept = {name: value for name, value in os.environ.items() if name not in _OWN}
    threads = {name: str(profile.threads) for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS")}
    return kept | threads | dict(profile.environment)
