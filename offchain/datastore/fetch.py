"""Fetching: objects of another place come into a folder, verified while they come.

A tensor's header and upper nodes are verified first; then every 256 KiB on its own, before it is
written. Several threads take turns at the stream, and each hashes and writes what it has read while
the next one reads: the bytes are still in its core's cache. What has come is in a partial file, and
counts after any interruption as far as its bytes are right, which is found by hashing them again.
"""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from threading import Lock

import numpy as np

from offchain.commitments.tensors import (
    SUBTREE_BYTES,
    TensorCommitment,
    hash_bytes,
    is_canonical,
)
from offchain.commitments.tree import Digest
from offchain.datastore.disk import Disk, Partial
from offchain.datastore.objects import TENSORS, TensorShape, name_object, read_prefix
from offchain.datastore.places import Place, Stream
from offchain.errors import CommitmentError, StoreUnavailable, WrongContent
from offchain.native.threads import get_threads

_SUBTREES = 4
_PIECE_BYTES = _SUBTREES * SUBTREE_BYTES
"""Bytes that a thread takes at a time: 1 MiB, which a core's cache holds."""

_MOST_THREADS = 4
ATTEMPTS = 4
"""How often a broken connection is made again without a piece more having come."""

_FIRST_PAUSE_S = 0.1


@dataclass(frozen=True)
class _Plan:
    """A tensor's verified header and upper nodes."""

    name: str
    url: str
    shape: TensorShape
    commitment: TensorCommitment

    def verify(self, data: memoryview, first: int) -> int:
        """Return how many bytes are right, in whole subtrees, from the subtree `first` on."""
        array = np.frombuffer(data, np.uint8)
        for place in range(-(-array.size // SUBTREE_BYTES)):
            part = array[place * SUBTREE_BYTES : (place + 1) * SUBTREE_BYTES]
            is_right = (hash_bytes(part)[0] == self.commitment.layer[first + place]).all()
            if not (is_right and is_canonical(self.shape.dtype, part)):
                return place * SUBTREE_BYTES
        return array.size


def fetch_tensor(
    place: Place, disk: Disk, root: Digest, most_bytes: int, header: bytes | None = None
) -> None:
    """Bring a tensor into a folder, unless it is there already.

    Args:
        place: where it is.
        disk: where it is to be.
        root: its root.
        most_bytes: the largest file that is wanted.
        header: its header, where it is known.

    Raises:
        NotInStore: the place has none.
        WrongContent: the place has something else.
        StoreUnavailable: the place stops or is too slow; what has come is kept.
        StoreError: the disk fails.
    """
    fetch = _Fetch(place, name_object(TENSORS, root), root, most_bytes, header)
    with disk.claim(fetch.name) as partial:
        if partial is None:
            return
        try:
            fetch.complete(partial)
        except BaseException:
            if not partial.size:
                partial.drop()
            raise
        partial.finish()


@dataclass(frozen=True)
class _Fetch:
    """A tensor that is wanted, as `fetch_tensor` describes it."""

    place: Place
    name: str
    root: Digest
    most_bytes: int
    header: bytes | None

    def complete(self, partial: Partial) -> None:
        """Go on with a partial file until the tensor is whole, however often the place breaks."""
        failures, best = 0, -1
        while True:
            plan, done = self._resume(partial)
            if partial.size > best:
                failures, best = 0, partial.size
            try:
                self._advance(partial, plan, done)
            except StoreUnavailable:
                failures += 1
                if failures == ATTEMPTS:
                    raise
                time.sleep(_FIRST_PAUSE_S * 2 ** (failures - 1))
            else:
                return

    def _resume(self, partial: Partial) -> tuple[_Plan | None, int]:
        """Return the plan in a partial file and how many bytes of elements are right in it.

        The rest is cut off.
        """
        stream = partial.open()
        try:
            found = read_prefix(
                lambda count: take(stream, count), self.root, self.most_bytes, self.header
            )
            plan = _Plan(self.name, self.place.url, *found)
            done = _count_right(plan, stream)
        except (CommitmentError, EOFError):
            partial.cut(0)
            return None, 0
        finally:
            stream.close()
        partial.cut(plan.shape.offset_bytes + done)
        return plan, done

    def _advance(self, partial: Partial, plan: _Plan | None, done: int) -> None:
        """Read on, to the end."""
        if plan is not None and done == plan.shape.size_bytes:
            return
        stream = self.place.open(self.name, 0 if plan is None else plan.shape.offset_bytes + done)
        try:
            if plan is None:
                plan = self._begin(stream, partial)
            left = plan.shape.size_bytes - done
            if stream.left != left:
                problem = f"{stream.left:,} bytes are offered where {left:,} are left to come"
                raise WrongContent(self.place.url, self.name, problem)
            _Pipeline(plan, stream, partial, done).run()
        finally:
            stream.close()

    def _begin(self, stream: Stream, partial: Partial) -> _Plan:
        """Read and verify what comes before the elements, and keep it."""
        pieces: list[bytes] = []

        def read(count: int) -> bytes:
            pieces.append(take(stream, count))
            return pieces[-1]

        try:
            found = read_prefix(read, self.root, self.most_bytes, self.header)
        except (CommitmentError, EOFError) as error:
            raise WrongContent(self.place.url, self.name, str(error)) from error
        partial.write(b"".join(pieces), 0)
        return _Plan(self.name, self.place.url, *found)


def _count_right(plan: _Plan, stream: Stream) -> int:
    """Return how many bytes of elements are right in a row, in whole subtrees or to the end."""
    buffer, done = memoryview(bytearray(_PIECE_BYTES)), 0
    while done < plan.shape.size_bytes:
        view = buffer[: plan.shape.size_bytes - done]
        size = _fill(stream, view)
        if size < len(view):
            size -= size % SUBTREE_BYTES
        right = plan.verify(view[:size], done // SUBTREE_BYTES)
        done += right
        if right < len(view):
            break
    return done


def verify_tensor(place: Place, root: Digest, size: int) -> None:
    """Read a tensor of a place, said to have so many bytes, and verify it (`WrongContent`)."""
    name = name_object(TENSORS, root)
    stream = place.open(name)
    try:
        found = read_prefix(lambda count: take(stream, count), root, size)
        plan = _Plan(name, place.url, *found)
        right = _count_right(plan, stream)
    except (CommitmentError, EOFError) as error:
        raise WrongContent(place.url, name, str(error)) from error
    finally:
        stream.close()
    if right < plan.shape.size_bytes or stream.left:
        problem = f"its bytes from {right:,} on are not those of the root"
        raise WrongContent(place.url, name, problem)


class _Pipeline:
    """Threads that read, verify and write pieces of a tensor."""

    def __init__(self, plan: _Plan, stream: Stream, partial: Partial, done: int) -> None:
        self._plan, self._stream, self._partial = plan, stream, partial
        self._next = done
        self._is_over = False
        self._turn = Lock()

    def run(self) -> None:
        """Read to the end, or to the first thing that is wrong."""
        pieces = -(-(self._plan.shape.size_bytes - self._next) // _PIECE_BYTES)
        count = min(max(1, pieces), max(2, get_threads()), _MOST_THREADS)
        if count == 1:
            self._work()
            return
        with ThreadPoolExecutor(count) as pool:
            try:
                for worker in [pool.submit(self._work) for _ in range(count)]:
                    worker.result()
            finally:
                self._is_over = True

    def _work(self) -> None:
        try:
            self._pass_on()
        except BaseException:
            self._is_over = True
            raise

    def _pass_on(self) -> None:
        plan, buffer = self._plan, memoryview(bytearray(_PIECE_BYTES))
        while True:
            with self._turn:
                at = self._next
                view = buffer[: plan.shape.size_bytes - at]
                if self._is_over or not view:
                    return
                self._next += len(view)
                if _fill(self._stream, view) < len(view):
                    raise StoreUnavailable(plan.url, plan.name, f"it stops after {at:,} bytes")
            right = plan.verify(view, at // SUBTREE_BYTES)
            if right:
                self._partial.write(view[:right], plan.shape.offset_bytes + at)
            if right < len(view):
                problem = f"its bytes from {at + right:,} on are not those of the root"
                raise WrongContent(plan.url, plan.name, problem)


def fetch_small(
    place: Place, name: str, most_bytes: int, check: Callable[[bytes], object]
) -> bytes:
    """Return an object that is small, after its check.

    Args:
        place: where it is.
        name: its name.
        most_bytes: the largest that it may be.
        check: raises `CommitmentError` where the bytes are not those of the root.

    Raises:
        NotInStore, WrongContent, StoreUnavailable: as `fetch_tensor`.
    """
    failures = 0
    while True:
        try:
            data = _read_all(place, name, most_bytes)
        except StoreUnavailable:
            failures += 1
            if failures == ATTEMPTS:
                raise
            time.sleep(_FIRST_PAUSE_S * 2 ** (failures - 1))
        else:
            break
    try:
        check(data)
    except CommitmentError as error:
        raise WrongContent(place.url, name, str(error)) from error
    return data


def _read_all(place: Place, name: str, most_bytes: int) -> bytes:
    stream = place.open(name)
    try:
        if stream.left > most_bytes:
            problem = f"{stream.left:,} bytes are offered, above {most_bytes:,}"
            raise WrongContent(place.url, name, problem)
        return take(stream, stream.left)
    except EOFError as error:
        raise StoreUnavailable(place.url, name, str(error)) from error
    finally:
        stream.close()


def _fill(stream: Stream, view: memoryview) -> int:
    """Fill a view as far as the stream goes, and return how far."""
    done = 0
    while done < len(view) and (count := stream.read_into(view[done:])):
        done += count
    return done


def take(stream: Stream, count: int) -> bytes:
    """Return the next bytes of a stream; `EOFError` when there are fewer."""
    if count > stream.left:
        raise EOFError(f"it ends {count - stream.left:,} bytes early")
    data = bytearray(count)
    if _fill(stream, memoryview(data)) < count:
        raise EOFError("it ends early")
    return bytes(data)
