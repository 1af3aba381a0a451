"""The store on disk: what goes in comes out, and damage, loss and a full disk are noticed."""

import errno
import os
import resource
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from moot.offchain.commitments.tensors import (
    Array,
    commit_tensor,
    compute_state_root,
    compute_tensor_root,
)
from moot.offchain.datastore import disk as disk_module
from moot.offchain.datastore import store as store_module
from moot.offchain.errors import StoreError
from moot.offchain.providers.store import Store

ARRAYS: list[Array] = [
    np.arange(600, dtype=np.float32).reshape(20, 30),
    np.array(-0.0, np.float32),
    np.arange(-3, 3, dtype=np.int64)[::2],
    np.array([[1], [-1]], np.int32),
    np.array([True, False, True]),
    np.zeros((0, 5), np.float32),
    np.asfortranarray(np.arange(12, dtype=np.float32).reshape(3, 4)),
]


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """An empty store."""
    return Store(tmp_path / "store")


def tensor_path(store: Store, root: bytes) -> Path:
    """Where the store keeps a tensor."""
    return store.path / "tensors" / root.hex()


def files(store: Store) -> set[str]:
    """Everything in the store but its lock."""
    found = (p.relative_to(store.path) for p in store.path.rglob("*") if not p.is_dir())
    return {str(p) for p in found} - {"lock"}


def named(store: Store) -> set[str]:
    """Everything in the store that has its name."""
    return {name for name in files(store) if not name.startswith("aside")}


@pytest.mark.parametrize("array", ARRAYS, ids=lambda a: f"{a.dtype}{list(a.shape)}")
def test_tensor_returns_bit_for_bit(store: Store, array: Array) -> None:
    """Every type, shape and memory layout comes back with its shape, type and bytes."""
    root = store.put_tensors([array])[0]
    back = store.get_tensor(root)
    assert root == compute_tensor_root(array)
    assert (back.dtype, back.shape, back.tobytes()) == (array.dtype, array.shape, array.tobytes())


def test_nan_is_kept_as_the_canonical_one(store: Store) -> None:
    """A NaN's payload and sign do not survive, as its root does not know them either."""
    bits = np.array([0xFFC00001, 0x7F800001, 0x80000000], np.uint32)
    back = store.get_tensor(store.put_tensors([bits.view(np.float32)])[0])
    assert back.view(np.uint32).tolist() == [0x7FC00000, 0x7FC00000, 0x80000000]


def test_known_root_is_not_computed_again(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the roots of the tensors given, nothing hashes the tensors."""
    made = [commit_tensor(array) for array in ARRAYS]
    roots = [commitment.root for commitment in made]
    with monkeypatch.context() as context:
        context.setattr(store_module, "commit_tensor", None)
        state_root = store.put_state(ARRAYS, roots, dict(zip(roots, made, strict=True)))
    assert state_root == compute_state_root(roots)
    assert store.has_state(state_root)


def test_existing_content_is_not_written_again(store: Store) -> None:
    """Putting the same tensor twice leaves the first file untouched."""
    root = store.put_tensors([ARRAYS[0]])[0]
    before = tensor_path(store, root).stat()
    store.put_tensors([ARRAYS[0]])
    after = tensor_path(store, root).stat()
    assert (before.st_ino, before.st_mtime_ns) == (after.st_ino, after.st_mtime_ns)


def test_truncated_file_is_written_again(store: Store) -> None:
    """A file that is shorter than its tensor does not count as existing content."""
    root = store.put_tensors([ARRAYS[0]])[0]
    os.truncate(tensor_path(store, root), 100)
    store.put_tensors([ARRAYS[0]])
    assert store.get_tensor(root).tobytes() == ARRAYS[0].tobytes()


@pytest.mark.parametrize("size", [0, 7, 15, 31, 70, 100, 2463])
def test_truncated_tensor_is_refused(store: Store, size: int) -> None:
    """A file that ends early, wherever, is named as damaged, with the way out."""
    path = tensor_path(store, store.put_tensors([ARRAYS[0]])[0])
    assert size < path.stat().st_size
    os.truncate(path, size)
    with pytest.raises(StoreError, match=r"is damaged \(.*\); delete it and resume"):
        store.get_tensor(bytes.fromhex(path.name))


@pytest.mark.parametrize("place", [0, 9, 40, -1])
def test_flipped_bit_is_refused(store: Store, place: int) -> None:
    """One changed bit in the header or in the elements is noticed."""
    root = store.put_tensors([ARRAYS[0]])[0]
    path = tensor_path(store, root)
    content = bytearray(path.read_bytes())
    content[place] ^= 1
    path.write_bytes(content)
    with pytest.raises(StoreError, match="is damaged"):
        store.get_tensor(root)


def test_foreign_file_is_refused(store: Store) -> None:
    """A whole file under another content's name is not taken for it."""
    one, other = store.put_tensors([ARRAYS[0]])[0], store.put_tensors([ARRAYS[3]])[0]
    tensor_path(store, one).write_bytes(tensor_path(store, other).read_bytes())
    with pytest.raises(StoreError, match="is damaged"):
        store.get_tensor(one)


def test_missing_tensor_is_named(store: Store) -> None:
    """What is not there is reported as missing, not as damaged."""
    with pytest.raises(StoreError, match=r"abab.*there is none; ask its owner"):
        store.get_tensor(b"\xab" * 32)


def test_state_returns_in_order(store: Store) -> None:
    """A state comes back as the same tensors in the same order, under its state root."""
    root = store.put_state(ARRAYS)
    assert root == compute_state_root([compute_tensor_root(array) for array in ARRAYS])
    back = store.get_state(root)
    assert [a.tobytes() for a in back] == [a.tobytes() for a in ARRAYS]
    assert [a.shape for a in back] == [a.shape for a in ARRAYS]


def test_states_share_their_tensors(store: Store) -> None:
    """A tensor that two states have in common is kept once."""
    store.put_state(ARRAYS[:3])
    store.put_state(ARRAYS[1:4])
    assert len([name for name in files(store) if name.startswith("tensors")]) == 4


def test_has_state_needs_every_tensor(store: Store) -> None:
    """A state with a deleted tensor is not there, and putting it again brings it back."""
    root = store.put_state(ARRAYS)
    assert not store.has_state(b"\x00" * 32)
    assert store.has_state(root)
    tensor_path(store, compute_tensor_root(ARRAYS[2])).unlink()
    assert not store.has_state(root)
    store.put_state(ARRAYS)
    assert store.has_state(root)


@pytest.mark.parametrize("manifest", [b"", b"x", bytes(31), bytes(32), bytes(64), bytes(1 << 22)])
def test_damaged_list_is_refused(store: Store, manifest: bytes) -> None:
    """A list of a state's roots that is none, or is another one, is named as damaged."""
    root = store.put_state(ARRAYS)
    (store.path / "states" / root.hex()).write_bytes(manifest)
    with pytest.raises(StoreError, match=r"is damaged \(.*\); delete it"):
        store.get_state(root)


def test_notes_replace_each_other(store: Store) -> None:
    """The last note of a name counts, also for another store on the same directory."""
    assert store.get_json("claim-1") is None
    store.put_json("claim-1", {"salt": "00ff", "checkpoints": [1, 2]})
    store.put_json("claim-1", {"salt": "00ff", "checkpoints": [1, 2, 3]})
    assert Store(store.path).get_json("claim-1") == {"salt": "00ff", "checkpoints": [1, 2, 3]}


@pytest.mark.parametrize("name", ["", "../claim", "a/b", ".hidden", "a\n", "ä"])
def test_note_stays_in_its_folder(store: Store, name: str) -> None:
    """A name that could lead out of the folder of notes is refused."""
    with pytest.raises(StoreError, match="cannot name a note"):
        store.put_json(name, 1)
    assert not files(store)


def test_damaged_note_is_refused(store: Store) -> None:
    """A note that is no JSON is named as damaged rather than taken for none."""
    store.put_json("claim", [1])
    (store.path / "notes" / "claim.json").write_text('{"half')
    with pytest.raises(StoreError, match="is damaged"):
        store.get_json("claim")


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
@pytest.mark.parametrize("function", ["write_directly", "flush", "replacing"])
def test_full_disk_leaves_nothing_behind(
    store: Store, monkeypatch: pytest.MonkeyPatch, function: str, code: int
) -> None:
    """A disk that is full at any moment of a write is one clear line, and no file appears."""

    def fail(*_: object, **__: object) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(f"moot.offchain.datastore.disk.{function}", fail)
    with pytest.raises(StoreError, match=r"^there is no room for [^\n]*; free some and resume$"):
        store.put_state(ARRAYS[:2])
    assert not files(store)


def test_full_disk_keeps_the_previous_note(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """A note that cannot be replaced keeps its old content."""
    store.put_json("claim", "old")

    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, "full")

    with monkeypatch.context() as context:
        context.setattr("moot.offchain.files.flush_file", fail)
        with pytest.raises(StoreError, match="there is no room"):
            store.put_json("claim", "new")
    assert store.get_json("claim") == "old"


def test_size_limit_of_the_system_is_reported(tmp_path: Path) -> None:
    """A write that the system stops is said to lack room, and leaves nothing."""
    script = (
        "import sys, numpy as np\n"
        "from moot.offchain.errors import StoreError\n"
        "from moot.offchain.providers.store import Store\n"
        "store = Store(sys.argv[1])\n"
        "small = store.put_tensors([np.zeros(10, np.float32)])[0]\n"
        "try: store.put_tensors([np.zeros(100_000, np.float32)])\n"
        "except StoreError as error: print(error)\n"
        "store.get_tensor(small)\n"
    )
    done = subprocess.run(  # noqa: S603 - this interpreter on the script above
        [sys.executable, "-c", script, tmp_path],
        capture_output=True,
        text=True,
        check=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096)),
    )
    assert done.stdout.startswith("there is no room for ")
    assert len(list((tmp_path / "tensors").iterdir())) == 1
    assert not list((tmp_path / "aside").iterdir())


def test_other_failures_are_reported(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is wrong with the disk is said in the system's words, in a StoreError."""

    def fail(*_: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(disk_module, "write_directly", fail)
    with pytest.raises(StoreError, match=r"cannot write .*Input/output error"):
        store.put_tensors([ARRAYS[0]])


def test_file_in_the_way_is_reported(tmp_path: Path) -> None:
    """A path that cannot become a directory is a StoreError."""
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="cannot write"):
        Store(tmp_path / "file")


def test_leftovers_of_a_killed_writer_are_cleared(tmp_path: Path) -> None:
    """What was being written by a killed process goes when the store is opened alone."""
    leftover = Store(tmp_path).path / "aside" / "tmpx"
    leftover.mkdir()
    (leftover / "half").write_bytes(b"half")
    Store(tmp_path)
    assert not leftover.exists()


def test_writes_in_progress_are_left_alone(tmp_path: Path) -> None:
    """Opening a store does not disturb another one that is writing, whichever came first."""
    first = Store(tmp_path)
    second = Store(tmp_path)
    del first
    writing = second.path / "aside" / "tmpx"
    writing.mkdir()
    Store(tmp_path).put_tensors([ARRAYS[0]])
    assert (second.path / "aside" / "tmpx").exists()


def test_state_is_on_the_disk_after_its_tensors(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What gets a name is what was flushed before, and the manifest is the last to get one."""
    flushed = []
    sync = os.fsync

    def record(descriptor: int) -> None:
        sync(descriptor)
        flushed.append((os.fstat(descriptor).st_ino, len(named(store))))

    monkeypatch.setattr(os, "fsync", record)
    state = store.put_state(ARRAYS[:1]).hex()
    tensor = compute_tensor_root(ARRAYS[0]).hex()
    paths = [store.path / "tensors" / tensor, store.path / "tensors"]
    paths += [store.path / "states" / state, store.path / "states"]
    assert [inode for inode, _ in flushed] == [path.stat().st_ino for path in paths]
    assert [count for _, count in flushed] == [0, 1, 1, 2]


def test_a_store_that_goes_with_the_process_waits_for_no_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is kept in it is there, and nothing was flushed."""
    monkeypatch.setattr(os, "fsync", None)
    store = Store(tmp_path, is_durable=False)
    root = store.put_state(ARRAYS)
    store.put_json("run", {"roots": []})
    for found, array in zip(store.get_state(root), ARRAYS, strict=True):
        np.testing.assert_array_equal(found, array)
    assert store.get_json("run") == {"roots": []}


def test_killed_writer_leaves_whole_files_only(tmp_path: Path) -> None:
    """Whatever a process had put when it was killed is either whole or not there."""
    script = (
        "import sys, numpy as np\n"
        "from moot.offchain.providers.store import Store\n"
        "store = Store(sys.argv[1])\n"
        "for i in range(10**6):\n"
        "    root = store.put_state([np.full(200_000, i, np.float32), np.array(i)])\n"
        "    print(root.hex(), flush=True)\n"
    )
    command = [sys.executable, "-c", script, str(tmp_path)]
    with subprocess.Popen(  # noqa: S603 - this interpreter on the script above
        command, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout
        put = [process.stdout.readline().strip() for _ in range(5)]
        process.kill()
    store = Store(tmp_path)
    assert not list((tmp_path / "aside").iterdir())
    states = {path.name for path in (tmp_path / "states").iterdir()}
    assert states >= set(put)
    for state in states:
        assert store.has_state(bytes.fromhex(state))
        store.get_state(bytes.fromhex(state))
    for path in (tmp_path / "tensors").iterdir():
        store.get_tensor(bytes.fromhex(path.name))


@pytest.mark.parametrize("is_linked", [True, False])
def test_objects_are_shared_between_folders(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_linked: bool
) -> None:
    """A further name or, on a disk that has none, a copy: the state is whole in both folders."""
    other, root = Store(tmp_path / "other"), store.put_state(ARRAYS)
    if not is_linked:

        def refuse(*_: object, **__: object) -> None:
            raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))

        monkeypatch.setattr(os, "link", refuse)
    names = [f"tensors/{it.hex()}" for it in store.get_roots("states", root)]
    other.disk.share(store.disk, [*names, f"states/{root.hex()}"])
    links = {(other.path / name).stat().st_nlink for name in names}
    assert links == ({2} if is_linked else {1})
    for it in (store, other):
        assert [a.tobytes() for a in it.get_state(root)] == [a.tobytes() for a in ARRAYS]
