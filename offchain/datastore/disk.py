"""A folder of objects on this machine.

    <kind>/<root>   objects (`objects.py`)
    partial/        objects that are being fetched: what has come of them, verified or not
    aside/          objects that are being written here
    lock            held shared by everybody who has the folder open
    private         there if the folder is nobody else's: no server of ours serves it

Several processes may use one folder. An object is written aside and gets its name when it is whole;
two who write the same one write the same bytes, and either may be the last. Of two who fetch the
same one the second waits for the first, by a lock on the partial file that dies with its process.
"""

import errno
import fcntl
import os
import shutil
import weakref
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from moot.offchain.datastore.direct import Pace, write_all, write_directly
from moot.offchain.datastore.names import KINDS, OBJECT_NAME, PRIVATE
from moot.offchain.datastore.places import FileStream, Part, Stream
from moot.offchain.errors import NotInStore, StoreError
from moot.offchain.files import flush_file, make_folder, replacing

ASIDE, PARTIAL = "aside", "partial"
_PIECE_BYTES = 1 << 20
RESERVED_BYTES, RESERVED_PART = 1 << 28, 50
"""So much of a disk is left free, or one part in so many of a small one."""
_UNLINKED = frozenset({errno.EXDEV, errno.EPERM, errno.EMLINK, errno.ENOTSUP})
"""Why a file can't have a further name: the disk has no such names, or another one begins here."""
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


class Disk:
    """A folder of objects, which is made when it is missing.

    Every method raises `StoreError` when the disk fails.

    Args:
        path: the folder.
        others: folders in it, beside those of objects, of which nothing is shared.
        is_durable: whether what is kept has to outlive a failure of power, so that who puts it
            waits for the disk.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        others: Iterable[str] = (),
        *,
        is_durable: bool = True,
    ) -> None:
        self.path = Path(path)
        self.url = str(path)
        self.is_durable = is_durable
        self._pace = Pace()
        with reporting(self.path):
            make_folder(self.path)
            missing = [it for it in (*KINDS, PARTIAL, ASIDE, *others) if not self._has(it)]
            for folder in missing:
                (self.path / folder).mkdir(exist_ok=True)
            if missing and is_durable:
                flush_file(self.path)
            self._hold()

    def _has(self, folder: str) -> bool:
        return (self.path / folder).is_dir()

    def make_private(self) -> None:
        """See to it that no server of ours serves the folder."""
        with reporting(self.path):
            (self.path / PRIVATE).touch()

    @property
    def aside(self) -> Path:
        """The folder of what is being written."""
        return self.path / ASIDE

    def open(self, name: str, start: int = 0) -> Stream:
        """Open an object at a place."""
        path = self.path / name
        try:
            file = path.open("rb", buffering=0)
        except FileNotFoundError as error:
            raise NotInStore(self.url, name, "there is none") from error
        except OSError as error:
            raise unreadable(path, error) from error
        file.seek(start)
        return FileStream(file, os.fstat(file.fileno()).st_size - start)

    def put(self, name: str, parts: Iterable[Part]) -> None:
        """Keep an object, which is on the disk before it gets its name, if it is to last."""
        path = self.path / name
        with (
            reporting(path),
            replacing(path, self.aside) as draft,
            draft.open("xb", buffering=0) as file,
        ):
            if self.is_durable or not self._pace.is_slow:
                write_directly(file.fileno(), parts, self._pace)
            else:
                for part in parts:
                    write_all(file.fileno(), part)
            if self.is_durable:
                flush(file.fileno())

    def share(self, other: "Disk", names: Iterable[str]) -> None:
        """Have objects of another folder here, too, by a further name or else by a copy.

        They are on the disk there; when this is over, they are here.
        """
        missing = [
            name
            for name in names
            if (size := self.get_size(name)) is None or size != other.get_size(name)
        ]
        for name in missing:
            with reporting(self.path / name):
                try:
                    with replacing(self.path / name, self.aside) as draft:
                        draft.hardlink_to(other.path / name)
                except OSError as error:
                    if error.errno not in _UNLINKED:
                        raise
                    self.put(name, _list_pieces(other.open(name)))
        for kind in sorted({name.partition("/")[0] for name in missing}):
            self.settle(kind)

    def get_size(self, name: str) -> int | None:
        """Return an object's size in bytes, None when there is none."""
        path = self.path / name
        try:
            return path.stat().st_size
        except FileNotFoundError:
            return None
        except OSError as error:
            raise unreadable(path, error) from error

    def list(self) -> Iterator[tuple[str, int]]:
        """Yield the names and the sizes of all objects."""
        for kind in KINDS:
            for path in sorted((self.path / kind).iterdir()):
                if OBJECT_NAME.fullmatch(name := f"{kind}/{path.name}"):
                    yield name, path.stat().st_size

    def settle(self, kind: str, names: Iterable[str] = ()) -> None:
        """Wait until the names of a kind are on the disk, and the content of some, if they last."""
        if not self.is_durable:
            return
        with reporting(self.path / kind):
            for name in (*names, kind):
                flush_file(self.path / name)

    def remove(self, name: str) -> None:
        """Remove an object that is damaged."""
        with reporting(self.path / name):
            (self.path / name).unlink(missing_ok=True)

    def require_room(self, needed_bytes: int, what: str) -> None:
        """Refuse, before anything is written, what takes more bytes than are free."""
        free = self.get_room()
        if needed_bytes > free:
            raise StoreError(
                f"{what} take {needed_bytes / 1e9:.2f} GB, and {free / 1e9:.2f} GB are free at "
                f"{self.path}; free some, choose another directory, or keep fewer"
            )

    def get_room(self) -> int:
        """Return the bytes that are free for objects.

        Some are left to notes and journals, without which nobody can go on: what others have us
        fetch does not fill a disk.
        """
        with reporting(self.path):
            usage = shutil.disk_usage(self.path)
        return max(0, usage.free - min(RESERVED_BYTES, usage.total // RESERVED_PART))

    @contextmanager
    def claim(self, name: str) -> "Iterator[Partial | None]":
        """Hold the partial file of an object that nobody else then fetches; None if it is here.

        The partial file stays when the block fails: whoever claims it next goes on from it.
        """
        path = self.path / PARTIAL / name.replace("/", "-")
        with reporting(path):
            partial = _lock(path, self.path / name)
        if partial is None:
            yield None
            return
        try:
            yield partial
        finally:
            os.close(partial.descriptor)

    def _hold(self) -> None:
        """Take the lock, and clear away what was being written by whoever was killed."""
        lock = os.open(self.path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        weakref.finalize(self, os.close, lock)
        with suppress(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            for leftover in (self.aside).iterdir():
                if leftover.is_dir():
                    shutil.rmtree(leftover)
                else:
                    leftover.unlink()
        fcntl.flock(lock, fcntl.LOCK_SH)


class Partial:
    """What has come of an object that is being fetched, in a file that this process alone has."""

    def __init__(self, path: Path, target: Path, descriptor: int) -> None:
        self._path, self._target, self.descriptor = path, target, descriptor

    @property
    def size(self) -> int:
        """The bytes of the file."""
        return os.fstat(self.descriptor).st_size

    def open(self) -> FileStream:
        """Open what is there, from its beginning."""
        file = os.fdopen(os.dup(self.descriptor), "rb", buffering=0)
        file.seek(0)
        return FileStream(file, self.size)

    def read(self, count: int, offset: int) -> bytes:
        """Return bytes at a place; what was never written is zero."""
        try:
            return os.pread(self.descriptor, count, offset).ljust(count, b"\0")
        except OSError as error:
            raise unreadable(self._path, error) from error

    def write(self, data: Part, offset: int) -> None:
        """Write bytes at a place."""
        with reporting(self._path):
            write_all(self.descriptor, data, offset)

    def cut(self, size: int) -> None:
        """Drop what is behind a place."""
        with reporting(self._path):
            os.ftruncate(self.descriptor, size)

    def finish(self) -> None:
        """Give the whole object its name; it need not be on the disk yet (`Disk.settle`)."""
        with reporting(self._target):
            self._path.replace(self._target)

    def drop(self) -> None:
        """Remove the file: nothing in it is of use."""
        self._path.unlink(missing_ok=True)


def _list_pieces(stream: Stream) -> Iterator[bytes]:
    """Yield all that a stream has."""
    buffer = memoryview(bytearray(_PIECE_BYTES))
    try:
        while count := stream.read_into(buffer):
            yield bytes(buffer[:count])
    finally:
        stream.close()


def _lock(path: Path, target: Path) -> Partial | None:
    """Return the partial file, once this process alone has it; None once the target is there."""
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o666)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            is_there = target.exists()
            if is_there or _is_same(descriptor, path):
                if not is_there:
                    return Partial(path, target, descriptor)
                if _is_same(descriptor, path):
                    path.unlink(missing_ok=True)
                os.close(descriptor)
                return None
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)  # whoever had it has finished it or dropped it


def _is_same(descriptor: int, path: Path) -> bool:
    """Whether an open file still has its name."""
    with suppress(FileNotFoundError):
        return os.path.samestat(os.fstat(descriptor), path.stat())
    return False


def flush(descriptor: int) -> None:
    """Wait until a file is on the disk, and let the system use its memory again.

    Nobody reads a state but in a dispute: the next one is written in the same memory.
    """
    os.fsync(descriptor)
    if hasattr(os, "posix_fadvise"):
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)


@contextmanager
def reporting(path: Path) -> Iterator[None]:
    """Turn an error of the operating system about a file into one line."""
    try:
        yield
    except OSError as error:
        if error.errno in _FULL:
            reason = os.strerror(error.errno)
            problem = f"there is no room for {path} ({reason}); free some and resume"
        else:
            problem = f"cannot write {path}: {error}; make it writable and resume"
        raise StoreError(problem) from error


def unreadable(path: Path, error: OSError) -> StoreError:
    """Return the error for a file that the operating system does not let us read."""
    return StoreError(f"cannot read {path}: {error.strerror}; make it readable and resume")
