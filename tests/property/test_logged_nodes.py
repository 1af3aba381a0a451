"""Operators in `logged`, against the definition of what a log's entries mean."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from unittest.mock import Mock

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from moot.offchain.arithmetic.functions import DType, Function
from moot.offchain.arithmetic.logged import LOGGED, band
from moot.offchain.arithmetic.logged.binary64 import FUNCTIONS
from moot.offchain.backends.cpu.engines import get_engine
from moot.offchain.backends.cpu.kernels.terms import multiply_terms
from moot.offchain.backends.cpu.logged import plans, terms
from moot.offchain.backends.cpu.logged.plans import Journaled
from moot.offchain.backends.cpu.logged.terms import TermReader
from moot.offchain.commitments.tensors import Array, encode_elements
from moot.offchain.execution.readable import from_bits, to_bits
from moot.offchain.native.binary64.base import Engine
from moot.offchain.native.binary64.current import computing_by
from moot.offchain.native.binary64.numpy import NumpyEngine
from moot.offchain.programs.graph import Kind, Node, Operand, Origin, Row, immediate
from moot.offchain.programs.rounding.entries import StepLog, make_log
from moot.offchain.programs.rounding.journals import Journal, Reading, Writing
from moot.offchain.programs.rounding.meaning import apply_entry, compute_logged_element, is_loggable
from moot.offchain.replication.engines import TorchEngine
from tests.property.test_executor_nodes import KINDS, Case
from tests.quick import every, share
from tests.sweeps.records import load

FLOAT32 = DType.FLOAT32
STEP, OPERATOR = 5, 3
REACHES = (0, 0.5, 0.9, 1.1, 2, 3, 3.2, 3.3, 5, 6, 7, 7.9, 8.1, 9, 12, 40)
"""Distances of exact sums from boundaries, in multiples of E."""

GAPS = (4.0, 16.0, 30.0, 31.5, 32.5, 34.0, 64.0, 1000.0)
"""Distances of neighbouring numbers, in multiples of E."""

Floats = npt.NDArray[np.float32]


@dataclass
class Subject:
    """An operator with its operands' tensors."""

    node: Node
    flats: Sequence[Array | None]

    def __post_init__(self) -> None:
        self._bits = [None if flat is None else to_bits(flat) for flat in self.flats]

    def fetch(self, place: int, operand: Operand, index: int) -> int:
        """Read one element for the definition."""
        del operand
        found = self._bits[place]
        assert found is not None
        return found[index]

    def run(self, journal: Journal) -> Array:
        """Return what the engine computes."""
        plan = get_engine(LOGGED).plan(self.node)
        assert isinstance(plan, Journaled)
        return plan.run_journaled(self.flats, STEP, OPERATOR, journal)

    def define(self, log: StepLog) -> Array:
        """Return what the operator means with a log."""
        ups, node = dict(log.operators.get(OPERATOR, ())), self.node
        elements = [
            compute_logged_element(node, e, STEP, self.fetch, up=ups.get(e)) for e in self.elements
        ]
        return from_bits(elements, node.dtype, node.shape)

    def list_void(self, log: StepLog) -> list[tuple[int, int]]:
        """Return the entries that have no effect, by definition."""
        entries = log.operators.get(OPERATOR, ())
        effects = [(e, apply_entry(self.node, e, self.fetch, up=up)) for e, up in entries]
        return [(OPERATOR, e) for e, effect in effects if effect is None]

    def list_doubtful(self, monkeypatch: pytest.MonkeyPatch) -> set[int]:
        """Return the elements within 2 E of a boundary that has a band."""
        with monkeypatch.context() as patch:
            patch.setattr(band, "REACH", 2)
            patch.setattr(band, "BAND_SHARE", 16)
            effects = ((e, apply_entry(self.node, e, self.fetch, up=True)) for e in self.elements)
            return {e for e, effect in effects if effect is not None}

    @property
    def elements(self) -> range:
        """The elements."""
        return range(self.node.elements)

    def check(self, log: StepLog) -> None:
        """Compare an auditor with the definition."""
        journal = Reading(log)
        assert_same(self.run(journal), self.define(log))
        assert journal.void == self.list_void(log)


def assert_same(first: Array, second: Array) -> None:
    """Compare two tensors bit for bit."""
    assert encode_elements(first).tobytes() == encode_elements(second).tobytes()


def get_logged(writing: Writing) -> set[int]:
    """Return the elements that have been logged."""
    return {element for element, _ in writing.log.operators.get(OPERATOR, ())}


def draw_sums(rng: np.random.Generator, kind: Kind, rows: int, steps: int) -> tuple[Floats, Floats]:
    """Return factors of sums that lie so and so many times E beside a boundary.

    Random products come first; a few terms more, in rising order of precision, lead to the sum.
    """
    spread = rng.choice([0, 3, 12, 40])
    scale = 2.0 ** rng.integers(-spread, spread + 1, (2, rows, steps))
    first, second = (rng.normal(size=(2, rows, steps)) * scale).astype(np.float32)
    second[:, -5 if kind is Kind.CONTRACT else 0 :] = 1
    exact = [
        [int(a * 2**149) * int(b * 2**149) for a, b in zip(*row, strict=True)]
        for row in zip(first.astype(object), second.astype(object), strict=True)
    ]
    for row in range(rows):
        terms = exact[row][:-5]
        total, magnitude = sum(terms), sum(map(abs, terms))
        error = band.depth(steps + 1) * magnitude >> -band.UNIT_EXPONENT
        # Half of the sums cancel, so far that the band may be too wide to exist.
        gap = error * rng.choice(GAPS)
        near = np.float32((gap * 2**23 if rng.random() < 0.5 else total) / 2.0**298)
        other = np.nextafter(near, np.float32(np.inf))
        middle = (int(near.astype(object) * 2**149) + int(other.astype(object) * 2**149)) << 148
        reach = rng.choice(REACHES) * rng.choice([-1, 1])
        left = middle + int(error * reach) - total
        for place in range(steps - 5, steps):
            first[row, place] = np.float32(left / 2.0**298)
            left -= int(first[row, place].astype(object) * 2**149) << 149
    return first, second


def make_operand(reference: int, shape: Sequence[int], variables: Sequence[int]) -> Operand:
    """Read a tensor of this shape by these variables."""
    rows = tuple(Row(size, 0, ((v, 1),)) for size, v in zip(shape, variables, strict=True))
    return Operand(Origin.BATCH, FLOAT32, reference, 0, rows)


def make_sum(kind: Kind, first: Floats, second: Floats) -> Subject:
    """Return an operator that adds up rows of products; one without products takes ones."""
    rows, steps = first.shape
    zero = immediate(FLOAT32, 0)
    if kind is Kind.CONTRACT:
        # A batch of products of one row and one column each.
        operands = (
            zero,
            make_operand(0, first.shape, (0, 1)),
            make_operand(1, first.shape, (0, 1)),
        )
        node = Node(kind, Function.FMA, FLOAT32, (rows,), operands, (steps,))
        return Subject(node, [None, first, second])
    terms = first
    if kind is Kind.REDUCE:
        operands = (zero, make_operand(0, terms.shape, (0, 1)))
        return Subject(
            Node(kind, Function.ADD, FLOAT32, (rows,), operands, (steps,)), [None, terms]
        )
    targets = np.repeat(np.arange(rows), steps)
    order = np.random.default_rng(0).permutation(rows * steps)
    flat, size = terms.reshape(-1)[order], (rows * steps,)
    indices = Operand(Origin.BATCH, DType.INT64, 1, 0, (Row(*size, 0, ((1, 1),)),))
    operands = (zero, make_operand(0, size, (1,)), indices)
    node = Node(kind, Function.ADD, FLOAT32, (rows,), operands, size, targets=(0,))
    return Subject(node, [None, flat, targets[order]])


SUMS = (Kind.CONTRACT, Kind.REDUCE, Kind.SCATTER)
CASES = [(kind, steps) for kind in SUMS for steps in (7, 40 if kind is Kind.SCATTER else 150)]


@pytest.mark.parametrize(("kind", "steps"), every(6, CASES))
def test_entries_of_sums_mean_what_is_defined(kind: Kind, steps: int) -> None:
    """An auditor's sums near boundaries are as defined, with any entries, void ones among them."""
    rng = np.random.default_rng([kind, steps])
    effects = set()
    for _ in range(3):
        subject = make_sum(kind, *draw_sums(rng, kind, 24, steps))
        chosen = np.flatnonzero(rng.random(24) < 0.8)
        log = make_log((OPERATOR, int(e), bool(rng.integers(2))) for e in chosen)
        subject.check(log)
        effects.add(len(subject.list_void(log)) in (0, len(chosen)))
    assert False in effects  # there were void ones, and others


@pytest.mark.parametrize(("kind", "steps"), every(6, CASES[1::2]))
def test_no_log_makes_an_auditor_slow(
    kind: Kind, steps: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also next to a band's ends an auditor need not ask the definition, which is slow."""
    rng = np.random.default_rng([kind, steps, 3])
    monkeypatch.delattr(plans, "apply_entry")
    for _ in range(3):
        subject = make_sum(kind, *draw_sums(rng, kind, 24, steps))
        subject.check(make_log((OPERATOR, e, bool(e & 1)) for e in subject.elements))


@pytest.mark.parametrize(("kind", "steps"), every(6, CASES))
def test_what_a_trainer_logs_counts(
    kind: Kind, steps: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A trainer's log has no void entry, gives its results, and leaves no auditor in doubt."""
    rng = np.random.default_rng([kind, steps, 1])
    logged = 0
    for _ in range(3):
        subject = make_sum(kind, *draw_sums(rng, kind, 24, steps))
        writing = Writing()
        out = subject.run(writing)
        assert_same(out, subject.define(writing.log))
        assert not subject.list_void(writing.log)
        assert subject.list_doubtful(monkeypatch) <= get_logged(writing)
        reading = Reading(writing.log)
        assert_same(out, subject.run(reading))
        assert reading.settled <= writing.settled
        logged += writing.logged
    assert logged


class Backwards(Engine):
    """An engine that adds up from the last term to the first."""

    def multiply(self, a: npt.NDArray[np.float64], b: npt.NDArray[np.float64]) -> Array:
        """See Engine."""
        found: Array = a[..., ::-1] @ b[..., ::-1, :]
        return found


@pytest.mark.parametrize("make", [NumpyEngine, TorchEngine])
@pytest.mark.parametrize(("kind", "steps"), [(kind, 60) for kind in SUMS])
def test_logs_bridge_engines(kind: Kind, steps: int, make: type[Engine]) -> None:
    """Whoever writes by one engine and whoever reads by another come to the same bits."""
    rng, engines = np.random.default_rng([kind, steps, 5]), (Engine(), make())
    for writer, reader in (engines, engines[::-1]):
        subject, writing = make_sum(kind, *draw_sums(rng, kind, 24, steps)), Writing()
        with computing_by(writer):
            out = subject.run(writing)
        reading = Reading(writing.log)
        with computing_by(reader):
            assert_same(out, subject.run(reading))
        assert not reading.void
        assert_same(out, subject.define(writing.log))


@pytest.mark.parametrize(("kind", "steps"), [(kind, 150) for kind in SUMS[:2]])
def test_logs_bridge_other_orders(kind: Kind, steps: int) -> None:
    """Sums in another order are rounded otherwise here and there, and the log corrects that."""
    rng, corrections = np.random.default_rng([kind, steps, 2]), 0
    for _ in range(4):
        subject, writing = make_sum(kind, *draw_sums(rng, kind, 100, steps)), Writing()
        out = subject.run(writing)
        with computing_by(Backwards()):
            reading = Reading(writing.log)
            assert_same(out, subject.run(reading))
        assert not reading.void
        corrections += reading.corrections
    assert corrections


@pytest.mark.parametrize("function", [f for f in FUNCTIONS if f is not Function.POW])
def test_entries_of_functions_mean_what_is_defined(
    function: Function, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The hardest operands of each function may be turned, others not, as it is defined."""
    rng = np.random.default_rng(function)
    hard = load()[function.name.lower()].findings.hard
    few = np.array([bits for _, bits in hard[:24]], np.uint32)
    usual = rng.normal(0, 3, 24).astype(np.float32).view(np.uint32)
    tensor = np.concatenate([few, usual, few]).view(np.float32)
    node = Node(Kind.MAP, function, FLOAT32, tensor.shape, (make_operand(0, tensor.shape, (0,)),))
    subject = Subject(node, [tensor])
    for up in (False, True):
        subject.check(make_log((OPERATOR, e, up) for e in subject.elements))
    writing = Writing()
    assert_same(subject.run(writing), subject.define(writing.log))
    assert not subject.list_void(writing.log)
    # At most 16 of 72 may be logged; the first that are near are.
    doubtful = sorted(subject.list_doubtful(monkeypatch))[: len(get_logged(writing))]
    assert set(doubtful) <= get_logged(writing)
    assert get_logged(writing) or not doubtful


def test_sums_of_nothing_but_negative_zeros() -> None:
    """They are -0, also where terms do not land on them; with any other zero they are +0."""
    zeros = np.full((2, 3), -0.0, np.float32)
    zeros[1, 1] = 0
    for kind in (Kind.CONTRACT, Kind.REDUCE, Kind.SCATTER):
        subject = make_sum(kind, zeros, np.ones((2, 3), np.float32))
        first = immediate(FLOAT32, 0x80000000)
        subject.node = replace(subject.node, operands=(first, *subject.node.operands[1:]))
        out = subject.run(Writing())
        assert np.signbit(out).tolist() == [True, False]
        assert_same(out, subject.define(StepLog()))


@pytest.fixture(params=["usual", "least"])
def _parts(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Look at elements again all at once, or at few, which share what they read."""
    if request.param == "least":
        monkeypatch.setattr(plans, "_TERMS_AT_ONCE", 20)
        monkeypatch.setattr(terms, "_FAR", 2)
        monkeypatch.setattr(terms, "_SHARERS", 1)


@pytest.mark.usefixtures("_parts")
@pytest.mark.parametrize("kind", ["map", "contract", "reduce", "scatter"])
@settings(max_examples=share(40), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_node_equals_its_definition(kind: str, data: st.DataObject) -> None:
    """Nodes of any accesses and any numbers mean what is defined, without a log and with any."""
    case = data.draw(KINDS[kind])
    case.check(LOGGED)
    if is_loggable(case.node):
        _check_any_log(case, data)


@given(case=KINDS["contract"] | KINDS["reduce"])
def test_terms_that_elements_share_are_their_own(case: Case) -> None:
    """Whether terms are read for each element, or once for all that share them, they are the same.

    Elements are arranged so that those which share terms meet, and none is lost.
    """
    if not is_loggable(case.node):
        return
    reader, elements = TermReader(case.node), np.repeat(np.arange(case.node.elements), 2)
    with pytest.MonkeyPatch.context() as patch, np.errstate(all="ignore"):
        patch.setattr(terms, "_SHARERS", 1)
        read = []
        for far in (1, 1 << 60):
            patch.setattr(terms, "_FAR", far)
            read.append(reader.read(elements, case.flats))
    np.testing.assert_array_equal(read[0].products, read[1].products)
    assert sorted(reader.arrange(elements)) == list(range(len(elements)))


def test_columns_are_read_once() -> None:
    """The columns of a product's second factor are far apart, and elements of one column meet."""
    a, b = np.arange(20.0, dtype=np.float32), np.arange(24.0, dtype=np.float32)
    operands = (
        immediate(FLOAT32, 0),
        make_operand(0, (5, 4), (0, 2)),
        make_operand(1, (4, 6), (2, 1)),
    )
    reader = TermReader(Node(Kind.CONTRACT, Function.FMA, FLOAT32, (5, 6), operands, (4,)))
    elements = np.arange(30)
    assert elements[reader.arrange(elements)].tolist() == elements.reshape(5, 6).T.ravel().tolist()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(terms, "_FAR", 6)
        patch.setattr(terms, "multiply_terms", Mock(wraps=multiply_terms))
        found = reader.read(elements, [None, a, b])
        assert terms.multiply_terms.call_count == 1
    expected = a.reshape(5, 1, 4) * b.reshape(4, 6).T
    np.testing.assert_array_equal(found.products, expected.reshape(30, 4))


def _check_any_log(case: Case, data: st.DataObject) -> None:
    elements = data.draw(st.sets(st.integers(0, case.node.elements - 1)))
    entries = [(OPERATOR, element, data.draw(st.booleans())) for element in elements]
    Subject(case.node, case.flats).check(make_log(entries))
