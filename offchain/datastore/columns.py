"""The tensors of a dataset, of which some rows are read at a time: in memory, or in a file.

A file is never mapped: a disk that fails is then an error, and not the end of the process.
"""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from pathlib import Path
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from moot.offchain.arithmetic.functions import DType
from moot.offchain.bounded_json import decode
from moot.offchain.commitments.tensors import (
    NUMPY_TYPES,
    SUBTREE_BYTES,
    Array,
    TensorCommitment,
    commit_tensor,
    dtype_of,
    encode_elements,
    encode_header,
    hash_bytes,
    is_canonical,
)
from moot.offchain.commitments.tree import Digest
from moot.offchain.datastore.disk import Disk, unreadable
from moot.offchain.datastore.fetch import take
from moot.offchain.datastore.objects import TENSORS, TensorShape, name_object, read_prefix
from moot.offchain.datastore.orders import Rows
from moot.offchain.errors import CommitmentError, StoreError, UsageError
from moot.offchain.programs.limits import MAX_RANK

_TYPES = {
    "F32": DType.FLOAT32,
    "I64": DType.INT64,
    "I32": DType.INT32,
    "BOOL": DType.BOOL,
    "BF16": DType.BFLOAT16,
    "I8": DType.INT8,
}
"""The types of safetensors that tensors of programs have."""
_LENGTH_BYTES = 8
MAX_HEADER_BYTES = 100_000_000
"""The longest header of a safetensors file, as its library has it."""


class Column(Protocol):
    """A tensor whose first dimension counts rows."""

    @property
    def shape(self) -> TensorShape:
        """Its type and shape."""

    @property
    def commitment(self) -> TensorCommitment:
        """The commitment to it."""

    def read(self, rows: Rows) -> Array:
        """Return some of its rows, (rows, ...)."""

    def list_pieces(self) -> Iterator[NDArray[np.uint8]]:
        """Yield its canonical bytes, SUBTREE_BYTES at a time."""


@dataclass(frozen=True)
class ArrayColumn:
    """A tensor in memory."""

    array: Array

    @property
    def shape(self) -> TensorShape:
        """See Column."""
        return TensorShape(dtype_of(self.array), self.array.shape)

    @cached_property
    def commitment(self) -> TensorCommitment:
        """See Column."""
        return commit_tensor(self.array)

    def read(self, rows: Rows) -> Array:
        """See Column."""
        return self.array[rows]

    def list_pieces(self) -> Iterator[NDArray[np.uint8]]:
        """See Column."""
        flat = np.ascontiguousarray(self.array).reshape(-1)
        step = SUBTREE_BYTES // flat.itemsize
        for first in range(0, flat.size, step):
            yield encode_elements(flat[first : first + step])


@dataclass(frozen=True)
class FileColumn:
    """A tensor in a file.

    Attributes:
        path: the file.
        shape: its type and shape.
        offset: the place of its first byte.
    """

    path: Path
    shape: TensorShape
    offset: int

    @cached_property
    def commitment(self) -> TensorCommitment:
        """See Column; the file is read through."""
        layers = [hash_bytes(piece) for piece in self.list_pieces()]
        header = encode_header(self.shape.dtype, self.shape.shape)
        return TensorCommitment(header, np.concatenate(layers or [np.empty((0, 32), np.uint8)]))

    def read(self, rows: Rows) -> Array:
        """See Column.

        Raises:
            StoreError: the disk fails, or the file has become shorter.
        """
        rest = self.shape.shape[1:]
        array = np.empty((len(rows), *rest), NUMPY_TYPES[self.shape.dtype])
        width = prod(rest) * self.shape.dtype.width
        view = memoryview(array.reshape(-1).view(np.uint8))  # type: ignore[arg-type]  # numpy's typing hides the buffer
        with _Opened(self.path) as file:
            for place, row in enumerate(rows.tolist()):
                file.read(view[place * width : (place + 1) * width], self.offset + row * width)
        return array

    def list_pieces(self) -> Iterator[NDArray[np.uint8]]:
        """See Column.

        Raises:
            StoreError: the disk fails, or the file has become shorter.
            CommitmentError: a boolean is neither 0 nor 1.
        """
        dtype = self.shape.dtype
        with _Opened(self.path) as file:
            for first in range(0, self.shape.size_bytes, SUBTREE_BYTES):
                piece = np.empty(min(SUBTREE_BYTES, self.shape.size_bytes - first), np.uint8)
                file.read(memoryview(piece), self.offset + first)  # type: ignore[arg-type]  # likewise
                if dtype is DType.BOOL and not is_canonical(dtype, piece):
                    raise CommitmentError(f"{self.path} has a boolean that is neither 0 nor 1")
                yield encode_elements(piece.view(NUMPY_TYPES[dtype]))


@dataclass(frozen=True)
class StoredColumn(FileColumn):
    """A tensor in a store's folder, whose commitment was read and verified with its header."""

    known: TensorCommitment

    @property
    def commitment(self) -> TensorCommitment:
        """See Column."""
        return self.known


class _Opened:
    """A file that is read at places; a context manager."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __enter__(self) -> Self:
        try:
            self._descriptor = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            raise unreadable(self._path, error) from error
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._descriptor)

    def read(self, view: memoryview, offset: int) -> None:
        """Fill a view from a place of the file on."""
        while view:
            try:
                count = os.preadv(self._descriptor, [view], offset)
            except OSError as error:
                raise unreadable(self._path, error) from error
            if not count:
                raise StoreError(f"{self._path} ends early; delete it and fetch it again")
            view, offset = view[count:], offset + count


def open_stored(disk: Disk, root: Digest, shape: TensorShape) -> StoredColumn:
    """Return a tensor of a store's folder.

    Raises:
        NotInStore: there is none.
        CommitmentError: it is of another type or shape, or what comes before its elements is not
            that of the root.
    """
    name = name_object(TENSORS, root)
    stream = disk.open(name)
    try:
        size, header = stream.left, encode_header(shape.dtype, shape.shape)
        _, commitment = read_prefix(lambda count: take(stream, count), root, size, header)
    except EOFError as error:
        raise CommitmentError(str(error)) from error
    finally:
        stream.close()
    if size != shape.file_bytes:
        raise CommitmentError(f"it has {size:,} bytes, not {shape.file_bytes:,}")
    return StoredColumn(disk.path / name, shape, shape.offset_bytes, commitment)


def open_safetensors(path: Path) -> dict[str, Column]:
    """Return the tensors of a safetensors file, in the order of their names.

    Raises:
        UsageError: it is no such file, or has a tensor of a type that programs do not have.
    """
    try:
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            length = int.from_bytes(file.read(_LENGTH_BYTES), "little")
            if length > min(MAX_HEADER_BYTES, size - _LENGTH_BYTES):
                raise UsageError(f"{path} is no safetensors file: its header is too long")
            text = file.read(length)
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from error
    first = _LENGTH_BYTES + length
    try:
        entries = decode(text, _make_mapping)
        _check_notes(entries.pop("__metadata__", {}))
        found = {
            name: _read_entry(path, name, entries[name], first, size) for name in sorted(entries)
        }
        _check_layout(found.values(), first, size)
        return dict(found)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        problem = " ".join(f"{error}".split())[:300]
        raise UsageError(f"{path} is no safetensors file: {problem}") from error


def _check_notes(notes: Mapping[str, Any]) -> None:
    if not all(isinstance(it, str) for it in notes.values()):
        raise ValueError("its metadata are no texts")


def _check_layout(columns: Iterable[FileColumn], first: int, size: int) -> None:
    """Refuse tensors that share bytes, and bytes that are no tensor's."""
    at = first
    for column in sorted(columns, key=lambda it: (it.offset, it.shape.size_bytes)):
        if column.offset != at:
            problem = "share bytes" if column.offset < at else "leave bytes between them"
            raise ValueError(f"two of its tensors {problem}, at byte {min(at, column.offset):,}")
        at += column.shape.size_bytes
    if at != size:
        raise ValueError(f"{size - at:,} bytes come after its tensors")


def _read_entry(
    path: Path, name: str, entry: Mapping[str, Any], first: int, size: int
) -> FileColumn:
    if entry.keys() != {"dtype", "shape", "data_offsets"}:
        raise ValueError(f"{name!r:.99} has more or less than a type, a shape and offsets")
    dtype, dimensions = entry["dtype"], tuple(entry["shape"])
    if dtype not in _TYPES:
        known = ", ".join(_TYPES)
        problem = f"{name!r:.99} in {path} is of type {dtype!r:.40}"
        raise UsageError(f"{problem}; convert it to one of {known}")
    begin, end = _read_numbers(entry["data_offsets"])
    shape = TensorShape(_TYPES[dtype], _read_numbers(dimensions))
    if len(shape.shape) > MAX_RANK or end - begin != shape.size_bytes or first + end > size:
        raise ValueError(f"{name!r:.99} does not have the bytes of its shape")
    return FileColumn(path, shape, first + begin)


def _read_numbers(values: Sequence[Any]) -> tuple[int, ...]:
    if any(type(it) is not int or it < 0 for it in values):
        raise ValueError(f"{values!r:.99} are no sizes")
    return tuple(values)


def _make_mapping(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name in its header is there twice")
    return found
