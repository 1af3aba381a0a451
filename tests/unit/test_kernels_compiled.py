"""Kernels: compilation on demand, a cache that may be damaged, threads, any processor."""

import importlib.util
import os
import pickle
import platform
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moot.offchain.backends.cpu import kernels
from moot.offchain.backends.cpu.kernels import reduce
from moot.offchain.backends.cpu.kernels.contraction import blocks
from moot.offchain.errors import UnsupportedMachine, UsageError
from moot.offchain.native import compiled
from moot.offchain.native.machine import (
    WIDTH_VARIABLE,
    WIDTHS_BITS,
    compute_width_bits,
    get_features,
    narrow_features,
)
from moot.offchain.native.threads import (
    MAX_THREADS,
    get_threads,
    set_threads,
    share,
)

SOURCE = """
from numba.core import types
from moot.offchain.native.compiled import kernel, subroutine, reads, writes

@subroutine
def double(x):
    return {factor} * x

@subroutine
def negate(x):
    return -x

def make(function):
    @kernel(reads(types.float32, 1), writes(types.float32, 1))
    def apply(x, out):
        for i in range(x.size):
            out[i] = function(x[i])
    return apply

apply = make(double)
apply_other = make(negate)
"""

PRINT_APPLIED = """
if __name__ == "__main__":
    import numpy as np

    out = np.empty(3, np.float32)
    apply(np.arange(3, dtype=np.float32), out)
    print(out.tolist())
"""

ROOT = str(Path(__file__).parents[2])

DIGEST_OF_EVERYTHING = """
import hashlib
import numpy as np
from moot.offchain.arithmetic.functions import Function
from moot.offchain.commitments.keccak import hash_chunks
from moot.offchain.backends.cpu.kernels import elementary, philox, reduce, scatter
from moot.offchain.backends.cpu.called_products import gemm

x = philox.uniform(1, 2, 3, 6000) * 8 - 4
a, b = x[:3000].reshape(1, 60, 50), x[3000:].reshape(1, 50, 60)
product = gemm(a, b, np.zeros((1, 60, 60), np.float32))
sums = np.zeros((7, 60), np.float32)
scatter.scatter_add_rows(np.arange(60) % 7, product[0], sums)
parts = [
    x,
    product,
    gemm(a, a.swapaxes(1, 2)[:, :, :3], product[:, :, :3]),
    reduce.fold(product[0], "add", 0),
    reduce.fold(product[0].T, "min", 1),
    sums,
    elementary.apply(Function.TANH, x),
    hash_chunks(x.view(np.uint8), 1000, 1),
]
print(hashlib.sha256(b"".join(part.tobytes() for part in parts)).hexdigest())
"""


def load(path: Path) -> ModuleType:
    """Import a file, as if for the first time."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run(module: ModuleType) -> tuple[list[float], int]:
    """The result of its kernel on three numbers, and how often that was found in the cache."""
    out = np.empty(3, np.float32)
    module.apply(np.arange(3, dtype=np.float32), out)
    return out.tolist(), sum(module.apply._machine_code.stats.cache_hits.values())


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A file with a kernel that has been compiled and cached."""
    path = tmp_path / "doubling.py"
    path.write_text(SOURCE.format(factor=2))
    assert run(load(path)) == ([0, 2, 4], 0)
    assert run(load(path)) == ([0, 2, 4], 1)
    return path


def test_importing_compiles_nothing(source: Path) -> None:
    """A kernel that is not called has no machine code, in memory or on disk."""
    module = load(source)
    assert "_machine_code" not in vars(module.apply_other)
    assert not list(source.parent.rglob("*negate*"))


def test_kernels_of_one_closure_are_told_apart(source: Path) -> None:
    """Kernels that differ in the subroutine that they close over do not share machine code."""
    module, out = load(source), np.empty(1, np.float32)
    module.apply_other(np.ones(1, np.float32), out)
    assert out.item() == -1
    assert run(module) == ([0, 2, 4], 1)


def test_python_calls_a_subroutine_as_a_function(source: Path) -> None:
    """What a kernel has compiled has nothing that Python could call: Python calls the function."""
    module = load(source)
    module.apply_other(np.ones(1, np.float32), np.empty(1, np.float32))
    assert module.negate.overloads
    assert module.negate(np.float32(1.5)) == -1.5


@pytest.mark.parametrize("pattern", ["*.nbi", "*.nbc"])
@pytest.mark.parametrize("content", [b"", b"no cache", pickle.dumps("0.1"), None])
def test_a_damaged_cache_is_replaced(source: Path, pattern: str, content: bytes | None) -> None:
    """Files that are empty, foreign, of another version or half-written cost a compilation."""
    for file in source.parent.rglob(pattern):
        whole = file.read_bytes()
        file.write_bytes(whole[: len(whole) // 2] if content is None else content)
    assert run(load(source)) == ([0, 2, 4], 0)
    assert run(load(source)) == ([0, 2, 4], 1)


def test_without_a_place_for_a_cache_kernels_work(
    source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If files are in the way of every cache directory, each process compiles for itself."""
    cache = next(source.parent.rglob("*.nbi")).parent
    for file in cache.iterdir():
        file.unlink()
    cache.rmdir()
    cache.write_bytes(b"")
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
    assert run(load(source)) == ([0, 2, 4], 0)
    assert run(load(source)) == ([0, 2, 4], 0)


def test_processes_may_fill_a_cache_at_once(tmp_path: Path) -> None:
    """Processes that compile the same kernel at the same time all work, and leave a whole cache."""
    path = tmp_path / "doubling.py"
    path.write_text(SOURCE.format(factor=2) + PRINT_APPLIED)
    processes = [
        subprocess.Popen(  # noqa: S603 - the code is above
            [sys.executable, path], stdout=subprocess.PIPE, env=os.environ | {"PYTHONPATH": ROOT}
        )
        for _ in range(2)
    ]
    outputs = [process.communicate()[0] for process in processes]
    assert outputs == [b"[0.0, 2.0, 4.0]\n"] * 2
    assert run(load(path)) == ([0, 2, 4], 1)


def test_machine_code_of_another_width_is_not_used(
    source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The width of vectors is a part of what the cache looks for."""
    monkeypatch.setattr(compiled, "VECTOR_BITS", 64)
    assert run(load(source)) == ([0, 2, 4], 0)
    monkeypatch.undo()
    assert run(load(source)) == ([0, 2, 4], 1)


def test_a_processor_without_fma_is_refused(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No kernel runs, cached or not, where fma would be emulated; the same code runs elsewhere."""
    monkeypatch.setattr(compiled, "get_features", lambda: "+avx,-fma")
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    with pytest.raises(UnsupportedMachine, match="no fused multiply-add") as caught:
        run(load(source))
    assert caught.value.architecture == "x86_64"
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    assert run(load(source))[0] == [0, 2, 4]


@pytest.mark.parametrize(
    ("features", "bits"), [("+avx512f,+fma", 512), ("+avx2,-avx512f", 256), ("-avx2", 128)]
)
def test_vectors_are_as_wide_as_the_processor_allows(features: str, bits: int) -> None:
    """Unless the setting says otherwise, whatever the processor."""
    assert compute_width_bits(None, features) == bits
    assert compute_width_bits("256", features) == 256


@pytest.mark.parametrize("setting", ["", "64", "512 ", "wide"])
def test_an_unknown_width_is_refused(setting: str) -> None:
    """The error names the variable, what it is and what it may be."""
    with pytest.raises(UsageError, match=f"{WIDTH_VARIABLE} is {setting!r}; set it to one of 512"):
        compute_width_bits(setting, "+fma")


def test_narrow_code_does_without_what_came_with_wider_vectors() -> None:
    """Nothing of AVX-512 is left below 512 bits, and everything else stays."""
    features = "+avx2,+avx512f,-avx512fp16,+avx512vl,+fma"
    assert narrow_features(features, 256) == "+avx2,-avx512f,-avx512fp16,-avx512vl,+fma"
    assert narrow_features(features, 512) == features


def test_an_edited_kernel_is_compiled_again(source: Path) -> None:
    """The cache does not outlive the source that it was made from."""
    source.write_text(SOURCE.format(factor=13))
    assert run(load(source)) == ([0, 13, 26], 0)


def test_a_kernel_is_made_of_all_files_of_its_room(tmp_path: Path) -> None:
    """A subroutine of another file of a backend's kernels, or of the machinery, may be in it."""
    room = Path(kernels.__file__).parent
    assert compiled._find_room(blocks.multiply_blocks._function) == room
    assert compiled._find_room(reduce._fold._function) == room
    assert compiled._find_room(compute_width_bits) == Path(compiled.__file__).parent
    (tmp_path / "a.py").write_text("a = 1")
    before = compiled._source_hash(tmp_path)
    compiled._source_hash.cache_clear()
    (tmp_path / "a.py").write_text("a = 2")
    assert compiled._source_hash(tmp_path) != before


@pytest.fixture
def threads() -> Iterator[None]:
    """Put the number of threads back afterwards."""
    before = get_threads()
    yield
    set_threads(before)


@pytest.mark.usefixtures("threads")
@settings(deadline=None)
@given(st.integers(1, 4), st.integers(0, 200), st.integers(1, 50))
def test_ranges_partition_the_items(count: int, items: int, grain: int) -> None:
    """Each item is in one range, and ranges begin at multiples of the grain."""
    set_threads(count)
    ranges: list[tuple[int, int]] = []
    share(lambda first, stop: ranges.append((first, stop)), items, grain)
    ranges.sort()
    assert [item for first, stop in ranges for item in range(first, stop)] == list(range(items))
    assert all(first % grain == 0 for first, _ in ranges)


@pytest.mark.usefixtures("threads")
def test_shared_work_may_share_its_own_work() -> None:
    """Work within work is done by the thread that asks for it; no thread waits for itself."""
    set_threads(2)
    begun, done = [], []

    def outer(first: int, _: int) -> None:
        begun.append(first)
        asker = threading.get_ident()
        share(lambda *_: done.append(threading.get_ident() == asker), 100, 1)

    share(outer, 8, 1)
    assert len(done) == len(begun) > 1
    assert all(done)


@pytest.mark.usefixtures("threads")
def test_errors_of_shared_work_are_raised() -> None:
    """What one thread raises, the caller sees."""
    set_threads(2)

    def fail(first: int, _: int) -> None:
        if first:
            raise ArithmeticError

    with pytest.raises(ArithmeticError):
        share(fail, 100, 1)


@pytest.mark.usefixtures("threads")
def test_an_error_of_a_helper_is_raised_and_does_not_end_it() -> None:
    """What fails on another thread fails on the one that asks, and that thread works again."""
    set_threads(2)
    asker = threading.get_ident()
    is_helping = threading.Event()

    def wait_or_fail(*_: int) -> None:
        if threading.get_ident() == asker:
            assert is_helping.wait(60)
        else:
            is_helping.set()
            raise FloatingPointError

    for _ in range(3):
        is_helping.clear()
        with pytest.raises(FloatingPointError):
            share(wait_or_fail, 100, 1)


@pytest.mark.usefixtures("threads")
def test_work_is_shared_from_several_threads_at_once() -> None:
    """Whoever finds no idle helper does its work alone, and all of it is done."""
    set_threads(2)
    done: list[int] = []

    def ask() -> None:
        for _ in range(50):
            share(lambda first, stop: done.extend(range(first, stop)), 20, 1)

    askers = [threading.Thread(target=ask) for _ in range(4)]
    for asker in askers:
        asker.start()
    for asker in askers:
        asker.join()
    assert sorted(done) == sorted(list(range(20)) * 200)


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="the system has no such setting")
@pytest.mark.usefixtures("threads")
def test_helpers_keep_off_the_core_of_the_one_who_asks() -> None:
    """A helper that is woken may use every core but that of the one who wakes it."""
    cores = os.sched_getaffinity(0)
    if len(cores) < 2:
        pytest.skip("there is one core")
    set_threads(2)
    asker = threading.get_ident()
    found: list[set[int]] = []
    is_helping = threading.Event()

    def look(*_: int) -> None:
        if threading.get_ident() == asker:
            assert is_helping.wait(60)
        else:
            found.append(os.sched_getaffinity(0))
            is_helping.set()

    share(lambda *_: None, 8, 1)  # threads are born with the cores of the one that starts them
    for core in sorted(cores)[:2]:
        is_helping.clear()
        time.sleep(0.05)  # until it sleeps
        os.sched_setaffinity(0, {core})
        try:
            share(look, 8, 1)
        finally:
            os.sched_setaffinity(0, cores)
        assert found[-1] == cores - {core}


def test_numbers_of_threads_that_make_no_sense_are_refused() -> None:
    """A number of threads below 1 or above the most is refused, and changes nothing."""
    before = get_threads()
    with pytest.raises(ValueError, match="at least one"):
        set_threads(0)
    with pytest.raises(ValueError, match=f"at most {MAX_THREADS} threads, not {MAX_THREADS + 1}"):
        set_threads(MAX_THREADS + 1)
    assert get_threads() == before


@pytest.mark.parametrize(
    "widths",
    [
        pytest.param(WIDTHS_BITS, marks=pytest.mark.slow),
        pytest.param(
            (compute_width_bits(None, get_features()), min(WIDTHS_BITS)), marks=pytest.mark.slow
        ),
    ],
    ids=["all", "usual and least"],
)
def test_processors_agree(widths: Sequence[int]) -> None:
    """Code for vectors of any width, and for processors with no wider ones, gives the same bits."""
    digests = [
        subprocess.run(  # noqa: S603 - the code is above
            [sys.executable, "-c", DIGEST_OF_EVERYTHING],
            check=True,
            capture_output=True,
            env=os.environ | {WIDTH_VARIABLE: str(bits)},
        ).stdout
        for bits in widths
    ]
    assert len(digests[0]) == 65
    assert len(set(digests)) == 1
