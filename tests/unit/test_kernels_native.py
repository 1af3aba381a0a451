"""The disk cache of generated machine code: a damaged file is replaced by freshly compiled code."""

import ctypes
import subprocess
import sys
from pathlib import Path

import pytest
from llvmlite import ir

from moot.offchain.native import native

WORD = ir.IntType(64)


def make_module(number: int) -> ir.Module:
    """Return a module whose function `write` stores a number at an address."""
    module = ir.Module()
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), [WORD]), "write")
    builder = ir.IRBuilder(function.append_basic_block())
    builder.store(WORD(number), builder.inttoptr(function.args[0], WORD.as_pointer()))
    builder.ret_void()
    return module


def run(number: int, *, is_brief: bool = False) -> int:
    """Return what the function stores."""
    place, module = ctypes.c_int64(0), make_module(number)
    native.load(module, "write", ctypes.c_int64, is_brief=is_brief)(ctypes.addressof(place))
    return place.value


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Keep machine code in a directory of the test's own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "moot" / "kernels"


def refuse(_: str, __: int) -> bytes:
    """Stand in for the compiler where nothing is to be compiled."""
    raise AssertionError


def test_what_was_compiled_is_loaded(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A module is compiled once; another one, even on the same disk, is compiled too."""
    assert run(7) == 7
    assert len(list(cache.iterdir())) == 1
    with monkeypatch.context() as patch:
        patch.setattr(native, "_compile", refuse)
        assert run(7) == 7
        with pytest.raises(AssertionError):
            run(8)
    assert run(8) == 8
    assert len(list(cache.iterdir())) == 2


def test_code_that_is_not_optimized_is_kept_by_itself(cache: Path) -> None:
    """A module that was compiled in a hurry is not what one finds who wants it fast."""
    assert run(7, is_brief=True) == run(7) == run(7, is_brief=True) == 7
    assert len(list(cache.iterdir())) == 2


def test_another_processor_is_another_origin(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Machine code for other features of the processor is not found."""
    assert run(7) == 7
    features = native.get_features()
    monkeypatch.setattr(native, "get_features", lambda: features.replace("+avx512f", "-avx512f"))
    assert run(7) == 7
    changed = native.get_features() != features
    assert len(list(cache.iterdir())) == 1 + changed


@pytest.mark.parametrize("damage", ["cut", "flip", "empty", "longer"])
def test_damaged_machine_code_is_made_again(cache: Path, damage: str) -> None:
    """A file that is cut, changed, empty or too long is replaced, and never run."""
    assert run(9) == 9
    (file,) = cache.iterdir()
    whole = file.read_bytes()
    half = len(whole) // 2
    damaged = {
        "cut": whole[:half],
        "flip": whole[:half] + bytes([whole[half] ^ 1]) + whole[half + 1 :],
        "empty": b"",
        "longer": whole + b"\0",
    }
    file.write_bytes(damaged[damage])
    assert run(9) == 9
    assert file.read_bytes() == whole


def test_a_cache_that_cannot_be_written_costs_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where there can be no directory, machine code is compiled and used all the same."""
    (tmp_path / "moot").write_bytes(b"")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert run(10) == 10


_FAR = """
import ctypes
from moot.offchain.native import native

TEXT = (
    "@c = private unnamed_addr constant [3 x double] [double 1.5, double 2.5, double 3.5]\\n"
    "define void @NAME(ptr %to, i64 %place) {\\n"
    "  %from = getelementptr [3 x double], ptr @c, i64 0, i64 %place\\n"
    "  %value = load double, ptr %from\\n"
    "  store double %value, ptr %to\\n"
    "  ret void\\n"
    "}\\n"
)
native.load_addresses(TEXT.replace("NAME", "first"), "first")  # so that all that it needs is there
libc = ctypes.CDLL(None)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]


def reserve(size):
    return libc.mmap(None, size, 0, 0x4022, -1, 0)  # private, anonymous, no memory behind it


size, page = 1 << 33, 4096
base = reserve(size)
while reserve(page) > base:
    pass
libc.munmap(base + size - page, page)
(address,) = native.load_addresses(TEXT.replace("NAME", "second"), "second")
found = ctypes.c_double()
ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)(address)(ctypes.addressof(found), 1)
print(found.value)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the numbers of mmap are Linux's")
def test_code_and_constants_lie_side_by_side() -> None:
    """Where there is room for one page here and for the next 8 GB away, code reaches both."""
    done = subprocess.run(  # noqa: S603 - our own interpreter
        [sys.executable, "-c", _FAR], capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.returncode) == ("2.5\n", 0), done.stderr
