"""The largest size of processes."""

import resource
import sys

_UNIT = 1 if sys.platform == "darwin" else 1024
"""Bytes in a unit of `ru_maxrss`."""


def measure_peak() -> float:
    """Return the largest size of this process so far, in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _UNIT / 2**20
