"""The data store: objects by their roots, at one place, with a folder for what is fetched."""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from fsspec.utils import get_protocol

from moot.offchain.commitments.keccak_lanes import DIGEST_BYTES
from moot.offchain.commitments.tensors import (
    NUMPY_TYPES,
    Array,
    TensorCommitment,
    commit_tensor,
    commit_tensors,
    dtype_of,
    encode_elements,
    encode_header,
    hash_bytes,
)
from moot.offchain.commitments.tree import Digest
from moot.offchain.datastore.bucket import Bucket
from moot.offchain.datastore.columns import Column, StoredColumn, open_stored
from moot.offchain.datastore.disk import Disk
from moot.offchain.datastore.fetch import fetch_small, fetch_tensors, take, verify_tensor
from moot.offchain.datastore.objects import (
    DATASETS,
    HASH_ROOTS,
    PROGRAMS,
    STATES,
    TENSORS,
    TensorShape,
    encode_prefix,
    name_object,
    read_prefix,
    split_roots,
)
from moot.offchain.datastore.places import Elsewhere, Part, Place, find_folder
from moot.offchain.datastore.web import PATIENCE_S, Web, never
from moot.offchain.errors import (
    CommitmentError,
    DamagedFile,
    NotInStore,
    ProgramError,
    StoreError,
    StoreUnavailable,
    WrongContent,
)
from moot.offchain.programs.decoding import decode_program
from moot.offchain.programs.encoding import encode_program
from moot.offchain.programs.graph import Program, Slot
from moot.offchain.programs.limits import MAX_NODE_BYTES, MAX_SLOTS, MAX_TEXT_BYTES
from moot.offchain.programs.roots import ProgramTree

_THREADS = 2
"""The threads that write or read a state: one waits for the disk, the other is in memory."""

_TEXT_BYTES = 2_048
"""The bytes of an operator's name and line in a shared program, on the average at most."""


class DataStore:
    """Objects by their roots: put at a place, and got from it through a folder, verified.

    Several processes and threads may use one store. What is got is verified against its root,
    whoever has put it. Every method raises `StoreError`, which names the object.

    Args:
        disk: the folder that has, or gets, what is asked for.
        source: the place that has everything, if that is not the folder.

    Attributes:
        place: the place that has everything, which may be the folder.
    """

    def __init__(self, disk: Disk, source: Place | None = None) -> None:
        self.disk = disk
        self._source = source
        self.place: Place = disk if source is None else source

    @property
    def is_local(self) -> bool:
        """Whether the place is the folder."""
        return self._source is None

    @property
    def url(self) -> str:
        """The address of the place."""
        return self.place.url

    def put_tensors(self, arrays: Iterable[Array]) -> list[Digest]:
        """Keep tensors, one after another as they come, and return their roots."""
        roots = []
        for array in arrays:
            commitment = commit_tensor(array)
            roots.append(commitment.root)
            self._put_tensor(array, commitment.root, commitment)
        self._settle(TENSORS)
        return roots

    def put_dataset(self, columns: Mapping[int, Column], roots: Sequence[Digest]) -> Digest:
        """Keep a dataset, at constant memory, and return its root.

        Args:
            columns: tensors of it, by their places; not all of them have to be kept.
            roots: the roots of all of them.
        """
        for column in columns.values():
            root = column.commitment.root
            name = name_object(TENSORS, root)
            if self.place.get_size(name) != column.shape.file_bytes:
                self.place.put(name, _list_parts(column))
        self._settle(TENSORS)
        return self.put_roots(DATASETS, roots)

    def get_columns(
        self, root: Digest, count: int, shapes: Mapping[int, TensorShape]
    ) -> tuple[list[Digest], dict[int, StoredColumn]]:
        """Have some tensors of a dataset in the folder; return the roots of all, and these tensors.

        Args:
            root: the root of the dataset.
            count: how many tensors it has.
            shapes: the types and shapes of those that are wanted, by their places.

        Raises:
            WrongContent: one of them is of another type or shape.
        """
        roots = self.get_roots(DATASETS, root, count)
        if len(roots) != count:
            problem = f"it has {len(roots)} tensors, and the rule says {count}"
            raise WrongContent(self.url, name_object(DATASETS, root), problem)
        slots = [Slot("", it.dtype, it.shape) for it in shapes.values()]
        self.fetch_tensors([roots[place] for place in shapes], slots)
        columns = {}
        for place, shape in shapes.items():
            try:
                columns[place] = open_stored(self.disk, roots[place], shape)
            except CommitmentError as error:
                name = name_object(TENSORS, roots[place])
                raise WrongContent(str(self.disk.path), name, str(error)) from error
        return roots, columns

    def drop_damaged(self, roots: Iterable[Digest]) -> bool:
        """Remove tensors of the folder that are damaged; return whether there were any."""
        names = []
        for root in {*roots}:
            name = name_object(TENSORS, root)
            try:
                verify_tensor(self.disk, root, self.disk.get_size(name) or 0)
            except WrongContent:
                names.append(name)
                self.disk.remove(name)
        return bool(names)

    def get_tensor(self, root: Digest, slot: Slot | None = None) -> Array:
        """Return the tensor of this root; with a slot, one of its type and shape."""
        self.fetch_tensors([root], None if slot is None else [slot])
        return self._load(root)

    def put_state(
        self,
        arrays: Sequence[Array],
        roots: Sequence[Digest] | None = None,
        commitments: Mapping[Digest, TensorCommitment] | None = None,
    ) -> Digest:
        """Keep a state, given its tensors in the order of the layout, and return its root.

        Args:
            arrays: at least one tensor.
            roots: the roots of all the tensors, where they are known already.
            commitments: the commitments that are known already, by root.
        """
        known = dict(commitments or {})
        if roots is None:
            made = commit_tensors(arrays)
            roots = [commitment.root for commitment in made]
            known = dict(zip(roots, made, strict=True))
        tensors = dict(zip(roots, arrays, strict=True))

        def put(root: Digest) -> None:
            self._put_tensor(tensors[root], root, known.get(root))

        with ThreadPoolExecutor(_THREADS) as writers:
            list(writers.map(put, tensors))
        self._settle(TENSORS)
        return self.put_roots(STATES, roots)

    def get_state(self, root: Digest, slots: Sequence[Slot] | None = None) -> list[Array]:
        """Return the tensors of the state of this root, in the order of the layout.

        Args:
            root: the state's root.
            slots: the program's slots, where they are known: nothing else is fetched.
        """
        roots = self.fetch_state(root, slots)
        with ThreadPoolExecutor(_THREADS) as readers:
            return [*readers.map(self._load, roots)]

    def fetch_state(self, root: Digest, slots: Sequence[Slot] | None = None) -> list[Digest]:
        """Have a state in the folder, at constant memory; return the roots of its tensors."""
        return self.fetch_list(STATES, root, slots)

    def fetch_list(
        self, kind: str, root: Digest, slots: Sequence[Slot] | None = None
    ) -> list[Digest]:
        """Have a list of tensors in the folder, a state or a dataset, as `fetch_state` does."""
        roots = self.get_roots(kind, root, None if slots is None else len(slots))
        self.fetch_tensors(roots, slots)
        return roots

    def fetch_tensors(self, roots: Sequence[Digest], slots: Sequence[Slot] | None = None) -> None:
        """Have tensors in the folder and on the disk; as many slots say what each has to be.

        Raises:
            StoreError: there is no room for them, or as elsewhere.
        """
        if self._source is None:
            return
        headers = [encode_header(slot.dtype, slot.shape) for slot in slots or ()]
        wanted: dict[Digest, bytes | None] = dict.fromkeys(roots)
        if slots is not None:
            wanted = dict(zip(roots, headers, strict=True))
        missing = [it for it in wanted if self.disk.get_size(name_object(TENSORS, it)) is None]
        sizes = [TensorShape(slot.dtype, slot.shape).file_bytes for slot in slots or ()]
        needed = sum(size for it, size in zip(roots, sizes, strict=False) if it in missing)
        self.disk.require_room(needed, f"{len(missing)} tensors")
        if missing:
            fetch_tensors(self._source, self.disk, {root: wanted[root] for root in missing})
            self.disk.settle(TENSORS, [name_object(TENSORS, root) for root in missing])

    def has_state(self, root: Digest) -> bool:
        """Whether the state of this root is at the place, with all its tensors."""
        if not self.place.get_size(name_object(STATES, root)):
            return False
        roots = self.get_roots(STATES, root)
        return all(self.place.get_size(name_object(TENSORS, tensor)) for tensor in roots)

    def put_roots(self, kind: str, roots: Sequence[Digest]) -> Digest:
        """Keep a list of roots, which is a kind of its own, and return its root."""
        root = HASH_ROOTS[kind]([*roots])
        self.put_bytes(kind, root, b"".join(roots))
        return root

    def get_roots(self, kind: str, root: Digest, count: int | None = None) -> list[Digest]:
        """Return the roots in a list; with a count, as many."""
        limit = DIGEST_BYTES * (MAX_SLOTS if count is None else count)
        found: list[Digest] = []

        def check(data: bytes) -> None:
            found[:] = split_roots(kind, data, root)

        self.get_bytes(kind, root, limit, check)
        return found

    def peek(self, kind: str, root: Digest, most_bytes: int) -> bytes:
        """Return a small object of the place as it is, right or wrong; nothing if there is none.

        Raises:
            StoreUnavailable: it does not come.
        """
        try:
            return fetch_small(self.place, name_object(kind, root), most_bytes, bytes)
        except (NotInStore, WrongContent):
            return b""

    def keep_bytes(self, kind: str, root: Digest, data: bytes) -> None:
        """Keep in the folder what was verified, as if it had been fetched."""
        self.disk.put(name_object(kind, root), [data])
        self.disk.settle(kind)

    def put_program(self, program: Program) -> Digest:
        """Keep a program and return its root."""
        root = ProgramTree(program).header.root
        self.put_bytes(PROGRAMS, root, encode_program(program))
        return root

    def get_program(self, root: Digest, operators: int, slots: int) -> Program:
        """Return the program of this root, which has so many operators and slots."""
        limit = bound_program(operators, slots)
        found: list[Program] = []

        def check(data: bytes) -> None:
            try:
                found[:] = [decode_program(data)]
            except ProgramError as error:
                raise CommitmentError(str(error)) from error
            if ProgramTree(found[0]).header.root != root:
                raise CommitmentError("it is another program")

        self.get_bytes(PROGRAMS, root, limit, check)
        return found[0]

    def put_bytes(self, kind: str, root: Digest, data: bytes) -> None:
        """Keep a small object."""
        self.place.put(name_object(kind, root), [data])
        self._settle(kind)

    def get_bytes(
        self, kind: str, root: Digest, most_bytes: int, check: Callable[[bytes], object]
    ) -> bytes:
        """Return a small object that passes its check, which raises `CommitmentError`."""
        name = name_object(kind, root)
        if self._source is None or self.disk.get_size(name) is not None:
            try:
                return fetch_small(self.disk, name, most_bytes, check)
            except (WrongContent, StoreUnavailable) as error:
                if self._source is None:
                    raise self._damaged(name, error.problem) from error
            self.disk.remove(name)
        data = fetch_small(self._source, name, most_bytes, check)
        self.keep_bytes(kind, root, data)
        return data

    def verify(self, kind: str, root: Digest, size: int) -> None:
        """Read an object of the place, which is a tensor or a list, and verify it; nothing is kept.

        Args:
            kind: its kind.
            root: its root.
            size: the bytes that it is said to have.

        Raises:
            WrongContent: it is not that of the root.
        """
        if kind == TENSORS:
            verify_tensor(self.place, root, size)
            return
        fetch_small(
            self.place, name_object(kind, root), size, lambda data: split_roots(kind, data, root)
        )

    def list(self) -> Iterator[tuple[str, int]]:
        """Yield the names and the sizes of the objects at the place, as it says."""
        return self.place.list()

    def _put_tensor(self, array: Array, root: Digest, commitment: TensorCommitment | None) -> None:
        name = name_object(TENSORS, root)
        if self.place.get_size(name) != TensorShape(dtype_of(array), array.shape).file_bytes:
            commitment = commitment or commit_tensor(array)
            self.place.put(name, [encode_prefix(commitment), encode_elements(array).data])

    def _load(self, root: Digest) -> Array:
        """Return a tensor of the folder; one that is damaged is fetched once more, if it can be."""
        name = name_object(TENSORS, root)
        try:
            return self._read(root)
        except CommitmentError as error:
            if self._source is None:
                raise self._damaged(name, str(error)) from error
        self.disk.remove(name)
        fetch_tensors(self._source, self.disk, {root: None})
        return self._read(root)

    def _read(self, root: Digest) -> Array:
        stream = self.disk.open(name_object(TENSORS, root))
        try:
            size = stream.left
            shape, _ = read_prefix(lambda count: take(stream, count), root, size)
            if size != shape.file_bytes:
                raise CommitmentError(f"it has {size:,} bytes, not {shape.file_bytes:,}")
            array = np.empty(shape.shape, NUMPY_TYPES[shape.dtype])
            view = array.reshape(-1).view(np.uint8).data
            while view and (count := stream.read_into(view)):
                view = view[count:]
        except EOFError as error:
            raise CommitmentError(str(error)) from error
        finally:
            stream.close()
        if commit_tensor(array).root != root:
            raise CommitmentError("it has another root")
        return array

    def _damaged(self, name: str, problem: str) -> DamagedFile:
        return DamagedFile(self.disk.path / name, problem)

    def _settle(self, kind: str) -> None:
        if self._source is None:
            self.disk.settle(kind)


def bound_program(operators: int, slots: int) -> int:
    """Return the most bytes of a shared program that has so many operators and slots."""
    return 64 + operators * (MAX_NODE_BYTES + _TEXT_BYTES) + slots * (MAX_TEXT_BYTES + 128)


def _list_parts(column: Column) -> Iterator[Part]:
    """Yield the file of a tensor, which has to stay what it was when it was committed to."""
    yield encode_prefix(column.commitment)
    for place, piece in enumerate(column.list_pieces()):
        if (hash_bytes(piece)[0] != column.commitment.layer[place]).any():
            raise StoreError("the dataset has changed while it was read; begin again")
        yield piece.data


def open_store(
    url: str,
    cache: str | os.PathLike[str] | None = None,
    patience_s: float = PATIENCE_S,
    is_over: Callable[[], bool] = never,
) -> DataStore:
    """Open a store by its address.

    Args:
        url: a folder, `http://` or `https://` (which can only be read), or what fsspec knows.
        cache: the folder into which objects are fetched; none for a folder of this machine.
        patience_s: how long a server may keep us waiting.
        is_over: says of a server whether it is given up by now, in the middle of an object, too.

    Raises:
        StoreError, UsageError: there is no such store.
    """
    if (own := find_folder(url)) is not None:
        return DataStore(Disk(own))
    if cache is None:
        raise StoreError(f"{url} is not on this machine; name a folder for what comes from it")
    source: Place
    match get_protocol(url):
        case "http" | "https":
            source = Web(url, patience_s, is_over)
        case "s3" | "s3a":
            source = Bucket(url, patience_s, is_over)
        case _:
            source = Elsewhere(url)
    return DataStore(Disk(cache), source)


def open_copying(
    url: str, disk: Disk, patience_s: float = PATIENCE_S, is_over: Callable[[], bool] = never
) -> DataStore:
    """Open a store of which all that is asked for is copied into a folder.

    Args:
        url: its address; a folder of this machine may be gone when a match begins, too.
        disk: the folder.
        patience_s: how long a server may keep us waiting.
        is_over: as `open_store` has it.
    """
    source = open_store(url, disk.path, patience_s, is_over)
    return DataStore(disk, source.disk) if source.is_local else source
