"""The cheat that trains with another learning rate."""

from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from moot.offchain.arithmetic.functions import DType
from moot.offchain.errors import UsageError
from moot.offchain.programs.graph import Kind, Node, Operand, Origin, Program
from moot.offchain.providers.behaviour import Behaviour
from moot.offchain.providers.cheats.drawing import Draws

LEARNING_RATE_FACTOR = np.float32(1.5)


@dataclass(eq=False)
class WrongLearningRate(Behaviour):
    """Runs another optimizer: the constants of its operators are half as large again."""

    name = "wrong-learning-rate"

    def draw(self, draws: Draws) -> Self:
        """Refuse a program that does not train."""
        if not find_learning_rates(draws.task.program):
            raise UsageError("wrong-learning-rate needs a program that trains")
        return self

    def alter_program(self, program: Program) -> Program:
        """Scale the learning rate."""
        nodes = list(program.nodes)
        for index in find_learning_rates(program):
            nodes[index] = _scale_constants(nodes[index])
        return replace(program, nodes=tuple(nodes))


def find_learning_rates(program: Program) -> list[int]:
    """Return the maps whose constant is a learning rate: the last scaling before each update."""
    found = set()
    for slot, sink in zip(program.state, program.nodes[program.first_sink :], strict=True):
        if slot.name.startswith("parameter."):
            index = _find_scaling(program, sink.operands[0].reference)
            if index is not None:
                found.add(index)
    return sorted(found)


def _find_scaling(program: Program, update: int) -> int | None:
    """Return the nearest map with a constant among an update's subtrahend and its operands."""
    frontier = [update]
    while frontier:
        following: list[int] = []
        for index in frontier:
            node = program.nodes[index]
            if node.kind is Kind.MAP and index != update and _has_float_constant(node):
                return index
            if node.kind in (Kind.MAP, Kind.MOVE):
                following += node.inputs[::-1]
        frontier = following
    return None


def _has_float_constant(node: Node) -> bool:
    return any(o.origin is Origin.IMMEDIATE and o.dtype is DType.FLOAT32 for o in node.operands)


def _scale_constants(node: Node) -> Node:
    def scale(operand: Operand) -> Operand:
        if operand.origin is not Origin.IMMEDIATE or operand.dtype is not DType.FLOAT32:
            return operand
        value = np.array(operand.value, np.uint32).view(np.float32) * LEARNING_RATE_FACTOR
        return replace(operand, value=int(value.view(np.uint32)))

    return replace(node, operands=tuple(map(scale, node.operands)))
