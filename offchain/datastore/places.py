"""The places where objects lie: a folder of this machine, an HTTP server, whatever fsspec knows."""

from collections.abc import Iterable, Iterator
from threading import Lock
from typing import BinaryIO, Protocol

import fsspec
from fsspec.utils import get_protocol

from moot.offchain.datastore.names import KINDS, OBJECT_NAME
from moot.offchain.errors import NotInStore, StoreError, StoreUnavailable, UsageError

Part = bytes | memoryview
"""A piece of an object's bytes."""


class Stream(Protocol):
    """The bytes of an object from some place on, as they come.

    Attributes:
        left: how many there still are, as the place says.
    """

    left: int

    def read_into(self, view: memoryview) -> int:
        """Fill some of a view; return how many bytes, 0 at the end."""

    def close(self) -> None:
        """End it; in the middle, if that is so."""


class Place(Protocol):
    """Where objects lie, by their names; all that comes from it may be another's.

    Attributes:
        url: the address, for people.
    """

    url: str

    def open(self, name: str, start: int = 0) -> Stream:
        """Open an object at a place; `NotInStore`, or `StoreUnavailable`."""

    def put(self, name: str, parts: Iterable[Part]) -> None:
        """Keep an object, which appears whole or not at all."""

    def get_size(self, name: str) -> int | None:
        """Return an object's size in bytes, None when there is none."""

    def list(self) -> Iterator[tuple[str, int]]:
        """Yield the names and the sizes of all objects."""


class FileStream:
    """A stream of an open file."""

    def __init__(self, file: BinaryIO, left: int) -> None:
        self._file = file
        self.left = left

    def read_into(self, view: memoryview) -> int:
        """Fill some of a view; return how many bytes, 0 at the end."""
        count: int = self._file.readinto(view)  # type: ignore[attr-defined]  # every file of bytes has it
        self.left -= count
        return count

    def close(self) -> None:
        """Close the file."""
        self._file.close()


_WRITING = Lock()


class Elsewhere:
    """A place that fsspec knows: `s3://bucket/folder`, `memory://folder`, and others.

    Objects are written in a transaction, so that they appear whole.

    Args:
        url: the address.
        options: what fsspec's client of it is told.
    """

    def __init__(self, url: str, **options: object) -> None:
        self.url = url
        refuse_secrets(url)
        try:
            # What others put meanwhile has to be seen.
            self._files, self._root = fsspec.core.url_to_fs(
                url, use_listings_cache=False, **options
            )
        except (ImportError, ValueError) as error:
            lines = " ".join(str(error).split())
            raise UsageError(
                f"cannot open the store {url}: {lines}; `pip install moot[s3]` brings s3, other "
                "protocols need the package that fsspec names"
            ) from error

    def open(self, name: str, start: int = 0) -> Stream:
        """Open an object at a place."""
        path = f"{self._root}/{name}"
        try:
            size = self._files.size(path)
            file = self._files.open(path, "rb")
            file.seek(start)
        except FileNotFoundError as error:
            raise NotInStore(self.url, name, "there is none") from error
        except Exception as error:  # each of fsspec's places fails in its own way
            raise StoreUnavailable(self.url, name, flatten(error)) from error
        return _Guarded(FileStream(file, size - start), self.url, name)

    def put(self, name: str, parts: Iterable[Part]) -> None:
        """Keep an object."""
        path = f"{self._root}/{name}"
        try:
            self._files.makedirs(path.rpartition("/")[0], exist_ok=True)
            # Threads share the transaction of a place, and places of one kind may share theirs.
            with _WRITING, self._files.transaction, self._files.open(path, "wb") as file:
                for part in parts:
                    file.write(part)
        except Exception as error:
            raise StoreError(
                f"cannot write {name} at {self.url}: {flatten(error)}; make it writable"
            ) from error

    def get_size(self, name: str) -> int | None:
        """Return an object's size in bytes, None when there is none."""
        path = f"{self._root}/{name}"
        try:
            return int(self._files.size(path)) if self._files.exists(path) else None
        except Exception as error:
            raise StoreUnavailable(self.url, name, flatten(error)) from error

    def list(self) -> Iterator[tuple[str, int]]:
        """Yield the names and the sizes of all objects."""
        for kind in KINDS:
            try:
                found = self._files.ls(f"{self._root}/{kind}", detail=True)
            except FileNotFoundError:
                continue
            except Exception as error:
                raise StoreUnavailable(self.url, kind, flatten(error)) from error
            for each in found:
                if OBJECT_NAME.fullmatch(name := f"{kind}/{each['name'].rpartition('/')[2]}"):
                    yield name, int(each["size"])


class _Guarded:
    """A stream whose failures are those of its place."""

    def __init__(self, stream: FileStream, url: str, name: str) -> None:
        self._stream, self._url, self._name = stream, url, name
        self.left = stream.left

    def read_into(self, view: memoryview) -> int:
        """Fill some of a view; return how many bytes, 0 at the end."""
        try:
            count = self._stream.read_into(view)
        except Exception as error:
            raise StoreUnavailable(self._url, self._name, flatten(error)) from error
        self.left -= count
        return count

    def close(self) -> None:
        """Close the file."""
        self._stream.close()


def refuse_secrets(url: str) -> None:
    """Refuse an address that has a password in it, without repeating it."""
    protocol, _, rest = url.partition("://")
    if "@" in rest.partition("/")[0]:
        raise UsageError(
            f"an address of {protocol} has no user and no password in it; give these by the "
            "environment, as its client reads them"
        )


def is_local(url: str) -> bool:
    """Whether an address is that of a folder of this machine."""
    return get_protocol(url) in {"file", "local"}


def find_folder(url: str) -> str | None:
    """Return the folder of this machine that an address names, None if it is elsewhere."""
    if not is_local(url):
        return None
    return str(fsspec.core.url_to_fs(url)[1]) if "://" in url else url


def flatten(error: Exception) -> str:
    """Return an error of others as one line."""
    return " ".join(f"{type(error).__name__} {error}".split())[:300]
