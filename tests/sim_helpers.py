"""A tiny program that learns, and the referee's model."""

from collections.abc import Sequence

import numpy as np

from moot.contracts.model.types import Address
from moot.offchain.arithmetic.functions import DType, Function
from moot.offchain.commitments.tensors import Array
from moot.offchain.disputes.referee.port import Answer, Call, ModelReferee, Referee
from moot.offchain.errors import RefereeError, Reverted
from moot.offchain.programs.graph import Kind, Node, Operand, Origin, Program, Row, Slot, immediate
from moot.offchain.providers.task import Task

FLOAT = DType.FLOAT32
ROWS, COLUMNS = 5, 3
LEARNING_RATE_BITS = 0x3D4CCCCD
BALANCE_WEI = 10**21


def access(origin: Origin, reference: int, *rows: Row) -> Operand:
    """Return an operand that reads float32 elements."""
    return Operand(origin, FLOAT, reference, rows=rows)


def make_program() -> Program:
    """Return one step of least squares by gradient descent: w - rate * x^T (x w)."""
    zero = immediate(FLOAT, 0)
    along = Row(COLUMNS, terms=((0, 1),))
    nodes = (
        Node(
            Kind.CONTRACT,
            Function.FMA,
            FLOAT,
            (ROWS,),
            (
                zero,
                access(Origin.BATCH, 0, Row(ROWS, terms=((0, 1),)), Row(COLUMNS, terms=((1, 1),))),
                access(Origin.STATE, 0, Row(COLUMNS, terms=((1, 1),))),
            ),
            (COLUMNS,),
        ),
        Node(
            Kind.CONTRACT,
            Function.FMA,
            FLOAT,
            (COLUMNS,),
            (
                zero,
                access(Origin.BATCH, 0, Row(ROWS, terms=((1, 1),)), Row(COLUMNS, terms=((0, 1),))),
                access(Origin.NODE, 0, Row(ROWS, terms=((1, 1),))),
            ),
            (ROWS,),
        ),
        Node(
            Kind.MAP,
            Function.MUL,
            FLOAT,
            (COLUMNS,),
            (access(Origin.NODE, 1, along), immediate(FLOAT, LEARNING_RATE_BITS)),
        ),
        Node(
            Kind.MAP,
            Function.SUB,
            FLOAT,
            (COLUMNS,),
            (access(Origin.STATE, 0, along), access(Origin.NODE, 2, along)),
        ),
        Node(Kind.SINK, Function.COPY, FLOAT, (COLUMNS,), (access(Origin.NODE, 3, along),)),
    )
    names = ("predict", "gradient", "scale", "update", "next:parameter.w")
    state = (Slot("parameter.w", FLOAT, (COLUMNS,)),)
    return Program(state, (Slot("x", FLOAT, (ROWS, COLUMNS)),), nodes, names, ("",) * len(nodes))


def make_task(steps: int = 4, checkpoint_every: int = 2) -> Task:
    """Return a short task of the tiny program."""

    def batch(step: int) -> Sequence[Array]:
        rng = np.random.default_rng(step)
        return [rng.standard_normal((ROWS, COLUMNS), dtype=np.float32)]

    weights = np.array([1.0, -2.0, 0.5], np.float32)
    return Task(make_program(), [weights], batch, steps, checkpoint_every)


def open_referee(accounts: Sequence[Address]) -> ModelReferee:
    """Return a new model on which these accounts have money."""
    return ModelReferee(dict.fromkeys(accounts, BALANCE_WEI))


def transact_each(referee: Referee, calls: Sequence[Call]) -> list[Answer]:
    """Make calls one after the other, each in a block of its own, by `transact`."""
    answers: list[Answer] = []
    for made in calls:
        try:
            outcome = referee.transact(
                made.name, *made.args, sender=made.sender, value_wei=made.value_wei
            )
        except (RefereeError, Reverted) as refusal:
            answers.append(refusal)
        else:
            answers.append(outcome)
    return answers
