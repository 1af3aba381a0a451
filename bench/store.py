"""The data store: a state of 1.5 GB fetched while it is verified, beside a plain fetch and a copy.

Each turn is a process of its own, so that its peak of memory is its own, and ends when all is on
the disk. The sizes are those of GPT-2 with AdamW's two moments.
"""

import multiprocessing
import os
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from moot.offchain.commitments.tensors import SUBTREE_BYTES, Array, hash_bytes
from moot.offchain.datastore.objects import TENSORS, name_object
from moot.offchain.datastore.store import open_store
from moot.offchain.native.memory import get_peak_bytes

_WIDTH, _LAYERS = 768, 12
_TINY_WIDTH, _TINY_LAYERS = 8, 1
_COPIES = 3
"""A parameter and its two moments."""

_PIECE_BYTES = 1 << 20
_SERVE = "from moot.command import main; main()"

Fetch = Callable[[str, str, list[str], str], None]
"""Brings objects from (folder, address, names) into a folder."""


def measure_store(folder: Path | None, repeats: int, *, is_tiny: bool) -> dict[str, Any]:
    """Return what a plain copy, a plain fetch over HTTP and a verified fetch take.

    Args:
        folder: where the files go; the system's temporary folder if it is not given.
        repeats: turns, in which the three alternate.
        is_tiny: sizes that say nothing.

    Returns:
        bytes, and for each way: gb_per_s (the median), peak_bytes of its process and those of them
        that it had before it began; ratios of the verified fetch to the others.
    """
    with tempfile.TemporaryDirectory(dir=folder, prefix="moot-") as name:
        place = Path(name)
        store = open_store(str(place / "origin"))
        root = store.put_state(_make_state(is_tiny=is_tiny))
        names = [name_object(TENSORS, tensor) for tensor in store.fetch_state(root)]
        size = sum(store.disk.get_size(name) or 0 for name in names)
        ways: dict[str, Fetch] = {"copy": _copy, "fetch": _fetch, "verified": _fetch_verified}
        found: dict[str, list[dict[str, float]]] = {way: [] for way in ways}
        with _serving(place / "origin") as url:
            for _ in range(repeats):
                for way, function in ways.items():
                    argument = root.hex() if way == "verified" else ""
                    task = (str(place), url, [argument] if argument else names)
                    found[way].append(_run(function, *task, str(place / way)))
                    shutil.rmtree(place / way)
                    os.sync()
    return _summarise(found, size)


def _summarise(found: dict[str, list[dict[str, float]]], size: int) -> dict[str, Any]:
    speeds = {way: size / median(it["seconds"] for it in of) / 1e9 for way, of in found.items()}
    rows = [
        {
            "way": way,
            "gb_per_s": speeds[way],
            "peak_bytes": max(it["peak_bytes"] for it in of),
            "before_bytes": max(it["before_bytes"] for it in of),
        }
        for way, of in found.items()
    ]
    verified = speeds["verified"]
    ratios = {f"to_{way}": verified / speeds[way] for way in ("copy", "fetch")}
    return {"bytes": size, "rows": rows, **ratios}


def _make_state(*, is_tiny: bool) -> list[Array]:
    width, layers = (_TINY_WIDTH, _TINY_LAYERS) if is_tiny else (_WIDTH, _LAYERS)
    block = [(width, 3 * width), (width, width), (width, 4 * width), (4 * width, width)]
    vectors = [(3 * width,), (width,), (4 * width,), *[(width,)] * 5]
    shapes = [(50257 if not is_tiny else 101, width), (1024, width), *layers * (block + vectors)]
    draw = np.random.default_rng(0)
    return [draw.standard_normal(shape, np.float32) for shape in _COPIES * shapes]


@contextmanager
def _serving(folder: Path) -> Iterator[str]:
    """Serve a folder as `moot store serve` does, in a process of its own."""
    command = [sys.executable, "-c", _SERVE, "store", "serve", str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:  # noqa: S603 - this interpreter
        assert process.stdout
        try:
            yield process.stdout.readline().split()[-1]
        finally:
            process.terminate()


def _run(function: Fetch, folder: str, url: str, names: list[str], target: str) -> dict[str, float]:
    """Run a way in a new process, and return its seconds and its memory."""
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_work, args=(sender, function, folder, url, names, target))
    process.start()
    sender.close()
    found: dict[str, float] = receiver.recv()
    process.join()
    return found


def _work(
    sender: Any, function: Fetch, folder: str, url: str, names: list[str], target: str
) -> None:
    (Path(target) / TENSORS).mkdir(parents=True)
    hash_bytes(np.zeros(SUBTREE_BYTES, np.uint8))  # a provider has its kernels loaded
    before = get_peak_bytes()
    started = time.perf_counter()
    function(folder, url, names, target)
    seconds = time.perf_counter() - started
    sender.send({"seconds": seconds, "peak_bytes": get_peak_bytes(), "before_bytes": before})


def _copy(folder: str, _url: str, names: list[str], target: str) -> None:
    for name in names:
        with (
            (Path(folder) / "origin" / name).open("rb") as source,
            (Path(target) / name).open("wb") as file,
        ):
            shutil.copyfileobj(source, file, _PIECE_BYTES)
    _settle(names, target)


def _fetch(_folder: str, url: str, names: list[str], target: str) -> None:
    for name in names:
        with (
            urllib.request.urlopen(f"{url}/{name}") as source,  # noqa: S310 - our own server's
            (Path(target) / name).open("wb") as file,
        ):
            shutil.copyfileobj(source, file, _PIECE_BYTES)
    _settle(names, target)


def _settle(names: list[str], target: str) -> None:
    """Wait until files are on the disk, as the verified fetch does."""
    for name in names:
        descriptor = os.open(Path(target) / name, os.O_RDONLY)
        os.fsync(descriptor)
        os.close(descriptor)


def _fetch_verified(_folder: str, url: str, names: list[str], target: str) -> None:
    open_store(url, target).fetch_state(bytes.fromhex(names[0]))
