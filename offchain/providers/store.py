"""The store: tensors and states on disk, each in a file that is named by its root.

    tensors/<root>.safetensors   one tensor, named "tensor", in its canonical bytes
    states/<root>.json           the roots of a state's tensors, in the order of the layout
    notes/<name>.json            what a provider wants to know after it was killed
    aside/                       files that are still being written
    lock                         held shared by every open store

A file appears under its name only when all of it is on the disk, and a state only after its
tensors, so that whoever finds a state finds a whole one. Reading verifies content against root.
"""

import errno
import fcntl
import json
import os
import re
import shutil
import tempfile
import weakref
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from offchain.commitments.tensors import (
    NUMPY_TYPES,
    Array,
    compute_state_root,
    compute_tensor_root,
    encode_elements,
)
from offchain.commitments.tree import Digest
from offchain.errors import StoreError

_TENSOR = "tensor"
_FOLDERS = ("tensors", "states", "notes", "aside")
_THREADS = 2
"""The threads that write or read a state: one waits for the disk, the other is in memory."""

_NOTE_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]*")
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


class Store:
    """A provider's store in one directory, which is made when it is missing.

    Several processes and threads may use one directory at once. Every method raises `StoreError`
    when the disk fails or when its content is not what its name says.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        with _reporting(self.path):
            for folder in _FOLDERS:
                (self.path / folder).mkdir(parents=True, exist_ok=True)
            self._hold()

    def put_tensor(self, array: Array, root: Digest | None = None) -> Digest:
        """Keep a tensor, unless it is there already, and return its root.

        Args:
            array: float32, int64, int32 or bool; every NaN is kept as the canonical one.
            root: the tensor's root, where it is known already.
        """
        root = self._put_tensor(array, root)
        self._settle("tensors")
        return root

    def get_tensor(self, root: Digest) -> Array:
        """Return the tensor of this root."""
        return self._check(self._load(root), root)

    def put_state(self, arrays: Sequence[Array], roots: Sequence[Digest] | None = None) -> Digest:
        """Keep a state, given its tensors in the order of the layout, and return its root.

        Args:
            arrays: at least one tensor.
            roots: the roots of all the tensors, where they are known already.
        """
        roots = [*map(compute_tensor_root, arrays)] if roots is None else roots
        tensors = dict(zip(roots, arrays, strict=True))
        with ThreadPoolExecutor(_THREADS) as writers:
            list(writers.map(self._put_tensor, tensors.values(), tensors))
        self._settle("tensors")
        state_root = compute_state_root(roots)
        manifest = {"tensors": [root.hex() for root in roots]}
        self._put_json(self._state_path(state_root), manifest)
        return state_root

    def get_state(self, root: Digest) -> list[Array]:
        """Return the tensors of the state of this root, in the order of the layout."""
        roots = self._get_manifest(root)
        with ThreadPoolExecutor(_THREADS) as readers:
            return [*map(self._check, readers.map(self._load, roots), roots)]

    def require_room(self, states: int, needed_bytes: int) -> None:
        """Refuse, before anything is run, to keep so many states that take so many bytes."""
        with _reporting(self.path):
            free = shutil.disk_usage(self.path).free
        if needed_bytes > free:
            raise StoreError(
                f"{states} checkpoints take {needed_bytes / 1e9:.2f} GB, and {free / 1e9:.2f} GB "
                f"are free at {self.path}; free some, choose another directory, or keep fewer"
            )

    def has_state(self, root: Digest) -> bool:
        """Whether the state of this root is here, with all its tensors."""
        if not _get_size(self._state_path(root)):
            return False
        return all(_get_size(self._tensor_path(tensor)) for tensor in self._get_manifest(root))

    def put_json(self, name: str, value: Any) -> None:
        """Keep a note, instead of the one of this name if there is one.

        Args:
            name: letters, digits, dots, dashes and underscores.
            value: anything that JSON can express; no NaN and no infinity.
        """
        self._put_json(self._note_path(name), value)

    def get_json(self, name: str) -> Any:
        """Return the note of this name, or None when there is none."""
        path = self._note_path(name)
        return _load_json(path) if _get_size(path) else None

    def _hold(self) -> None:
        """Take the lock, and clear away what was being written by whoever was killed."""
        lock = os.open(self.path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        weakref.finalize(self, os.close, lock)
        with suppress(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            for leftover in (self.path / "aside").iterdir():
                shutil.rmtree(leftover)
        fcntl.flock(lock, fcntl.LOCK_SH)

    def _tensor_path(self, root: Digest) -> Path:
        return self.path / "tensors" / f"{root.hex()}.safetensors"

    def _state_path(self, root: Digest) -> Path:
        return self.path / "states" / f"{root.hex()}.json"

    def _note_path(self, name: str) -> Path:
        if not _NOTE_NAME.fullmatch(name):
            raise StoreError(f"{name!r} cannot name a note; use letters, digits and . - _")
        return self.path / "notes" / f"{name}.json"

    def _put_tensor(self, array: Array, root: Digest | None) -> Digest:
        root = compute_tensor_root(array) if root is None else root
        path = self._tensor_path(root)
        if _get_size(path) > array.nbytes:
            return root
        canonical = encode_elements(array).view(array.dtype).reshape(array.shape)
        self._write(path, lambda aside: save_file({_TENSOR: canonical}, aside))
        return root

    def _load(self, root: Digest) -> Array:
        """Return what the file of a tensor holds, whatever that is."""
        path = self._tensor_path(root)
        try:
            array: Array = load_file(path)[_TENSOR]
        except (KeyError, SafetensorError) as error:
            raise _damaged(path) from error
        except OSError as error:
            raise _unreadable(path, error) from error
        return array

    def _check(self, array: Array, root: Digest) -> Array:
        """Return a tensor that has the root under which it was found."""
        is_known = array.dtype in NUMPY_TYPES.values()
        if not is_known or compute_tensor_root(array) != root:
            raise _damaged(self._tensor_path(root))
        return array

    def _put_json(self, path: Path, value: Any) -> None:
        text = json.dumps(value, allow_nan=False, indent=1) + "\n"
        self._write(path, lambda aside: aside.write_text(text, encoding="utf-8"))
        self._settle(path.parent.name)

    def _get_manifest(self, root: Digest) -> list[Digest]:
        path = self._state_path(root)
        content = _load_json(path)
        try:
            roots = [bytes.fromhex(text) for text in content["tensors"]]
            damaged = compute_state_root(roots) != root
        except (IndexError, KeyError, TypeError, ValueError):
            damaged = True
        if damaged:
            raise _damaged(path)
        return roots

    def _write(self, path: Path, write: Callable[[Path], object]) -> None:
        """Let `write` fill a file aside, and give it its name when it is on the disk."""
        with (
            _reporting(path),
            tempfile.TemporaryDirectory(dir=self.path / "aside", ignore_cleanup_errors=True) as own,
        ):
            aside = Path(own) / path.name
            write(aside)
            _flush(aside, os.O_RDWR)
            aside.replace(path)

    def _settle(self, folder: str) -> None:
        """Wait until the names in a folder are on the disk."""
        with _reporting(self.path / folder):
            _flush(self.path / folder, os.O_RDONLY)


def _flush(path: Path, flags: int) -> None:
    descriptor = os.open(path, flags)
    try:
        os.fsync(descriptor)
        if hasattr(os, "posix_fadvise"):
            # Nobody reads a state but in a dispute: the next one is written in the same memory.
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(descriptor)


def _get_size(path: Path) -> int:
    """Return a file's size in bytes, 0 when there is none."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
    except OSError as error:
        raise _unreadable(path, error) from error


def _load_json(path: Path) -> Any:
    try:
        return json.loads(path.read_bytes())
    except ValueError as error:
        raise _damaged(path) from error
    except OSError as error:
        raise _unreadable(path, error) from error


@contextmanager
def _reporting(path: Path) -> Iterator[None]:
    """Turn an error of the operating system about a file into one line."""
    try:
        yield
    except (OSError, SafetensorError) as error:
        code = _get_errno(error)
        if code in _FULL:
            problem = f"there is no room for {path} ({os.strerror(code)}); free some and resume"
        else:
            problem = f"cannot write {path}: {error}; make it writable and resume"
        raise StoreError(problem) from error


def _get_errno(error: Exception) -> int:
    """Return the number of the system's error, which safetensors gives in its text alone."""
    if isinstance(error, OSError):
        return error.errno or 0
    match = re.search(r"os error (\d+)", str(error))
    return int(match[1]) if match else 0


def _damaged(path: Path) -> StoreError:
    return StoreError(f"{path} is damaged; delete it and resume, so that it is made again")


def _unreadable(path: Path, error: OSError) -> StoreError:
    if isinstance(error, FileNotFoundError):
        return StoreError(f"{path} is missing; compute it again or copy it from another store")
    return StoreError(f"cannot read {path}: {error.strerror}; make it readable and resume")
