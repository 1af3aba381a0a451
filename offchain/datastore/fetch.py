"""Fetching: objects of another place come into a folder, verified while they come.

A tensor's header and upper nodes are verified first; then every 256 KiB on its own, before it is
written. Several threads take turns at the stream, and each hashes and writes what it has read while
the next one reads: the bytes are still in its core's cache. What has come is in a partial file, and
counts after any interruption as far as its bytes are right, which is found by hashing them again.
"""

import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Condition, Event, Lock, get_ident

import numpy as np

from moot.offchain.commitments.tensors import (
    SUBTREE_BYTES,
    TensorCommitment,
    hash_bytes,
    is_canonical,
)
from moot.offchain.commitments.tree import Digest
from moot.offchain.datastore.disk import Disk, Partial
from moot.offchain.datastore.objects import TENSORS, TensorShape, name_object, read_prefix
from moot.offchain.datastore.places import Place, Stream
from moot.offchain.errors import CommitmentError, StoreUnavailable, WrongContent
from moot.offchain.native.threads import get_threads

_SUBTREES = 4
_PIECE_BYTES = _SUBTREES * SUBTREE_BYTES
"""Bytes that a thread takes at a time: 1 MiB, which a core's cache holds."""

_LEAST_THREADS, _MOST_THREADS = 2, 4
"""While a thread waits for the beginning of a tensor, another one goes on."""

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


def fetch_tensors(place: Place, disk: Disk, wanted: Mapping[Digest, bytes | None]) -> None:
    """Bring tensors into a folder, unless they are there already, several at once.

    Args:
        place: where they are.
        disk: where they are to be.
        wanted: their roots, and their headers, where these are known.

    Raises:
        NotInStore: the place has one of them not.
        WrongContent: the place has something else.
        StoreUnavailable: the place stops or is too slow; what has come is kept.
        StoreError: the disk fails.
    """
    crew = _Crew(place, disk, wanted)
    count = max(_LEAST_THREADS, min(get_threads(), _MOST_THREADS))
    with ThreadPoolExecutor(count) as pool:
        workers = [pool.submit(crew.work) for _ in range(count)]
        try:
            wait(workers)
        finally:
            crew.stop.set()
    if crew.error is not None:
        raise crew.error


class _Crew:
    """The threads that fetch tensors: each takes one, and when all are taken, helps the others."""

    def __init__(self, place: Place, disk: Disk, wanted: Mapping[Digest, bytes | None]) -> None:
        self._place, self._disk, self._wanted = place, disk, deque(wanted.items())
        self._running: list[_Pipeline] = []
        self._fetching = 0
        self._change = Condition()
        self.stop = Event()
        self.error: BaseException | None = None
        """What went wrong first; others give up because of it."""

    def work(self) -> None:
        """Fetch, and help, until all is there or something is wrong."""
        try:
            while (fetch := self._take()) is not None:
                try:
                    fetch.run()
                finally:
                    with self._change:
                        self._fetching -= 1
                        self._change.notify_all()
            while (pipeline := self._find_work()) is not None:
                pipeline.help()
        except BaseException as error:  # noqa: BLE001 - handed on
            with self._change:
                self.error = self.error or error
                self.stop.set()

    @contextmanager
    def showing(self, pipeline: "_Pipeline") -> Iterator[None]:
        """Let others help with a pipeline meanwhile."""
        with self._change:
            self._running.append(pipeline)
            self._change.notify_all()
        try:
            yield
        finally:
            with self._change:
                self._running.remove(pipeline)

    def _take(self) -> "_Fetch | None":
        """Return the next tensor to fetch."""
        with self._change:
            if not self._wanted or self.stop.is_set():
                return None
            root, header = self._wanted.popleft()
            self._fetching += 1
            return _Fetch(self._place, self._disk, root, header, self)

    def _find_work(self) -> "_Pipeline | None":
        """Wait for a pipeline that has pieces left; None once nothing is fetched any more."""
        with self._change:
            while True:
                for pipeline in self._running:
                    if pipeline.has_work:
                        return pipeline
                if not self._fetching:
                    return None
                self._change.wait()


@dataclass(frozen=True)
class _Fetch:
    """A tensor that is wanted, as `fetch_tensors` describes it.

    Attributes:
        crew: the threads that fetch it.
    """

    place: Place
    disk: Disk
    root: Digest
    header: bytes | None
    crew: _Crew

    @property
    def name(self) -> str:
        """The name of the object."""
        return name_object(TENSORS, self.root)

    def run(self) -> None:
        """Have the tensor in the folder."""
        with self.disk.claim(self.name) as partial:
            if partial is None:
                return
            try:
                size = self.complete(partial)
            except BaseException:
                if not partial.size:
                    partial.drop()
                raise
            partial.cut(size)
            partial.finish()

    def complete(self, partial: Partial) -> int:
        """Go on with a partial file until the tensor is whole, however often the place breaks.

        Return the size of the whole file.
        """
        failures, best = 0, -1
        while True:
            plan, done = self._resume(partial)
            come = 0 if plan is None else plan.shape.offset_bytes + done
            if come > best:
                failures, best = 0, come
            try:
                return self._advance(partial, plan, done)
            except StoreUnavailable:
                failures += 1
                if failures == ATTEMPTS or self.crew.stop.is_set():
                    raise
                time.sleep(_FIRST_PAUSE_S * 2 ** (failures - 1))

    def _resume(self, partial: Partial) -> tuple[_Plan | None, int]:
        """Return the plan in a partial file and how many bytes of elements are right in it.

        What is behind them is overwritten by what comes; `mending.py` may still have a use for it.
        """
        stream = partial.open()
        try:
            found = read_prefix(
                lambda count: take(stream, count),
                self.root,
                self.disk.get_room() + partial.size,
                self.header,
            )
            plan = _Plan(self.name, self.place.url, *found)
            done = _count_right(plan, stream)
        except (CommitmentError, EOFError):
            return None, 0
        finally:
            stream.close()
        return plan, done

    def _advance(self, partial: Partial, plan: _Plan | None, done: int) -> int:
        """Read on, to the end; return the size of the whole file."""
        if plan is not None and done == plan.shape.size_bytes:
            return plan.shape.file_bytes
        stream = self.place.open(self.name, 0 if plan is None else plan.shape.offset_bytes + done)
        try:
            if plan is None:
                plan = self._begin(stream, partial)
            left = plan.shape.size_bytes - done
            if stream.left != left:
                problem = f"{stream.left:,} bytes are offered where {left:,} are left to come"
                raise WrongContent(self.place.url, self.name, problem)
            _Pipeline(plan, stream, partial, done, self.crew).run()
        finally:
            stream.close()
        return plan.shape.file_bytes

    def _begin(self, stream: Stream, partial: Partial) -> _Plan:
        """Read and verify what comes before the elements, and keep it."""
        pieces: list[bytes] = []

        def read(count: int) -> bytes:
            pieces.append(take(stream, count))
            return pieces[-1]

        try:
            found = read_prefix(read, self.root, self.disk.get_room() + partial.size, self.header)
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
    """A tensor whose pieces threads read by turns, and verify and write each on its own."""

    def __init__(
        self, plan: _Plan, stream: Stream, partial: Partial, done: int, crew: _Crew
    ) -> None:
        self._plan, self._stream, self._partial, self._crew = plan, stream, partial, crew
        self._next = done
        self._is_over = False
        self._turn = Lock()
        self._helpers: set[int] = set()
        self._idle = Condition()
        self._error: BaseException | None = None

    @property
    def has_work(self) -> bool:
        """Whether there is a piece that nobody has taken."""
        return not self._is_over and self._next < self._plan.shape.size_bytes

    def run(self) -> None:
        """Read to the end, or to the first thing that is wrong."""
        try:
            with self._crew.showing(self):
                self._pass_on()
        finally:
            self._is_over = True
            with self._idle:
                self._idle.wait_for(lambda: not self._helpers)
        if self._error is not None:
            raise self._error

    def help(self) -> None:
        """Take pieces on another thread; what goes wrong there is raised by `run`."""
        with self._idle:
            if self._is_over:
                return
            self._helpers.add(get_ident())
        try:
            self._pass_on()
        except BaseException as error:  # noqa: BLE001 - handed on
            self._error = error
            self._is_over = True
        finally:
            with self._idle:
                self._helpers.discard(get_ident())
                self._idle.notify_all()

    def _pass_on(self) -> None:
        plan, buffer = self._plan, memoryview(bytearray(_PIECE_BYTES))
        while True:
            with self._turn:
                at = self._next
                view = buffer[: plan.shape.size_bytes - at]
                if self._is_over or not view:
                    return
                if self._crew.stop.is_set():
                    raise StoreUnavailable(plan.url, plan.name, "it was given up")
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
