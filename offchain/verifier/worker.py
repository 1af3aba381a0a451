"""The process of the bounded verifier: `python -I -m moot.offchain.verifier.worker FOLDER …`.

After the folder come the backend and the limits. It locks itself up first and imports what computes
afterwards.
"""

import sys
from pathlib import Path

from moot.offchain.verifier.sandbox import Limits, enter

OUT_OF_MEMORY = 86
"""Exit status of a worker that reached its limit on memory; it may be unable to write an answer."""


def main(folder: str, backend: str, memory_bytes: str, cpu_seconds: str, wall_seconds: str) -> None:
    """Answer the question in a folder by a backend, within these limits."""
    enter(Limits(int(memory_bytes), int(cpu_seconds), float(wall_seconds)))
    try:
        from moot.offchain.verifier.recompute import work  # noqa: PLC0415 - only once it is locked up

        work(Path(folder), backend)
    except MemoryError:
        sys.exit(OUT_OF_MEMORY)


if __name__ == "__main__":
    main(*sys.argv[1:])
