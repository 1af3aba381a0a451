"""The leaf contract of an arithmetic in a bare EVM, asked as the model is."""

from dataclasses import astuple
from functools import cache
from typing import Any

from moot.contracts.compiler import compile_contract
from moot.contracts.model.leaf import Context
from moot.contracts.model.types import NOBODY, ZERO
from moot.contracts.model.words import split
from moot.offchain.arithmetic.base import Arithmetic
from moot.offchain.arithmetic.ordered import ORDERED
from tests.machines.pyevm import PyEvm


class LeafContract:
    """The deployed bytecode of the leaf of an arithmetic."""

    def __init__(self, arithmetic: Arithmetic) -> None:
        self._machine = PyEvm([NOBODY])
        functions = self._machine.deploy(compile_contract("transcendental"))
        self._leaf = self._machine.deploy(compile_contract("leaf"), functions.address)
        if arithmetic != ORDERED:
            own = compile_contract("leaf", arithmetic=arithmetic.contracts)
            self._leaf = self._machine.deploy(own, self._leaf.address)
        self._arithmetic = arithmetic

    def ask(self, name: str, *args: Any) -> Any:
        """Return what the contract says, or the reason why it does not."""
        data = self._leaf.codec.encode_call(name, args)
        result = self._machine.call(self._leaf.raw, data, sender=NOBODY, value_wei=0, block=1)
        return result.reason or self._leaf.codec.decode_result(name, args, result.output)

    def compute(self, context: Context, encoding: bytes, evidence: bytes) -> int | str:
        """Return what an element or accumulator should be, or the reason why it does not say."""
        args = pack_question(self._arithmetic, context)
        said: Any = self.ask("compute", *args, encoding, evidence)
        return said if isinstance(said, (int, str)) else int.from_bytes(b"".join(said), "little")


def pack_question(arithmetic: Arithmetic, context: Context) -> tuple[Any, ...]:
    """Return the arguments of `compute` that say what is agreed, as the contract takes them."""
    top, operators, before, *rest, accumulator = astuple(context)
    place = (top, operators, before is not None, before or ZERO, *rest)
    if arithmetic.accumulator_bytes is None:
        return ((*place, accumulator),)
    return ((*place, 0), split(accumulator, arithmetic.accumulator_bytes))


@cache
def get_leaf(arithmetic: Arithmetic) -> LeafContract:
    """Return the leaf contract of an arithmetic."""
    return LeafContract(arithmetic)
