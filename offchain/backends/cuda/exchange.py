"""Tensors exchanged with others in the same memory, by DLPack, as `torch.from_dlpack` asks for it.

A capsule holds the address of a record: where the elements are, on which device, and of which type.
Who takes it renames it, and calls the record's last function when the elements are not needed any
more. https://dmlc.github.io/dlpack says so in full.
"""

import ctypes
from math import prod
from typing import Any

import numpy as np

from moot.offchain.backends.cuda.machine import DEVICE, HOST, Machine, Tensor
from moot.offchain.errors import DeviceError, ProgramError

_DEVICES = {HOST: "the processor", DEVICE: "an NVIDIA device"}
_NAME, _USED = b"dltensor", b"used_dltensor"
_ALIGNMENT = 16

_CODES = {"<i4": (0, 32), "<i8": (0, 64), "<f4": (2, 32), "<u2": (4, 16), "|b1": (6, 8)}
"""The kind and the bits of a type; two bytes are bfloat16's."""

_TYPES = {code: np.dtype(name) for name, code in _CODES.items()}


class _Elements(ctypes.Structure):
    """Where elements are: a `DLTensor`."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device", ctypes.c_int32),
        ("number", ctypes.c_int32),
        ("rank", ctypes.c_int32),
        ("kind", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("offset", ctypes.c_uint64),
    )


class _Record(ctypes.Structure):
    """What a capsule holds: a `DLManagedTensor`."""


_End = ctypes.CFUNCTYPE(None, ctypes.POINTER(_Record))
_Record._fields_ = (("elements", _Elements), ("context", ctypes.c_void_p), ("end", _End))

_python = ctypes.pythonapi
_new, _get, _is, _rename = (
    _python.PyCapsule_New,
    _python.PyCapsule_GetPointer,
    _python.PyCapsule_IsValid,
    _python.PyCapsule_SetName,
)
_new.restype, _new.argtypes = (
    ctypes.py_object,
    (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p),
)
_get.restype, _get.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
_is.restype, _is.argtypes = ctypes.c_int, (ctypes.py_object, ctypes.c_char_p)
_rename.restype, _rename.argtypes = ctypes.c_int, (ctypes.py_object, ctypes.c_char_p)

_held: dict[int, tuple[Any, ...]] = {}
"""What records that others hold need to stay alive, by their addresses."""


def _release(record: Any) -> None:
    """Forget a record that nobody needs any more."""
    _held.pop(ctypes.addressof(record.contents), None)


_RELEASE = _End(_release)


def export(tensor: Tensor) -> Any:
    """Return a capsule of a tensor, which lives on for as long as somebody reads it.

    Whoever takes it must not write to it. A capsule that nobody takes keeps its tensor alive.
    """
    tensor.machine.wait()
    device, number = tensor.machine.place
    kind, bits = _CODES[tensor.dtype.str]
    shape = (ctypes.c_int64 * len(tensor.shape))(*tensor.shape)
    record = _Record()
    record.elements = _Elements(
        tensor.address, device, number, len(tensor.shape), kind, bits, 1, shape, None, 0
    )
    record.end = _RELEASE
    address = ctypes.addressof(record)
    _held[address] = record, shape, tensor
    return _new(address, _NAME, None)


class Lent(Tensor):
    """A tensor in memory that somebody else has lent, and gets back with its last reader."""

    def __init__(self, machine: Machine, record: Any, shape: tuple[int, ...], dtype: Any) -> None:
        self.machine, self.shape, self.dtype = machine, shape, dtype
        self.size = prod(shape) * dtype.itemsize
        self.address = (record.elements.data or 0) + record.elements.offset
        self._record = record

    def __del__(self) -> None:
        if self._record.end:
            self._record.end(ctypes.byref(self._record))


def adopt(machine: Machine, external: Any) -> Tensor:
    """Return somebody's tensor, in place; nobody may change it meanwhile.

    Args:
        machine: on whose device it is.
        external: has `__dlpack__` and `__dlpack_device__`, as tensors of torch have.

    Raises:
        DeviceError: it is on another device.
        ProgramError: it has a type that programs don't know, is not contiguous, or has no elements.
    """
    _require_place(machine, tuple(map(int, external.__dlpack_device__())))
    capsule = external.__dlpack__()
    if not _is(capsule, _NAME):
        raise ProgramError("a tensor was given whose capsule is used up; give it anew")
    record = _Record.from_address(_get(capsule, _NAME))
    elements = record.elements
    shape = tuple(elements.shape[axis] for axis in range(elements.rank))
    dtype = _TYPES.get((elements.kind, elements.bits))
    if dtype is None or elements.lanes != 1:
        raise ProgramError(
            f"a tensor of type {elements.kind} with {elements.bits} bits was given; "
            "convert it to float32, bfloat16, int64, int32 or bool"
        )
    strides = [elements.strides[axis] for axis in range(elements.rank)] if elements.strides else []
    dense = [prod(shape[axis + 1 :]) for axis in range(elements.rank)]
    is_dense = all(a == b or size == 1 for a, b, size in zip(strides, dense, shape, strict=False))
    address = (elements.data or 0) + elements.offset
    if not is_dense or not prod(shape) or address % _ALIGNMENT:
        raise ProgramError(
            "a tensor was given that is empty, not contiguous, or starts within another; "
            "give contiguous() or clone() of it"
        )
    _rename(capsule, _USED)
    return Lent(machine, record, shape, dtype)


def _require_place(machine: Machine, place: tuple[int, ...]) -> None:
    if place != machine.place:
        names = [
            f"{_DEVICES.get(kind, f'a device of kind {kind}')}, number {number}"
            for kind, number in (place, machine.place)
        ]
        raise DeviceError(
            f"a tensor was given that is on {names[0]}, and the program runs on {names[1]}; "
            "move it there first"
        )
