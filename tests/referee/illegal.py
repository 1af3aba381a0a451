"""Programs that are not legal, each for one reason, and the parts of them that prove it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from moot.contracts.model.types import ZERO, Terms
from moot.offchain.arithmetic.functions import DType, Function
from moot.offchain.commitments.keccak import keccak256
from moot.offchain.commitments.tags import Tag
from moot.offchain.commitments.tensors import encode_header
from moot.offchain.commitments.tree import Digest, Tree, hash_root
from moot.offchain.programs.encoding import encode_node
from moot.offchain.programs.graph import Kind, Node, Operand, Origin, Program, Row, Slot
from moot.offchain.programs.limits import MAX_RANK

F32, INT64, BOOL = DType.FLOAT32, DType.INT64, DType.BOOL
STEPS = 3


@dataclass(frozen=True)
class Shown:
    """A job's commitments about a program, whose data and start have the slots' shapes.

    Attributes:
        program: the program.
        encodings: its operators, as the client has committed to them.
        data: for each slot of the batch what a tensor's root is made of, in all steps.
        start: likewise for each slot of the state.
    """

    program: Program
    encodings: Sequence[bytes]
    data: Sequence[bytes]
    start: Sequence[bytes]

    @cached_property
    def tree(self) -> Tree:
        """The tree over the operators."""
        return Tree(
            Tag.PROGRAM_NODE, [keccak256(bytes([Tag.OPERATOR]) + e) for e in self.encodings]
        )

    @cached_property
    def data_tree(self) -> Tree | None:
        """The tree over the data of all steps."""
        roots = [_hash_root(tensor) for tensor in self.data] * STEPS
        return Tree(Tag.DATA_NODE, roots) if roots else None

    @cached_property
    def start_tree(self) -> Tree:
        """The tree over the start."""
        return Tree(Tag.STATE_NODE, [_hash_root(tensor) for tensor in self.start])

    def get_terms(self, terms: Terms) -> Terms:
        """Return the terms of the job, given what else they say."""
        slots = len(self.program.state)
        return replace(
            terms,
            operators=len(self.encodings),
            state_slots=slots,
            batch_slots=len(self.data),
            program_top=self.tree.top,
            data_top=self.data_tree.top if self.data_tree else ZERO,
            start_root=hash_root(Tag.STATE_ROOT, slots, self.start_tree.top),
            steps=STEPS,
            checkpoint_every=1,
        )

    def show_operator(self, job_id: int, index: int) -> tuple[Any, ...]:
        """Return the arguments of the proof that an operator is not legal by itself."""
        return (job_id, index, self.encodings[index], tuple(self.tree.proof(index)))

    def show_operand(
        self, job_id: int, index: int, place: int, *, is_start: bool = False, step: int = 1
    ) -> tuple[Any, ...]:
        """Return the arguments of the proof that an operand is not what its operator reads."""
        operand = self.program.nodes[index].operands[place]
        other, proof = self._find_other(operand, index, is_start=is_start, step=step)
        shown = self.show_operator(job_id, index)
        return (*shown, place, step, is_start, other, proof)

    def _find_other(
        self, operand: Operand, index: int, *, is_start: bool, step: int
    ) -> tuple[bytes, tuple[Digest, ...]]:
        reference = operand.reference
        if operand.origin is Origin.BATCH and reference < len(self.data):
            assert self.data_tree is not None
            place = step * len(self.data) + reference
            return self.data[reference], tuple(self.data_tree.proof(place))
        if operand.origin is Origin.STATE and reference < len(self.start):
            if is_start:
                return self.start[reference], tuple(self.start_tree.proof(reference))
            reference += len(self.encodings) - len(self.program.state)
            return self.encodings[reference], tuple(self.tree.proof(reference))
        if operand.origin is Origin.NODE and reference < index:
            return self.encodings[reference], tuple(self.tree.proof(reference))
        return b"", ()


def _hash_root(tensor: bytes) -> Digest:
    return keccak256(bytes([Tag.TENSOR_ROOT]) + tensor)


def describe(slot: Slot) -> bytes:
    """Return what the root of some tensor of a slot is made of."""
    return encode_header(slot.dtype, slot.shape) + b"\5" * 32


def list_forms() -> Iterator[Shown]:
    """Yield jobs whose first operator is made of anything, which operand 0 of operator 2 reads.

    Its header says whether what it makes is of the type and size that are read: of two elements,
    and where a header has no sizes, of one.
    """
    head = bytes((Kind.SOURCE, Function.COPY, F32))
    for rank in (1, 2, MAX_RANK, MAX_RANK + 1):
        sizes = [(2 if n == 0 else 1).to_bytes(8, "big") for n in range(rank)]
        form = b"".join([head, bytes((rank, 0, 1)), *sizes])
        yield from (_put_first(LEGAL, some) for some in (form, form[:-1], form + b"\0"))
    single = reread(2, 0, rows=())
    form = head + bytes((0, 0, 1))
    yield from (_put_first(single, some) for some in (form, form[:-1], form + b"\0", b""))


def _put_first(program: Program, encoding: bytes) -> Shown:
    job = make_job(program)
    return replace(job, encodings=(encoding, *job.encodings[1:]))


def read_second() -> Shown:
    """Return a job with two slots of data, of which the second is read, and has another type."""
    second = replace(BATCH_SLOT, name="c")
    job = make_job(replace(reread(1, 0, reference=1), batch=(BATCH_SLOT, second)))
    return replace(job, data=(job.data[0], describe(replace(second, dtype=INT64))))


def make_job(program: Program) -> Shown:
    """Return what the job of a program commits to."""
    data, start = ([describe(slot) for slot in slots] for slots in (program.batch, program.state))
    return Shown(program, [encode_node(node) for node in program.nodes], data, start)


COPY = (Row(2, 0, ((0, 1),)),)
SOURCE = Node(Kind.SOURCE, Function.COPY, F32, (2,), (Operand(Origin.STATE, F32, 0, 0, COPY),))
DATA = Node(Kind.SOURCE, Function.COPY, F32, (2,), (Operand(Origin.BATCH, F32, 0, 0, COPY),))
SUM = Node(
    Kind.MAP,
    Function.ADD,
    F32,
    (2,),
    (Operand(Origin.NODE, F32, 0, 0, COPY), Operand(Origin.NODE, F32, 1, 0, COPY)),
)
SINK = Node(Kind.SINK, Function.COPY, F32, (2,), (Operand(Origin.NODE, F32, 2, 0, COPY),))
SLOT, BATCH_SLOT = Slot("s", F32, (2,)), Slot("b", F32, (2,))
LEGAL = Program((SLOT,), (BATCH_SLOT,), (SOURCE, DATA, SUM, SINK), tuple("abcd"), ("",) * 4)


def change(index: int, **changes: Any) -> Program:
    """Return the program with something else about an operator."""
    nodes = list(LEGAL.nodes)
    nodes[index] = replace(nodes[index], **changes)
    return replace(LEGAL, nodes=tuple(nodes))


def reread(index: int, place: int, **changes: Any) -> Program:
    """Return the program with something else about an operand."""
    operands = list(LEGAL.nodes[index].operands)
    operands[place] = replace(operands[place], **changes)
    return change(index, operands=tuple(operands))


_WIDE_ROWS = (*COPY, *(Row(1, 0, ((1, 1),)),) * 7)
LONGEST = change(
    2,
    kind=Kind.MOVE,
    function=Function.COPY,
    shape=(2, 1, 1, 1, 1, 1, 1),
    operands=(
        *(Operand(Origin.NODE, F32, 0, 0, _WIDE_ROWS),) * 7,
        Operand(Origin.NODE, F32, 1, 0, (*COPY, Row(1, 0, ((1, 1),)), *(Row(1),) * 6)),
    ),
)
"""A legal program with an operator of 2,048 bytes, as many as one may have."""
TWO_TERMS = change(
    2,
    kind=Kind.MOVE,
    function=Function.COPY,
    shape=(2, 1),
    operands=(Operand(Origin.NODE, F32, 0, 0, (Row(1, 0, ((0, 1), (1, 1))), *COPY)),),
)
"""A legal program with an access whose first row has two terms."""

LONG = (Row(3, 0, ((0, 1),)),)
WIDE = (2,) + (1,) * 8
"""A shape of rank 9 with as many elements."""

STARTS = (
    *(describe(Slot("s", *slot)) for slot in ((F32, (3,)), (INT64, (2,)), (F32, WIDE))),
    describe(SLOT) + b"\0",
    describe(SLOT)[:-1],
)
"""What roots of starts are made of: of another size, type, rank; with a byte more, a byte less."""

OPERATORS: dict[str, tuple[Program, int]] = {
    "a function that its types do not have": (change(2, function=Function.AND), 2),
    "an operand too few": (change(2, operands=SUM.operands[:1]), 2),
    "a constant that is too wide": (reread(2, 0, value=1 << 40), 2),
    "a variable that there is not": (reread(2, 0, rows=(Row(2, 0, ((1, 1),)),)), 2),
    "2^63 bytes": (change(2, shape=(1 << 61,)), 2),
    "a sink before the sinks": (change(2, kind=Kind.SINK, operands=SINK.operands[:1]), 2),
    "no sink for a slot": (change(3, kind=Kind.MOVE), 3),
}
OPERANDS: dict[str, tuple[Program, int, int]] = {
    "an operator's own output": (reread(2, 0, reference=2), 2, 0),
    "a later output": (reread(2, 1, reference=3), 2, 1),
    "an output behind the last": (reread(2, 1, reference=1 << 31), 2, 1),
    "a slot of the state that there is not": (reread(0, 0, reference=1), 0, 0),
    "a slot of the batch that there is not": (reread(1, 0, reference=1), 1, 0),
    "a longer output": (reread(2, 1, rows=LONG), 2, 1),
    "an output of no elements": (reread(2, 1, rows=(Row(0),)), 2, 1),
    "a longer state": (reread(0, 0, rows=LONG), 0, 0),
    "longer data": (reread(1, 0, rows=LONG), 1, 0),
    "an output of another type": (
        change(
            2,
            function=Function.WHERE,
            operands=(replace(SUM.operands[0], dtype=BOOL), *SUM.operands),
        ),
        2,
        0,
    ),
    "data of rank 9": (replace(LEGAL, batch=(Slot("b", F32, WIDE),)), 1, 0),
    "data of another type": (replace(LEGAL, batch=(Slot("b", INT64, (2,)),)), 1, 0),
}


def wrap_round() -> tuple[Shown, tuple[Any, ...]]:
    """Return what a legal job with three data a step commits to, and the proof of another's datum.

    The step is so large that the place of its first datum is, modulo 2^256, that of the second
    datum of the first step.
    """
    slots = tuple(Slot(name, F32, (size,)) for name, size in (("b", 2), ("c", 3), ("d", 5)))
    shown = make_job(replace(LEGAL, batch=slots))
    assert shown.data_tree is not None
    step = pow(len(slots), -1, 1 << 256)
    args = shown.show_operand(0, 1, 0)
    other = (shown.data[1], tuple(shown.data_tree.proof(1)))
    return shown, (*args[:5], step, False, *other)


def list_proofs(job: Shown, job_id: int) -> Iterator[tuple[str, tuple[Any, ...]]]:
    """Yield all that can be shown of a program, with proofs that are right."""
    for index, node in enumerate(job.program.nodes):
        yield "prove_operator", job.show_operator(job_id, index)
        for place in range(len(node.operands) + 1):
            shown = min(place, len(node.operands) - 1)
            if shown < 0:
                continue
            for is_start in (False, True):
                args = job.show_operand(job_id, index, shown, is_start=is_start)
                yield "prove_operand", (*args[:4], place, *args[5:])
