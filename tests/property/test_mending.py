"""Objects put together of what a store has, right or wrong, and of parts that are shown."""

import random
import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from math import log2
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from moot.contracts.compiler import compile_contract
from moot.contracts.model.abi import pack_args
from moot.contracts.model.answers import Promise, Subject, Vault, make_subject
from moot.contracts.model.availability import call
from moot.contracts.model.types import Message, Terms
from moot.contracts.reasons import Part
from moot.offchain.arithmetic.functions import DType
from moot.offchain.chain.codec import Codec
from moot.offchain.commitments.keccak import hash_chunks, keccak256
from moot.offchain.commitments.known import KnownNodes
from moot.offchain.commitments.tags import CHUNK_BYTES, Tag
from moot.offchain.commitments.tensors import (
    SUBTREE_BYTES,
    Array,
    TensorTree,
    commit_tensor,
    compute_state_root,
    encode_header,
    hash_tensor,
)
from moot.offchain.commitments.tree import Tree
from moot.offchain.datastore.disk import Disk
from moot.offchain.datastore.mending import ProvenChunk, Wanted, mend_tensor
from moot.offchain.datastore.objects import (
    BATCHES,
    PROGRAMS,
    STATES,
    TENSORS,
    encode_prefix,
    name_object,
)
from moot.offchain.datastore.store import DataStore, open_copying, open_store
from moot.offchain.disputes.availability.calldata import (
    Shown,
    ShownChunk,
    ShownOperator,
    read_shown,
)
from moot.offchain.disputes.availability.demands import Lack, Place, find_answer, list_demand
from moot.offchain.disputes.availability.mending import MOST_PLACES, _name_all, mend_job
from moot.offchain.disputes.referee.terms import make_terms
from moot.offchain.errors import CommitmentError, NotInStore, WrongContent
from moot.offchain.providers.agreement import make_task
from moot.offchain.providers.publication import get_task, put_task
from moot.offchain.providers.setting import Setting
from moot.offchain.providers.task import Task
from tests.quick import every

REFEREE = "0x" + "ab" * 20
ARRAY: Array = np.random.default_rng(1).normal(size=170_001).astype(np.float32)
"""680 KB: three subtrees, of which the last is not full, and a chunk that is not, either."""
TREE = TensorTree(ARRAY)
COMMITMENT = commit_tensor(ARRAY)
ROOT, PREFIX = COMMITMENT.root, encode_prefix(COMMITMENT)
FILE = PREFIX + ARRAY.tobytes()
CHUNKS = -(-ARRAY.nbytes // CHUNK_BYTES)
NAME = name_object(TENSORS, ROOT)


def show(tree: TensorTree, chunk: int) -> ProvenChunk:
    """Return a chunk with its proof."""
    assert tree.tree is not None
    return ProvenChunk(chunk, tree.chunk(chunk), tuple(tree.tree.proof(chunk)))


def put(folder: Path, content: bytes, name: str = NAME) -> Disk:
    """Return a folder that has something under a name."""
    disk = Disk(folder)
    (folder / name).write_bytes(content)
    return disk


def damage(content: bytes, chunks: Sequence[int], first: int = len(PREFIX)) -> bytes:
    """Return a file with a bit of some chunks changed."""
    found = bytearray(content)
    for chunk in chunks:
        found[first + chunk * CHUNK_BYTES] ^= 1
    return bytes(found)


@pytest.mark.parametrize("count", [1, 2, 3, 5, 8, 13, 64, 100])
def test_proofs_of_few_leaves_find_all_that_are_wrong(count: int) -> None:
    """Whatever leaves are wrong: those found are, and each asks for at most a path's length."""
    rng = random.Random(count)
    for wrong in (0, 1, 2, count // 2, count):
        leaves = [rng.randbytes(32) for _ in range(count)]
        tree, found = Tree(Tag.STATE_NODE, leaves), list(leaves)
        bad = rng.sample(range(count), min(wrong, count))
        for place in bad:
            found[place] = rng.randbytes(32)
        known = KnownNodes(Tag.STATE_NODE, count, lambda top, top_=tree.top: top == top_)
        known.learn(leaves[0], 0, tree.proof(0))
        found[0] = leaves[0]
        asked = {0}
        while stretches := [*known.list_wrong(Tree(Tag.STATE_NODE, found))]:
            for level, index in stretches:
                below = range(index << level, min(index + 1 << level, count))
                assert any(found[it] != leaves[it] for it in below)
                place = below[0]
                assert place not in asked
                asked.add(place)
                known.learn(leaves[place], place, tree.proof(place))
                found[place] = leaves[place]
        assert found == leaves
        assert len(asked) <= 1 + len(bad) * (known.height + 1)


@pytest.mark.parametrize("count", [2, 3, 7, 64])
def test_a_proof_that_is_wrong_teaches_nothing(count: int) -> None:
    """Another leaf, place, sibling or length is refused, and no node is known after it."""
    rng = random.Random(count)
    leaves = [rng.randbytes(32) for _ in range(count)]
    tree = Tree(Tag.STATE_NODE, leaves)
    known = KnownNodes(Tag.STATE_NODE, count, lambda top: top == tree.top)
    for place in range(count):
        proof = tree.proof(place)
        spoilt = [
            (rng.randbytes(32), place, proof),
            (leaves[place], (place + 1) % count, proof),
            (leaves[place], place, proof[:-1]),
            (leaves[place], place, [*proof, bytes(32)]),
            (leaves[place], place, [*proof[:-1], rng.randbytes(32)]),
            (leaves[place], count + place, proof),
        ]
        for args in spoilt:
            with pytest.raises(CommitmentError):
                known.learn(*args)
    for nodes in ([rng.randbytes(32) for _ in leaves], leaves[1:], [*leaves, leaves[0]]):
        with pytest.raises(CommitmentError):
            known.learn_level(0, nodes)
    other = Tree(Tag.STATE_NODE, [*leaves[1:], bytes(32)])
    assert [*known.list_wrong(other)] == [(tree.height, 0)]
    assert [*known.list_wrong(tree)] == []
    known.learn_level(0, leaves)
    assert [*known.list_wrong(other)] == [(0, it) for it in range(count)]


def complete(place: Disk, disk: Disk, tree: TensorTree = TREE) -> list[int]:
    """Mend a tensor to its end with what is asked for, and return what was."""
    asked: list[int] = []
    while wanted := mend_tensor(
        place, disk, tree.root, tree.header, [show(tree, it) for it in asked]
    ).chunks:
        assert not {*wanted} & {*asked}
        asked += wanted
    return asked


LAST = CHUNKS - 1
LACKS: tuple[tuple[int, ...], ...] = (
    (0,),
    (LAST,),
    (1023, 1024),
    (5, 700, LAST),
    (*range(1024, 1040),),
)


@pytest.mark.parametrize("wrong", LACKS, ids=str)
def test_a_tensor_with_wrong_chunks_becomes_whole(wrong: tuple[int, ...], tmp_path: Path) -> None:
    """Of each chunk that is wrong at most a path in its 256 KiB is asked for."""
    place, disk = put(tmp_path / "there", damage(FILE, wrong)), Disk(tmp_path / "here")
    asked = complete(place, disk)
    assert (tmp_path / "here" / NAME).read_bytes() == FILE
    assert {*asked} >= {*wrong}
    assert len(asked) <= len(wrong) * 11
    assert not [*(tmp_path / "here" / "partial").iterdir()]


def test_a_wrong_chunk_costs_six_demands_on_the_average(tmp_path: Path) -> None:
    """That is 1 + log2(1,024) / 2, since each proof tells halves, quarters and so on apart."""
    rng, counts = random.Random(3), []
    for number in range(40):
        there = put(tmp_path / f"there-{number}", damage(FILE, [rng.randrange(1024)]))
        counts.append(len(complete(there, Disk(tmp_path / f"here-{number}"))))
    assert abs(np.mean(counts) - (1 + log2(1024) / 2)) < 1


@pytest.mark.parametrize(
    "content",
    [
        b"",
        FILE[:20],
        damage(FILE, [0], first=40),
        damage(FILE, [0], first=3),
        b"x" * len(FILE),
        FILE + b"more",
        FILE[:-1],
        FILE[: len(PREFIX) + SUBTREE_BYTES + 700],
    ],
)
def test_whatever_a_place_has_the_tensor_is_right_in_the_end(
    content: bytes, tmp_path: Path
) -> None:
    """No prefix, a wrong one, other bytes, more or fewer: what is kept is that of the root."""
    small = np.arange(4_000, dtype=np.float32)
    tree, whole = TensorTree(small), encode_prefix(commit_tensor(small)) + small.tobytes()
    for number, (of, file) in enumerate(((TREE, FILE), (tree, whole))):
        if of is TREE and len(content) < len(FILE) - SUBTREE_BYTES:
            continue  # nothing else than thousands of chunks would do
        name = name_object(TENSORS, of.root)
        place = put(tmp_path / f"there-{number}", content, name)
        complete_some(place, Disk(tmp_path / f"here-{number}"), of, file)


def complete_some(place: Disk, disk: Disk, tree: TensorTree, file: bytes) -> None:
    """Mend a tensor with all that is asked for, as long as that are not too many parts."""
    name = name_object(TENSORS, tree.root)
    shown: list[ProvenChunk] = []
    while wanted := mend_tensor(place, disk, tree.root, tree.header, shown).chunks:
        assert disk.get_size(name) is None
        shown += [show(tree, it) for it in wanted]
        if len(shown) > 200:
            assert place.get_size(name) == len(file)
            return
    assert (disk.path / name).read_bytes() == file


def test_zeros_that_nobody_has_take_nothing(tmp_path: Path) -> None:
    """A hole is a zero: their root says that they are right; next to others, proofs do."""
    zeros = np.zeros((300, 1000), np.float32)
    disk, there = Disk(tmp_path / "here"), Disk(tmp_path / "there")
    assert complete(there, disk, TensorTree(zeros)) == []
    zeros[0, 0] = 1
    assert complete(there, disk, TensorTree(zeros)) == [0]


def test_a_tensor_without_elements_takes_nothing(tmp_path: Path) -> None:
    """Its header and its root are all there is to know."""
    tree, disk = TensorTree(np.zeros((0, 3), np.float32)), Disk(tmp_path / "here")
    assert complete(Disk(tmp_path / "there"), disk, tree) == []
    with pytest.raises(WrongContent, match="another type or shape"):
        mend_tensor(Disk(tmp_path / "there"), disk, ROOT, tree.header, [])


def spoil(chunk: ProvenChunk, other: ProvenChunk) -> list[ProvenChunk]:
    """Return what somebody could show instead of a chunk."""
    turned = bytes([chunk.content[0] ^ 1, *chunk.content[1:]])
    return [
        replace(chunk, content=turned),
        replace(chunk, content=chunk.content[:-1]),
        replace(chunk, content=chunk.content + b"\0"),
        replace(chunk, content=b""),
        replace(chunk, chunk=chunk.chunk + 1),
        replace(chunk, chunk=1 << 60),
        replace(chunk, proof=chunk.proof[:-1]),
        replace(chunk, proof=(*chunk.proof, bytes(32))),
        replace(chunk, proof=(bytes(32), *chunk.proof[1:])),
        replace(chunk, proof=()),
        other,
    ]


def test_what_is_shown_wrongly_changes_nothing(tmp_path: Path) -> None:
    """Other bytes, places and proofs, and chunks of another tensor are not used."""
    there, here = tmp_path / "there", tmp_path / "here"
    place, disk = put(there, damage(FILE, [7])), Disk(here)
    other = show(TensorTree(ARRAY[::-1].copy()), 7)
    before = mend_tensor(place, disk, ROOT, TREE.header, [])
    left = (here / "partial" / NAME.replace("/", "-")).read_bytes()
    assert mend_tensor(place, disk, ROOT, TREE.header, spoil(show(TREE, 7), other)) == before
    assert (here / "partial" / NAME.replace("/", "-")).read_bytes() == left
    assert left == damage(FILE, [7])
    assert mend_tensor(place, disk, ROOT, TREE.header, [show(TREE, 7)]) == Wanted()


def test_what_is_not_canonical_is_refused(tmp_path: Path) -> None:
    """Whole and under its own hash: nobody runs it, and nothing more is asked for."""
    array = ARRAY.copy()
    array.view(np.uint32)[3] = 0x7FC00001
    tree = TensorTree(ARRAY)
    tree._bytes = array.view(np.uint8)
    tree.tree = Tree(Tag.TENSOR_NODE, hash_chunks(tree._bytes, CHUNK_BYTES, Tag.CHUNK))
    place = put(tmp_path / "there", FILE, name_object(TENSORS, tree.root))
    with pytest.raises(WrongContent, match="not canonical"):
        complete(place, Disk(tmp_path / "here"), tree)


def test_what_has_come_survives_the_place(tmp_path: Path) -> None:
    """A fetch that goes on from a mended file keeps it, and so does one that finds nothing."""
    there, here = tmp_path / "there", tmp_path / "here"
    place, disk = put(there, damage(FILE, [7, 2000])), Disk(here)
    shown = [show(TREE, 7)]
    mend_tensor(place, disk, ROOT, TREE.header, shown)
    store = open_copying(str(there), disk)
    with pytest.raises(WrongContent):
        store.fetch_tensors([ROOT])
    (there / NAME).unlink()
    asked: list[int] = [7]
    while wanted := mend_tensor(
        Disk(there), disk, ROOT, TREE.header, [show(TREE, it) for it in asked]
    ).chunks:
        asked += wanted
    assert len(asked) <= 12
    assert (here / NAME).read_bytes() == FILE


def test_what_has_come_is_not_replaced_by_what_is_wrong(tmp_path: Path) -> None:
    """A place that serves worse the second time takes nothing away."""
    there = tmp_path / "there"
    place, disk = put(there, damage(FILE, [7])), Disk(tmp_path / "here")
    assert mend_tensor(place, disk, ROOT, TREE.header, []).chunks
    (there / NAME).write_bytes(b"x" * len(FILE))
    assert len(complete(place, disk)) <= 11


def test_a_chunk_of_another_size_is_not_used(tmp_path: Path) -> None:
    """Even if the root commits to it: nothing is written beyond a chunk's place."""
    long = b"\1" * 300
    leaves = [keccak256(bytes([Tag.CHUNK]) + it) for it in (long, bytes(256))]
    tree = Tree(Tag.TENSOR_NODE, leaves)
    header = encode_header(DType.FLOAT32, (128,))
    root = hash_tensor(header, tree.top)
    shown = ProvenChunk(0, long, tuple(tree.proof(0)))
    disk = Disk(tmp_path / "here")
    assert mend_tensor(Disk(tmp_path / "there"), disk, root, header, [shown]) == Wanted((0,))
    assert not any(b"\1" * 9 in it.read_bytes() for it in (disk.path / "partial").iterdir())
    with pytest.raises(CommitmentError, match="size"):
        ShownChunk(1, 0, 0, header, long, shown.proof, ()).compute_root()


def test_operators_get_names_of_their_own() -> None:
    """Names are in no proof: what a draft has is kept where it is unique."""
    given = ["a", "", "a", "operator.1", "a.2", ""]
    named = [name for _, name, _ in _name_all([(b"", name, "") for name in given])]
    assert len({*named}) == len(given)
    assert named[:2] == ["a", "operator.1"]


# Whole jobs.


@cache
def job() -> tuple[Task, Terms, Subject]:
    """Return a task, its job's terms, and what a promise about it is about."""
    task = make_task(Setting(program="mlp", steps=3, checkpoint_every=1, trust_capture=True))
    terms = make_terms(task)
    return task, terms, make_subject(terms, REFEREE, 4)


@cache
def codec() -> Codec:
    """Return the ABI of the contract of promises."""
    return Codec(compile_contract("availability").abi)


def encode(subject: Subject, place: Place) -> bytes:
    """Return the calldata that shows a place."""
    move = find_answer(job()[0], place)
    return codec().encode_call(move.call, pack_args((subject, *move.args)))


def read(subject: Subject, places: Sequence[Place]) -> list[Shown]:
    """Return what the chain shows of places."""
    return [it for place in places for it in read_shown(encode(subject, place), subject)]


@pytest.fixture
def origin(tmp_path: Path) -> Path:
    """A folder that has the job."""
    folder = tmp_path / "origin"
    put_task(open_store(str(folder)), job()[0])
    return folder


def negotiate(store: DataStore) -> list[Place]:
    """Demand what is wanted until the job is there, and return what was demanded.

    Each demand is one that the contract accepts, as its model says.
    """
    _, terms, subject = job()
    vault = Vault({}, {subject: Promise(REFEREE, 1, 0, 1, 1)})
    asked: list[Place] = []
    while least := (lack := mend_job(store, terms, read(subject, asked))).least:
        assert 0 < len(lack.places) == min(least, MOST_PLACES)
        assert not {*lack.places} & {*asked}
        for place in lack.places:
            args = list_demand(place, lack.tensors.get(place[:2]))
            call(vault, "demand", Message(REFEREE, 0, 1), subject, *args)
        asked += lack.places
    assert make_terms(get_task(store, terms)) == terms
    return asked


def get_path(origin: Path, kind: str, number: int = 0) -> Path:
    """Return an object of a kind."""
    return sorted((origin / kind).iterdir(), key=lambda it: (-it.stat().st_size, it.name))[number]


def turn(path: Path, place: int) -> None:
    """Change a bit of a file."""
    content = bytearray(path.read_bytes())
    content[place] ^= 1
    path.write_bytes(content)


def lose_chunks(origin: Path) -> None:
    """Damage chunks of the largest tensors, and of one of the batches."""
    for number in range(3):
        turn(get_path(origin, TENSORS, number), -5)
    turn(origin / TENSORS / commit_tensor(job()[0].batch(1)[0]).root.hex(), -5)


def lose_operator(origin: Path) -> None:
    """Damage an operator of the program."""
    path = get_path(origin, PROGRAMS)
    encoding = job()[0].commitment.encodings[30]
    turn(path, path.read_bytes().index(encoding) + 9)


def lose_end_of_program(origin: Path) -> None:
    """Cut the program off in its last operators."""
    path = get_path(origin, PROGRAMS)
    encoding = job()[0].commitment.encodings[-3]
    path.write_bytes(path.read_bytes()[: path.read_bytes().rindex(encoding)])


def lose_root(origin: Path) -> None:
    """Damage a root in the list of the state's."""
    turn(get_path(origin, STATES), 40)


def lose_list(origin: Path) -> None:
    """Remove the list of the batches' roots."""
    get_path(origin, BATCHES).unlink()


def lose_tensor(origin: Path) -> None:
    """Remove a small tensor that is not all zeros, which would take nothing."""
    task = job()[0]
    roots = zip(task.start_roots, task.initial_state, strict=True)
    least = min((array.nbytes, root) for root, array in roots if array.any())
    (origin / TENSORS / least[1].hex()).unlink()


def lose_all_these(origin: Path) -> None:
    """Damage a bit of everything."""
    for lose in (lose_operator, lose_root, lose_chunks, lose_tensor, lose_list):
        lose(origin)


WAYS: dict[Callable[[Path], None], set[Part]] = {
    lose_chunks: {Part.START, Part.DATA},
    lose_operator: {Part.PROGRAM},
    lose_end_of_program: {Part.PROGRAM},
    lose_root: {Part.START},
    lose_list: {Part.DATA},
    lose_tensor: {Part.START, Part.DATA},
    lose_all_these: {*Part},
}


@pytest.mark.parametrize("lose", every(6, WAYS), ids=lambda it: it.__name__)
def test_a_job_with_gaps_becomes_whole(
    lose: Callable[[Path], None], origin: Path, tmp_path: Path
) -> None:
    """What is lacking is demanded, and nothing else of what is there."""
    lose(origin)
    store = open_copying(str(origin), Disk(tmp_path / "here"))
    asked = negotiate(store)
    assert asked
    assert {Part(part) for part, *_ in asked} <= WAYS[lose]
    program = job()[0].program
    found = get_task(open_store(str(tmp_path / "here")), job()[1]).program
    assert found == program
    named = sum(a == b for a, b in zip(found.names, program.names, strict=True))
    assert named >= len(program.names) - (len(program.nodes) if lose is lose_all_these else 3)


def test_a_store_that_has_it_all_is_asked_for_nothing(origin: Path, tmp_path: Path) -> None:
    """No place is wanted, whatever was shown meanwhile."""
    _, terms, subject = job()
    store = open_copying(str(origin), Disk(tmp_path / "here"))
    assert mend_job(store, terms, read(subject, [(0, 3, 0), (1, 0, 0)])) == Lack()
    assert mend_job(store, terms, []) == Lack()


def test_a_program_without_its_layout_is_not_put_together(origin: Path, tmp_path: Path) -> None:
    """Names of slots are in no proof: nothing is wanted, as no answer would be of use."""
    _, terms, subject = job()
    path = get_path(origin, PROGRAMS)
    turn(path, 30)
    store = open_copying(str(origin), Disk(tmp_path / "here"))
    everything = [(0, place, 0) for place in range(terms.operators)]
    for places in ([], everything):
        with pytest.raises((NotInStore, WrongContent)):
            mend_job(store, terms, read(subject, places))


def test_all_that_is_known_to_lack_is_counted_at_once(origin: Path, tmp_path: Path) -> None:
    """Before anything is paid for one part of a job, what its other parts lack is counted, too."""
    _, terms, _ = job()
    counts = []
    for number, lose in enumerate((lose_operator, lose_root, lose_list, lose_all_these)):
        copy = tmp_path / f"there-{number}"
        shutil.copytree(origin, copy)
        lose(copy)
        store = open_copying(str(copy), Disk(tmp_path / f"here-{number}"))
        counts.append(mend_job(store, terms, []).least)
    assert all(counts)
    assert counts[3] >= sum(counts[:3])


def mislead(rng: random.Random, calldata: bytes) -> bytes:
    """Return calldata of which some bytes are others, or that is shorter or longer."""
    content = bytearray(calldata)
    for _ in range(rng.randrange(1, 4)):
        content[rng.randrange(300, len(content))] ^= 1 << rng.randrange(8)
    return bytes(content[: rng.randrange(len(content))]) if rng.random() < 0.2 else bytes(content)


def test_spoilt_calldata_is_read_or_not_and_never_used(origin: Path, tmp_path: Path) -> None:
    """Whatever strangers write: nothing is right by it that was not, and the rest is wanted."""
    rng = random.Random(5)
    _, terms, subject = job()
    lose_operator(origin)
    lose_chunks(origin)
    store = open_copying(str(origin), Disk(tmp_path / "here"))
    wanted = mend_job(store, terms, [])
    shown: list[Shown] = []
    for place in (*wanted.places, (0, 30, 0), (1, 0, 3)):
        calldata = encode(subject, place)
        right = [*read_shown(calldata, subject)]
        for _ in range(60):
            shown += [it for it in read_shown(mislead(rng, calldata), subject) if it not in right]
    assert len(shown) > 100
    after = mend_job(store, terms, shown)
    assert after.least == wanted.least
    assert [place[:2] for place in after.places] == [place[:2] for place in wanted.places]
    asked = [*after.places]
    for part in shown:
        if isinstance(part, ShownChunk):
            read_root(part)
    while places := mend_job(store, terms, [*shown, *read(subject, asked)]).places:
        asked += places
    assert make_terms(get_task(store, terms)) == terms


def read_root(part: ShownChunk) -> bytes | None:
    """Return what root a part has; refused or not, it takes no time."""
    try:
        return part.compute_root()
    except CommitmentError:
        return None


def test_what_is_shown_of_another_job_is_not_read() -> None:
    """Another referee, number or root: nothing is found in the calldata."""
    _, _, subject = job()
    calldata = encode(subject, (0, 3, 0))
    for other in (
        replace(subject, job_id=5),
        replace(subject, referee="0x" + "ac" * 20),
        replace(subject, start_root=bytes(32)),
    ):
        assert [*read_shown(calldata, other)] == []
    assert len([*read_shown(calldata, subject)]) == 1
    assert [*read_shown(calldata[:200], subject)] == []
    assert [*read_shown(b"", subject)] == []


def test_a_call_within_a_call_is_read() -> None:
    """A wallet that is a contract passes the call on: what it showed is in the calldata, too."""
    _, _, subject = job()
    one, two = (encode(subject, place) for place in ((0, 3, 0), (1, 0, 1)))
    wrapped = b"\1\2\3\4" + bytes(77) + one + bytes(5) + two + b"\xff" * 40
    found = [*read_shown(wrapped, subject)]
    assert found == [*read_shown(one, subject), *read_shown(two, subject)]


def test_a_slot_of_another_shape_is_said(origin: Path, tmp_path: Path) -> None:
    """If the start's tensor is not what the program takes, nobody can make the job whole."""
    task, terms, subject = job()
    index = next(n for n, it in enumerate(task.initial_state) if it.ndim == 2)
    array = task.initial_state[index]
    tree = TensorTree(array.T.copy())
    shown = replace(
        next(it for it in read(subject, [(1, index, 0)]) if isinstance(it, ShownChunk)),
        header=tree.header,
    )
    roots = list(task.start_roots)
    roots[index] = shown.compute_root()
    state = Tree(Tag.STATE_NODE, roots)
    other: Any = replace(terms, start_root=compute_state_root(roots))
    lie = replace(shown, proof=tuple(state.proof(index)))
    open_store(str(origin)).put_roots(STATES, roots)
    store = open_copying(str(origin), Disk(tmp_path / "here"))
    with pytest.raises(WrongContent, match="not what slot"):
        mend_job(store, other, [lie])


def test_shown_parts_are_what_was_shown() -> None:
    """Each kind of call is read as it was encoded."""
    _, _, subject = job()
    operator, chunk, later = read(subject, [(0, 3, 0), (1, 0, 0), (1, 0, 1)])
    assert isinstance(operator, ShownOperator)
    assert isinstance(chunk, ShownChunk)
    assert isinstance(later, ShownChunk)
    assert chunk.compute_root() == later.compute_root() == job()[0].start_roots[0]
