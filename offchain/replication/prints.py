"""The fingerprint of a profile: digests of what its binary64 makes of the same operands.

Two profiles of which all three digests are equal compute alike, whatever their names say: their
pair would compare a run with itself. `python -m moot.offchain.replication.prints PROFILE` prints
one, from a process with the profile's own environment.
"""

import json
import subprocess
import sys
from collections.abc import Mapping
from hashlib import sha256

import numpy as np

from moot.offchain.arithmetic.functions import Function
from moot.offchain.arithmetic.logged.band import CHUNK
from moot.offchain.arithmetic.logged.binary64 import FUNCTIONS
from moot.offchain.commitments.tensors import Array
from moot.offchain.native.binary64.base import Engine
from moot.offchain.replication.profiles import Profile, find_profile, make_environment
from moot.offchain.replication.sums import ProfileEngine

_ROWS, _TERMS, _VALUES = 96, 512, 4_096


def make_print(engine: Engine) -> Mapping[str, str]:
    """Return the digests of an engine's products, sums and functions, of drawn operands."""
    random = np.random.default_rng(0)
    a, b = (random.standard_normal((_ROWS, _TERMS)) for _ in "ab")
    values = np.abs(random.standard_normal(_VALUES)) + 2.0**-20
    found = [
        engine.evaluate(f, *((values, values) if f is Function.POW else (values,)))
        for f in FUNCTIONS
    ]
    terms = np.ascontiguousarray(a[:, :CHUNK])
    return {
        "products": _digest(engine.multiply(a, np.ascontiguousarray(b.T))),
        "sums": _digest(engine.add_up(terms)),
        "functions": _digest(np.concatenate(found)),
    }


def _digest(array: Array) -> str:
    return sha256(np.asarray(array, np.float64).tobytes()).hexdigest()[:16]


def list_differing(one: Profile, other: Profile) -> list[str]:
    """Return in what two profiles compute otherwise in binary64; nothing where they are alike."""
    prints = [find_print(profile) for profile in (one, other)]
    return [name for name in prints[0] if prints[0][name] != prints[1][name]]


def find_print(profile: Profile) -> Mapping[str, str]:
    """Return the fingerprint of a profile, from a process of its own."""
    done = subprocess.run(  # noqa: S603 - our own code
        [sys.executable, "-m", __spec__.name, profile.name],
        capture_output=True,
        text=True,
        check=True,
        env=make_environment(profile),
    )
    found: Mapping[str, str] = json.loads(done.stdout)
    return found


if __name__ == "__main__":
    sys.stdout.write(json.dumps(make_print(ProfileEngine(find_profile(sys.argv[1])))) + "\n")
