"""The judge of mutants of the contracts that are different in `hopper`."""

from typing import ClassVar

from moot.offchain.arithmetic.base import Arithmetic
from moot.offchain.arithmetic.tensor import HOPPER
from tests.mutants import contract


class Judge(contract.Judge):
    """A judge that knows the answers of the contracts of `hopper`."""

    ARITHMETIC: ClassVar[Arithmetic] = HOPPER
