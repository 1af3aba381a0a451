"""The bounded verifier rules as the readable semantics say."""

from dataclasses import dataclass
from math import prod

from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from moot.offchain.arithmetic.functions import DType, Function
from moot.offchain.arithmetic.ordered import ORDERED
from moot.offchain.commitments.tensors import Array, compute_tensor_root, encode_elements
from moot.offchain.execution.readable import from_bits
from moot.offchain.programs.encoding import encode_node
from moot.offchain.programs.graph import Kind, Node, Operand, Origin, Row, immediate
from moot.offchain.programs.semantics import compute_element, compute_partials
from moot.offchain.verifier.questions import Question
from moot.offchain.verifier.recompute import compare, compute_operator
from moot.offchain.verifier.verifier import rule
from tests.quick import share

FLOAT, INT, BOOL = DType.FLOAT32, DType.INT64, DType.BOOL
MAPS = (
    (Function.ADD, (FLOAT, FLOAT), FLOAT),
    (Function.MUL, (FLOAT, FLOAT), FLOAT),
    (Function.DIV, (FLOAT, FLOAT), FLOAT),
    (Function.MAX, (FLOAT, FLOAT), FLOAT),
    (Function.FMA, (FLOAT, FLOAT, FLOAT), FLOAT),
    (Function.EXP, (FLOAT,), FLOAT),
    (Function.TANH, (FLOAT,), FLOAT),
    (Function.LT, (FLOAT, FLOAT), BOOL),
    (Function.WHERE, (BOOL, FLOAT, FLOAT), FLOAT),
    (Function.CONVERT, (FLOAT,), INT),
    (Function.SUB, (INT, INT), INT),
)
SPECIAL_FLOATS = (
    *(0x00000000, 0x80000000, 0x3F800000, 0xBF800000, 0x7F800000, 0xFF800000),
    *(0x7FC00000, 0xFFC12345, 0x00000001, 0x7F7FFFFF, 0x34000000),
)


def read_element(array: Array, index: int) -> int:
    """Return one element's canonical bits."""
    content, width = encode_elements(array).tobytes(), array.itemsize
    return int.from_bytes(content[index * width :][:width], "little")


@dataclass(frozen=True)
class Case:
    """An operator with its operands, and every partial result by the readable semantics."""

    node: Node
    operands: tuple[Array | None, ...]
    step: int

    def fetch(self, place: int, operand: Operand, index: int) -> int:  # noqa: ARG002 - the protocol's
        """Return one element's canonical bits."""
        array = self.operands[self.node.operands.index(operand)]
        assert array is not None
        return read_element(array, index)

    @property
    def output(self) -> Array:
        """The right output."""
        bits = [
            compute_element(ORDERED, self.node, element, self.step, self.fetch)
            for element in range(self.node.elements)
        ]
        return from_bits(bits, self.node.dtype, self.node.shape)

    def get_chain(self, element: int) -> list[int]:
        """The accumulators of one element, or the element alone if it is no fold."""
        if self.node.kind.folds:
            return compute_partials(ORDERED, self.node, element, self.step, self.fetch)
        return [compute_element(ORDERED, self.node, element, self.step, self.fetch)]

    @property
    def roots(self) -> tuple[bytes | None, ...]:
        """The agreed roots of the operands."""
        return tuple(None if a is None else compute_tensor_root(a) for a in self.operands)

    def ask(self, claimed: Array) -> Question:
        """Ask about a claimed output."""
        root = compute_tensor_root(claimed)
        encoding = encode_node(self.node)
        return Question(ORDERED, encoding, self.step, self.operands, self.roots, root, claimed)


def elements(dtype: DType) -> st.SearchStrategy[int]:
    """Draw the bits of one element."""
    if dtype is BOOL:
        return st.integers(0, 1)
    if dtype is FLOAT:
        return st.one_of(st.sampled_from(SPECIAL_FLOATS), st.integers(0, 2**32 - 1))
    return st.one_of(st.integers(0, 5), st.integers(0, 2**64 - 1))


def constants(dtype: DType) -> st.SearchStrategy[int]:
    """Draw the bits of a constant or a fill value, whose NaN is the canonical one."""
    return elements(dtype).map(lambda bits: read_element(from_bits([bits], dtype, (1,)), 0))


@st.composite
def accesses(draw: st.DrawFn, dtype: DType, variables: int, used: int | None = None) -> Operand:
    """Draw an access that may leave its tensor, or a constant; `used` of the variables at most."""
    if draw(st.integers(0, 5)) == 0:
        return immediate(dtype, draw(constants(dtype)))
    rows = []
    for _ in range(draw(st.integers(0, 2))):
        named = draw(st.sets(st.integers(0, (used or variables) - 1), max_size=2))
        terms = tuple((v, draw(st.sampled_from((1, 1, 2, -1)))) for v in sorted(named))
        offset, divisor = draw(st.integers(-1, 2)), draw(st.sampled_from((1, 1, 2)))
        rows.append(Row(draw(st.integers(1, 4)), offset, terms, divisor))
    fill = draw(constants(dtype))
    return Operand(Origin.NODE, dtype, draw(st.integers(0, 9)), fill, tuple(rows))


@st.composite
def maps(draw: st.DrawFn, shape: tuple[int, ...], _: tuple[int, ...]) -> Node:
    """Draw a map."""
    function, types, dtype = draw(st.sampled_from(MAPS))
    operands = tuple(draw(accesses(t, len(shape))) for t in types)
    return Node(Kind.MAP, function, dtype, shape, operands)


@st.composite
def contractions(draw: st.DrawFn, shape: tuple[int, ...], fold: tuple[int, ...]) -> Node:
    """Draw a contraction."""
    both = len(shape) + len(fold)
    first = draw(accesses(FLOAT, both, len(shape)))
    factors = draw(accesses(FLOAT, both)), draw(accesses(FLOAT, both))
    return Node(Kind.CONTRACT, Function.FMA, FLOAT, shape, (first, *factors), fold)


@st.composite
def reductions(draw: st.DrawFn, shape: tuple[int, ...], fold: tuple[int, ...]) -> Node:
    """Draw a fold of one operand."""
    both = len(shape) + len(fold)
    operand = draw(accesses(FLOAT, both))
    functions = (Function.ADD, Function.MAX, Function.MIN, Function.ARGMAX, Function.ARGMIN)
    function = draw(st.sampled_from(functions))
    if function in (Function.ADD, Function.MAX, Function.MIN):
        first = draw(accesses(FLOAT, both, len(shape)))
        return Node(Kind.REDUCE, function, FLOAT, shape, (first, operand), fold)
    none_yet = immediate(INT, prod(fold))
    return Node(Kind.REDUCE, function, INT, shape, (none_yet, operand), fold)


@st.composite
def scatters(draw: st.DrawFn, shape: tuple[int, ...], fold: tuple[int, ...]) -> Node:
    """Draw a scatter along one dimension."""
    outer = len(shape)
    target = draw(st.integers(0, outer - 1))
    whole = tuple(Row(size, 0, ((outer + i, 1),)) for i, size in enumerate(fold))
    kept = (*whole, *(Row(s, 0, ((i, 1),)) for i, s in enumerate(shape) if i != target))
    operands = (
        draw(accesses(FLOAT, outer + len(fold), outer)),
        Operand(Origin.NODE, FLOAT, 10, 0, kept),
        Operand(Origin.NODE, INT, 11, 0, whole),
    )
    function = draw(st.sampled_from((Function.ADD, Function.COPY)))
    return Node(Kind.SCATTER, function, FLOAT, shape, operands, fold, targets=(target,))


@st.composite
def gathers(draw: st.DrawFn, shape: tuple[int, ...], _: tuple[int, ...]) -> Node:
    """Draw a gather by one index."""
    outer = len(shape)
    rows = (Row(draw(st.integers(1, 4)), 0, ((outer, 1),)), Row(shape[0], 0, ((0, 1),)))
    data = Operand(Origin.STATE, FLOAT, 0, draw(constants(FLOAT)), rows)
    return Node(Kind.GATHER, Function.COPY, FLOAT, shape, (data, draw(accesses(INT, outer))))


@st.composite
def randoms(draw: st.DrawFn, shape: tuple[int, ...], _: tuple[int, ...]) -> Node:
    """Draw a random operator."""
    seed, stream = draw(elements(INT)), draw(st.integers(0, 2**32 - 1))
    return Node(Kind.RANDOM, Function.UNIFORM, FLOAT, shape, seed=seed, stream=stream)


@st.composite
def copies(draw: st.DrawFn, shape: tuple[int, ...], _: tuple[int, ...]) -> Node:
    """Draw a move, a source or a sink."""
    kind = draw(st.sampled_from((Kind.MOVE, Kind.SOURCE, Kind.SINK)))
    count = draw(st.integers(1, 3)) if kind is Kind.MOVE else 1
    operands = tuple(draw(accesses(INT, len(shape))) for _ in range(count))
    return Node(kind, Function.COPY, INT, shape, operands)


@st.composite
def nodes(draw: st.DrawFn) -> Node:
    """Draw an operator of any kind."""
    kinds = (maps, contractions, reductions, scatters, gathers, randoms, copies)
    shape = tuple(draw(st.lists(st.integers(1, 3), min_size=1, max_size=3)))
    fold = tuple(draw(st.lists(st.integers(1, 4), min_size=1, max_size=2)))
    return draw(draw(st.sampled_from(kinds))(shape, fold))


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Draw an operator and its operands; equal operands are one tensor."""
    node = draw(nodes())
    operands: list[Array | None] = []
    for operand in node.operands:
        if operand.origin is Origin.IMMEDIATE:
            operands.append(None)
            continue
        first = node.operands.index(operand)
        if first < len(operands):
            operands.append(operands[first])
            continue
        shape = tuple(row.size for row in operand.rows)
        count = prod(shape)
        bits = draw(st.lists(elements(operand.dtype), min_size=count, max_size=count))
        operands.append(from_bits(bits, operand.dtype, shape))
    return Case(node, tuple(operands), draw(st.integers(0, 3)))


def change(draw: st.DataObject, output: Array, dtype: DType) -> Array:
    """Return a claimed output that is wrong from some element on, canonically."""
    wrong = encode_elements(output).copy().view(output.dtype)
    first = draw.draw(st.integers(0, wrong.size - 1))
    for element in range(first, wrong.size):
        wrong[element : element + 1] = from_bits([draw.draw(elements(dtype))], dtype, (1,))
    return wrong.reshape(output.shape)


@settings(deadline=None)
@given(cases())
def test_operator_is_the_readable_one(case: Case) -> None:
    """The whole operator is, in every bit, what the semantics says element by element."""
    question = case.ask(case.output)
    assert encode_elements(compute_operator(case.node, question)).tobytes() == (
        encode_elements(case.output).tobytes()
    )


@settings(deadline=None)
@given(cases(), st.data())
def test_first_wrong_element_is_found(case: Case, data: st.DataObject) -> None:
    """A wrong output is refused at its first wrong element, a right one never."""
    output = case.output
    assert compare(case.ask(output), output).differs_at is None
    claimed = change(data, output, case.node.dtype)
    answer = compare(case.ask(claimed), output)
    width = case.node.dtype.width
    pairs = zip(
        encode_elements(output).reshape(-1, width).tolist(),
        encode_elements(claimed).reshape(-1, width).tolist(),
        strict=True,
    )
    expected = next((i for i, (right, wrong) in enumerate(pairs) if right != wrong), None)
    assert answer.differs_at == expected
    if expected is not None:
        assert answer.correct_bits == read_element(output, expected)
        assert answer.claimed_bits == read_element(claimed, expected)


@settings(deadline=None)
@given(cases(), st.data())
def test_both_leaves_agree(case: Case, data: st.DataObject) -> None:
    """The last scalar of a wrong element, reached step by step, is what the operator has there."""
    output = case.output
    claimed = change(data, output, case.node.dtype)
    by_operator = compare(case.ask(claimed), output)
    if by_operator.differs_at is not None:
        last = case.get_chain(by_operator.differs_at)[-1]
        assert last == by_operator.correct_bits != by_operator.claimed_bits


@settings(deadline=None, max_examples=share(3), phases=[Phase.generate])
@given(cases(), st.data())
def test_process_rules_the_same(case: Case, data: st.DataObject) -> None:
    """What comes back from the worker is what the readable semantics says."""
    output = case.output
    claimed = change(data, output, case.node.dtype)
    ruling = rule(case.ask(claimed))
    assert ruling.root == compute_tensor_root(output)
    assert ruling.upheld == (ruling.root == compute_tensor_root(claimed))
