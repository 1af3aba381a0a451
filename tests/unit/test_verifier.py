"""The bounded verifier: its rulings, its refusals, and the order of its checks."""

import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from moot.offchain.arithmetic.functions import DType, Function
from moot.offchain.arithmetic.ordered import ORDERED
from moot.offchain.commitments.tensors import Array, compute_tensor_root
from moot.offchain.errors import (
    CostBoundExceeded,
    LimitReached,
    VerifierError,
    WrongOperand,
)
from moot.offchain.programs.cost import Cost, compute_operator_cost
from moot.offchain.programs.encoding import encode_node
from moot.offchain.programs.graph import Kind, Node, Operand, Origin, Row, immediate
from moot.offchain.verifier import verifier
from moot.offchain.verifier.bounds import DEFAULT, Bound
from moot.offchain.verifier.exchange import Refusal, read_answer, read_question, write_question
from moot.offchain.verifier.questions import Question
from moot.offchain.verifier.recompute import work
from moot.offchain.verifier.verifier import rule

FLOAT, INT = DType.FLOAT32, DType.INT64
ONE = 0x3F800000


def access(reference: int, *rows: Row, dtype: DType = FLOAT) -> Operand:
    """An access to the output of a node."""
    return Operand(Origin.NODE, dtype, reference, 0, rows)


def along(size: int, variable: int) -> Row:
    """A coordinate that is a variable."""
    return Row(size, 0, ((variable, 1),))


def make_addition(rows: int = 2, columns: int = 3) -> Node:
    """A map x + y over a matrix."""
    own = along(rows, 0), along(columns, 1)
    return Node(Kind.MAP, Function.ADD, FLOAT, (rows, columns), (access(0, *own), access(1, *own)))


def make_product(m: int, n: int, k: int) -> Node:
    """A matrix product a @ b, starting from 0."""
    a, b = access(0, along(m, 0), along(k, 2)), access(1, along(k, 2), along(n, 1))
    return Node(Kind.CONTRACT, Function.FMA, FLOAT, (m, n), (immediate(FLOAT, 0), a, b), (k,))


def make_sum(first: int = ONE) -> Node:
    """A sum of four elements from a first accumulator on."""
    operands = (immediate(FLOAT, first), access(0, along(4, 0)))
    return Node(Kind.REDUCE, Function.ADD, FLOAT, (), operands, (4,))


def make_scatter() -> Node:
    """A scatter of 5 rows of 7 elements into 11 rows."""
    operands = (
        immediate(FLOAT, 0),
        access(0, along(5, 2), along(7, 1)),
        access(1, along(5, 2), dtype=INT),
    )
    return Node(Kind.SCATTER, Function.ADD, FLOAT, (11, 7), operands, (5,), targets=(0,))


def ask(node: Node, *operands: Array | None, claimed: Array) -> Question:
    """A question with the right roots."""
    roots = tuple(None if a is None else compute_tensor_root(a) for a in operands)
    root = compute_tensor_root(claimed)
    return Question(ORDERED, encode_node(node), 0, operands, roots, root, claimed)


X = np.arange(6, dtype=np.float32).reshape(2, 3)
Y = np.full((2, 3), 0.5, np.float32)
TERMS = np.array([1, 2, 3, 4], np.float32)


@pytest.fixture
def idle(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail the test if anything is started."""

    def start(*_: object, **__: object) -> None:
        raise AssertionError("a process was started")

    monkeypatch.setattr(subprocess, "Popen", start)


@pytest.fixture
def inline(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let this process do the worker's part, where the process is not what is tested."""
    monkeypatch.setattr(verifier, "_run_worker", lambda folder, _, backend: work(folder, backend))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The system's folder for temporary files, of which something is said afterwards."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_right_claim_is_upheld() -> None:
    """The output of the operator itself is upheld, at the cost that its shapes say."""
    ruling = rule(ask(make_addition(), X, Y, claimed=X + Y))
    assert ruling.upheld
    assert ruling.root == compute_tensor_root(X + Y)
    assert (ruling.operations, ruling.bytes) == (6, 72)
    assert ruling.differs_at is None


def test_wrong_claim_is_refused_at_its_first_wrong_element() -> None:
    """One flipped bit is found, and both values are told."""
    claimed = X + Y
    claimed.view(np.uint32)[1, 1] ^= 1
    claimed[1, 2] = 0
    ruling = rule(ask(make_addition(), X, Y, claimed=claimed))
    assert not ruling.upheld
    assert ruling.root == compute_tensor_root(X + Y)
    assert (ruling.differs_at, ruling.claimed_bits) == (4, ruling.correct_bits ^ 1)  # type: ignore[operator]  # not None, or this fails
    assert ruling.correct_bits == np.float32(4.5).view(np.uint32)


@pytest.mark.usefixtures("inline")
def test_claimed_output_is_not_needed() -> None:
    """The root alone is ruled on; only the place is unknown then."""
    question = replace(ask(make_addition(), X, Y, claimed=X), claimed=None)
    ruling = rule(question)
    assert (ruling.upheld, ruling.differs_at, ruling.correct_bits) == (False, None, None)


@pytest.mark.usefixtures("inline")
@pytest.mark.parametrize("garbage", [X, X.T, X.astype(np.int64)], ids=["values", "shape", "type"])
def test_garbage_for_the_claimed_output_changes_nothing(garbage: Array) -> None:
    """A defender that hands in another tensor than it claims neither gains nor stops the ruling."""
    question = ask(make_addition(), X, Y, claimed=X + Y)
    assert rule(replace(question, claimed=garbage)).upheld
    wrong = replace(question, claimed=garbage, claimed_root=bytes(32))
    ruling = rule(wrong)
    assert (ruling.upheld, ruling.differs_at) == (False, None)


@pytest.mark.usefixtures("inline")
@pytest.mark.parametrize("claimed", [X.reshape(6), X.view(np.int32), X[:1]])
def test_claim_of_another_form_is_wrong(claimed: Array) -> None:
    """A claimed output of another shape or type is refused; no element of it is compared."""
    ruling = rule(ask(make_addition(), X, Y, claimed=claimed))
    assert (ruling.upheld, ruling.differs_at) == (False, None)


@pytest.mark.usefixtures("inline")
@pytest.mark.parametrize(
    ("node", "operands", "output"),
    [
        (make_addition(), (np.asfortranarray(X), Y[:, ::-1]), X + Y),
        (make_addition(0, 3), (X[:0], Y[:0]), X[:0]),
        (make_sum(), (None, TERMS), np.array(11, np.float32)),
        (make_product(2, 2, 3), (None, X, Y.reshape(3, 2)), X @ Y.reshape(3, 2)),
        (make_sum(), (None, np.array([0xFFC00001] * 4, np.uint32).view(np.float32)), TERMS[0]),
    ],
    ids=["strides", "empty", "scalar", "product", "nan"],
)
def test_forms_of_tensors(node: Node, operands: tuple[Array | None, ...], output: Array) -> None:
    """Any layout, no elements, no dimensions and any NaN go through the process and back."""
    claimed = np.asarray(output)
    if node == make_sum() and np.isnan(np.asarray(operands[1], np.float32)).any():
        claimed = np.array(np.nan, np.float32)
    assert rule(ask(node, *operands, claimed=claimed)).upheld


@pytest.mark.usefixtures("inline")
def test_random_operator_depends_on_the_step() -> None:
    """The step of the question is the step of the generator."""
    node = Node(Kind.RANDOM, Function.UNIFORM, FLOAT, (4,), seed=7, stream=1)
    question = ask(node, claimed=TERMS)
    first = rule(question).root
    assert rule(question).root == first != rule(replace(question, step=1)).root


@pytest.mark.parametrize(
    ("node", "operations", "size"),
    [
        (make_addition(), 6, 72),
        (make_product(5, 7, 11), 385, 4 * (55 + 77 + 35)),
        (make_sum(), 4, 20),
        (make_scatter(), 77 + 35, 4 * 35 + 8 * 5 + 4 * 77),
        (replace(make_sum(), fold_shape=(0,)), 1, 20),
        (make_product(1 << 20, 1 << 20, 1 << 20), 1 << 60, 3 << 42),
    ],
    ids=["map", "product", "sum", "scatter", "no steps", "huge"],
)
def test_cost_follows_from_the_shapes(node: Node, operations: int, size: int) -> None:
    """Operations and bytes are counted from the operator alone."""
    assert compute_operator_cost(node) == Cost(operations, size)


@pytest.mark.usefixtures("idle")
@pytest.mark.parametrize(
    ("bound", "resource", "needed"),
    [(Bound(operations=5), "operations", 6), (Bound(bytes=71), "bytes", 72)],
)
def test_cost_above_the_bound_is_refused(bound: Bound, resource: str, needed: int) -> None:
    """An operator that costs one more than the bound is refused before anything runs."""
    with pytest.raises(CostBoundExceeded) as caught:
        rule(ask(make_addition(), X, Y, claimed=X), bound)
    error = caught.value
    assert (error.resource, error.needed, error.bound) == (resource, needed, needed - 1)
    assert f"{needed} {resource}" in str(error)
    assert f"bound of {needed - 1}" in str(error)


def test_cost_at_the_bound_is_allowed() -> None:
    """The bound itself may be used up."""
    Bound(operations=6, bytes=72).require(Cost(6, 72))


@pytest.mark.usefixtures("idle")
def test_huge_operator_is_refused_without_its_tensors() -> None:
    """Shapes that no machine could hold are refused from the encoding, the tensors unseen."""
    question = ask(make_product(1 << 20, 1 << 20, 1 << 20), None, X, Y, claimed=X)
    with pytest.raises(CostBoundExceeded, match="1,152,921,504,606,846,976 operations"):
        rule(question)


@pytest.mark.usefixtures("inline")
@pytest.mark.parametrize("operand", [0, 1])
def test_operand_with_another_root_is_named(operand: int) -> None:
    """A tensor that is not the agreed one gives no ruling, and it is said which."""
    question = ask(make_addition(), X, Y, claimed=X + Y)
    operands = list(question.operands)
    operands[operand] = X + 1
    with pytest.raises(WrongOperand, match=f"operand {operand} does not have its agreed root") as e:
        rule(replace(question, operands=tuple(operands)))
    assert e.value.operand == operand


@pytest.mark.usefixtures("inline")
def test_operand_in_another_shape_is_named() -> None:
    """The agreed root binds the shape in which the producer committed to the tensor."""
    question = ask(make_addition(), X, Y, claimed=X + Y)
    with pytest.raises(WrongOperand, match="operand 0 does not have"):
        rule(replace(question, operands=(X.reshape(-1), Y)))


@pytest.mark.usefixtures("idle")
@pytest.mark.parametrize(
    ("operands", "named", "problem"),
    [
        ((None, None, Y), 1, "is missing"),
        ((None, X.astype(np.float64), Y), 1, "is not 6 elements of FLOAT32"),
        ((None, X.astype(">f4"), Y), 1, "is not 6 elements of FLOAT32"),
        ((None, X, Y[:1]), 2, "is not 6 elements of FLOAT32"),
        ((X, X, Y), 0, "is a constant"),
    ],
)
def test_operand_of_another_form_is_named(
    operands: tuple[Array | None, ...], named: int, problem: str
) -> None:
    """What the operator could not even read is refused before anything runs."""
    question = ask(make_product(2, 2, 3), None, X, Y, claimed=X)
    with pytest.raises(WrongOperand, match=problem) as caught:
        rule(replace(question, operands=operands))
    assert caught.value.operand == named


@pytest.mark.usefixtures("idle")
def test_missing_root_is_refused() -> None:
    """A tensor without an agreed root proves nothing."""
    question = ask(make_addition(), X, Y, claimed=X)
    with pytest.raises(WrongOperand, match="operand 0 is missing"):
        rule(replace(question, operand_roots=(None, question.operand_roots[1])))


@pytest.mark.usefixtures("idle")
@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"operands": (X,)}, "has 2 operands"),
        ({"operand_roots": ()}, "has 2 operands"),
        ({"encoding": b"no operator"}, "no such operator"),
        ({"encoding": encode_node(make_addition()) + b"\0"}, "no such operator"),
    ],
)
def test_senseless_question_is_refused(change: dict[str, Any], problem: str) -> None:
    """An operator that does not decode, or another number of operands, is refused at once."""
    with pytest.raises(VerifierError, match=problem):
        rule(replace(ask(make_addition(), X, Y, claimed=X), **change))


@pytest.mark.usefixtures("inline")
def test_undefined_function_gives_no_ruling() -> None:
    """An operator that the arithmetic does not define is refused in the arithmetic's words."""
    operand = access(0, along(4, 0), dtype=INT)
    node = Node(Kind.MAP, Function.EXP, INT, (4,), (operand,))
    x = np.arange(4)
    with pytest.raises(VerifierError, match="EXP is not defined"):
        rule(ask(node, x, claimed=x))


def test_time_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker that takes too long is killed, which is no ruling."""
    monkeypatch.setattr(verifier, "START_SECONDS", 0.0)
    with pytest.raises(LimitReached, match=r"needs more than 0.05 seconds") as caught:
        rule(ask(make_addition(), X, Y, claimed=X), Bound(seconds=0.05))
    assert caught.value.resource == "seconds"


def test_worker_that_hangs_is_killed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A process that never comes to limit itself is killed all the same."""
    program = tmp_path / "hang"
    program.write_text("#!/bin/sh\nexec sleep 60\n")
    program.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(program))
    monkeypatch.setattr(verifier, "START_SECONDS", 0.0)
    with pytest.raises(LimitReached):
        rule(ask(make_addition(), X, Y, claimed=X), Bound(seconds=0.05))


def test_memory_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    """An operator that needs more memory than its share is stopped by the system."""
    monkeypatch.setattr(verifier, "BASELINE_BYTES", 1 << 28)
    monkeypatch.setattr(verifier, "compute_memory_bytes", lambda *_: 0)
    node = Node(Kind.MAP, Function.NEG, FLOAT, (1 << 28,), (immediate(FLOAT, 0),))
    with pytest.raises(LimitReached) as caught:
        rule(ask(node, None, claimed=X))
    assert caught.value.resource == "bytes"


def pretend(monkeypatch: pytest.MonkeyPatch, act: Callable[[Path], object]) -> None:
    """Let something else do the worker's part."""
    monkeypatch.setattr(verifier, "_run_worker", lambda folder, *_: act(folder))


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        '"problem"',
        "{}",
        '{"problem": "x"}',
        '{"problem": "x", "operand": "0"}',
        '{"root": "abc"}',
        '{"root": "abcd"}',
        '{"root": 5}',
        '{"root": null}',
        f'{{"root": "{bytes(32).hex()}", "differs_at": -1}}',
        f'{{"root": "{bytes(32).hex()}", "differs_at": true}}',
        f'{{"root": "{bytes(32).hex()}", "upheld": 1}}',
    ],
)
def test_unreadable_answer_gives_no_ruling(monkeypatch: pytest.MonkeyPatch, content: str) -> None:
    """Whatever a worker leaves behind, it is an answer in the agreed form or an error."""
    pretend(monkeypatch, lambda folder: (folder / "answer.json").write_text(content))
    with pytest.raises(VerifierError, match="the worker's answer"):
        rule(ask(make_addition(), X, Y, claimed=X))


def test_missing_answer_gives_no_ruling(monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker that ends well but leaves nothing is an error."""
    pretend(monkeypatch, lambda _: None)
    with pytest.raises(VerifierError, match="unreadable"):
        rule(ask(make_addition(), X, Y, claimed=X))


def test_crash_gives_no_ruling(monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker that fails is reported with its status and last words."""
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with pytest.raises(VerifierError, match="ended with status 1: no complaint"):
        rule(ask(make_addition(), X, Y, claimed=X))


def test_folder_is_private_and_goes(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Nobody else can read the tensors, and nothing is left of them, ruling or none."""
    modes = []

    def look(own: Path) -> None:
        modes.append(stat.S_IMODE(own.stat().st_mode))
        assert own.parent == folder
        raise VerifierError("enough")

    pretend(monkeypatch, look)
    with pytest.raises(VerifierError, match="enough"):
        rule(ask(make_addition(), X, Y, claimed=X))
    assert modes == [0o700]
    assert not list(folder.iterdir())


def test_full_disk_gives_no_ruling(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """A folder for temporary files that is full is an error that names it."""

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(verifier, "write_question", fail)
    with pytest.raises(VerifierError, match=f"no sandbox in {folder}.*No space left"):
        rule(ask(make_addition(), X, Y, claimed=X))


def test_worker_inherits_no_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    """The worker sees only the variables that it needs."""
    monkeypatch.setenv("PRIVATE_KEY", "secret")
    monkeypatch.setenv("NUMBA_CPU_NAME", "host")
    environments = []

    def start(*_: object, env: dict[str, str], **__: object) -> None:
        environments.append(env)
        raise OSError("enough")

    monkeypatch.setattr(subprocess, "Popen", start)
    with pytest.raises(VerifierError, match="enough"):
        rule(ask(make_addition(), X, Y, claimed=X))
    (environment,) = environments
    assert environment["NUMBA_CPU_NAME"] == "host"
    assert "secret" not in environment.values()


def test_worker_checks_for_itself(tmp_path: Path) -> None:
    """The worker refuses what the asking side should have refused already."""
    question = ask(make_addition(), X, Y, claimed=X + Y)
    write_question(tmp_path, question, Bound(operations=5))
    work(tmp_path)
    answer = read_answer(tmp_path)
    assert isinstance(answer, Refusal)
    assert "6 operations, above the bound of 5" in answer.problem
    write_question(tmp_path, replace(question, operand_roots=(bytes(32),) * 2), DEFAULT)
    work(tmp_path)
    assert read_answer(tmp_path) == Refusal("does not have its agreed root", 0)


@pytest.mark.parametrize("claimed", [X, None], ids=["claimed", "not claimed"])
def test_question_survives_its_files(tmp_path: Path, claimed: Array | None) -> None:
    """The worker reads the question that was written."""
    question = ask(make_product(2, 2, 3), None, X, np.asfortranarray(Y.T), claimed=X)
    question = replace(question, claimed=claimed)
    write_question(tmp_path, question, Bound(seconds=0.5))
    back, bound = read_question(tmp_path)
    assert bound == Bound(seconds=0.5)
    emptied = [replace(q, operands=(), claimed=None) for q in (question, back)]
    assert emptied[0] == emptied[1]
    for array, read in zip(
        (*question.operands, claimed), (*back.operands, back.claimed), strict=True
    ):
        assert (array is None) == (read is None)
        assert array is None or np.array_equal(array, read)  # type: ignore[arg-type]  # read is no None then
