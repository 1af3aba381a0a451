"""Batches made by a rule are those that the dataset and the order say; false rules are refused."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import save_file

from moot.offchain.arithmetic.permutation import permute
from moot.offchain.commitments.tensors import (
    Array,
    compute_data_root,
    compute_tensor_root,
    encode_elements,
)
from moot.offchain.datastore.columns import ArrayColumn, open_safetensors
from moot.offchain.datastore.objects import RULES, TENSORS, name_object
from moot.offchain.datastore.orders import Order
from moot.offchain.datastore.rules import Rule, decode_rule, encode_rule
from moot.offchain.datastore.store import open_store
from moot.offchain.disputes.referee.terms import make_terms
from moot.offchain.errors import CommitmentError, StoreError, UsageError, WrongContent
from moot.offchain.programs.graph import DType, Slot
from moot.offchain.providers.batches import Choice, RuledBatches
from moot.offchain.providers.publication import get_task, load_batches, put_task
from moot.offchain.providers.task import Task
from tests.quick import every, share
from tests.sim_helpers import COLUMNS, ROWS, make_task
from tests.store_helpers import serving

STEPS, TAKEN = 5, 2
IMAGES: Array = np.arange(28, dtype=np.float32).reshape(7, 4)
LABELS: Array = np.arange(7, dtype=np.int64)
SLOTS = (Slot("images", DType.FLOAT32, (TAKEN, 4)), Slot("labels", DType.INT64, (TAKEN,)))
COLUMNS_OF: dict[str, Any] = {"images": ArrayColumn(IMAGES), "labels": ArrayColumn(LABELS)}


@settings(deadline=None, max_examples=share(60))
@given(
    st.one_of(st.integers(1, 50), st.integers(1, (1 << 63) - 1)),
    st.integers(0, (1 << 64) - 1),
    st.integers(0, 1 << 40),
)
def test_many_places_at_once_are_as_defined(rows: int, seed: int, first: int) -> None:
    """The order of many places is that of the readable definition, whatever the size."""
    found = Order.shuffled(rows, seed).pick(first, 20).tolist()
    assert found == [permute(seed, p // rows, p % rows, rows) for p in range(first, first + 20)]


@settings(deadline=None, max_examples=share(60))
@given(st.integers(1, 300), st.integers(0, (1 << 64) - 1), st.integers(0, 1 << 30))
def test_an_epoch_has_each_row_once(rows: int, seed: int, epoch: int) -> None:
    """An epoch is a permutation."""
    assert sorted(Order.shuffled(rows, seed).pick(epoch * rows, rows)) == [*range(rows)]


def test_an_order_is_what_it_always_was() -> None:
    """The definition does not change: the first ten of a million rows under seed 7, two epochs."""
    order = Order.shuffled(1_000_000, 7)
    assert order.pick(0, 5).tolist() == FIRST
    assert order.pick(1_000_000, 5).tolist() == SECOND


FIRST = [718325, 585933, 752946, 638244, 757708]
SECOND = [476916, 867320, 774288, 665545, 856452]


@st.composite
def choices(draw: st.DrawFn) -> tuple[Choice, Callable[[int], int]]:
    """Draw a choice of rows of the dataset, and say which row stands at a place."""
    first_step = draw(st.integers(0, 20))
    kind = draw(st.sampled_from(["stand", "shuffled", "listed", "dropped"]))
    if kind == "listed":
        listed = draw(st.lists(st.integers(0, 6), min_size=1, max_size=30))
        choice = Choice(COLUMNS_OF, listed=listed, first_step=first_step)
        return choice, lambda place: listed[place % len(listed)]
    if kind == "stand":
        return Choice(COLUMNS_OF, first_step=first_step), lambda place: place % 7
    seed, epoch = draw(st.integers(0, (1 << 64) - 1)), 6 if kind == "dropped" else 7
    choice = Choice(COLUMNS_OF, seed=seed, drop_last=kind == "dropped", first_step=first_step)
    return choice, lambda place: permute(seed, place // epoch, place % epoch, 7)


@settings(deadline=None, max_examples=share(40))
@given(choices())
def test_a_rule_makes_the_explicit_batches(drawn: tuple[Choice, Callable[[int], int]]) -> None:
    """What is fetched by the rule is bit for bit what the dataset has at the order's rows."""
    choice, row_at = drawn
    made = choice.make_batches(SLOTS, STEPS)
    explicit = []
    for step in range(STEPS):
        first = (choice.first_step + step) * TAKEN
        rows = [row_at(place) for place in range(first, first + TAKEN)]
        explicit.append([IMAGES[rows], LABELS[rows]])
    root = compute_data_root([compute_tensor_root(it) for batch in explicit for it in batch])
    with TemporaryDirectory() as name:
        origin = open_store(f"{name}/origin")
        origin.put_dataset(made.columns, made.dataset)
        origin.put_bytes(RULES, root, encode_rule(made.rule))
        with serving(Path(name, "origin")) as server:
            found = load_batches(open_store(server.url, f"{name}/cache"), SLOTS, STEPS, root)
        assert isinstance(found, RuledBatches)
        for step, batch in enumerate(explicit):
            assert [it.tobytes() for it in found(step)] == [it.tobytes() for it in batch]
        assert encode_rule(decode_rule(encode_rule(made.rule))) == encode_rule(made.rule)


def serve_rule(
    folder: Path, change: Callable[[bytes, Rule], bytes], columns: dict[str, Any] = COLUMNS_OF
) -> RuledBatches:
    """Publish a rule, changed, under the root of the right batches, and fetch them from there."""
    right = Choice(COLUMNS_OF, seed=3).make_batches(SLOTS, STEPS)
    root = compute_data_root([compute_tensor_root(it) for s in range(STEPS) for it in right(s)])
    others = Choice(columns, seed=3).make_batches(SLOTS, STEPS)
    origin = open_store(str(folder / "origin"))
    origin.put_dataset(others.columns, others.dataset)
    origin.put_bytes(RULES, root, change(encode_rule(others.rule), others.rule))
    with serving(folder / "origin") as server:
        found = load_batches(open_store(server.url, folder / "cache"), SLOTS, STEPS, root)
    assert isinstance(found, RuledBatches)
    return found


def change_rule(**changes: Any) -> Callable[[bytes, Rule], bytes]:
    """Return what changes a rule's fields."""
    return lambda _, rule: encode_rule(replace(rule, **changes))


def change_take(**changes: Any) -> Callable[[bytes, Rule], bytes]:
    """Return what changes what the first input takes."""
    return lambda _, rule: encode_rule(
        replace(rule, takes=(replace(rule.takes[0], **changes), rule.takes[1]))
    )


def list_rows(_: bytes, rule: Rule) -> bytes:
    """Return a rule with a list of rows, of which the last is out of range."""
    good = encode_rule(replace(rule, order=Order.listing(7, [0, 1, 2, 6])))
    return good.replace((6).to_bytes(8, "big") + b"\0\0\0\2", (7).to_bytes(8, "big") + b"\0\0\0\2")


MINUS = b"\xff" * 8
HOSTILE: dict[str, tuple[Callable[[bytes, Rule], bytes], str]] = {
    "nothing": (lambda *_: b"", "does not begin"),
    "another first line": (lambda data, _: b"x" + data, "does not begin"),
    "an end in the middle": (lambda data, _: data[:-1], "ends early"),
    "more behind the end": (lambda data, _: data + b"\0", "bytes follow"),
    "far too long": (lambda data, _: data + bytes(1 << 27), "bytes are offered, above"),
    "a row out of range": (list_rows, "row 7 is listed, and there are 7"),
    "a negative row": (
        lambda _, rule: list_rows(_, rule).replace(
            (7).to_bytes(8, "big") + b"\0\0\0\2", MINUS + b"\0\0\0\2"
        ),
        "is listed, and there are 7",
    ),
    "negative rows": (
        lambda d, _: d.replace(b"\1" + (7).to_bytes(8, "big"), b"\1" + MINUS, 1),
        "rows",
    ),
    "another order": (change_rule(order=Order.shuffled(7, 4)), "not those of the job"),
    "another begin": (change_rule(first_place=1), "not those of the job"),
    "another length": (change_rule(steps=STEPS + 1), "6 steps, and 5 are wanted"),
    "no steps": (change_rule(steps=0), "0 steps"),
    "more rows than there are": (change_rule(order=Order.shuffled(8, 3)), "8 rows are needed"),
    "too many places": (change_rule(first_place=(1 << 63) - 1), "are too many"),
    "another dataset": (change_rule(dataset=bytes(32)), "there is none"),
    "more tensors": (change_rule(tensors=3), "2 tensors, and the rule says 3"),
    "a tensor that is none": (change_take(tensor=9), "there are 2"),
    "a tensor of another type": (change_take(tensor=1), "another type or shape"),
    "rows of no step": (change_take(first=1), "rows 1 to 3 of 2"),
    "a tensor of other rows": (change_take(rows=9), "float32"),
    "fewer inputs": (lambda _, r: encode_rule(replace(r, takes=r.takes[:1])), "fills 1 inputs"),
    "an input twice": (lambda _, r: encode_rule(replace(r, takes=r.takes * 2)), "fills 4 inputs"),
}


@pytest.mark.parametrize("case", every(6, HOSTILE))
def test_a_false_rule_is_refused(case: str, tmp_path: Path) -> None:
    """A false rule is refused in one line, like a false batch, and not kept."""
    change, problem = HOSTILE[case]
    with pytest.raises(StoreError, match=problem) as caught:
        serve_rule(tmp_path, change)
    assert "\n" not in str(caught.value)
    assert not [*(tmp_path / "cache" / RULES).iterdir()]


def test_a_right_rule_is_kept(tmp_path: Path) -> None:
    """The same way with nothing changed leads to the batches."""
    assert len(serve_rule(tmp_path, lambda data, _: data)(0)) == 2


def test_another_dataset_is_refused(tmp_path: Path) -> None:
    """A rule about other rows of the same shape makes other batches."""
    others = {**COLUMNS_OF, "labels": ArrayColumn(LABELS[::-1].copy())}
    with pytest.raises(WrongContent, match="not those of the job"):
        serve_rule(tmp_path, lambda data, _: data, others)


def test_a_dataset_that_is_damaged_later_is_noticed(tmp_path: Path) -> None:
    """Each batch is verified when it is made, whatever has become of the dataset on the disk."""
    found = serve_rule(tmp_path, lambda data, _: data)
    path = tmp_path / "cache" / name_object(TENSORS, compute_tensor_root(LABELS))
    content = path.read_bytes()
    path.write_bytes(content[:-8] + bytes([0]) + content[-7:])
    with pytest.raises(StoreError, match="is damaged"):
        [found(step) for step in range(STEPS)]


def test_a_job_is_fetched_by_its_rule(tmp_path: Path) -> None:
    """The terms of a job are the same whether its batches are published in full or by a rule."""
    plain = make_task()
    rows: Array = np.random.default_rng(1).random((9, COLUMNS), dtype=np.float32)
    choice = Choice({"rows": ArrayColumn(rows)}, {plain.program.batch[0].name: "rows"}, seed=1)
    made = choice.make_batches(plain.program.batch, 4)
    task = Task(plain.program, plain.initial_state, made, 4, 2)
    full = replace(task, batch=lambda step: [*made(step)])
    assert made.rule.step_rows == ROWS
    assert make_terms(full) == make_terms(task)
    put_task(open_store(str(tmp_path / "origin")), task)
    assert not [*(tmp_path / "origin" / "batches").iterdir()]
    with serving(tmp_path / "origin") as server:
        found = get_task(open_store(server.url, tmp_path / "cache"), make_terms(full))
    assert make_terms(found) == make_terms(full)
    own = get_task(open_store(str(tmp_path / "cache")), make_terms(full))
    for step in range(4):
        assert own.batch(step)[0].tobytes() == encode_elements(full.batch(step)[0]).tobytes()


def test_a_safetensors_file_is_read_by_rows(tmp_path: Path) -> None:
    """A file's tensors are those that its library has written, and are committed to alike."""
    path = tmp_path / "data.safetensors"
    save_file({"b": IMAGES, "a": LABELS}, path)
    found = open_safetensors(path)
    assert [*found] == ["a", "b"]
    assert found["b"].commitment.root == compute_tensor_root(IMAGES)
    assert found["b"].read(np.array([6, 0])).tobytes() == IMAGES[[6, 0]].tobytes()


@pytest.mark.parametrize(
    "header",
    [
        "{",
        '{"a": {"dtype": "I64", "shape": [1], "data_offsets": [0, 9]}}',
        '{"a": {"dtype": "I64", "shape": [-1], "data_offsets": [0, 8]}}',
        '{"a": {"dtype": "I64", "shape": [2], "data_offsets": [0, 16]}}',
        '{"a": {"dtype": "F64", "shape": [1], "data_offsets": [0, 8]}}',
        '{"a": {"dtype": "I64", "shape": [1]}}',
        '{"a": {"dtype": "I64", "shape": [1], "data_offsets": [0, 8]}, "a": {}}',
        *("[]", "7", "null", '"a"', "[" * 100_000, '{"a":' * 100_000, "{} {}", "\0"),
        '{"a": {"dtype": "I64", "shape": [1], "data_offsets": [0, 8], "b": 1}}',
        '{"a": {"dtype": "I64", "shape": [1], "data_offsets": [0, 8], "shape": [1]}}',
        '{"a": {"dtype": "I64", "shape": [1], "data_offsets": [0, 8, 8]}}',
        '{"a": {"dtype": "I64", "shape": [1.0], "data_offsets": [0, 8]}}',
        '{"a": {"dtype": "I64", "shape": [true], "data_offsets": [0, 8]}}',
        '{"a": {"dtype": ["I64"], "shape": [1], "data_offsets": [0, 8]}}',
        '{"a": {"dtype": "I64", "shape": "1", "data_offsets": [0, 8]}}',
        '{"a": {"dtype": "I64", "shape": [4611686018427387904, 4], "data_offsets": [0, 0]}}',
        f'{{"a": {{"dtype": "I64", "shape": [1], "data_offsets": [{"9" * 5_000}, 8]}}}}',
        f'{{"a": {{"dtype": "I64", "shape": [{"1," * 40} 1], "data_offsets": [0, 8]}}}}',
        '{"a\\n\\u001b": {"dtype": "I64\\n", "shape": [1], "data_offsets": [0, 8]}}',
        '{"__metadata__": {"a": 1}, "a": {"dtype": "I64", "shape": [1], "data_offsets": [0, 8]}}',
        '{"__metadata__": [], "a": {"dtype": "I64", "shape": [1], "data_offsets": [0, 8]}}',
    ],
)
def test_a_file_that_is_none_is_refused(header: str, tmp_path: Path) -> None:
    """Whatever is wrong with a header is one line."""
    path = tmp_path / "data.safetensors"
    path.write_bytes(len(header).to_bytes(8, "little") + header.encode() + bytes(8))
    with pytest.raises(UsageError) as caught:
        open_safetensors(path)
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 1_000


@pytest.mark.parametrize(
    ("entries", "problem"),
    [
        ({"a": ("I64", 0, 8), "b": ("I32", 4, 8)}, "share bytes, at byte"),
        ({"a": ("I32", 0, 4), "b": ("I32", 0, 4)}, "share bytes, at byte"),
        ({"a": ("I32", 4, 8)}, "leave bytes between them, at byte"),
        ({"a": ("BOOL", 0, 1), "b": ("I32", 4, 8)}, "leave bytes between them, at byte"),
        ({"a": ("I32", 0, 4)}, "4 bytes come after its tensors"),
        ({}, "8 bytes come after its tensors"),
    ],
)
def test_every_byte_is_of_one_tensor(
    entries: dict[str, tuple[str, int, int]], problem: str, tmp_path: Path
) -> None:
    """Tensors that overlap, holes between them, and bytes after them are refused in one line."""
    header = json.dumps(
        {
            name: {"dtype": dtype, "shape": [1], "data_offsets": [first, end]}
            for name, (dtype, first, end) in entries.items()
        }
    )
    path = tmp_path / "data.safetensors"
    path.write_bytes(len(header).to_bytes(8, "little") + header.encode() + bytes(8))
    with pytest.raises(UsageError, match=problem) as caught:
        open_safetensors(path)
    assert str(caught.value).isprintable()


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"takes": {"image": "images"}}, "did you mean 'images'"),
        ({"takes": {"images": "image"}}, "did you mean 'images'"),
        ({"takes": {"images": "labels"}}, "is wanted|another type"),
        ({"takes": {"images": "images@x"}}, "no choice"),
        ({"listed": [7]}, "row 7 is listed"),
        ({"listed": [-1]}, "row -1 is listed"),
        ({"listed": []}, "takes 1 to"),
        ({"listed": [0], "seed": 1}, "neither shuffled"),
        ({"seed": 1 << 64}, "64 bits"),
    ],
)
def test_a_choice_that_makes_no_batches_is_refused(changes: dict[str, Any], problem: str) -> None:
    """Inputs and tensors that do not fit are said in one line."""
    with pytest.raises((UsageError, CommitmentError), match=problem):
        Choice(COLUMNS_OF, **changes).make_batches(SLOTS, STEPS)
