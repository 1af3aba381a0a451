"""Machine code of LLVM modules that we generate ourselves, kept on disk as plain object code.

Compiling takes tens of milliseconds, loading half of one. An object is found by the hash of all
that it follows from: the module's text, the processor, its features and the version of LLVM. It is
run, so that the cache's directory has to be as trustworthy as the source itself
(`offchain/cache.py`).
"""

import ctypes
import hashlib
from collections.abc import Callable
from functools import cache
from threading import Lock

from llvmlite import binding, ir

from moot.offchain.cache import Cache
from moot.offchain.native.machine import get_features

Entry = Callable[..., None]
"""A function in machine code; calling it releases the interpreter lock."""

_QUICK, _THOROUGH = 0, 3
"""Levels of LLVM's optimizer."""

_objects = Cache("kernels", b"moot object 1\n")

_turn = Lock()
_loaded: list[binding.ResourceTracker] = []
"""The owners of the machine code, which lives as long as the process."""


def load(module: ir.Module, name: str, *parameters: type, is_brief: bool = False) -> Entry:
    """Return a function of a module as machine code for this processor.

    Args:
        module: the module, which refers to no variable outside.
        name: the function's name; it returns nothing.
        parameters: the ctypes of its parameters.
        is_brief: whether it runs for less time than it takes to optimize it.
    """
    address = load_address(module, name, is_brief=is_brief)
    return ctypes.CFUNCTYPE(None, *parameters)(address)


def load_address(module: ir.Module, name: str, *, is_brief: bool = False) -> int:
    """Return the address of a function of a module, as machine code for this processor."""
    (address,) = load_addresses(str(module), name, is_brief=is_brief)
    return address


def load_addresses(text: str, *names: str, is_brief: bool = False) -> list[int]:
    """Return the addresses of functions of a module, given as text in LLVM's language."""
    level = _QUICK if is_brief else _THOROUGH
    origin = _hash_origin(text, level)
    code = _objects.read(origin)
    if code is None:
        code = _compile(text, level)
        _objects.write(origin, code)
    library = binding.JITLibraryBuilder().add_object_img(code).add_current_process()
    for name in names:
        library.export_symbol(name)
    with _turn:
        loaded = library.link(_get_linker(), str(len(_loaded)))
        _loaded.append(loaded)
    return [int(loaded[name]) for name in names]


@cache
def _get_linker() -> binding.LLJIT:
    """Return what loads code and its constants into one piece of memory.

    Code reaches 2 GB. LLVM's older loaders map the two by themselves, and end the process where the
    system has put them further apart.
    """
    return binding.create_lljit_compiler(_make_target(_THOROUGH), use_jit_link=True)


def get_entry_address(entry: Entry) -> int:
    """Return the address of a function in machine code."""
    return ctypes.cast(entry, ctypes.c_void_p).value or 0  # type: ignore[arg-type]  # it is a pointer


def _make_target(level: int) -> binding.TargetMachine:
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    return binding.Target.from_default_triple().create_target_machine(
        cpu=binding.get_host_cpu_name(),
        features=get_features(),
        opt=level,
        reloc="pic",
        codemodel="small",
        jit=True,
    )


def _compile(text: str, level: int) -> bytes:
    target = _make_target(level)
    module = binding.parse_assembly(text)
    module.triple = target.triple
    module.data_layout = str(target.target_data)
    module.verify()
    if level == _THOROUGH:
        options = binding.create_pipeline_tuning_options(speed_level=level)
        options.loop_vectorization = options.slp_vectorization = options.loop_unrolling = False
        builder = binding.create_pass_builder(target, options)
        builder.getModulePassManager().run(module, builder)
    code: bytes = target.emit_object(module)
    return code


def _hash_origin(text: str, level: int) -> str:
    version = ".".join(map(str, binding.llvm_version_info))
    origin = f"{version} {level}\n{binding.get_host_cpu_name()}\n{get_features()}\n{text}"
    return hashlib.sha256(origin.encode()).hexdigest()
