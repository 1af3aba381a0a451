"""The sizes of a job on which the gas of a dispute depends, read from its program's shapes."""

from dataclasses import dataclass
from math import ceil

from moot.offchain.programs.graph import Kind, Node, Program
from moot.sim.synthetic.products import FIRST_PRODUCT, SLOTS, Lie, Size

_LEAST_OPERATORS = FIRST_PRODUCT + SLOTS + 1


@dataclass(frozen=True, slots=True)
class Sizes:
    """The sizes of a job.

    Attributes:
        steps: of the job.
        checkpoints: committed states.
        checkpoint_every: steps from one to the next.
        operators: of a step.
        elements: of the output of the operator in which a lie is dearest to find.
        columns: of that output: its last dimension.
        terms: of that operator's fold.
        state_bytes: of a state.
    """

    steps: int
    checkpoints: int
    checkpoint_every: int
    operators: int
    elements: int
    columns: int
    terms: int
    state_bytes: int

    def make_synthetic(self) -> Size:
        """Return the sizes of the synthetic job whose disputes are as long, or a little longer."""
        return Size(
            checkpoints=self.checkpoints,
            checkpoint_every=self.checkpoint_every,
            operators=max(_LEAST_OPERATORS, self.operators),
            rows=ceil(self.elements / self.columns),
            columns=self.columns,
            terms=max(2, self.terms),
        )


def read_sizes(program: Program, steps: int, checkpoint_every: int) -> Sizes:
    """Return the sizes of a job."""
    dearest = max(program.nodes, key=_count_bits)
    return Sizes(
        steps=steps,
        checkpoints=ceil(steps / checkpoint_every),
        checkpoint_every=checkpoint_every,
        operators=len(program.nodes),
        elements=max(1, dearest.elements),
        columns=max(1, dearest.shape[-1] if dearest.shape else 1),
        terms=dearest.fold_length,
        state_bytes=sum(slot.elements * slot.dtype.width for slot in program.state),
    )


def _count_bits(node: Node) -> tuple[int, bool]:
    """Return the bits of the place of a scalar operation in an operator; products come first."""
    bits = max(1, node.elements).bit_length() + max(1, node.fold_length).bit_length()
    return bits, node.kind is Kind.CONTRACT


def list_lies(size: Size, count: int) -> list[Lie]:
    """Return lies of a synthetic job, spread over its steps, operators, elements and terms."""
    last = size.operators - SLOTS - 1
    lies = []
    for number in range(count):
        share = (number + 0.5) / count
        other = (share * 1.7 + 0.31) % 1
        lies.append(
            Lie(
                step=int(share * size.checkpoints * size.checkpoint_every),
                operator=FIRST_PRODUCT + int(other * (last - FIRST_PRODUCT + 1)),
                element=int(share * size.rows * size.columns),
                term=int(other * size.terms),
            )
        )
    return lies
